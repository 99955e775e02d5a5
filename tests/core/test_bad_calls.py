"""What attention, its layer, tables and resizing refuse: arguments that do not go together, by errors that name the fix."""

import re

import numpy as np
import pytest

from posenc_backends import load
from posenc_core import attend, resize_bias_table, resize_table, sequence_ids
from posenc_core.attention.attend import attention_weights
from posenc_core.encodings import (
    Alibi,
    AxialRotary,
    FourierFeatures,
    GridSinusoidal,
    Learned,
    LearnedSinusoidal,
    Placed,
    RandomFourierFeatures,
    Rotary,
    ShawBias,
    Sinusoidal,
    SwinBias,
    T5Bias,
    Timestep,
    XPos,
)

ROOM = load("numpy")
X, NARROW = np.ones((1, 2, 3, 4)), np.ones((1, 2, 3, 2))
TOKENS = np.ones((2, 5, 8), np.float32)
TABLE, ROTARY, ALIBI = np.ones((6, 2)), Rotary(head_dim=4, layout="half"), Alibi(num_heads=2)
SHAW, T5 = ShawBias(num_heads=2, head_dim=4, max_distance=2), T5Bias(num_heads=2)
WINDOW, GRID = SwinBias(num_heads=2, window=(1, 2)), GridSinusoidal(dim=4, convention="mae")
MIXED = RandomFourierFeatures(dim=4, scale=1.0, seed=0, num_axes=2)
PAIR = (np.ones((2, 2, 2, 4), np.float32),) * 2


def layer(**made):
    return ROOM.MultiHeadAttention(8, 2, **made)


def attended(**said):
    return layer(**said.pop("made", {}))(TOKENS, TOKENS, TOKENS, **said)


def placed(encoding, queries=range(3), keys=range(3), q=X, v=X, **weights):
    return attend(q, q, v, position=Placed(encoding, queries, keys, weights))


def added(encoding, x, **said):
    return ROOM.PositionalEncoding(4, encoding=encoding)(x, **said)


def biased(encoding, **said):
    return ROOM.AttentionBias(encoding)(np.ones((2, 3, 3)), **said)


