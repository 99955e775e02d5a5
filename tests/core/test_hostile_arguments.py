"""Every argument of every public function and class refuses what it cannot take, in one sentence that names it."""

from inspect import Parameter, isabstract, signature

import numpy as np
import pytest

import posenc_core as p
from posenc_core.encodings.notation import parse

from ..hostile import VALUES, complaint
from .test_bad_values import SWEEP

X = np.ones((1, 2, 3, 4), np.float32)
ROW, PAIRS, WIDE = np.arange(3), np.ones((3, 2), np.float32), np.ones((8, 6), np.float32)
ROTARY, ALIBI = p.Rotary(head_dim=4, layout="half"), p.Alibi(num_heads=2)
PLACED = p.Placed(ROTARY, range(3), range(3))
ATTEND = {"q": X, "k": X, "v": X}

# the arguments of a call that works; a leading "*" is for arguments of any number
CALLS = {
    p.attend: ATTEND | {
        "position": PLACED, "bias": np.zeros((3, 3), np.float32), "mask": np.ones((3, 3), bool), "is_causal": True,
    },
    p.attention_weights: {"q": X, "k": X, "position": PLACED, "bias": PAIRS[:, :1], "mask": np.ones((3, 3), bool)},
    p.attend_by_block: ATTEND | {"position": PLACED, "bias": PAIRS[:, :1], "mask": p.causal, "block": 2},
    p.attention_state: ATTEND | {"position": PLACED, "bias": PAIRS[:, :1], "mask": p.causal, "block": 2},
    p.merge_states: {"*states": (p.attention_state(X, X, X),) * 2},
    p.AttentionState: None,  # a tuple, which `attention_state` returns
    p.causal: {"query_positions": ROW, "key_positions": ROW},
    p.sliding_window: {"query_positions": ROW, "key_positions": ROW, "window": 2},
    p.combine: {"x": X, "rows": np.ones((3, 4), np.float32), "how": "add", "out": np.empty_like(X)},
    p.counted_from: {"start": np.array([0, 1]), "length": 3},
    p.from_cu_seqlens: {"cu_seqlens": [0, 2, 4], "length": 5, "start": [1, 0]},
    p.from_mask: {"mask": np.array([[0, 1, 1]])},
    p.fope_mixing: {
        "coefficients": np.eye(2, dtype=np.float32), "encoding": p.FoPE(head_dim=4, layout="half", num_terms=2),
    },
    p.grid: {"*sizes": (2, 4), "start": 1, "merge": 2, "window": 2, "prefix": 1},
    p.allow_change: {"*names": ("scaling", "window")},
    p.left_padded: {"rows": [p.multimodal([2]), p.multimodal([(1, 2, 2)])]},
    p.multimodal: {"segments": [2, (1, 2, 2, 1.5)], "after": "largest"},
    p.namespace_of: {"*arrays": (X, X)},
    p.augment: {
        "positions": np.ones((2, 3)), "seed": 1, "shift": 0.5, "jitter": 1.5, "rescale": 2.0, "prefix": 1,
    },
    p.draw_augmentation: {"axes": 2, "seed": 1, "shift": 0.5, "jitter": 1.5, "rescale": 2.0},
    p.Augmentation: None,  # a tuple, which functions return
    p.normalized_grid: {"*sizes": (2, 4), "by": "max", "merge": 2, "prefix": 1},
    p.padding: {"tokens": np.array([[5, 0]]), "pad": 0},
    p.register_namespace: None,  # for authors of frameworks: what it is given is looked at where it is used
    p.relayout: {
        "weight": WIDE, "head_dim": 4, "source": "interleaved", "target": "half", "rotary_dim": 2,
        "placement": "lead", "axis": 0,
    },
    p.rerotate: {
        "keys": X, "from_positions": ROW, "to_positions": ROW + 1, "rotary": ROTARY, "to_rotary": ROTARY,
        "seq_axis": -2,
    },
    p.resize_bias_table: {
        "table": np.ones((9, 2), np.float32), "window": (3, 3), "old_window": (2, 2), "prefix_tokens": 0,
        "method": "cubic",
    },
    p.resize_table: {
        "table": WIDE, "size": (3, 3), "old_size": (2, 4), "prefix_tokens": 0, "method": "cubic", "offset": 0.1,
    },
    p.rotate: {
        "x": X, "cos": PAIRS, "sin": PAIRS, "layout": "half", "placement": "lead", "blocks": 1, "out": np.empty_like(X),
    },
    p.normalize_and_rotate: {
        "x": X, "cos": PAIRS, "sin": PAIRS, "layout": "half", "weight": np.ones(X.shape[-1], np.float32), "offset": 1.0,
        "epsilon": 1e-6, "order": "norm_first", "head_axis": None, "placement": "lead", "blocks": 1,
        "out": np.empty_like(X),
    },
    p.unrotate: {
        "x": X, "cos": PAIRS, "sin": PAIRS, "layout": "half", "placement": "lead", "blocks": 1, "out": np.empty_like(X),
    },
    p.same_sequence: {"query_ids": ROW, "key_ids": ROW},
    p.sequence: {"length": 3, "start": 1},
    p.sequence_ids: {"cu_seqlens": [0, 2, 4], "length": 5},
    p.sequence_ids_from_positions: {"positions": [[0, 1, 0]]},
    p.to_cu_seqlens: {"positions": [[0, 1, 0]], "sequences": 3},
    p.shard: {"positions": np.arange(8), "rank": 0, "world_size": 2, "order": "zigzag"},
    p.valid_lengths: {"valid_lens": np.array([1, 2]), "key_positions": ROW},
    p.write_tables: {"encoding": p.Sinusoidal(dim=4), "*out": (np.empty((3, 4), np.float32),), "start": 1},
    p.Placed: {
        "encoding": ALIBI, "query_positions": ROW, "key_positions": ROW, "weights": {},
        "query_scale": p.QueryScale(length=2, scale=1.0), "scale_weights": {}, "heads": range(2),
    },
    p.QKNorm: {
        "head_dim": 4, "epsilon": 1e-6, "weight": True, "offset": 1.0, "order": "rope_first", "num_heads": 2,
        "num_kv_heads": 1,
    },
    p.Multimodal: None,  # a tuple, which functions check that are given one
    p.Backend: None,  # abstract, for authors of backends
    p.Encoding: None,  # abstract
    p.Scaling: None,
    p.Encoding.from_dict: {"data": ROTARY.to_dict()},
    p.Sinusoidal(dim=4).table: {"positions": ROW, "dtype": np.float32},
    p.QueryScale(length=2, scale=1.0).factors: {"positions": ROW},
    p.SelfExtend(rotary=ROTARY, window=2, group_size=2).distances: {"query_positions": ROW, "key_positions": ROW},
    p.Normalized(dim=4, length=9).table: {"positions": ROW},
    p.GridSinusoidal(dim=4, convention="mae").table: {"positions": np.ones((2, 3), int)},
    p.RandomFourierFeatures(dim=4, scale=1.0, seed=0, num_axes=2).table: {"positions": np.ones((2, 3))},
    ROTARY.cos_sin: {"positions": ROW, "seq_len": 8, "dtype": np.float32},
    p.PoPE(head_dim=4, num_heads=2).cos_sin: {"positions": ROW, "dtype": np.float32},
    ROTARY.frequencies: {"seq_len": 8},
    p.AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)).cos_sin: {"positions": np.ones((2, 3), int)},
    p.DynamicNTK(factor=2, original_max_position_embeddings=8).at: {"seq_len": 8},
    ALIBI.bias: {"query_positions": ROW, "key_positions": ROW},
    parse: {"text": "Sinusoidal(dim=4)"},
}  # fmt: skip
CASES = [(call, valid, name) for call, valid in CALLS.items() for name in valid or ()]
CASES += [(kind, valid, name) for kind, valid, sweep in SWEEP for name in sweep]


