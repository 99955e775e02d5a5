"""How many axes each argument has: one fewer than the least and one more than the most are refused by its name."""

import re
from decimal import Decimal

import numpy as np
import pytest

import posenc_core as p
from posenc_backends.numpy import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core.attention.bias import distances
from posenc_core.attention.forgetting_gates import decay_bias, sum_of_visible, sums_to_last
from posenc_core.tables.angles import angles
from posenc_core.tables.multi_axis import cos_sin_of_sums
from posenc_core.tables.sincos import write_cos_sin
from posenc_core.transformer.checks import check, check_keys_values
from posenc_core.transformer.tasks import copy

from ..errors import rejects

SIZE, MOST = 4, 6  # of every axis, and axes
INF = float("inf")
TOKENS = np.ones((SIZE,) * 3, np.float32)
ROTARY = p.Rotary(head_dim=SIZE, layout="half")
TWO_AXES = p.AxialRotary(head_dim=SIZE, layout="half", axes_dims=(2, 2))
AXES = p.MultimodalRotary(head_dim=SIZE, layout="half", sections=(1, 1, 0))
REMAPPED = p.ReRoPE(rotary=ROTARY, window=2)
ALIBI = p.Alibi(num_heads=SIZE)
LOGITS = p.RelativeLogits(num_heads=SIZE, head_dim=SIZE, max_distance=2, num_curves=1)
POLAR = p.PoPE(head_dim=SIZE, num_heads=SIZE)


def placed(encoding, **options):
    return p.Placed(encoding, range(SIZE), range(SIZE), **options)


def cached(cache):
    return MultiHeadAttention(SIZE * SIZE, SIZE)(
        *[np.ones((SIZE, 1, SIZE * SIZE), np.float32)] * 3, start=SIZE, cache=cache
    )


def attended(*tokens):
    return MultiHeadAttention(SIZE, 1)(*tokens)


def added(rows):
    return p.combine(TOKENS, rows, how="add")


