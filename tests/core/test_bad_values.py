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
SIZE = (-1, 0.5, "0", None, False, math.inf, (1, 2))
FINITE = (math.nan, math.inf, -math.inf, "1", None, True, 1j, [1.0])
POSITIVE = (*FINITE, 0, -0.5)
ABOVE_1 = (*(wrong for wrong in FINITE if wrong is not None), 1, 1.0, 0, -10000)
NOT_NEGATIVE = (*FINITE, -1e-9)
WORD = ("", "Half", "unknown", 3, None, True, ("half",), b"half", {"a": 1})
FLAG = (None, 0, 1, "yes", 1.0)
CELLS = (None, 7, "77", (7,), (7, 7, 7), (0, 7), (7, -1), (7, 1.5), (7, True), (7, math.nan))
NUMBERS_OF = {"int": (int,), "float": (int, float), "bool": (), "int | None": (int, type(None))}
NUMBERS_OF["float | None"] = (int, float, type(None))

BY_KIND = [  # wrong values, and the fields that have them; None is right where a field may be None
    (COUNT, """
        chunk_size depth dim ffn_hiddens group_size head_dim hidden k length local_size max_distance max_len
        max_position num_axes num_blocks num_buckets num_curves num_heads num_hiddens num_terms seq_len vocabulary
        window:int
    """),
    ((*COUNT, 3), "rotary_dim"),
    ((*COUNT, 1), "original_max_position_embeddings"),
    (SIZE, "floor_sine offset prefix_tokens seed start"),
    (FINITE, "center gate_bias shift"),
    (POSITIVE, """
        attention_factor beta_fast beta_slow fraction high_freq_factor long_mscale low_freq_factor max_bias
        partial_rotary_factor rate scale scale_base short_mscale threshold
    """),
    (NOT_NEGATIVE, "kappa mscale mscale_all_dim std"),
    ((*ABOVE_1, None), "base"),
    ((*FINITE, 0.999, 0, -4), "alpha factor"),
    (WORD, """
        applies_to arrangement bit_order convention direction growth layout order placement precision series sides
        slopes terms unit variant
    """),
    (FLAG, "log_distance per_head scaled truncate"),
    (CELLS, "key_window trained_window window"),
    (((1.0,), (1.0, -1.0), (1.0, math.nan), (1.0, "x"), "ab"), "frequencies"),
    (("linear", 2.0, {"factor": 2}), "scaling"),
    ((None, 4, "Rotary", {"kind": "Rotary"}, e.Alibi(num_heads=4), e.Rotary), "rotary"),
    ((None, 2, (1, 1, 1), (3, -1, 0), (2.0, 0, 0), (True, 1, 0)), "sections"),
    ((None, 4, (), (8, 8), (4, 3), (4, 0), (4, 4.0), (4, "4"), (True, 2)), "axes_dims"),
    ((None, 1.0, (-1.0,), (math.inf,), (0.0,), (math.nan,), ("x",), (True,)), "short_factor long_factor"),
    ((((0.5,), (math.nan,)), ((0.5,), (2.0**31,))), "mixture"),
    (("rotary", 3, e.Sinusoidal(dim=3), e.Alibi(num_heads=3)), "position"),
]  # fmt: skip
FIELDS = {name: values for values, names in BY_KIND for name in names.split()}
HEAD, RATIO = {"head_dim": 4, "layout": "half"}, {"factor": 2, "original_max_position_embeddings": 8}
REMAPPED = {"rotary": e.Rotary(head_dim=4, layout="half")}
CASES = [  # fields that are right, and more wrong values of some
    (e.Normalized, {"dim": 4, "length": 4}, {}),
    (e.Binary, {"dim": 4}, {"start": (16,)}),
    (e.Sine, {"dim": 2, "frequencies": (1.0, 0.5)}, {"frequencies": (None, 1.0, "1", (1.0, 1.0, 1.0), "half")}),
    (e.Sinusoidal, {"dim": 4}, {}),
    (e.Timestep, {"dim": 6}, {"dim": (1,), "shift": (3, 3.0, 4), "scale": (2**31,)}),
    (e.GridSinusoidal, {"dim": 8, "convention": "timm"}, {"dim": (6,), "num_axes": (1, 3)}),
    (e.FourierFeatures, {"dim": 8}, {"dim": (3, 130)}),
    (
        e.RandomFourierFeatures, {"dim": 8, "scale": 1.0, "seed": 0},
        {"dim": (3,), "scale": (2.0**31,), "seed": (2**32,)},
    ),
    (e.Rotary, HEAD, {}),
    (e.XPos, HEAD, {"center": (1e9,), "precision": ("float32",)}),
    (e.LearnedRotary, HEAD, {"precision": ("float32",)}),
    (
        e.FoPE, {"head_dim": 8, "layout": "half", "num_terms": 3},
        {"head_dim": (3,), "num_terms": (5, None), "num_heads": (2**16 + 1,), "floor_sine": (2,)},
    ),
    (
        e.MixedRotary, {"head_dim": 8, "layout": "half", "num_heads": 2},
        {
            "head_dim": (6,), "num_heads": (2**16 + 1,), "num_axes": (1, 4), "rotary_dim": (6, 12),
            "precision": ("float32",),
        },
    ),
    (e.MultimodalRotary, HEAD | {"sections": (1, 1, 0)}, {}),
    (
        e.AxialRotary, {"head_dim": 8, "layout": "half", "axes_dims": (4, 4)},
        {"base": ((100,), (100, 1), (100, math.nan)), "scaling": ((), (s.Linear(factor=2),))},
    ),
    (e.SelfExtend, REMAPPED | {"window": 4, "group_size": 2}, {"window": (2**31,), "group_size": (2**31,)}),
    (e.ReRoPE, REMAPPED | {"window": 4}, {"window": (2**31,)}),
    (e.LeakyReRoPE, REMAPPED | {"window": 4, "factor": 2.0}, {"window": (2**31,), "factor": (2.0**17,)}),
    (e.DualChunk, REMAPPED | {"chunk_size": 8, "local_size": 2}, {"chunk_size": (2, 2**31), "local_size": (8,)}),
    (e.QueryScale, {"length": 4, "scale": 0.25}, {"scale": (2.0**17,), "start": (2,)}),
    (e.T5Bias, {"num_heads": 4}, {"num_buckets": (1, 31), "max_distance": (8,)}),
    (e.Sandwich, {"num_heads": 4, "max_distance": 9}, {"dim": (3,)}),
    (e.SwinBias, {"num_heads": 4, "window": (7, 7)}, {"prefix_tokens": (2,)}),
    (e.TransformerXLBias, {"num_heads": 4, "head_dim": 8, "max_distance": 4}, {"dim": (3,)}),
    (e.SwinV2Bias, {"num_heads": 4, "window": (7, 7)}, {}),
    (
        e.DecomposedBias, {"num_heads": 4, "head_dim": 8, "window": (7, 7)},
        {"key_window": ((5, 7),), "prefix_tokens": (2,)},
    ),
    (e.DebertaBias, {"num_heads": 4, "head_dim": 8, "max_distance": 9}, {"num_buckets": (3, 2, 10)}),
    (s.AttentionFactor, {"attention_factor": 1.5}, {}),
    (s.Linear, {"factor": 2}, {}),
    (s.NTK, {"factor": 2}, {}),
    (s.NTKAlpha, {"alpha": 2}, {}),
    (s.DynamicNTK, RATIO, {}),
    (s.YaRN, RATIO, {"beta_fast": (0.5,), "beta_slow": (64,)}),
    (
        s.Llama3, {"factor": 2, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8},
        {"high_freq_factor": (0.5,)},
    ),
    (
        s.LongRoPE,
        {"short_factor": (1.0,), "long_factor": (2.0,), "original_max_position_embeddings": 8, "factor": 2},
        {"factor": (None,)},
    ),
    (s.RIFLEx, {"k": 2, "length": 8}, {}),
    (s.DyPE, RATIO, {}),
    (s.Proportional, {"partial_rotary_factor": 0.5}, {"partial_rotary_factor": (1.5,)}),
    (Transformer, {"vocabulary": 8, "max_len": 8}, {}),
]  # fmt: skip
MORE = {
    e.Alibi: {"slopes": ((1.0,), (1.0, -1.0), (1.0, math.nan), (1.0, 2.0**127))},
    e.LearnedSinusoidal: {"convention": ("column_index",)},
}
for each in ENCODINGS.values():
    if each not in [kind for kind, _, _ in CASES]:
        usual = {name: getattr(example(each.__name__), name) for name in signature(each).parameters}
        CASES.append((each, usual, MORE.get(each, {})))