CALLS = {
    # heads that do not divide
    "num_hiddens": (lambda: ROOM.MultiHeadAttention(10, 3), ValueError, "must be a multiple of `num_heads` 3, got 10."),
    "num_kv_heads": (
        lambda: ROOM.MultiHeadAttention(8, 4, num_kv_heads=3),
        ValueError,
        "`num_kv_heads` must divide `num_heads` 4, as 1, 2, 4 do, got 3.",
    ),
    "no heads": (lambda: layer(num_kv_heads=0), ValueError, "`num_kv_heads` must be at least 1, got 0."),
    "half heads": (lambda: layer(num_kv_heads=0.5), TypeError, "`num_kv_heads` must be an integer, got 0.5."),
    "heads of k": (
        lambda: attend(np.ones((1, 3, 3, 4)), X, X),
        ValueError,
        "`k` and `v` must have heads that divide the 3 of `q`, got 2.",
    ),
    "heads of a bias": (lambda: layer(position=Alibi(num_heads=3)), ValueError, "must have `num_heads` 2, got Alibi("),
    "heads of scores": (
        lambda: ROOM.AttentionBias(ALIBI)(np.ones((3, 3, 3))),
        ValueError,
        "`scores` must have 2 heads, got shape (3, 3, 3).",
    ),
    # buckets
    "one bucket": (lambda: T5Bias(num_heads=2, num_buckets=1), ValueError, "`num_buckets` must be at least 2, got 1."),
    "odd buckets": (lambda: T5Bias(num_heads=2, num_buckets=7), ValueError, "add one, or choose `sides='past'`."),
    "near buckets": (
        lambda: T5Bias(num_heads=2, max_distance=8),
        ValueError,
        "`max_distance` must be greater than 8, up to which each distance has one of the 32 buckets of its own, got 8.",
    ),
    # empty grids
    "no rows": (lambda: resize_table(TABLE, size=0), ValueError, "`size` must be at least 1, got 0."),
    "an empty grid": (lambda: resize_table(TABLE, size=(0, 3)), ValueError, "`size` must be at least 1, got 0."),
    "no grid": (lambda: resize_table(TABLE, size=()), ValueError, "`size` must have one or more axes, got ()."),
    "fewer rows than none": (lambda: resize_table(TABLE, size=-1), ValueError, "`size` must be at least 1, got -1."),
    "a written size": (lambda: resize_table(TABLE, size="3"), TypeError, "`size` must be an integer, got '3'."),
    "a bool for a size": (lambda: resize_table(TABLE, size=True), TypeError, "`size` must be an integer, got True."),
    "nothing but prefix": (
        lambda: resize_table(TABLE, size=2, prefix_tokens=6),
        ValueError,
        "`table` must have rows after `prefix_tokens` 6, got shape (6, 2).",
    ),
    "no square": (
        lambda: resize_table(TABLE, size=(2, 2)),
        ValueError,
        "`old_size` must have as many cells as `table`",
    ),
    "another square": (lambda: resize_table(TABLE, size=(2, 2), old_size=(2, 2)), ValueError, "6, got (2, 2)."),
    "whole numbers": (
        lambda: resize_table(TABLE.astype(int), size=2),
        TypeError,
        "`table` must be floating-point, got",
    ),
    "a list": (lambda: resize_table([[1.0]], size=2), TypeError, "`table` must be an array, got list."),
    "bicubic": (lambda: resize_table(TABLE, size=2, method="bicubic"), ValueError, "`method` must be one of 'anti"),
    "an empty window": (
        lambda: resize_bias_table(TABLE, window=(0, 2)),
        ValueError,
        "`window` must be at least 1, got 0.",
    ),
    "no window": (
        lambda: resize_bias_table(TABLE, window=(2, 2)),
        ValueError,
        "`old_window` must have as many relative",
    ),
    # what lies past a table
    "past a window": (
        lambda: attended(made={"position": WINDOW}),
        ValueError,
        "`query_positions` of SwinBias(num_heads=2, window=(1, 2)) must lie from 0 to 1, got 4.",
    ),
    "a cache past a window": (
        lambda: attended(made={"position": WINDOW}, start=2, cache=PAIR),
        ValueError,
        "`query_positions` of SwinBias(num_heads=2, window=(1, 2)) must lie from 0 to 1, got 2.",
    ),
    "a cache out of reach": (
        lambda: attended(made={"position": XPos(head_dim=4, layout="half", scale_base=0.02)}, start=2, cache=PAIR),
        ValueError,
        "`positions` of XPos(head_dim=4, layout='half', scale_base=0.02) end at 1, got 6.",
    ),
    "past a learned table": (
        lambda: added(Learned(dim=4, length=3, offset=2), np.ones((1, 4, 4), np.float32)),
        ValueError,
        "`positions` of Learned(dim=4, length=3, offset=2) end at 2, got 3.",
    ),
    "after a learned table": (
        lambda: added(Learned(dim=4, length=3), np.ones((1, 1, 4), np.float32), start=3),
        ValueError,
        "`positions` of Learned(dim=4, length=3) end at 2, got 3.",
    ),
    # caches
    "another start": (
        lambda: attended(start=3, cache=PAIR),
        ValueError,
        "must be the length of the `cache`, 2, got 3.",
    ),
    "no start": (lambda: attended(cache=PAIR), ValueError, "`start` must be the length of the `cache`, 2, got 0."),
    "a start for each row": (
        lambda: attended(start=[0, 0], cache=()),
        ValueError,
        "`start` must be one integer with a",
    ),
    "half a cache": (
        lambda: attended(start=2, cache=PAIR[:1]),
        TypeError,
        "`cache` must be a pair (keys, values), or ()",
    ),
    "a cache that is true": (lambda: attended(cache=True), TypeError, "or () to begin with, got bool."),
    "other heads in the cache": (
        lambda: attended(start=2, cache=(PAIR[0][:, :1],) * 2),
        ValueError,
        "`cache` must have shape (2, 2, 2, 4) to go before the new keys, got (2, 1, 2, 4).",
    ),
    "fewer values in the cache": (
        lambda: attended(start=2, cache=(PAIR[0], PAIR[0][:, :, :1])),
        ValueError,
        "`cache` must have shape (2, 2, 2, 4) to go before the new keys, got (2, 2, 1, 4).",
    ),
    # attention
    "a narrower k": (
        lambda: attend(X, NARROW, X),
        ValueError,
        "`k` must be as wide as `q`, got shapes (1, 2, 3, 2) and",
    ),
    "a shorter v": (
        lambda: attend(X, X, X[:, :, :2]),
        ValueError,
        "`v` must be as long as `k`, got shapes (1, 2, 2, 4)",
    ),
    "whole q": (
        lambda: attend(X.astype(int), X, X),
        TypeError,
        "`q` must be floating-point, got int64; cast it first.",
    ),
    "a whole mask": (
        lambda: attend(X, X, X, mask=np.ones((3, 3), int)),
        TypeError,
        "`mask` must be bool, True where a",
    ),
    "a mask of numbers": (
        lambda: attention_weights(X, X, mask=np.ones((3, 3))),
        TypeError,
        "`mask` must be bool, True where a query sees a key, got float64.",
    ),
    "a longer mask": (
        lambda: attend(X, X, X, mask=np.ones((4, 3), bool)),
        ValueError,
        "`mask` must broadcast to shape (1, 2, 3, 3), got (4, 3).",
    ),
    "a larger bias": (
        lambda: attend(X, X, X, bias=np.ones((2, 2, 3, 3))),
        ValueError,
        "`bias` must broadcast to shape (1, 2, 3, 3), got (2, 2, 3, 3).",
    ),
    "positions of queries alone": (
        lambda: attended(positions=np.arange(5)),
        ValueError,
        "`key_positions` must be given with `positions`",
    ),
    "positions of fewer": (
        lambda: attended(positions=np.arange(4), key_positions=np.arange(5)),
        ValueError,
        "`positions` must have shape (5,) or (1, 5) or (2, 5) to fit the tokens, got (4,).",
    ),
    "another head_dim": (
        lambda: layer(position=ShawBias(num_heads=2, head_dim=3, max_distance=2)),
        ValueError,
        "`position` must have `head_dim` 4, num_hiddens / num_heads, got ShawBias(",
    ),
    "a whole grid's head_dim": (
        lambda: layer(position=AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4))),
        ValueError,
        "`position` must have `head_dim` 4, num_hiddens / num_heads, got AxialRotary(",
    ),
    "what is added": (lambda: layer(position=GRID), TypeError, "PositionalEncoding adds the others to tokens."),
    # encodings with their positions
    "placed, what is added": (lambda: placed(Sinusoidal(dim=4)), TypeError, "`encoding` must be a rotary or scoring"),
    "placed, nothing": (lambda: placed(None), TypeError, "`encoding` must be a rotary or scoring encoding, got None."),
    "placed, nothing learned": (lambda: placed(T5), ValueError, "learns, got none called 'table'."),
    "placed nowhere": (lambda: placed(ALIBI, [0, 1, np.nan]), ValueError, "`positions` must be finite and below 2**31"),
    "placed by words": (
        lambda: placed(ALIBI, "abc"),
        TypeError,
        "`positions` must be integers or real numbers, got <U3",
    ),
    "placed between offsets": (
        lambda: placed(SHAW, np.array([0.5, 1, 2]), key_table=np.ones((5, 4)), value_table=np.ones((5, 4))),
        TypeError,
        "`query_positions` must be integers where offsets are looked up, got float64.",
    ),
    "bias of what is learned": (lambda: T5.bias([0], [0]), TypeError, "depends on what is learned; ask a layer that"),
    "no content": (lambda: biased(SHAW), TypeError, "`q` and `k` must be given to ShawBias("),
    "content for positions": (
        lambda: biased(ALIBI, q=X[0], k=X[0]),
        TypeError,
        "`q` and `k` must be left out for Alibi(",
    ),
    "narrow content": (
        lambda: biased(SHAW, q=NARROW[0], k=NARROW[0]),
        ValueError,
        "`q` must be 4 wide, got shape (2, 3, 2).",
    ),
    "short content": (
        lambda: biased(SHAW, q=X[0, :, :2], k=X[0]),
        ValueError,
        "`q` must broadcast to shape (2, 3, 4), got (2, 2, 4).",
    ),
    # rows
    "a grid without positions": (
        lambda: added(GRID, np.ones((1, 4, 4), np.float32)),
        ValueError,
        "`positions` must be given to GridSinusoidal(dim=4, convention='mae'): (2, length), as `grid` makes them.",
    ),
    "three axes of two": (
        lambda: GRID.table(np.zeros((3, 5), int)),
        ValueError,
        "must have shape (2, ..., length), got",
    ),
    "one axis of two": (lambda: MIXED.table([0.0]), ValueError, "must have shape (2, ..., length), got (1,)."),
    "far cells": (lambda: GRID.table(np.full((2, 5), 2**31)), ValueError, "below 2**31 in size, got 2147483648."),
    "no time": (lambda: Timestep(dim=4).table([np.nan]), ValueError, "`positions` must be finite and below 2**31"),
    "a word": (
        lambda: FourierFeatures(dim=4).table("abc"),
        TypeError,
        "`positions` must be integers or real numbers, got",
    ),
    "truth": (lambda: LearnedSinusoidal(dim=4).table([True]), TypeError, "integers or real numbers, got bool."),
    "one number": (
        lambda: Sinusoidal(dim=4).table(3),
        ValueError,
        "`positions` must have shape (..., length), got the",
    ),
    "sequences out of place": (lambda: sequence_ids([1, 2]), ValueError, "`cu_seqlens` must start with 0"),
    "half sequences": (
        lambda: sequence_ids([0.0, 2.0]),
        TypeError,
        "`cu_seqlens` must be a list or a NumPy array of int",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), CALLS.values(), ids=CALLS)
