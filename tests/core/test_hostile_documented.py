"""Every argument of every documented name below `posenc_core` refuses what it cannot take, in one sentence.

Public is what `posenc_core` exports, which `test_hostile_arguments` walks, and what `docs/reference` documents below
it, which is walked here. All other names are internal: their callers have checked.
"""

import pydoc
import re
import sys
from decimal import Decimal
from fractions import Fraction
from inspect import getdoc, isabstract, signature
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_core as p
from posenc_backends import load
from posenc_backends.check import check
from posenc_backends.cli import golden
from posenc_core import formats as f
from posenc_core import huggingface as h
from posenc_core import positions
from posenc_core import tables as t
from posenc_core import transformer as m
from posenc_core.analysis import compare_rope, curves, pairs, plan_extension, plots, precision
from posenc_core.analysis.causes import causes
from posenc_core.analysis.differences import difference
from posenc_core.analysis.explain import explain
from posenc_core.attention import bias, buckets, coordinate_mlp, forgetting_gates
from posenc_core.encodings import Parameter as Learned
from posenc_core.encodings import notation
from posenc_core.huggingface import diffusers, timm
from posenc_core.tables import angles, frequencies, multi_axis
from posenc_core.transformer import decoding, tasks

from ..hostile import VALUES, complaint

PAGES = Path(__file__).parents[2] / "docs" / "reference"
SECONDS = 10  # of a call: the dearest takes a tenth of one on an idle machine

ROW, REALS, MATRIX = np.arange(3), np.ones(2), np.ones((3, 2), np.float32)
DECIMALS = (Decimal(1), Decimal("0.5"))
ROTARY, ALIBI = p.Rotary(head_dim=4, layout="half"), p.Alibi(num_heads=2)
LLAMA = {
    "model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "max_position_embeddings": 64, "rope_theta": 10000.0,
}  # fmt: skip
QWEN = {
    "model_type": "qwen2_vl", "image_token_id": 9, "video_token_id": 8,
    "vision_config": {"patch_size": 14, "spatial_merge_size": 2},
}  # fmt: skip
FLUX, TIMM = {"_class_name": "QwenImageTransformer2DModel"}, {"architecture": "vit_pe_core_base_patch16_224"}
TOWER = {"model_type": "llama4_vision_model", "image_size": 28, "patch_size": 14}
SIZED, INTERLEAVED = (p.Rotary(head_dim=4, layout=each, max_len=64) for each in ("half", "interleaved"))
MODEL = m.Transformer(vocabulary=5, max_len=4, num_hiddens=8, num_heads=2, num_blocks=1)
WEIGHTS = MODEL.initial(seed=0) | MODEL.constants()
SOURCE = np.array([[3, 4, 0]])
MEMORY = m.read(MODEL, WEIGHTS, SOURCE)
TOKENS, VISIBLE = np.ones((1, 3, 8), np.float32), np.ones((3, 3), bool)
NUMPY = SimpleNamespace(from_numpy=lambda array, like=None: array, to_numpy=lambda array: array)
EMPTY = {"cos": np.empty((3, 2), np.float32), "sin": np.empty((3, 2), np.float32)}
ASKED = {"model": MODEL, "weights": WEIGHTS, "source": SOURCE}


def part(name):
    return m.with_prefix(WEIGHTS, name)


def unrotated(q, k, positions):
    return q, k


