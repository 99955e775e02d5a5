"""Queries and keys rotated in one call: the same results and errors with and without Triton's kernel."""

import numpy as np
import pytest
import torch

from posenc_backends.torch import apply_rotary
from posenc_core import MultimodalRotary, Rotary, from_cu_seqlens, unrotate
from posenc_core.rotation import pairing_of, rotate_reference

from ...pages import FOLDER, run

ROTARY = Rotary(head_dim=8, layout="half")
COS, SIN = (torch.from_numpy(table) for table in ROTARY.cos_sin(np.arange(10)))
Q, K = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
WIDE = torch.ones(9, 5)
BOUNDS = torch.tensor([0, 2, 2, 4])
EACH = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def rows_at(positions):
    cos, sin = ROTARY.cos_sin(positions)
    return torch.from_numpy(cos), torch.from_numpy(sin)


FORMS = {
    "first rows": ({}, np.arange(5)),
    "start": ({"start": 3}, np.arange(3, 8)),
    "starts": ({"start": torch.tensor([1, 4])}, np.array([[1], [4]]) + np.arange(5)),
    "one start": ({"start": torch.tensor(2)}, np.arange(2, 7)),
    "positions": ({"positions": EACH[0].int()}, EACH[0].numpy()),
    "positions of each": ({"positions": EACH}, EACH.numpy()),
    "packed": ({"cu_seqlens": BOUNDS}, from_cu_seqlens([0, 2, 2, 4], length=5)),
    "packed from starts": ({"cu_seqlens": BOUNDS.int(), "start": torch.tensor([3, 9, 8])}, np.array([3, 4, 8, 9, 0])),
    "packed from a start": ({"cu_seqlens": BOUNDS, "start": 5}, np.array([5, 6, 5, 6, 0])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rows_are_found_as_said(form, layout, dtype):
    arguments, positions = FORMS[form]
    cos, sin = (table[:, None] if positions.ndim == 2 else table for table in rows_at(positions))
    q, k = Q.to(dtype), K.to(dtype)
    rotated = apply_rotary(q, k, COS, SIN, layout=layout, **arguments)
    for x, result in zip((q, k), rotated, strict=True):
        assert torch.equal(result, rotate_reference(x, cos, sin, pairing_of(layout)))
        back, none = apply_rotary(result, None, COS, SIN, layout=layout, inverse=True, **arguments)
        assert torch.equal(back, unrotate(result, cos, sin, layout=layout))
        assert none is None


def test_positions_have_the_axes_of_the_encoding():
    encoding = MultimodalRotary(head_dim=8, layout="half", sections=(2, 1, 1))
    positions = np.random.default_rng(0).integers(0, 10, (3, 2, 5))
    cos, sin = encoding.cos_sin(positions)
    table = [torch.from_numpy(table) for table in encoding.cos_sin(np.arange(10))]
    got, _ = apply_rotary(Q, None, *table, layout="half", positions=torch.from_numpy(positions), axes=encoding.axes)
    wanted = rotate_reference(Q, torch.from_numpy(cos)[:, None], torch.from_numpy(sin)[:, None], encoding.pairing)
    assert torch.equal(got, wanted)


def test_positions_outside_are_nan_and_rows_may_be_given():
    got, _ = apply_rotary(Q, None, COS, SIN, layout="half", positions=torch.tensor([0, -1, 10, 9, 2]))
    assert got.isnan().any(-1)[0, 0].tolist() == [False, True, True, False, False]
    by_rows = apply_rotary(Q, K, *(table[EACH] for table in (COS, SIN)), layout="half")
    for one, other in zip(by_rows, apply_rotary(Q, K, COS, SIN, layout="half", positions=EACH), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("form", FORMS)
def test_tables_of_half_precision_are_read_as_they_are(form):
    arguments, _ = FORMS[form]
    for dtype in (torch.bfloat16, torch.float16):
        half, wide = ([table.to(dtype).to(to) for table in (COS, SIN)] for to in (dtype, torch.float32))
        both = [apply_rotary(Q, K, *tables, layout="half", **arguments) for tables in (half, wide)]
        assert all(map(torch.equal, *both))


def test_a_gradient_reaches_tokens_and_tables():
    leaves = [x.clone().requires_grad_() for x in (Q, K, COS, SIN)]
    q, k = apply_rotary(*leaves, layout="half", positions=EACH)
    got = torch.autograd.grad(q.square().sum() + k.square().sum(), leaves)
    assert all(gradient.abs().max() > 0 for gradient in got)


def test_results_go_where_they_are_wanted():
    q, k = Q.clone(), K.clone()
    wanted = apply_rotary(q, k, COS, SIN, layout="half")
    version = q._version
    into = apply_rotary(q, k, COS, SIN, layout="half", out=(q, k))
    assert into[0] is q
    assert into[1] is k
    assert q._version > version
    for one, other in zip(wanted, into, strict=True):
        assert torch.equal(one, other)
    overlapping = torch.randn(2, 5, 12)
    both = overlapping[..., :8], overlapping[..., 4:]
    wanted = apply_rotary(*(x.clone() for x in both), COS, SIN, layout="half")[0]
    got = apply_rotary(both[0], None, COS, SIN, layout="half", out=(both[1], None))[0]
    assert torch.equal(got, wanted)


BAD = {
    "`q` or `k` must be given": (ValueError, {"q": None, "k": None}),
    "`q` must be a tensor or None, got ndarray": (TypeError, {"q": np.ones((2, 5, 8))}),
    "`q` must be floating-point, got int64": (TypeError, {"q": torch.ones(2, 4, 5, 8, dtype=torch.int64)}),
    "`q` must have shape": (ValueError, {"q": torch.ones(8)}),
    "`k` must be torch.float32 on cpu as `q`, got torch.bfloat16 on cpu": (TypeError, {"k": K.bfloat16()}),
    "`k` must be as long and as wide": (ValueError, {"k": K[..., :4, :]}),
    "`cos` must be a tensor, got ndarray": (TypeError, {"cos": COS.numpy()}),
    "`sin` must be float32 for tokens of torch.float32, got torch.float64": (TypeError, {"sin": SIN.double()}),
    r"`sin` must have shape \(10, 4\), got \(9, 4\)": (ValueError, {"sin": SIN[:9]}),
    r"`cos` must have shape \(rows, pairs\) or": (ValueError, {"cos": COS[0]}),
    "`cos` must have at most 4 pairs, half the width, got 5": (ValueError, {"cos": WIDE, "sin": WIDE}),
    "`blocks` must divide the 4 pairs, got 3": (ValueError, {"blocks": 3}),
    "`cos` must be on cpu, where the tokens are, got meta": (ValueError, {"cos": COS.to("meta")}),
    "`layout` must be one of": (ValueError, {"layout": "neox"}),
    "`seq_axis` must be an axis of `q` before the last of 4, got 3": (ValueError, {"seq_axis": 3}),
    "`positions` must be an int32 or int64 tensor, got list": (TypeError, {"positions": [0, 1, 2, 3, 4]}),
    "`positions` must be an int32 or int64 tensor, got torch.float32": (TypeError, {"positions": torch.ones(5)}),
    r"`positions` must have shape \(5,\) or": (ValueError, {"positions": torch.arange(4)}),
    "`positions` must be given without .*got positions and start": (ValueError, {"positions": EACH, "start": 1}),
    "`axes` must be left out without `positions`": (ValueError, {"axes": (0, 0, 1, 1)}),
    "`axes` must be 4 integers below 2": (ValueError, {"positions": EACH, "axes": (0, 1, 2, 0)}),
    "`start` must leave 5 tokens within the 10 rows of the tables, got 6": (ValueError, {"start": 6}),
    "`start` must leave 5 tokens within the 10 rows of the tables, got -1": (ValueError, {"start": -1}),
    "`start` must be an int, or an int32 or int64 tensor, got float": (TypeError, {"start": 1.0}),
    r"`start` must have shape \(\) or": (ValueError, {"start": torch.tensor([1, 2, 3])}),
    r"`start` must have shape \(\) or \(1,\) or \(3,\)": (ValueError, {"cu_seqlens": BOUNDS, "start": torch.arange(2)}),
    r"`cu_seqlens` must have shape \(sequences \+ 1,\)": (ValueError, {"cu_seqlens": torch.tensor([[0, 5]])}),
    r"`cu_seqlens` must have shape \(sequences \+ 1,\), got \(0,\)": (ValueError, {"cu_seqlens": torch.arange(0)}),
    "`cos` must have at least one row": (ValueError, {"cos": COS[:0], "sin": SIN[:0], "positions": EACH}),
    "`out` must be a pair of tensors": (TypeError, {"out": Q}),
    "`out` must have a tensor for `k`": (ValueError, {"out": (Q, None)}),
    "`out` must be float32, got float64": (TypeError, {"out": (Q.double(), K)}),
    r"`out` must have shape \(2, 2, 5, 8\)": (ValueError, {"out": (Q, Q)}),
    "`out` must have memory for each element": (ValueError, {"out": (Q[:1].expand(2, 4, 5, 8), K)}),
    "`out` must be None while a gradient is recorded": (ValueError, {"q": Q.clone().requires_grad_(), "out": (Q, K)}),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_bad_arguments_are_named(message):
    error, changed = BAD[message]
    arguments = {"q": Q, "k": K, "cos": COS, "sin": SIN, "layout": "half"} | changed
    with pytest.raises(error, match=message):
        apply_rotary(**arguments)


def test_the_page_prints_what_it_shows():
    run(FOLDER.with_name("howto") / "gpu.md")
