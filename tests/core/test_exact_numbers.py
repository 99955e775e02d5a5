"""Masks, positions and starts of every dtype are exact or refused: no cast wraps, cuts or rounds them."""

from itertools import product

import numpy as np
import pytest

import posenc_core as p

from ..errors import rejects

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = [np.dtype(name) for name in (*INTEGERS, "float16", "float32", "float64")]
POWERS = (7, 15, 16, 24, 31, 32, 53)
EDGES = (0, *(2**power + step for power in POWERS for step in (-1, 0, 1)), 2**63 - 1025)


def numbers(dtype):
    """Numbers of a dtype, as an array and as Python's integers, at its edges and those of others."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            array = np.unique(np.array(EDGES, np.float64).astype(dtype))
        array = array[np.isfinite(array)]
    else:
        info = np.iinfo(dtype)
        array = np.array(sorted({max(min(edge, info.max), info.min) for edge in (*EDGES, -1, -(2**31))}), dtype)
    return array, [int(each) for each in array]


@pytest.mark.parametrize(("queries", "keys"), list(product(DTYPES, DTYPES)), ids=str)
def test_masks_compare_any_two_dtypes_exactly(queries, keys):
    (at_queries, q), (at_keys, k) = numbers(queries), numbers(keys)
    np.testing.assert_array_equal(p.causal(at_queries, at_keys), [[one >= other for other in k] for one in q])
    np.testing.assert_array_equal(
        p.valid_lengths(at_queries, at_keys)[:, 0, 0], [[one > other for other in k] for one in q]
    )
    np.testing.assert_array_equal(
        p.same_sequence(at_queries, at_keys), [[one == other and one >= 0 for other in k] for one in q]
    )


@pytest.mark.parametrize("dtype", DTYPES[:8], ids=str)
def test_padding_compares_exactly(dtype):
    tokens, values = numbers(dtype)
    for pad in (*EDGES, -1, 2**53):
        if pad <= 2**53:
            np.testing.assert_array_equal(p.padding(tokens[None], pad)[0, 0, 0], [value != pad for value in values])
    np.testing.assert_array_equal(p.from_mask(tokens[::-1] * 0 + dtype.type(1)), np.arange(len(tokens)))


@pytest.mark.parametrize("dtype", DTYPES[:8], ids=str)
def test_starts_are_counted_from_exactly(dtype):
    starts, values = numbers(dtype)
    fits = [value for value in values if value + 3 <= 2**63]
    rows = p.counted_from(starts[[value in fits for value in values]], 3)
    assert rows.dtype == np.int64
    assert rows.tolist() == [[value, value + 1, value + 2] for value in fits]


X, TABLE = np.ones((1, 2), np.float32), np.ones((1, 1), np.float32)
Q = np.ones((2, 4), np.float32)
MASKED = np.ma.masked_array([0, 1, 2], [0, 1, 0])
REFUSED = {
    "real tokens": (lambda: p.padding(np.array([[0.5, 1, 1.5]]), 1), TypeError, "tokens", "float64"),
    "a real start": (lambda: p.sequence(3, start=1.5), TypeError, "start", 1.5),
    "a bool as start": (lambda: p.sequence(3, start=True), TypeError, "start", True),
    "a text as start": (lambda: p.sequence(3, start="a"), TypeError, "start", "a"),
    "counting past int64": (lambda: p.counted_from(np.array([2**63 - 1]), 2), ValueError, "start", 2**63 - 1),
    "half a length": (lambda: p.counted_from([0], 0.5), TypeError, "length", 0.5),
    "a negative length": (lambda: p.counted_from([0], -3), ValueError, "length", -3),
    "a long length": (lambda: p.counted_from([0], 2**63), ValueError, "length", 2**63),
    "complex tables": (lambda: p.rotate(X, TABLE * 1j, TABLE, layout="half"), TypeError, "cos", "complex64"),
    "tables of text": (lambda: p.rotate(X, np.array([["1.5"]]), TABLE, layout="half"), TypeError, "cos"),
    "unsigned tables": (
        lambda: p.unrotate(X, TABLE, np.ones((1, 1), np.uint8), layout="half"), TypeError, "sin", "uint8",
    ),
    "complex keys": (lambda: p.attend(Q, Q * (1 + 1j), Q), TypeError, "k", "complex64"),
    "values that are dates": (lambda: p.attend(Q, Q, Q.astype("M8[s]")), TypeError, "v"),
    "a bias of dates": (lambda: p.attend(Q, Q, Q, bias=np.ones((2, 2), "M8[s]")), TypeError, "bias"),
    "rows of integers": (lambda: p.combine(Q, np.ones((2, 4), int), how="add"), TypeError, "rows", "int64"),
    "masked positions": (lambda: p.Sinusoidal(dim=2).table(MASKED), TypeError, "positions"),
    "masked positions of queries": (lambda: p.causal(MASKED, MASKED), TypeError, "query_positions"),
    "masked tokens": (lambda: p.rotate(np.ma.masked_array(X), TABLE, TABLE, layout="half"), TypeError, "x"),
    "another byte order": (lambda: p.rotate(X.astype(">f4"), TABLE, TABLE, layout="half"), TypeError, "x", ">f4"),
    "a far grid": (lambda: p.grid(2, 2, start=2**63 - 1), ValueError, "start", 2**63 - 1),
    "a large grid": (lambda: p.grid(10**6, 10**6), ValueError, "sizes"),
    "long sequences": (lambda: p.from_cu_seqlens([0, 2**45]), ValueError, "cu_seqlens", 2**45),
    "a large interval": (lambda: p.multimodal([(2, 1, 1, 1e30)]), ValueError, "segments", 1e30),
    "an interval past 2**31": (lambda: p.multimodal([(2, 1, 1, 3e9)]), ValueError, "segments", 3e9),
    "segments past 2**31": (lambda: p.multimodal([(2, 1, 1, 2e9)] * 2), ValueError, "segments"),
    "a factor past float32": (lambda: p.AttentionFactor(attention_factor=1e39), ValueError, "attention_factor", 1e39),
    "a factor that float32 has not": (
        lambda: p.AttentionFactor(attention_factor=1e-50), ValueError, "attention_factor"),
    "YaRN's": (
        lambda: p.YaRN(factor=2, original_max_position_embeddings=8, attention_factor=1e39), ValueError,
        "attention_factor", 1e39,
    ),
    "YaRN's mscale": (
        lambda: p.YaRN(factor=2, original_max_position_embeddings=8, mscale=1e300, mscale_all_dim=1e-9), ValueError,
        "mscale", 1e300,
    ),
    "LongRoPE's": (
        lambda: p.LongRoPE(
            short_factor=(1.0,), long_factor=(1.0,), original_max_position_embeddings=8, short_mscale=1e39,
            long_mscale=1.0,
        ),
        ValueError, "short_mscale", 1e39,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "argument", "values"), [(*c[:3], c[3:]) for c in REFUSED.values()], ids=REFUSED
)
def test_what_is_not_exact_is_refused(call, error, argument, values):
    with rejects(error, argument, *values):
        call()


def test_a_grid_starts_at_integers_of_any_dtype():
    assert p.grid(1, 2, start=np.uint64(3)).dtype == np.int64


def test_digits_are_not_counted_by_a_power():
    wide = p.Binary(dim=2**16, start=2**30)
    assert wide.limit == 2**31
    assert wide.table([1])[0, -31:].tolist() == [1.0, *[0.0] * 29, 1.0]
    with rejects(ValueError, "dim", 10**10):
        p.Binary(dim=10**10)
