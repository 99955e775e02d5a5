"""Bugs that rotary kernels of other libraries had; each is named after its report."""

from itertools import pairwise

import pytest
import torch
from torch._dynamo.testing import EagerAndRecordGraphs

from posenc_backends.torch import apply_rotary

from . import expected

HUGE = {  # sizes and strides whose last offset lies past 2**31 elements
    "batch": ((2, 2, 3, 8), (2**31, 24, 8, 1)),
    "heads": ((1, 3, 3, 8), (0, 2**30, 8, 1)),
    "tokens": ((1, 2, 3, 8), (0, 8, 2**30, 1)),
    "channels": ((1, 2, 3, 8), (0, 3, 1, 2**29)),
}


@pytest.fixture
def untouched(monkeypatch):
    """Let Triton's interpreter not copy each tensor's memory onto itself: gigabytes here, of which nothing is used."""
    from triton.runtime import interpreter

    monkeypatch.setattr(interpreter.GridExecutor, "_restore_args_dev", lambda *arguments: None)


def huge(sizes, strides, dtype=torch.float16):
    """Return a tensor in memory that the system has not provided yet."""
    last = sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    assert last >= 2**31
    return torch.empty(last + 1, dtype=dtype).as_strided(sizes, strides)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("axis", HUGE)
def test_offsets_past_32_bits_flash_attention_2611(launches, untouched, axis, layout):
    x, numbers = huge(*HUGE[axis]), torch.randn(HUGE[axis][0]).half()
    x.copy_(numbers)
    cos, sin = expected.tables(3)
    wanted = expected.rotated(numbers, (cos[:3], sin[:3]), layout)
    out = torch.empty_like(numbers)
    apply_rotary(x, None, cos, sin, layout=layout, out=(out, None))
    expected.same(out, wanted)
    apply_rotary(None, x, cos, sin, layout=layout, out=(None, x))
    expected.same(x, wanted)
    assert launches == [1, 1]


def test_rows_of_tables_past_32_bits(launches, untouched):
    """Read the last row of a table of more than 2**31 numbers, and a position whose strides are as large."""
    small, positions = expected.tables(3, rows=4), huge((2, 3), (2**31, 1), torch.int32)
    cos, sin = (huge((4, 3), (2**30, 1), torch.float32) for _ in "cs")
    for table, numbers in zip((cos, sin), small, strict=True):
        table.copy_(numbers)
    positions.copy_(torch.tensor([[3, 2, 4], [0, 1, 3]]))
    x = torch.randn(2, 1, 3, 6)
    got, _ = apply_rotary(x, None, cos, sin, layout="half", positions=positions)
    expected.same(got, expected.rotated(x, [expected.taken(table, positions.numpy()) for table in small], "half"))
    assert launches == [1]


@pytest.mark.parametrize("position", [-1, expected.ROWS, 2**31 - 1, 2**62, -(2**63)])
def test_positions_past_the_table_are_not_left_unrotated(launches, position):
    """The kernel of flash-attention copies such tokens as they are."""
    cos, sin = expected.tables(2)
    positions, x = torch.tensor([0, position, 8]), torch.randn(1, 2, 3, 6)
    got, _ = apply_rotary(x, None, cos, sin, layout="half", positions=positions)
    assert got[..., 1, :4].isnan().all()
    expected.same(got[..., 4:], x[..., 4:])
    assert not got[..., (0, 2), :].isnan().any()
    assert launches == [1]


def test_offsets_in_a_tensor_are_held_against_the_table(launches):
    """The kernel of flash-attention checks offsets that are integers only."""
    cos, sin = expected.tables(2)
    x, start = torch.randn(3, 1, 4, 4), torch.tensor([7, -2, 5], dtype=torch.int32)
    got, _ = apply_rotary(x, None, cos, sin, layout="half", start=start)
    nan = got.isnan().all(-1)[:, 0]
    assert nan.tolist() == [[False, False, True, True], [True, True, False, False], [False] * 4]
    assert launches == [1]


def test_the_wrapped_kernel_compiles_yalis_54(launches):
    """One graph, in which the rotation of both is one operator."""
    cos, sin = expected.tables()
    q, k = (expected.tokens("BSHD", heads, torch.bfloat16)[0] for heads in (4, 2))
    positions, graphs = torch.tensor([3, 1, 4, 1, 9]), EagerAndRecordGraphs()

    def call(q, k):
        return apply_rotary(q, k, cos, sin, layout="half", positions=positions, seq_axis=-3)

    got = torch.compile(call, backend=graphs, fullgraph=True)(q, k)
    (graph,) = graphs.graphs
    assert [str(node.target) for node in graph.graph.nodes if "posenc" in str(node.target)] == ["posenc.rotate.default"]
    for x, result in zip((q, k), got, strict=True):
        rows = [expected.taken(table, positions.numpy()) for table in (cos, sin)]
        expected.same(result, expected.rotated(x, rows, "half", seq_axis=-3))
    assert launches == [2]