def test_a_wrong_call_says_how_to_mend_it(call, kind, message):
    with pytest.raises(kind, match=re.escape(message)) as told:
        call()
    assert "\n" not in str(told.value)


REFUSED = {
    "fewer positions than queries": lambda: placed(ALIBI, range(1)),
    "fewer positions than rotated queries": lambda: placed(ROTARY, range(1)),
    "fewer positions than keys": lambda: placed(ALIBI, range(3), range(2)),
    "nowhere, by an array": lambda: placed(ALIBI, np.array([0, 1, np.nan])),
    "truth for positions": lambda: placed(ALIBI, np.array([True, False, True])),
    "outside of the window": lambda: placed(WINDOW, table=np.ones((3, 2))),
    "more heads than the encoding has": lambda: placed(Alibi(num_heads=3)),
    "wider than the head": lambda: placed(ROTARY, q=np.ones((1, 2, 3, 6))),
    "another head_dim": lambda: placed(
        ShawBias(num_heads=2, head_dim=2, max_distance=1, applies_to="keys"), key_table=np.ones((3, 2))
    ),
    "values that no row can be added to": lambda: placed(
        SHAW, v=NARROW, key_table=np.ones((5, 4)), value_table=np.ones((5, 4))
    ),
    "a learned table of another shape": lambda: placed(T5, table=np.ones((3, 2))),
    "an encoding without positions": lambda: attend(X, X, X, position=ROTARY),
    "queries without heads": lambda: attend(X[0, 0], X[0, 0], X[0, 0], position=Placed(ALIBI, range(3), range(3))),
    "positions of another batch": lambda: placed(ALIBI, np.zeros((2, 3), int)),
    "positions on two axes": lambda: placed(ALIBI, np.zeros((2, 1, 3), int)),
    "real tokens of a window": lambda: placed(
        SwinBias(num_heads=2, window=(1, 3)), [0.5, 1.0, 2.0], table=np.ones((5, 2))
    ),
    "real offsets": lambda: placed(T5, [0.5, 1.0, 2.0], table=np.ones((32, 2))),
    "frequencies that are one number": lambda: Rotary(head_dim=4, layout="half", frequencies=5),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_a_wrong_call_is_refused(call):
    with pytest.raises((TypeError, ValueError), match=r"`.*got .*"):
        call()