def named(call):
    return getattr(call, "__qualname__", repr(call))


def called(call, valid, name, wrong):
    """Call with one wrong argument; with the first wrong one where there are several."""
    arguments = valid | {name: wrong}
    several = next((each for each in arguments if each.startswith("*")), None)
    if several is None:
        return call(**arguments)
    before = [arguments.pop("encoding")] if "encoding" in arguments else []
    first = wrong if name == several else valid[several][0]
    del arguments[several]
    return call(*before, first, *valid[several][1:], **arguments)


@pytest.mark.parametrize(
    ("call", "valid", "name"), CASES, ids=lambda each: named(each) if callable(each) else str(each)[:20]
)
def test_a_hostile_argument_is_refused_in_one_sentence(call, valid, name):
    if name in valid:
        called(call, valid, name, valid[name][0] if name.startswith("*") else valid[name])
    tried = {each: value for each, value in VALUES.items() if not (name == "mask" and callable(value))}  # it is called
    wrong = {each: complaint(lambda value=value: called(call, valid, name, value)) for each, value in tried.items()}
    assert {each: said for each, said in wrong.items() if said} == {}


def test_every_public_name_and_argument_is_tried():
    public, tried = {getattr(p, name) for name in p.__all__}, {}
    for call, _, name in CASES:
        tried.setdefault(call, set()).add(name)
    untried = {call for call in CALLS if CALLS[call] is None}
    assert public <= tried.keys() | untried
    for call in public - untried:
        parameters = signature(call).parameters.values()
        names = {f"*{each.name}" if each.kind is Parameter.VAR_POSITIONAL else each.name for each in parameters}
        assert names - {"dropout"} <= tried[call], call  # a function that is called, or fails as it likes
    assert all(
        isabstract(call) or call in (p.register_namespace, p.Multimodal, p.Augmentation, p.AttentionState)
        for call in untried
    )
