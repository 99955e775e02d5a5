"""Triton's interpreter runs the kernel on the CPU: the bits of the reference in every case."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_backends.torch import apply_rotary

from . import expected


@pytest.mark.parametrize("strides", expected.STRIDES)
@pytest.mark.parametrize("form", expected.FORMS)
def test_all_pairings_have_the_bits_of_the_reference(launches, form, strides):
    """A third of the pairings, in one of two dtypes and directions: each form and each stride meets all of them."""
    half, wide = ("bfloat16", "float16"), ("float32", "float64")
    number = expected.FORMS.index(form) + expected.STRIDES.index(strides)
    dtypes = [expected.DTYPES[half[number % 2]], expected.DTYPES[wide[number // 2 % 2]]]
    met = [*enumerate(expected.PAIRINGS)][number % 3 :: 3]
    for index, pairing in met:
        which = (index + number // 4) % 2
        inverse = (index // 2 + number) % 2 == 1
        rotates_as_the_reference((form, strides, dtypes[which]), pairing, inverse, seed=which)
    assert launches == [2] * len(met)


def rotates_as_the_reference(kind, pairing, inverse, *, sizes=((3, 1), 15, 5), seed=0):
    """Assert that queries and keys have the bits of the reference, and that neither is written to."""
    (form, strides, dtype), (heads, width, length), (layout, placement, blocks) = kind, sizes, pairing
    q, seq_axis = expected.tokens(strides, heads[0], dtype, width=width, length=length, seed=seed)
    k, _ = expected.tokens(strides, heads[-1], dtype, width=width, length=length, seed=seed)
    pairs = q.shape[-1] // 2 // blocks * blocks if width < 15 else 6
    if strides == "THD" and "each" in form:
        form = form.replace("of each batch row", "").replace(" of each", "").strip()  # there are no batch rows
    integer = torch.int32 if seed % 2 else torch.int64
    cos, sin = expected.tables(pairs, rows=max(9, length + 2), seed=seed)
    tables, arguments, rows = expected.arguments_of(form, cos, sin, length=length, seed=seed, integer=integer)
    options = {"layout": layout, "placement": placement, "blocks": blocks, "inverse": inverse, "seq_axis": seq_axis}
    before = [x.clone() for x in (q, k)]
    got = apply_rotary(q, k, *tables, **options, **arguments)
    for x, result, kept in zip((q, k), got, before, strict=True):
        expected.same(result, expected.rotated(x, rows, **options))
        expected.same(x, kept)


KINDS = st.tuples(*map(st.sampled_from, (expected.FORMS, expected.STRIDES, list(expected.DTYPES.values()))))
SIZES = st.tuples(st.sampled_from([(1, 1), (8, 2), (5, 3), (33, 1), (2, 7)]), st.integers(4, 14), st.integers(1, 70))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    kind=KINDS,
    pairing=st.sampled_from([pairing for pairing in expected.PAIRINGS if pairing[2] == 1]),
    inverse=st.booleans(),
    sizes=SIZES,
    seed=st.integers(0, 2**20),
)
def test_any_shape_has_the_bits_of_the_reference(kind, pairing, inverse, sizes, seed):
    rotates_as_the_reference(kind, pairing, inverse, sizes=sizes, seed=seed)


@pytest.mark.parametrize("missing", ["q", "k"])
@pytest.mark.parametrize("form", expected.FORMS)
def test_one_of_both_is_one_launch(launches, form, missing):
    cos, sin = expected.tables()
    tables, arguments, rows = expected.arguments_of(form, cos, sin)
    x, _ = expected.tokens("BHSD", 3, torch.bfloat16)
    given = (None, x) if missing == "q" else (x, None)
    got = apply_rotary(*given, *tables, layout="half", **arguments)
    expected.same(got[missing == "q"], expected.rotated(x, rows, "half"))
    assert got[missing == "k"] is None
    assert launches == [1]


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # infinities in NumPy
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_number_is_widened_and_rounded_as_by_pytorch(launches, dtype):
    """Rotate all bit patterns by an identity, which keeps them, and by factors whose results are subnormal."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype).reshape(1, 1, 64, 1024)
    for factor in (1.0, 3e-3, 1e-37, 1e38):
        cos, sin = torch.full((64, 512), factor), torch.full((64, 512), factor / 3)
        got, _ = apply_rotary(every, None, cos, sin, layout="half")
        expected.same(got, expected.rotated(every, (cos, sin), "half"))
    assert launches == [1] * 4


@pytest.mark.parametrize("sizes", [(0, 2, 3), (2, 0, 3), (2, 2, 0)], ids=str)
def test_nothing_is_rotated_to_nothing(sizes):
    batch, heads, length = sizes
    cos, sin = expected.tables(2)
    x = torch.ones(batch, heads, length, 4)
    got, _ = apply_rotary(x, None, cos, sin, layout="half", positions=torch.zeros(length, dtype=torch.int64))
    assert got.shape == x.shape


def test_heads_that_are_no_single_axis_are_rotated_by_operators(launches):
    cos, sin = expected.tables(2)
    x = torch.randn(2, 3, 4, 5, 4)
    rows = cos[None, None, None, :5], sin[None, None, None, :5]
    got, _ = apply_rotary(x, None, cos, sin, layout="half")
    expected.same(got, expected.rotated(x, (cos[:5], sin[:5]), "half"))
    assert launches == [1]  # contiguous: all of them are one axis
    apart = x.transpose(1, 2)[:, ::2]
    got, _ = apply_rotary(apart, None, *(table[0, 0, 0] for table in rows), layout="half")
    expected.same(got, expected.rotated(apart, (cos[:5], sin[:5]), "half"))
    assert launches == [1]


def test_results_lie_as_their_tokens():
    cos, sin = expected.tables()
    x, _ = expected.tokens("BSHD seen as BHSD", 3, torch.float32)
    x = x.transpose(1, 2).contiguous().transpose(1, 2)
    got, _ = apply_rotary(x, None, cos, sin, layout="half")
    assert got.stride() == x.stride()
