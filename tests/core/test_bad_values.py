"""Every field of every encoding and scaling rejects wrong values by an error that names the field and the value."""

import math
from dataclasses import fields
from inspect import signature

import numpy as np
import pytest

from posenc_core import encodings as e
from posenc_core import scaling as s
from posenc_core.encodings.examples import example
from posenc_core.transformer.config import Transformer

from ..catalogue import ENCODINGS, VALUES
from ..errors import names, rejects

COUNT = (0, -1, 1.5, "3", None, True, math.nan, np.float64(2), [2], 2j)
MAYBE_COUNT = tuple(wrong for wrong in COUNT if wrong is not None)
SIZE = (-1, 0.5, "0", None, False, math.inf, (1, 2))
MAYBE_SIZE = tuple(wrong for wrong in SIZE if wrong is not None)
FINITE = (math.nan, math.inf, -math.inf, "1", None, True, 1j, [1.0])
POSITIVE = (*FINITE, 0, -0.5)
NOT_NEGATIVE = (*FINITE, -1e-9)
ABOVE_1 = (*FINITE, 1, 1.0, 0, -10000)
AT_LEAST_1 = (*FINITE, 0.999, 0, -4)
MAYBE_POSITIVE = tuple(wrong for wrong in POSITIVE if wrong is not None)
MAYBE_NOT_NEGATIVE = tuple(wrong for wrong in NOT_NEGATIVE if wrong is not None)
WORD = ("", "Half", "unknown", 3, None, True, ("half",), b"half", {"a": 1})
EVEN = (*COUNT, 3)
MAYBE_EVEN = tuple(wrong for wrong in EVEN if wrong is not None)
LENGTH = (*COUNT, 1)
NUMBERS = (None, 1.0, "1", (1.0, math.nan), (1.0, -1.0), (1.0, "x"), (1.0,), (1.0, 1.0, 1.0))
CELLS = (None, 7, "77", (7,), (7, 7, 7), (0, 7), (7, -1), (7, 1.5), (7, True), (7, math.nan))
FLAG = (None, 0, 1, "yes", 1.0)
NUMBERS_OF = {"int": (int,), "float": (int, float), "bool": (), "int | None": (int, type(None))}
NUMBERS_OF["float | None"] = (int, float, type(None))

ROTARY = {"layout": WORD, "placement": WORD, "direction": WORD, "precision": WORD}
HEAD = {"head_dim": COUNT}
RATIO = {"original_max_position_embeddings": LENGTH, "factor": AT_LEAST_1}

BASES = {"base": ABOVE_1, "scaling": ("linear", 2.0, {"factor": 2}), "rotary_dim": MAYBE_EVEN, "max_len": MAYBE_COUNT}
ROTATING = HEAD | ROTARY | BASES | {"frequencies": ((1.0,), (1.0, -1.0), (1.0, math.nan), (1.0, "x"), "ab")}
REMAPPED = e.Rotary(head_dim=4, layout="half")
NO_ROTARY = (None, 4, "Rotary", {"kind": "Rotary"}, e.Alibi(num_heads=4), e.Rotary)

