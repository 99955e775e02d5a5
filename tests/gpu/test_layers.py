"""`rotate` and the layer by the kernel: golden numbers, launches, and a host that does not wait."""

from contextlib import ExitStack

import numpy as np
import pytest
import torch

from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.checks import tables
from posenc_backends.torch import RotaryEmbedding, apply_rotary
from posenc_backends.torch import backend as arrays
from posenc_backends.torch.rotation import gpu
from posenc_backends.torch.rotation.plans import Plans
from posenc_core import AxialRotary, LearnedRotary, MultimodalRotary, Rotary, XPos, rotate, unrotate
from posenc_core.encodings import Encoding

from ..backends.torch.test_host_looks import Device, alone  # noqa: F401
from . import expected


def described(case):
    return case["name"]


@pytest.mark.parametrize("case", golden("rotation") + golden("turns"), ids=described)
def test_the_layer_has_the_golden_numbers(on, launches, case):
    for check in (tables.forward, tables.gradient):
        measurement = check(on, case)
        assert measurement.worst <= measurement.limit
    assert case["encoding"]["kind"] == "LearnedRotary" or launches == [1] * 3  # forward; forward and backward


@pytest.mark.parametrize("case", golden("rope_models"), ids=described)
def test_tables_of_models_have_the_golden_numbers(on, launches, case):
    measurement = tables.rotary_table(on, case)
    assert measurement.worst <= measurement.limit
    assert launches == [1]


FROM_ZERO = [
    case
    for case in golden("rotation")
    if np.ndim(case["positions"]) == 1 and np.min(case["positions"]) >= 0
    if case["dtype"] != "float64"  # whose tables are float64, and no part of `layer.tables`
]


@pytest.mark.parametrize("case", FROM_ZERO, ids=described)
def test_rows_found_by_the_kernel_have_the_golden_numbers(on, launches, case):
    encoding = Encoding.from_dict(case["encoding"])
    last = max(case["positions"])
    layer = RotaryEmbedding(encoding, max_len=last + 1)
    x, pairing = tables.tokens_of(on, case, "x"), encoding.pairing
    options = {"layout": encoding.layout, "placement": pairing.placement, "blocks": pairing.blocks}
    got, _ = apply_rotary(x, None, *layer.tables, positions=torch.tensor(case["positions"]), **options)
    assert tables.error_of(on, got, case, "result") == 0
    assert launches == [1]


ENCODINGS = {
    Rotary(head_dim=8, layout="half"): [2],
    Rotary(head_dim=8, layout="interleaved_to_half", rotary_dim=4, placement="trail"): [2],
    MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1)): [2],
    AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4), arrangement="blocks"): [2],
    XPos(head_dim=8, layout="half"): [1, 1],
    LearnedRotary(head_dim=8, layout="half"): [],
}


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
@pytest.mark.parametrize("seq_axis", [-2, -3])
def test_queries_and_keys_are_one_launch(launches, encoding, seq_axis):
    layer, positions = RotaryEmbedding(encoding), torch.tensor([4, 0, 7])
    sizes = [(2, heads, 3, 8) if seq_axis == -2 else (2, 3, heads, 8) for heads in (4, 2)]
    q, k = (torch.randn(shape).bfloat16() for shape in sizes)
    given = torch.stack([positions] * encoding.num_axes) if encoding.num_axes > 1 else positions
    got = layer(q, k, positions=given, seq_axis=seq_axis)
    assert launches == ENCODINGS[encoding]
    rows = layer.rows(q, 0, given, seq_axis, encoding)
    for x, result, tables_of_x in zip((q, k), got, (rows[:2], rows[-2:]), strict=True):
        cos, sin = (expected.aligned(table, x, seq_axis=seq_axis) for table in tables_of_x)
        expected.same(result, expected.rotate_reference(x, cos, sin, encoding.pairing))


