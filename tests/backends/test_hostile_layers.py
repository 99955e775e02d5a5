"""Every argument of every layer refuses what it cannot take, in one sentence that names it, in every backend."""

from inspect import signature

import numpy as np
import pytest

from posenc_core import Alibi, QKNorm, QueryScale, Rotary, ShawBias, Sinusoidal, layers

from ..hostile import VALUES, complaint

ROTARY, ALIBI, SHAW = (
    Rotary(head_dim=4, layout="half"),
    Alibi(num_heads=2),
    ShawBias(num_heads=2, head_dim=4, max_distance=2),
)
SCALE = QueryScale(length=2, scale=1.0)
X, TOKENS, SCORES = np.ones((1, 2, 3, 4)), np.ones((1, 3, 8)), np.zeros((1, 2, 3, 3))
ROW = np.arange(3)

# by layer: the arguments of a constructor and of a call that work, by their names
MADE = {
    "PositionalEncoding": {
        "num_hiddens": 8, "dropout": 0.0, "max_len": 9, "encoding": Sinusoidal(dim=8), "combine": "add",
        "auto_expand": False,
    },
    "RotaryEmbedding": {"encoding": ROTARY, "max_len": 9, "seq_axis": 1, "auto_expand": False},
    "QueryScaling": {"encoding": SCALE, "max_len": 9, "auto_expand": False},
    "AttentionBias": {"encoding": ALIBI},
    "MultiHeadAttention": {
        "num_hiddens": 8, "num_heads": 2, "dropout": 0.0, "bias": False, "position": ROTARY, "num_kv_heads": 1,
        "query_scale": SCALE, "max_len": 9, "window": 2, "auto_expand": False,
        "qk_norm": QKNorm(head_dim=4),
    },
}  # fmt: skip
CALLED = {
    "PositionalEncoding": {"x": TOKENS, "start": 1, "positions": ROW},
    "RotaryEmbedding": {
        "q": X, "k": X, "start": 1, "positions": ROW, "seq_axis": -2, "seq_len": 8,
        "cos_sin": (np.ones((3, 2)), np.zeros((3, 2))), "heads": range(2),
    },
    "QueryScaling": {"q": X, "start": 1, "positions": ROW, "heads": range(2)},
    "AttentionBias": {
        "scores": SCORES, "start": 1, "query_positions": ROW, "key_positions": ROW, "q": X, "k": X, "heads": range(2),
    },
    "MultiHeadAttention": {
        "queries": TOKENS, "keys": TOKENS, "values": TOKENS, "valid_lens": np.array([2]), "start": 0,
        "positions": ROW, "key_positions": ROW, "mask": np.ones((3, 3), bool), "causal": True, "cache": (),
        "weights": True, "heads": range(2), "cos_sin": (np.ones((3, 2)), np.zeros((3, 2))),
    },
}  # fmt: skip
METHODS = {
    "PositionalEncoding": layers.PositionalEncoding.add,
    "RotaryEmbedding": layers.RotaryEmbedding.rotate,
    "QueryScaling": layers.QueryScaling.scale,
    "AttentionBias": layers.AttentionBias.add,
    "MultiHeadAttention": layers.MultiHeadAttention.attend,
}
TOGETHER = {"positions": "key_positions", "q": "k", "k": "q"}  # what a call must give as well
OWN = {"AttentionBias": {"q": SHAW, "k": SHAW}}  # encodings that look at these arguments


# Keras converts arrays, and writes all arguments of a call that fails by their `repr`, before its error is raised
KERAS_SHOWS = ("10**5000", "without a repr", "dates", "nested lists", "objects", "no array", "records")


def each_argument(calls):
    return [(layer, name) for layer, arguments in calls.items() for name in arguments]


def tried(backend):
    """Return the hostile values that reach a layer of this backend."""
    shown = KERAS_SHOWS if backend.__name__.endswith("keras") else ()
    return {name: value for name, value in VALUES.items() if name not in shown}


def flaws(call, values):
    found = {name: complaint(lambda value=value: call(value)) for name, value in values.items()}
    return {name: flaw for name, flaw in found.items() if flaw}


@pytest.mark.parametrize(("layer", "name"), each_argument(MADE))
def test_constructors_refuse_in_one_sentence(backend, layer, name):
    assert flaws(lambda value: getattr(backend, layer)(**MADE[layer] | {name: value}), tried(backend)) == {}


@pytest.mark.parametrize(("layer", "name"), each_argument(CALLED))
def test_calls_refuse_in_one_sentence(on, backend, to_backend, layer, name):
    first, *_ = CALLED[layer]
    tokens = {key: to_backend(value) for key, value in CALLED[layer].items() if key in ("x", "q", "k", "scores")}
    tokens |= {key: to_backend(CALLED[layer][key]) for key in ("queries", "keys", "values") if key in CALLED[layer]}
    needed = [key for key in tokens if layer == "MultiHeadAttention" or key == first]
    encoding = OWN.get(layer, {}).get(name)
    made = on.testing.eval_mode(getattr(backend, layer)(**MADE[layer] | ({"encoding": encoding} if encoding else {})))

    def call(value):
        arguments = {key: tokens[key] for key in needed} | {name: value}
        other = TOGETHER.get(name)
        if other in CALLED[layer] and (layer != "RotaryEmbedding" or other != "k"):
            arguments |= {other: tokens.get(other, CALLED[layer][other])}
        return made(**arguments)

    values = {
        each: value
        for each, value in VALUES.items()
        if not backend.__name__.endswith("keras") or each not in KERAS_SHOWS
    }
    values |= {f"{each}, of the framework": array for each, array in framework_arrays(backend).items()}
    assert flaws(call, values) == {}


def framework_arrays(backend):
    """Return those of the hostile arrays that the framework has."""
    arrays = {}
    for name, value in VALUES.items():
        if type(value) is np.ndarray:
            try:
                arrays[name] = backend.from_numpy(value)
            except Exception:  # noqa: BLE001, S112 - a dtype that it lacks
                continue
    return arrays


def test_every_layer_and_argument_is_tried():
    made = {name for name in layers.__all__ if "native" in signature(getattr(layers, name).__init__).parameters}
    assert made == METHODS.keys()
    for layer, method in METHODS.items():
        cls = getattr(layers, layer)
        assert set(signature(cls.__init__).parameters) - {"self", "native"} == MADE[layer].keys()
        assert set(signature(method).parameters) - {"self", "native", "unknown"} == CALLED[layer].keys()
