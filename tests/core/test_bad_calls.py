"""Attention, its layer and tables reject arguments that do not fit together."""

import numpy as np
import pytest

from posenc_backends import load
from posenc_core import attend, sequence_ids
from posenc_core import encodings as e
from posenc_core.attention.attend import attention_weights

from ..errors import rejects

BACKEND = load("numpy")
X, NARROW = np.ones((1, 2, 3, 4)), np.ones((1, 2, 3, 2))
TOKENS = np.ones((2, 5, 8), np.float32)
ROTARY, ALIBI = e.Rotary(head_dim=4, layout="half"), e.Alibi(num_heads=2)
SHAW, T5 = e.ShawBias(num_heads=2, head_dim=4, max_distance=2), e.T5Bias(num_heads=2)
WINDOW, GRID = e.SwinBias(num_heads=2, window=(1, 2)), e.GridSinusoidal(dim=4, convention="mae")
NARROW_SHAW = e.ShawBias(num_heads=2, head_dim=3, max_distance=2)
AXIAL = e.AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4))
NEAR_XPOS = e.XPos(head_dim=4, layout="half", scale_base=0.02)
MIXED = e.RandomFourierFeatures(dim=4, scale=1.0, seed=0, num_axes=2)
PAIR = (np.ones((2, 2, 2, 4), np.float32),) * 2


def layer(**options):
    return BACKEND.MultiHeadAttention(8, 2, **options)


def self_attention(**call):
    return layer(**call.pop("made", {}))(TOKENS, TOKENS, TOKENS, **call)


def placed(encoding, queries=range(3), keys=range(3), q=X, v=X, **weights):
    return attend(q, q, v, position=e.Placed(encoding, queries, keys, weights))


def add(encoding, x, **call):
    return BACKEND.PositionalEncoding(4, encoding=encoding)(x, **call)


def bias(encoding, **call):
    return BACKEND.AttentionBias(encoding)(np.ones((2, 3, 3)), **call)