@pytest.mark.parametrize(
    ("sizes", "rows", "launched"),
    [
        ((2, 3, 5, 8), (5, 3), 1), ((2, 3, 5, 8), (2, 1, 5, 3), 1), ((2, 5, 3, 8), (5, 1, 3), 1), ((5, 8), (1, 3), 1),
        ((2, 5, 3, 8), (2, 5, 1, 3), 1), ((7, 5, 8), (7, 1, 4), 1), ((2, 3, 5, 8), (1, 1, 1, 4), 1),
        ((2, 2, 3, 5, 8), (2, 1, 1, 5, 4), 1), ((2, 3, 5, 8), (2, 1, 1, 4), 1),
        ((2, 3, 5, 8), (2, 3, 5, 4), 0), ((2, 3, 5, 8), (1, 3, 5, 4), 0), ((8,), (4,), 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rotate_takes_any_table_that_broadcasts(launches, sizes, rows, launched, dtype):
    x, cos, sin = torch.randn(sizes).to(dtype), torch.randn(rows).bfloat16(), torch.randn(rows).double()
    wanted = expected.rotate_reference(x, cos, sin, expected.pairing_of("interleaved_to_half"))
    expected.same(rotate(x, cos, sin, layout="interleaved_to_half"), wanted)
    assert launches == [1] * launched
    for each in (x.clone(), torch.empty_like(x)):
        out = each.copy_(x)
        assert rotate(out, cos, sin, layout="interleaved_to_half", out=out) is out
        expected.same(out, wanted)
    back = expected.rotate_reference(wanted, cos, -sin, expected.pairing_of("interleaved_to_half").inverse)
    expected.same(unrotate(wanted, cos, sin, layout="interleaved_to_half"), back)


POSITIONS = [
    {"start": torch.tensor([3, 1])}, {"positions": torch.tensor([3, 4])}, {"start": torch.tensor(2, dtype=torch.int32)},
    {"positions": torch.tensor([[3, 4], [0, 1]])}, {},
]  # fmt: skip


@pytest.mark.parametrize("given", POSITIONS, ids=str)
def test_the_host_does_not_look_at_a_gpu(launches, alone, monkeypatch, given):  # noqa: F811
    """As if all tensors lay on a GPU, where copies and waiting are counted: there is none."""
    layer = RotaryEmbedding(Rotary(head_dim=4, layout="half"), max_len=8)
    q, k = torch.randn(2, 2, 2, 4), torch.randn(2, 1, 2, 4)
    wanted = layer(q, k, **given)
    launches.clear()  # positions that the host knows may have been rotated by the kernel for CPUs
    monkeypatch.setattr(arrays, "is_remote", lambda array: True)
    for result, same in zip(layer(q, k, **given), wanted, strict=True):
        expected.same(result, same)
    assert launches == [2]
    monkeypatch.setattr(gpu, "_launched", lambda tokens, outs, *rest: list(outs))  # the interpreter reads numbers
    monkeypatch.setattr(gpu, "PLANS", Plans())
    with torch.no_grad():
        alone()
        layer(q, k, **given)


FORMS = [form for form in expected.FORMS if "axes" not in form]


@pytest.mark.parametrize("form", FORMS)
def test_apply_rotary_neither_waits_nor_copies(alone, monkeypatch, form):  # noqa: F811
    """Bad arguments included: shapes and dtypes alone are checked."""
    cos, sin = expected.tables()
    rows, arguments, _ = expected.arguments_of(form, cos, sin)
    q, k = torch.randn(2, 4, 5, 16).requires_grad_(), torch.randn(2, 1, 5, 16)
    monkeypatch.setattr(gpu, "_launched", lambda tokens, outs, *rest: list(outs))  # the interpreter reads numbers
    monkeypatch.setattr(gpu, "PLANS", Plans())
    with ExitStack() as stack:
        alone()
        stack.enter_context(torch.no_grad())
        apply_rotary(q, k, *rows, layout="half", **arguments)
    with pytest.raises(ValueError, match="`k` must be as long"):
        apply_rotary(q, k[..., :3, :], *rows, layout="half", **arguments)


def test_positions_past_the_table_of_a_layer_are_nan_on_a_gpu(monkeypatch):
    monkeypatch.setattr(arrays, "is_remote", lambda array: True)
    layer, x = RotaryEmbedding(Rotary(head_dim=4, layout="half"), max_len=8), torch.randn(1, 1, 2, 4)
    assert layer(x, positions=torch.tensor([7, 8])).isnan().any(-1).tolist() == [[[False, True]]]
    assert len(layer.tables[0]) == 8