# the arguments of a call that works
CALLS = {
    causes: {
        "a": ROTARY, "b": SIZED, "configs": (LLAMA, LLAMA), "layer_type": None, "is_same": lambda encoding: True,
    },
    compare_rope: {
        "a": LLAMA, "b": LLAMA, "layer_type": None, "part": None, "any_layout": False, "positions": 8,
        "tolerance": 1e-3,
    },
    curves.bounds_by_distance: {"rotary": ROTARY, "length": 4},
    curves.plain_rope: {"encoding": ROTARY},
    curves.products: {"table": MATRIX},
    curves.rows: {"encoding": p.Sinusoidal(dim=4), "length": 4},
    curves.scores_by_distance: {"encoding": ALIBI, "length": 4},
    difference: {
        "a": ROTARY, "b": ROTARY, "positions": 8, "any_layout": False, "tolerance": 1e-3, "seq_len": 8,
    },
    explain: {"config": LLAMA, "layer_type": None},
    pairs.describe_scaling: {"rotary": ROTARY, "pairs": pairs.pairs_of(ROTARY)},
    pairs.pairs_of: {"rotary": ROTARY, "original": 8, "longest": 16},
    plots.plot: {"encoding": p.Sinusoidal(dim=4), "length": 4},
    plots.plot_attention: {"weights": np.full((1, 2, 3), 0.5, np.float32), "question": "abc", "answer": "ab"},
    plan_extension: {
        "config": LLAMA | {"head_dim": 2, "max_position_embeddings": 8}, "to": 16, "trained_length": 8,
        "layer_type": None, "per_request": (1, 2),
    },
    plots.plot_extension: {
        "plan": plan_extension(LLAMA | {"head_dim": 2, "max_position_embeddings": 8}, to=16), "name": None, "title": "",
    },
    plots.plot_explanation: {"layers": explain(LLAMA | {"head_dim": 2}), "title": ""},
    precision.errors: {"rotary": ROTARY, "positions": ROW, "arithmetic": "float32"},
    precision.growing_errors: {"rotary": ROTARY, "arithmetic": "float32", "limit": 8},
    precision.loss: {"rotary": p.Rotary(head_dim=2, layout="half"), "arithmetic": "bfloat16", "bounds": (0.1,)},
    bias.alibi_slopes: {"num_heads": 2, "order": "press", "max_bias": 8},
    bias.distances: {"query_positions": ROW, "key_positions": ROW, "sides": "both"},
    bias.linear_bias: {"slope": REALS, "distance": MATRIX},
    bias.logarithmic_bias: {"size": REALS, "rate": REALS, "distance": MATRIX},
    bias.per_head: {"x": REALS},
    bias.power_bias: {"size": REALS, "exponent": REALS, "distance": MATRIX},
    bias.sandwich_sums: {"max_distance": 4, "dim": 4, "base": 10000},
    buckets.log_buckets: {"num_buckets": 4, "max_distance": 6},
    buckets.t5_buckets: {"num_buckets": 8, "max_distance": 16, "sides": "both"},
    forgetting_gates.decay_bias: {"log_gates": MATRIX[0], "scores": MATRIX},
    forgetting_gates.log_sigmoid: {"x": REALS},
    forgetting_gates.sums_to_last: {"x": REALS},
    coordinate_mlp.log_coordinates: {"size": 4, "trained_size": 2},
    buckets.window_index: {"height": 2, "width": 2, "prefix_tokens": 0},
    Learned: {"shape": (2, 4), "std": 1.0, "mean": 0.0, "start": None},
    notation.parse: {"text": "Sinusoidal(dim=4)"},
    f.to_gguf: {"rotary": INTERLEAVED, "architecture": "llama"},
    f.to_megatron: {"rotary": SIZED},
    f.to_params: {"rotary": INTERLEAVED},
    h.layer_types: {"config": LLAMA},
    h.load_layers: {"config": LLAMA | {"num_hidden_layers": 2}, "part": None},
    h.load_position: {"config": LLAMA},
    h.load_query_scale: {"config": LLAMA, "layer_type": None},
    h.load_softmax_factor: {"config": LLAMA, "layer_type": None},
    h.load_rope: {"config": LLAMA, "layer_type": None, "layout": "half", "part": None},
    h.multimodal_positions: {
        "config": QWEN, "input_ids": [1, 9, 9, 8], "image_grid_thw": [[1, 2, 4]], "video_grid_thw": [[1, 2, 2]],
        "second_per_grid_ts": None, "attention_mask": [1, 1, 1, 1], "after": "spatial",
    },
    h.to_config: {"rotary": SIZED, "transformers": 4},
    h.vision_positions: {
        "config": TOWER, "grid_thw": [[1, 2, 2]], "part": None, "merge_sizes": None, "layer_type": None,
    },
    diffusers.load_diffusers: {"config": FLUX},
    diffusers.diffusers_positions: {
        "config": FLUX, "height": 2, "width": 2, "frames": 1, "text": 1, "images": [(2, 2)], "fps": None,
    },
    timm.load_timm: {"config": TIMM},
    timm.timm_positions: {"config": TIMM, "height": 2, "width": 2},
    t.Envelope: {"rates": DECIMALS, "center": 0},
    positions.centered: {"segments": [1, (2, 3)]},
    positions.diagonal: {"segments": [1, (2, 2, 3)], "spacing": 2.0},
    positions.indexed: {"segments": [1, (2, 3)], "num_axes": 4},
    positions.with_audio: {"frames": 2, "height": 2, "width": 2, "audio": 3, "interval": 1.5, "chunk": 2},
    t.cos_sin: {"positions": ROW, "frequencies": DECIMALS, "factor": Decimal(1), "envelope": None, "dtype": np.float32},
    t.cos_sin_of_float32: {"positions": ROW, "frequencies": DECIMALS, "factor": Decimal(1), "dtype": np.float32},
    t.write_cos_sin: {
        "positions": ROW, "frequencies": DECIMALS, "factor": Decimal(1), "envelope": t.Envelope(DECIMALS),
    } | EMPTY,
    t.write_derivatives: {"positions": ROW, "frequencies": DECIMALS} | EMPTY,
    angles.angles: {"positions": np.ones(3), "frequencies": REALS},
    angles.angles_of: {"positions": np.ones(3), "frequencies": REALS},
    frequencies.as_float64: {"frequencies": DECIMALS},
    frequencies.chosen: {"frequencies": [1.0, 0.5]},
    frequencies.endpoint: {"count": 2, "base": 100.0},
    frequencies.geometric: {"dim": 4, "base": 100.0, "count": 2},
    frequencies.powers_of_two: {"count": 2},
    frequencies.spaced: {"count": 2, "spans": Fraction(1, 2), "base": 100.0},
    multi_axis.cos_sin_of_sums: {
        "positions": np.ones((2, 3)), "turns": np.ones((2, 2)), "factors": DECIMALS, "dtype": np.float32,
    },
    m.Transformer: {
        "vocabulary": 5, "max_len": 4, "position": None, "num_hiddens": 8, "ffn_hiddens": 8, "num_heads": 2,
        "num_blocks": 1,
    },
    m.answer: ASKED | {"target": SOURCE},
    m.cross_attention: {
        "model": MODEL, "part": part("decoder.0.cross"), "x": TOKENS, "source": MEMORY.source[0],
        "visible": MEMORY.visible,
    },
    m.cross_attention_weights: ASKED | {"target": SOURCE},
    m.decode: {"model": MODEL, "weights": WEIGHTS, "tokens": SOURCE, "memory": MEMORY},
    m.embed: {"model": MODEL, "weights": WEIGHTS, "side": "encoder", "tokens": SOURCE, "positions": range(3)},
    m.encode: ASKED,
    m.feed_forward: {"part": part("encoder.0.feed_forward"), "x": TOKENS},
    m.layer_norm: {"part": part("encoder.0.feed_forward"), "x": TOKENS},
    m.loss: ASKED | {"target": SOURCE},
    m.self_attention: {
        "model": MODEL, "part": part("encoder.0.attention"), "x": TOKENS, "position": None, "visible": VISIBLE,
        "before": None,
    },
    m.shift_right: {"target": SOURCE},
    decoding.beam: ASKED | {"backend": NUMPY, "width": 2, "length": 2},
    decoding.greedy: ASKED | {"backend": NUMPY, "length": 2},
    check: {
        "function": unrotated, "spec": p.Rotary(head_dim=2, layout="half"), "framework": "numpy", "form": "rotation",
        "qk_norm": None, "longest": 32, "takes": (), "gradient": False, "allow": "exact",
        "parameters": None, "progress": None,
    },
    golden.publish: {"folder": Path("golden"), "progress": None},
    tasks.addition: {"digits": 2},
    tasks.copy: {"shortest": 2, "longest": 3},
    tasks.dates: {},
    tasks.reverse: {"shortest": 2, "longest": 3},
}  # fmt: skip
# of each own code of `rows`
TABULAR = (
    ROTARY, p.Integer(dim=2), p.Normalized(dim=2, length=9), p.Binary(dim=4), p.Sinusoidal(dim=4),
    p.RandomFourierFeatures(dim=4, scale=1.0, seed=0), p.XPos(head_dim=4, layout="half"),
    p.PoPE(head_dim=4, num_heads=2), p.QueryScale(length=2, scale=1.0), p.LearnedQueryScale(num_heads=2),
    p.SelfExtend(rotary=ROTARY, window=2, group_size=2),
)  # fmt: skip
# methods of documented classes and of what documented functions return, and what `posenc_backends` exports
OTHERS = {
    load: {"name": "numpy"},
    MODEL.initial: {"seed": 0},
    ROTARY.at: {"seq_len": 8},
    ROTARY.constants: {"max_len": 8},
    ROTARY.derivatives: {"positions": ROW},
    **{encoding.rows: {"positions": ROW, "dtype": np.float32} for encoding in TABULAR},
    tasks.dates().batch: {"size": 2, "seed": (0, 1), "split": "train"},
    tasks.dates().pairs: {"size": 2, "seed": (0, 1), "split": "train"},
    tasks.dates().text: {"tokens": [3, 4]},
    tasks.dates().tokens: {"text": "1"},
}
FILES = ("config", "a", "b")  # arguments that may name a file: there may be none of this name, or it lacks a key
NAMED = {  # by argument: others that an error may name, as the two do not fit each other, or a function below has it
    "answer": ["weights"],
    "frames": ["interval", "sizes"],
    "frequencies": ["cos"],
    "height": ["sizes"],
    "positions": ["cos", "turns"],
    "question": ["weights"],
    "shortest": ["longest"],
    "spec": ["encoding"],
    "text": ["encoding"],
    "turns": ["factors"],
    "width": ["sizes"],
}
CASES = [(call, name) for call, valid in (CALLS | OTHERS).items() for name in valid]