SWEEP = [
    (e.Normalized, {"dim": 4, "length": 4}, {"dim": COUNT, "length": COUNT}),
    (e.Binary, {"dim": 4}, {"dim": COUNT, "start": (*SIZE, 16), "bit_order": WORD}),
    (e.Sine, {"dim": 2, "frequencies": (1.0, 0.5)}, {"dim": COUNT, "frequencies": (*NUMBERS, "half")}),
    (e.Sine, {"dim": 2, "frequencies": "endpoint"}, {"base": tuple(x for x in ABOVE_1 if x is not None)}),
    (e.Sinusoidal, {"dim": 4}, {"dim": COUNT, "base": ABOVE_1, "convention": WORD}),
    (e.Sinusoidal, {"dim": 4, "convention": "timestep"}, {"dim": LENGTH}),
    (
        e.Timestep,
        {"dim": 6},
        {"dim": LENGTH, "base": ABOVE_1, "order": WORD, "shift": (*FINITE, 3, 3.0, 4), "scale": (*POSITIVE, 2**31)},
    ),
    (
        e.GridSinusoidal,
        {"dim": 8, "convention": "timm"},
        {"dim": (*COUNT, 6), "convention": WORD, "num_axes": (*COUNT, 1, 3), "base": ABOVE_1},
    ),
    (e.FourierFeatures, {"dim": 8}, {"dim": (*EVEN, 130), "num_axes": COUNT, "convention": WORD}),
    (
        e.RandomFourierFeatures,
        {"dim": 8, "scale": 1.0, "seed": 0},
        {"dim": EVEN, "num_axes": COUNT, "order": WORD}
        | {"scale": (*MAYBE_POSITIVE, 2.0**31), "seed": (*MAYBE_SIZE, 2**32)},
    ),
    (
        e.RandomFourierFeatures,
        {"dim": 4, "mixture": ((0.5,), (1.5,))},
        {"scale": (1.0,), "seed": (0,), "mixture": (((0.5,), (math.nan,)), ((0.5,), (2.0**31,)))},
    ),
    (e.Rotary, {"head_dim": 4, "layout": "half"}, ROTATING),
    (
        e.XPos,
        {"head_dim": 4, "layout": "half"},
        ROTATING | {"scale_base": POSITIVE, "center": (*FINITE, 1e9), "precision": (*WORD, "float32")},
    ),
    (
        e.LearnedRotary,
        {"head_dim": 4, "layout": "half"},
        ROTATING | {"std": NOT_NEGATIVE, "precision": (*WORD, "float32")},
    ),
    (
        e.FoPE,
        {"head_dim": 8, "layout": "half", "num_terms": 3},
        {
            "head_dim": EVEN,
            "base": ABOVE_1,
            "num_terms": (*COUNT, 5),
            "num_heads": (*MAYBE_COUNT, 2**16 + 1),
            "floor_sine": (*SIZE, 2),
            "std": NOT_NEGATIVE,
        }
        | ROTARY,
    ),
    (e.FoPE, {"head_dim": 8, "layout": "half", "length": 9}, {"length": (*COUNT, 6, 2**32)}),
    (
        e.MixedRotary,
        {"head_dim": 8, "layout": "half", "num_heads": 2},
        HEAD
        | ROTARY
        | {
            "head_dim": (*COUNT, 6),
            "num_heads": (*COUNT, 2**16 + 1),
            "num_axes": (*COUNT, 1, 4),
            "base": ABOVE_1,
            "rotary_dim": (*MAYBE_COUNT, 6, 12),
            "precision": (*WORD, "float32"),
        },
    ),
    (
        e.MultimodalRotary,
        {"head_dim": 4, "layout": "half", "sections": (1, 1, 0)},
        ROTATING | {"sections": (None, 2, (1, 1, 1), (3, -1, 0), (2.0, 0, 0), (True, 1, 0)), "arrangement": WORD},
    ),
    (
        e.AxialRotary,
        {"head_dim": 8, "layout": "half", "axes_dims": (4, 4)},
        HEAD
        | ROTARY
        | {
            "axes_dims": (None, 4, (), (8, 8), (4, 3), (4, 0), (4, 4.0), (4, "4"), (True, 2)),
            "base": (*(x for x in ABOVE_1 if x != [1.0]), (100,), (100, 1), (100, math.nan)),
            "arrangement": WORD,
            "series": WORD,
            "unit": WORD,
            "scaling": ("linear", 2.0, {"factor": 2}, (), (s.Linear(factor=2),)),
        },
    ),
    (
        e.SelfExtend,
        {"rotary": REMAPPED, "window": 4, "group_size": 2},
        {"rotary": NO_ROTARY, "window": (*COUNT, 2**31), "group_size": (*COUNT, 2**31)},
    ),
    (e.ReRoPE, {"rotary": REMAPPED, "window": 4}, {"rotary": NO_ROTARY, "window": (*COUNT, 2**31)}),
    (
        e.LeakyReRoPE,
        {"rotary": REMAPPED, "window": 4, "factor": 2.0},
        {"rotary": NO_ROTARY, "window": (*COUNT, 2**31), "factor": (*AT_LEAST_1, 2.0**17)},
    ),
    (
        e.DualChunk,
        {"rotary": REMAPPED, "chunk_size": 8, "local_size": 2},
        {"rotary": NO_ROTARY, "chunk_size": (*COUNT, 2, 2**31), "local_size": (*COUNT, 8)},
    ),
    (
        e.QueryScale,
        {"length": 4, "scale": 0.25},
        {
            "length": COUNT,
            "scale": (*(x for x in POSITIVE if x is not None), 2.0**17),
            "growth": WORD,
            "start": (*SIZE, 2),
        },
    ),
    (
        e.T5Bias,
        {"num_heads": 4},
        {
            "num_heads": COUNT,
            "num_buckets": (*LENGTH, 31),
            "max_distance": (*COUNT, 8),
            "sides": WORD,
            "std": NOT_NEGATIVE,
        },
    ),
    (
        e.Sandwich,
        {"num_heads": 4, "max_distance": 9},
        {"num_heads": COUNT, "max_distance": COUNT, "dim": EVEN, "base": ABOVE_1},
    ),
    (
        e.SwinBias,
        {"num_heads": 4, "window": (7, 7)},
        {"num_heads": COUNT, "window": CELLS, "prefix_tokens": (*SIZE, 2), "std": NOT_NEGATIVE},
    ),
    (
        e.TransformerXLBias,
        {"num_heads": 4, "head_dim": 8, "max_distance": 4},
        {"num_heads": COUNT, "head_dim": COUNT, "max_distance": COUNT, "dim": MAYBE_EVEN, "std": NOT_NEGATIVE},
    ),
    (
        e.SwinV2Bias,
        {"num_heads": 4, "window": (7, 7)},
        {
            "num_heads": COUNT,
            "window": CELLS,
            "trained_window": tuple(wrong for wrong in CELLS if wrong is not None),
            "hidden": COUNT,
            "std": NOT_NEGATIVE,
        },
    ),
    (
        e.DecomposedBias,
        {"num_heads": 4, "head_dim": 8, "window": (7, 7)},
        {
            "num_heads": COUNT,
            "head_dim": COUNT,
            "window": CELLS,
            "key_window": (*(wrong for wrong in CELLS if wrong is not None), (5, 7)),
            "prefix_tokens": (*SIZE, 2),
            "std": NOT_NEGATIVE,
        },
    ),
    (
        e.DebertaBias,
        {"num_heads": 4, "head_dim": 8, "max_distance": 9},
        {
            "num_heads": COUNT,
            "head_dim": COUNT,
            "max_distance": COUNT,
            "num_buckets": (*MAYBE_EVEN, 2, 10),
            "terms": WORD,
            "std": NOT_NEGATIVE,
        },
    ),
    (s.AttentionFactor, {"attention_factor": 1.5}, {"attention_factor": POSITIVE}),
    (s.Linear, {"factor": 2}, {"factor": AT_LEAST_1}),
    (s.NTK, {"factor": 2}, {"factor": AT_LEAST_1}),
    (s.NTKAlpha, {"alpha": 2}, {"alpha": AT_LEAST_1}),
    (s.DynamicNTK, {"factor": 2, "original_max_position_embeddings": 8}, RATIO | {"seq_len": MAYBE_COUNT}),
    (
        s.YaRN,
        {"factor": 2, "original_max_position_embeddings": 8},
        RATIO
        | {"beta_fast": (*POSITIVE, 0.5), "beta_slow": (*POSITIVE, 64), "truncate": FLAG}
        | {"mscale": MAYBE_NOT_NEGATIVE, "mscale_all_dim": MAYBE_NOT_NEGATIVE, "attention_factor": MAYBE_POSITIVE},
    ),
    (
        s.Llama3,
        {"factor": 2, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8},
        RATIO | {"low_freq_factor": POSITIVE, "high_freq_factor": (*POSITIVE, 0.5)},
    ),
    (
        s.LongRoPE,
        {"short_factor": (1.0,), "long_factor": (2.0,), "original_max_position_embeddings": 8, "factor": 2},
        {
            "short_factor": (None, 1.0, (0.0,), (math.nan,), ("x",), (True,)),
            "long_factor": (None, 1.0, (-1.0,), (math.inf,), ("x",)),
            "original_max_position_embeddings": LENGTH,
            "factor": AT_LEAST_1,
            "attention_factor": MAYBE_POSITIVE,
            "short_mscale": MAYBE_POSITIVE,
            "long_mscale": MAYBE_POSITIVE,
            "seq_len": MAYBE_COUNT,
        },
    ),
    (s.RIFLEx, {"k": 2, "length": 8}, {"k": COUNT, "length": COUNT, "fraction": POSITIVE}),
    (s.DyPE, {"factor": 2, "original_max_position_embeddings": 8}, RATIO | {"kappa": NOT_NEGATIVE}),
    (s.Proportional, {"partial_rotary_factor": 0.5}, {"partial_rotary_factor": (*POSITIVE, 1.5), "factor": AT_LEAST_1}),
    (
        Transformer,
        {"vocabulary": 8, "max_len": 8},
        dict.fromkeys(("vocabulary", "max_len", "num_hiddens", "ffn_hiddens", "num_heads", "num_blocks"), COUNT)
        | {"position": ("rotary", 3, e.Sinusoidal(dim=3), e.Alibi(num_heads=3))},
    ),
]
FIELDS = {
    "applies_to": WORD,
    "base": ABOVE_1,
    "convention": (*WORD, "column_index"),
    "depth": COUNT,
    "dim": COUNT,
    "gate_bias": FINITE,
    "head_dim": COUNT,
    "hidden": COUNT,
    "length": COUNT,
    "log_distance": FLAG,
    "max_bias": POSITIVE,
    "max_distance": COUNT,
    "max_position": COUNT,
    "num_curves": COUNT,
    "num_heads": COUNT,
    "offset": SIZE,
    "rate": POSITIVE,
    "sides": WORD,
    "per_head": FLAG,
    "scaled": FLAG,
    "slopes": (*WORD, (1.0,), (1.0, -1.0), (1.0, math.nan), (1.0, 2.0**127)),
    "std": NOT_NEGATIVE,
    "threshold": POSITIVE,
    "variant": WORD,
}
for each in ENCODINGS.values():
    if each not in [kind for kind, _, _ in SWEEP]:
        fields_of_each = signature(each).parameters
        usual = {name: getattr(example(each.__name__), name) for name in fields_of_each}
        SWEEP.append((each, usual, {name: FIELDS[name] for name in fields_of_each}))