CALLS = {
    "attend q": (lambda x: p.attend(x, TOKENS, TOKENS), 2, INF),
    "attend k": (lambda x: p.attend(TOKENS, x, x), 2, INF),
    "attend v": (lambda x: p.attend(TOKENS, TOKENS, x), 2, INF),
    "attend q of scores": (lambda x: p.attend(x, x, x, position=placed(ALIBI)), 3, 4),
    "attend q of phases": (lambda x: p.attend(x, x, x, position=placed(POLAR, weights={"phase": TOKENS[0]})), 3, INF),
    "attend_by_block q": (lambda x: p.attend_by_block(x, TOKENS, TOKENS), 2, INF),
    "causal query_positions": (lambda x: p.causal(x, np.arange(SIZE)), 1, INF),
    "causal key_positions": (lambda x: p.causal(np.arange(SIZE), x), 1, INF),
    "same_sequence query_ids": (lambda x: p.same_sequence(x, np.arange(SIZE)), 1, INF),
    "valid_lengths key_positions": (lambda x: p.valid_lengths(np.arange(SIZE), x), 1, INF),
    "padding tokens": (lambda x: p.padding(x.astype(int), 0), 1, INF),
    "from_mask mask": (lambda x: p.from_mask(x > 0), 1, 2),
    "distances query_positions": (lambda x: distances(x, np.arange(SIZE)), 1, 2),
    "distances key_positions": (lambda x: distances(np.arange(SIZE), x), 1, 2),
    "sums_to_last x": (sums_to_last, 1, INF),
    "decay_bias log_gates": (lambda x: decay_bias(x, np.ones((SIZE,) * 2)), 1, INF),
    "decay_bias scores": (lambda x: decay_bias(np.ones(SIZE), x), 2, INF),
    "sum_of_visible scores": (lambda x: sum_of_visible(np.ones(SIZE), x), 2, INF),
    "remapped query_positions": (lambda x: REMAPPED.distances(x.astype(int), range(SIZE)), 1, 1),
    "remapped key_positions": (lambda x: REMAPPED.distances(range(SIZE), x.astype(int)), 1, 1),
    "PoPE k": (POLAR.check_keys, 3, INF),
    "LearnedQueryScale q": (p.LearnedQueryScale(num_heads=SIZE).check_queries, 3, INF),
    "combine x": (lambda x: p.combine(x, np.ones((SIZE, SIZE)), how="add"), 2, INF),
    "combine rows": (added, 2, 3),
    "PositionalEncoding x": (PositionalEncoding(SIZE), 2, INF),
    "RotaryEmbedding x": (RotaryEmbedding(ROTARY), 2, INF),
    "RotaryEmbedding.cos_sin positions": (lambda x: RotaryEmbedding(ROTARY).cos_sin(x.astype(int)), 1, 2),
    "RotaryEmbedding.cos_sin positions of axes": (
        lambda x: RotaryEmbedding(AXES).cos_sin(x[:3].astype(int) if x.ndim else x),
        1,
        3,
    ),
    "RotaryEmbedding.cos_sin positions of two axes": (
        lambda x: RotaryEmbedding(TWO_AXES).cos_sin(x[:2].astype(int) if x.ndim else x),
        1,
        3,
    ),
    "AttentionBias scores": (AttentionBias(ALIBI), 3, 4),
    "AttentionBias attention": (lambda x: AttentionBias(ALIBI).values(x), 3, 4),
    "AttentionBias q": (lambda x: AttentionBias(LOGITS)(np.ones((SIZE,) * 4, np.float32), q=x, k=x), 3, 4),
    "MultiHeadAttention queries": (lambda x: attended(x, TOKENS, TOKENS), 3, 3),
    "MultiHeadAttention keys": (lambda x: attended(TOKENS, x, TOKENS), 3, 3),
    "MultiHeadAttention values": (lambda x: attended(TOKENS, TOKENS, x), 3, 3),
    "MultiHeadAttention cache": (lambda x: cached((x, x)), 4, 4),
    "relayout weight": (lambda x: p.relayout(x, head_dim=SIZE), 1, INF),
    "rerotate keys": (lambda x: p.rerotate(x, p.sequence(SIZE), p.sequence(SIZE), rotary=ROTARY), 2, INF),
    "resize_table table": (lambda x: p.resize_table(x, size=3), 2, INF),
    "Transformer tokens": (lambda x: check(tokens=x.astype(int)), 2, 2),
    "Transformer x": (lambda x: check(x=x), 3, 3),
    "Transformer cache": (lambda x: check_keys_values("cache", (x, x)), 4, 4),
    "Task.text tokens": (lambda x: copy().text(x.astype(int)), 1, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_has_as_many_axes_as_it_says(name):
    function, least, most = CALLS[name]
    for axes in range(least, min(most, MOST) + 1):
        if most < INF or axes == least:
            function(np.ones((SIZE,) * axes, np.float32))
    for axes in range(MOST + 1):
        refused = number_is_refused(function, np.ones((SIZE,) * axes, np.float32))
        assert refused is not (least <= axes <= most), f"{axes} axes"


def number_is_refused(function, x):
    """Return whether an error says that an array has a wrong number of axes; other errors do not count."""
    try:
        function(x)
    except (TypeError, ValueError) as error:
        return bool(re.search(rf"must have shape \(.*, got ({x.ndim} axes: |the single number)", str(error)))
    return False


def written(positions=(2,), cos=(2, 2), sin=(2, 2)):
    tables = {"cos": np.empty(cos, np.float32), "sin": np.empty(sin, np.float32)}
    write_cos_sin(np.zeros(positions, np.int64), (Decimal(1), Decimal(0)), **tables)


def summed(turns):
    return cos_sin_of_sums(np.ones((2, 3)), np.ones(turns))


def multiplied(frequencies):
    return angles(np.ones(3), np.ones(frequencies))


@pytest.mark.parametrize(
    ("function", "name", "rank"),
    [
        (written, "positions", 1), (written, "cos", 2), (written, "sin", 2), (summed, "turns", 2),
        (multiplied, "frequencies", 1),
    ],
)  # fmt: skip
def test_functions_of_tables_take_one_number_of_axes(function, name, rank):
    function(**{name: (2,) * rank})
    for other in (rank - 1, rank + 1):
        with rejects(ValueError, name):
            function(**{name: (2,) * other})