def documented():
    """Return the functions and classes of the reference that `posenc_core` does not export."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    names = re.findall(r"^\.\. auto(?:function|class):: (\S+)$", text, re.MULTILINE)
    exported = {f"posenc_core.{name}" for name in p.__all__}
    return {pydoc.locate(name) for name in names if name not in exported}


def case_id(each):
    return each if isinstance(each, str) else f"{each.__module__}.{each.__qualname__}"


@pytest.fixture(autouse=True)
def one_set_of_golden_numbers(monkeypatch):
    """Let `publish` write one of its sets, as all of them take seconds."""
    module = sys.modules[golden.publish.__module__]
    monkeypatch.setattr(module, "SETS", module.SETS[:1])


@pytest.mark.parametrize(("call", "name"), CASES, ids=case_id)
def test_a_hostile_argument_is_refused_in_one_sentence(call, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    valid = (CALLS | OTHERS)[call]
    call(**valid)
    options = {"expected": (FileNotFoundError,)} if name in FILES else {"names": [name, *NAMED.get(name, ())]}
    said = {
        each: complaint(lambda value=value: call(**valid | {name: value}), seconds=SECONDS, **options)
        for each, value in VALUES.items()
    }
    assert {each: flaw for each, flaw in said.items() if flaw} == {}


def test_every_documented_name_and_argument_is_tried():
    """Only results, whose docstrings list attributes, and abstract classes are not called by users."""
    found = documented()
    assert None not in found
    names = {name for name in found if not isabstract(name) and "Attributes:" not in getdoc(name)}
    assert {case_id(name) for name in names} == {case_id(call) for call in CALLS}
    for call, valid in (CALLS | OTHERS).items():
        assert valid.keys() == set(signature(call).parameters), call