WRONG = [
    pytest.param(kind, valid, name, values, id=f"{kind.__name__}-{name}")
    for kind, valid, sweep in SWEEP
    for name, values in sweep.items()
]


@pytest.mark.parametrize(("kind", "valid", "name", "values"), WRONG)
def test_wrong_values_are_named(kind, valid, name, values):
    for wrong in values:
        with rejects(error_of(kind(**valid), name, wrong), name) as raised:
            kind(**valid | {name: wrong})
        message = str(raised.value)
        assert any(names(message, written) for written in possible(wrong)), (wrong, message)


def error_of(encoding, name, wrong):
    """Return the error for a word, and for a number of the type of the field or of another; both for other fields."""
    declared = next((field.type for field in fields(encoding) if field.name == name), "")
    if declared in NUMBERS_OF:
        return ValueError if type(wrong) in NUMBERS_OF[declared] else TypeError
    return ValueError if isinstance(getattr(encoding, name, None), str) else (TypeError, ValueError)


def possible(wrong):
    """Yield how an error may write a wrong value: whole, as a plain number or tuple, or by the wrong item or length."""
    yield wrong
    if wrong is None:
        yield "must be given"
    if isinstance(wrong, np.float64):
        yield float(wrong)
    if isinstance(wrong, list | tuple):
        yield tuple(wrong)
        yield len(wrong)
        yield from wrong


def test_every_field_of_every_kind_is_tried():
    tried = {}
    for kind, _, sweep in SWEEP:
        tried.setdefault(kind, set()).update(sweep)
    assert {*VALUES.values()} <= tried.keys()
    for kind in VALUES.values():
        assert {field.name for field in fields(kind) if field.init} <= tried[kind], kind
