"""Learned tables resized beside PyTorch's `interpolate` and timm: the same numbers, as far as their float32 allows."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

import posenc_backends.torch  # noqa: F401 - so that tables may be tensors
from posenc_core import resize_bias_table, resize_table

from .importing import lone
from .rounding import UNIT

RESIZED = lone("timm.layers.pos_embed")
RELATIVE = lone("timm.layers.pos_embed_rel")
GRIDS = [
    ((14, 14), (16, 20)),
    ((14, 14), (24, 24)),
    ((24, 24), (14, 14)),
    ((37, 37), (5, 70)),
    ((3, 7), (8, 2)),
    ((16, 9), (16, 31)),
    ((1, 5), (4, 1)),
]
LINES = [(512, 2048), (77, 248), (1500, 400), (2048, 77), (1, 5), (9, 1)]
MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def table_of(old, *, extra=0, dtype=torch.float32):
    numbers = np.random.default_rng(math.prod(old)).normal(size=(extra + math.prod(old), 6))
    return torch.tensor(numbers, dtype=dtype)


def interpolated(table, old, new, **words):
    """PyTorch's, of a table `(prod(old), dim)`."""
    grid = table.T.reshape(1, -1, *old)
    return interpolate(grid, size=new, **words).reshape(table.shape[-1], -1).T


def slack(table, old, new, unit=UNIT):
    """How far PyTorch may be off, and we.

    On each axis PyTorch's places, to `old`, have seen three roundings: the ratio, its product and the difference. A
    kernel's slope is at most 1.3 and four rows lie under it, or more with as much less slope. A row's weight sees some
    six roundings, and the row one in the product and one in the sum; both for them and for us. Sizes of weights add up
    to 11/8 where all are there.
    """
    places = sum(4 * 1.3 * 3 * size for size in old)
    sums = sum(16 * (4 * max(before / after, 1) + 2) for before, after in zip(old, new, strict=True))
    return float((places + sums) * (11 / 8) ** (len(old) - 1) * unit * table.abs().max())


PAIRS = [
    ("antialiased_cubic", {"mode": "bicubic", "antialias": True}),
    ("cubic", {"mode": "bicubic"}),
    ("antialiased_linear", {"mode": "bilinear", "antialias": True}),
    ("linear", {"mode": "bilinear"}),
    ("aligned_linear", {"mode": "bilinear", "align_corners": True}),
]


@pytest.mark.parametrize(("method", "words"), PAIRS, ids=[method for method, _ in PAIRS])
@pytest.mark.parametrize(("old", "new"), GRIDS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_grids_are_those_of_pytorch(method, words, old, new, dtype):
    table = table_of(old, dtype=dtype)
    ours = resize_table(table, size=new, old_size=old, method=method)
    unit = UNIT if dtype == torch.float32 else 2.0**-53
    torch.testing.assert_close(ours, interpolated(table, old, new, **words), rtol=0, atol=slack(table, old, new, unit))


@pytest.mark.parametrize(("method", "words"), PAIRS[:2], ids=["DINOv2 with registers", "DINO"])
@pytest.mark.parametrize(("old", "new"), [((37, 37), (16, 16)), ((7, 5), (7, 9))], ids=str)
def test_offsets_are_the_scale_factors_of_dino(method, words, old, new):
    table = table_of(old, dtype=torch.float64)
    factors = tuple((size + 0.1) / before for size, before in zip(new, old, strict=True))
    grid = table.reshape(1, *old, -1).permute(0, 3, 1, 2)
    theirs = torch.nn.functional.interpolate(grid, scale_factor=factors, **words)
    ours = resize_table(table, size=new, old_size=old, method=method, offset=0.1)
    theirs = theirs.permute(0, 2, 3, 1).reshape(ours.shape)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=slack(table, old, new, 2.0**-53))


@pytest.mark.parametrize(("method", "align"), [("linear", False), ("aligned_linear", True)])
@pytest.mark.parametrize(("old", "new"), [((a,), (b,)) for a, b in LINES] + [((2, 5, 3), (4, 3, 3))], ids=str)
def test_lines_and_blocks_are_those_of_pytorch(method, align, old, new):
    table = table_of(old)
    theirs = interpolated(table, old, new, mode=MODES[len(old)], align_corners=align)
    ours = resize_table(table, size=new, old_size=old, method=method)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=slack(table, old, new))