CALLS = {
    # heads that do not divide
    "num_hiddens": (lambda: BACKEND.MultiHeadAttention(10, 3), ValueError, "num_hiddens", 3, 10),
    "num_kv_heads": (lambda: BACKEND.MultiHeadAttention(8, 4, num_kv_heads=3), ValueError, "num_kv_heads", 4, 3),
    "no heads": (lambda: layer(num_kv_heads=0), ValueError, "num_kv_heads", 0),
    "half heads": (lambda: layer(num_kv_heads=0.5), TypeError, "num_kv_heads", 0.5),
    "heads of k": (lambda: attend(np.ones((1, 3, 3, 4)), X, X), ValueError, "k", 3, 2),
    "heads of a bias": (lambda: layer(position=e.Alibi(num_heads=3)), ValueError, "position", 2, e.Alibi(num_heads=3)),
    "heads of scores": (lambda: BACKEND.AttentionBias(ALIBI)(np.ones((3, 3, 3))), ValueError, "scores", 2, (3, 3, 3)),
    # past the end of a table
    "past a window": (lambda: self_attention(made={"position": WINDOW}), ValueError, "query_positions", WINDOW, 1, 4),
    "a cache past a window": (lambda: self_attention(made={"position": WINDOW}, start=2, cache=PAIR), ValueError,
        "query_positions", WINDOW, 1, 2),
    "a cache out of reach": (lambda: self_attention(made={"position": NEAR_XPOS}, start=2, cache=PAIR), ValueError,
        "positions", NEAR_XPOS, 1, 6),
    "past a learned table": (lambda: add(e.Learned(dim=4, length=3, offset=2), np.ones((1, 4, 4), np.float32)),
        ValueError, "positions", e.Learned(dim=4, length=3, offset=2), 2, 3),
    "after a learned table": (lambda: add(e.Learned(dim=4, length=3), np.ones((1, 1, 4), np.float32), start=3),
        ValueError, "positions", e.Learned(dim=4, length=3), 2, 3),
    # caches
    "another start": (lambda: self_attention(start=3, cache=PAIR), ValueError, "start", "`cache`", 2, 3),
    "no start": (lambda: self_attention(cache=PAIR), ValueError, "start", "`cache`", 2, 0),
    "a start for each row": (lambda: self_attention(start=[0, 0], cache=()), ValueError, "start", "`cache`"),
    "half a cache": (lambda: self_attention(start=2, cache=PAIR[:1]), TypeError, "cache", "tuple"),
    "a cache that is true": (lambda: self_attention(cache=True), TypeError, "cache", "bool"),
    "other heads in the cache": (lambda: self_attention(start=2, cache=(PAIR[0][:, :1],) * 2), ValueError, "cache",
        (2, 2, 2, 4), (2, 1, 2, 4)),
    "fewer values in the cache": (lambda: self_attention(start=2, cache=(PAIR[0], PAIR[0][:, :, :1])), ValueError,
        "cache", (2, 2, 2, 4), (2, 2, 1, 4)),
    # attention
    "a narrower k": (lambda: attend(X, NARROW, X), ValueError, "k", "`q`", (1, 2, 3, 2), (1, 2, 3, 4)),
    "a shorter v": (lambda: attend(X, X, X[:, :, :2]), ValueError, "v", "`k`", (1, 2, 2, 4), (1, 2, 3, 4)),
    "an integer q": (lambda: attend(X.astype(int), X, X), TypeError, "q", "int64"),
    "an integer mask": (lambda: attend(X, X, X, mask=np.ones((3, 3), int)), TypeError, "mask", "int64"),
    "a mask of numbers": (lambda: attention_weights(X, X, mask=np.ones((3, 3))), TypeError, "mask", "float64"),
    "a longer mask": (lambda: attend(X, X, X, mask=np.ones((4, 3), bool)), ValueError, "mask", (1, 2, 3, 3), (4, 3)),
    "a larger bias": (lambda: attend(X, X, X, bias=np.ones((2, 2, 3, 3))), ValueError, "bias", (1, 2, 3, 3),
        (2, 2, 3, 3)),
    "positions of queries alone": (lambda: self_attention(positions=np.arange(5)), ValueError, "key_positions",
        "`positions`"),
    "positions of fewer": (lambda: self_attention(positions=np.arange(4), key_positions=np.arange(5)), ValueError,
        "positions", (5,), (1, 5), (2, 5), (4,)),
    "another head_dim": (lambda: layer(position=NARROW_SHAW), ValueError, "position", "`head_dim`", 4, NARROW_SHAW),
    "a whole grid's head_dim": (lambda: layer(position=AXIAL), ValueError, "position", "`head_dim`", 4, AXIAL),
    "an additive encoding": (lambda: layer(position=GRID), TypeError, "position", GRID, "PositionalEncoding"),
    # encodings with their positions
    "placed, an additive encoding": (lambda: placed(e.Sinusoidal(dim=4)), TypeError, "encoding", e.Sinusoidal(dim=4)),
    "placed, nothing": (lambda: placed(None), TypeError, "encoding", None),
    "placed, nothing learned": (lambda: placed(T5), ValueError, "weights", T5, repr("table")),
    "placed nowhere": (lambda: placed(ALIBI, [0, 1, np.nan]), ValueError, "positions", "nan"),
    "placed by words": (lambda: placed(ALIBI, "abc"), TypeError, "positions", "<U3"),
    "placed between offsets": (
        lambda: placed(SHAW, np.array([0.5, 1, 2]), key_table=np.ones((5, 4)), value_table=np.ones((5, 4))), TypeError,
        "query_positions", "float64"),
    "a learned bias": (lambda: T5.bias([0], [0]), TypeError, "bias", T5),
    "no content": (lambda: bias(SHAW), TypeError, "q", "`k`", SHAW),
    "content for positions": (lambda: bias(ALIBI, q=X[0], k=X[0]), TypeError, "q", "`k`", ALIBI),
    "narrow content": (lambda: bias(SHAW, q=NARROW[0], k=NARROW[0]), ValueError, "q", 4, (2, 3, 2)),
    "short content": (lambda: bias(SHAW, q=X[0, :, :2], k=X[0]), ValueError, "q", (2, 3, 4), (2, 2, 4)),
    # rows
    "a grid without positions": (lambda: add(GRID, np.ones((1, 4, 4), np.float32)), ValueError, "positions", GRID,
        "`grid`"),
    "three axes of two": (lambda: GRID.table(np.zeros((3, 5), int)), ValueError, "positions", (3, 5)),
    "one axis of two": (lambda: MIXED.table([0.0]), ValueError, "positions", (1,)),
    "far cells": (lambda: GRID.table(np.full((2, 5), 2**31)), ValueError, "positions", 2**31),
    "no time": (lambda: e.Timestep(dim=4).table([np.nan]), ValueError, "positions", "nan"),
    "a word": (lambda: e.FourierFeatures(dim=4).table("abc"), TypeError, "positions", "<U3"),
    "a bool": (lambda: e.LearnedSinusoidal(dim=4).table([True]), TypeError, "positions", "bool"),
    "one number": (lambda: e.Sinusoidal(dim=4).table(3), ValueError, "positions", 3),
    "sequences out of place": (lambda: sequence_ids([1, 2]), ValueError, "cu_seqlens", 0, 1),
    "half sequences": (lambda: sequence_ids([0.0, 2.0]), TypeError, "cu_seqlens", "float64"),
    # positions that do not fit
    "fewer positions than queries": (lambda: placed(ALIBI, range(1)), ValueError, "query_positions", (3,), (1,)),
    "fewer positions than rotated queries": (lambda: placed(ROTARY, range(1)), ValueError, "query_positions", (3,),
        (1,)),
    "fewer positions than keys": (lambda: placed(ALIBI, range(3), range(2)), ValueError, "key_positions", (3,), (2,)),
    "nowhere, by an array": (lambda: placed(ALIBI, np.array([0, 1, np.nan])), ValueError, "positions", "nan"),
    "bools for positions": (lambda: placed(ALIBI, np.array([True, False, True])), TypeError, "positions", "bool"),
    "outside of the window": (lambda: placed(WINDOW, table=np.ones((3, 2))), ValueError, "query_positions", WINDOW, 1,
        2),
    "more heads than the encoding has": (lambda: placed(e.Alibi(num_heads=3)), ValueError, "q", e.Alibi(num_heads=3),
        (1, 2, 3, 4)),
    "wider than the head": (lambda: placed(ROTARY, q=np.ones((1, 2, 3, 6))), ValueError, "q", 4, (1, 2, 3, 6)),
    "narrower than the head": (
        lambda: placed(
            e.ShawBias(num_heads=2, head_dim=2, max_distance=1, applies_to="keys"), key_table=np.ones((3, 2))),
        ValueError, "q", 2, (1, 2, 3, 4)),
    "values that no row can be added to": (
        lambda: placed(SHAW, v=NARROW, key_table=np.ones((5, 4)), value_table=np.ones((5, 4))), ValueError, "v", 4,
        (1, 2, 3, 2)),
    "a learned table of another shape": (lambda: placed(T5, table=np.ones((3, 2))), ValueError, "weights",
        repr("table"), T5, (32, 2), (3, 2)),
    "an encoding without positions": (lambda: attend(X, X, X, position=ROTARY), TypeError, "position", ROTARY),
    "queries without heads": (lambda: attend(X[0, 0], X[0, 0], X[0, 0], position=e.Placed(ALIBI, range(3), range(3))),
        ValueError, "q", (3, 4)),
    "positions of another batch": (lambda: placed(ALIBI, np.zeros((2, 3), int)), ValueError, "query_positions", (1, 3),
        (2, 3)),
    "positions on two axes": (lambda: placed(ALIBI, np.zeros((2, 1, 3), int)), ValueError, "query_positions", (1, 3),
        (2, 1, 3)),
    "real tokens of a window": (
        lambda: placed(e.SwinBias(num_heads=2, window=(1, 3)), [0.5, 1.0, 2.0], table=np.ones((5, 2))), TypeError,
        "query_positions", "float64"),
    "real offsets": (lambda: placed(T5, [0.5, 1.0, 2.0], table=np.ones((32, 2))), TypeError, "query_positions",
        "float64"),
    "frequencies that are one number": (lambda: e.Rotary(head_dim=4, layout="half", frequencies=5), TypeError,
        "frequencies", 5),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "argument", "values"), [(*c[:3], c[3:]) for c in CALLS.values()], ids=CALLS)
def test_a_wrong_call_names_the_argument_and_the_value(call, error, argument, values):
    with rejects(error, argument, *values):
        call()