# fields beside others than those above, and all their wrong values
BESIDE = [
    (e.Sine, {"dim": 2, "frequencies": "endpoint"}, {"base": ABOVE_1}),
    (e.Sinusoidal, {"dim": 4, "convention": "timestep"}, {"dim": (*COUNT, 1)}),
    (
        e.RandomFourierFeatures, {"dim": 4, "mixture": ((0.5,), (1.5,))},
        {"scale": (1.0,), "seed": (0,), "mixture": FIELDS["mixture"]},
    ),
    (e.FoPE, {"head_dim": 8, "layout": "half", "length": 9}, {"length": (*COUNT, 6, 2**32)}),
]  # fmt: skip


def wrong_values(kind, more):
    """Return the wrong values of each field: the usual ones, None only if the field may not be None, and more."""
    types = {name: str(field.annotation) for name, field in signature(kind).parameters.items()}
    usual = {name: FIELDS.get(f"{name}:{types[name]}", FIELDS[name]) for name in types}
    return {
        name: (*(wrong for wrong in usual[name] if is_wrong(kind, name, types[name], wrong)), *more.get(name, ()))
        for name in types
        if (kind, name) not in ((e.Sine, "base"), (e.FoPE, "length"), (e.RandomFourierFeatures, "mixture"))
    }


def is_wrong(kind, name, annotation, value):
    """Return whether a value that is wrong for most is so here."""
    if value is None:
        return "None" not in annotation
    return (kind, name, repr(value)) != (s.Linear, "factor", "0.999")


SWEEP = [(kind, valid, wrong_values(kind, more)) for kind, valid, more in CASES] + BESIDE
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