@pytest.mark.parametrize(("old", "new"), GRIDS, ids=str)
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_tables_with_prefix_tokens_are_those_of_timm(old, new, prefix):
    table = table_of(old, extra=prefix)[None]
    theirs = RESIZED.resample_abs_pos_embed(table, list(new), list(old), num_prefix_tokens=prefix)
    ours = resize_table(table, size=new, old_size=old, prefix_tokens=prefix)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=slack(table, old, new))
    assert torch.equal(ours[:, :prefix], theirs[:, :prefix])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_tables_of_half_precision_are_those_of_timm_up_to_a_last_place(dtype):
    """Both blend in float32: what is rounded differs by the slack, so that the result may be the next number."""
    table = table_of((14, 14), extra=1, dtype=dtype)[None]
    theirs = RESIZED.resample_abs_pos_embed(table, [16, 20])
    ours = resize_table(table, size=(16, 20), prefix_tokens=1)
    assert ours.dtype == dtype
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(ours, theirs, rtol=step, atol=slack(table.float(), (14, 14), (16, 20)))
    assert (ours != theirs).float().mean() < 0.01


def spans(window):
    return tuple(2 * size - 1 for size in window)


@pytest.mark.parametrize(
    ("old", "new"), [((7, 7), (12, 12)), ((12, 12), (7, 7)), ((8, 8), (16, 11)), ((7, 7), (24, 24))]
)
@pytest.mark.parametrize("prefix", [0, 1])
def test_windows_of_swin_are_those_of_timm(old, new, prefix):
    table, rows = table_of(spans(old), extra=3 * prefix), math.prod(spans(new)) + 3 * prefix
    theirs = RELATIVE.resize_rel_pos_bias_table_simple(table, new, (rows, 6))
    ours = resize_bias_table(table, window=new, prefix_tokens=prefix)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=slack(table, spans(old), spans(new)))


@pytest.mark.parametrize(("old", "new"), [((7, 7), (12, 12)), ((4, 6), (5, 7))])
def test_windows_of_levit_are_those_of_timm(old, new):
    square = (old[0],) * 2, (new[0],) * 2
    table = table_of(spans(square[0]))
    theirs = RELATIVE.resize_rel_pos_bias_table_levit(table, (math.prod(spans(square[1])), 6))
    ours = resize_bias_table(table, window=square[1], method="antialiased_cubic")
    torch.testing.assert_close(ours, theirs, rtol=0, atol=slack(table, spans(square[0]), spans(square[1])))


def geometric_slack(table, old, new):
    """How far timm may be off: its ratio is found to 1e-6, its places are float32.

    A place 1 + q + … + q**(n - 1) moves by at most n² q**n / 2 times as much as q does. Places are at least 1 apart, so
    that weights move by no more, and rows differ by at most twice the largest; weights and sums are a few roundings.
    """
    moved = 0.0
    for size, border in zip(old, new, strict=True):
        n = size - 1
        q = 1.5 if n < 3 else min(max((border / n) ** (2 / (n - 1)), 1.01) * 1.2, 1.5)
        moved += n * n * q**n / 2 * 1e-6 + 4 * border * UNIT
    return float((2 * moved + 20 * UNIT) * table.abs().max())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((14, 14), (24, 24)),
        ((14, 14), (16, 20)),
        ((4, 6), (9, 7)),
        ((3, 3), (20, 20)),
        ((14, 14), (9, 12)),
        ((1, 3), (3, 4)),
    ],
)
@pytest.mark.parametrize("prefix", [0, 1])
@pytest.mark.filterwarnings(
    "ignore:Using a non-tuple sequence for multidimensional indexing:UserWarning"
)  # timm's own,
@pytest.mark.filterwarnings(r"ignore:torch.searchsorted\(\).* input value tensor is non-contiguous:UserWarning")  # both
def test_windows_of_beit_are_those_of_timm(old, new, prefix):
    table, rows = table_of(spans(old), extra=3 * prefix), math.prod(spans(new)) + 3 * prefix
    theirs = RELATIVE.resize_rel_pos_bias_table(table, new, (rows, 6), old_window_size=old)
    words = {"old_window": old, "prefix_tokens": prefix, "method": "geometric"}
    ours = resize_bias_table(table, window=new, **words)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=geometric_slack(table, old, new))