@pytest.mark.parametrize("dtype", expected.DTYPES.values(), ids=expected.DTYPES)
@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
def test_gradients_of_any_strides_apex_1750(launches, layout, dtype):
    cos, sin = expected.tables()
    x, _ = expected.tokens("BSHD seen as BHSD", 3, dtype)
    for given in (torch.randn(2, 5, 3, 15).to(dtype).transpose(1, 2), torch.randn(5, 1).to(dtype).expand(2, 3, 5, 15)):
        leaf = x.detach().requires_grad_()
        result, _ = apply_rotary(leaf, None, cos, sin, layout=layout, placement="trail")
        (gradient,) = torch.autograd.grad(result, leaf, given)
        opposite = expected.rotated(given, (cos[:5], sin[:5]), layout, "trail", inverse=True)
        expected.same(gradient, opposite)
    assert launches == [1] * 4


@pytest.mark.parametrize("lengths", [(3, 4), (0, 7), (7, 0), (1, 0, 0, 5)], ids=str)
def test_packed_sequences_begin_anew_transformer_engine_3057(launches, lengths):
    """Rotate each sequence by itself; the tokens after the last one are at position 0."""
    cos, sin = expected.tables()
    q, k = torch.randn(9, 4, 12), torch.randn(9, 2, 12)
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).int()
    together = apply_rotary(q, k, cos, sin, layout="half", cu_seqlens=cu_seqlens, seq_axis=-3)
    bounds = [*cu_seqlens.tolist(), *range(cu_seqlens[-1] + 1, 10)]
    for begin, end in pairwise(bounds):
        alone = apply_rotary(q[begin:end], k[begin:end], cos, sin, layout="half", seq_axis=-3)
        for part, whole in zip(alone, together, strict=True):
            expected.same(whole[begin:end], part)
    assert launches[0] == 2


def test_tables_are_indexed_by_the_position_of_each_token_flashinfer_609(launches):
    """Ragged batches of `(tokens, heads, width)` have a position for each token, int32."""
    cos, sin = expected.tables(8, rows=32)
    q, k = torch.randn(6, 8, 16).bfloat16(), torch.randn(6, 2, 16).bfloat16()
    positions = torch.tensor([31, 0, 1, 2, 17, 17], dtype=torch.int32)
    got = apply_rotary(q, k, cos, sin, layout="interleaved", positions=positions, seq_axis=-3)
    for x, result in zip((q, k), got, strict=True):
        for token, position in enumerate(positions.tolist()):
            row = cos[position : position + 1], sin[position : position + 1]
            expected.same(
                result[token : token + 1], expected.rotated(x[token : token + 1], row, "interleaved", seq_axis=-3)
            )
    assert launches == [2]


def test_tokens_are_not_written_to_unless_asked_unsloth_5001(launches):
    """Not even where a gradient needs them, and where queries and keys are parts of one tensor."""
    cos, sin = expected.tables(4)
    fused = torch.randn(2, 5, 3, 2, 8)
    before, (q, k, v) = fused.clone(), (part.transpose(1, 2) for part in fused.unbind(2))
    wanted = apply_rotary(q, k, cos, sin, layout="half")
    expected.same(fused, before)
    got = apply_rotary(q, k, cos, sin, layout="half", out=(q, k))
    assert got[0] is q
    assert got[1] is k
    for part, result in zip((q, k, v), (*wanted, before[:, :, 2].transpose(1, 2)), strict=True):
        expected.same(part, result)
    assert launches == [2, 2]
    fused.requires_grad_()
    q, k, _ = (part.transpose(1, 2) for part in fused.unbind(2))
    with pytest.raises(ValueError, match="`out` must be None while a gradient is recorded"):
        apply_rotary(q, k, cos, sin, layout="half", out=(q, k))


def test_half_precision_is_rotated_in_float32_liger_and_transformer_engine_1245(launches):
    """Products in bfloat16 would be off by much more than half a unit in the last place."""
    cos, sin = expected.tables(64, rows=16)
    x = torch.randn(1, 4, 16, 128).bfloat16()
    got, _ = apply_rotary(x, None, cos, sin, layout="half")
    exact = expected.rotated(x.double(), (cos.double(), sin.double()), "half")
    assert ((got.double() - exact).abs() <= exact.abs() * 2.0**-8 * 1.001 + 2.0**-20).all()
    rounded = [table.bfloat16() for table in (cos, sin)]
    got, wanted = (
        apply_rotary(x, None, *tables, layout="half")[0] for tables in (rounded, map(torch.Tensor.float, rounded))
    )
    assert torch.equal(got, wanted)
    assert launches == [1, 1, 1]


def test_views_are_not_made_contiguous_and_all_layouts_work_liger(launches):
    cos, sin = expected.tables(4)
    rows = torch.randn(2, 5, 3, 8)
    view = rows.transpose(1, 2)
    for layout in ("half", "interleaved", "interleaved_to_half"):
        before = rows.clone()
        wanted = expected.rotated(view, (cos[:5], sin[:5]), layout)
        expected.same(apply_rotary(view, None, cos, sin, layout=layout)[0], wanted)
        expected.same(rows, before)
        apply_rotary(view, None, cos, sin, layout=layout, out=(view, None))
        expected.same(rows.transpose(1, 2), wanted)
    assert launches == [1] * 6
