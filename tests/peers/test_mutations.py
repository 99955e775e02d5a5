"""Configs of all models with keys deleted, retyped, doubled, moved and absurd: right, warned of, or refused."""

import copy
import importlib
import warnings
from functools import cache

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from posenc_core import AxialRotary
from posenc_core.huggingface import layer_types, load_rope

from .coverage import of_transformers
from .coverage.rows import Theirs, difference

PATHS = of_transformers.classes_by_name()
L0 = {"original_max_position_embeddings": 2048}
SCALINGS = [
    {"rope_type": "default"},
    {"type": "linear", "factor": 2.0},
    {"rope_type": "linear", "factor": 4},
    {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
    {"type": "dynamic", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **L0},
    {"rope_type": "yarn", "factor": 4.0, **L0},
    {"rope_type": "yarn", "factor": 4.0, **L0, "truncate": False, "mscale": 1.0},
    {"rope_type": "yarn", "factor": 4.0, **L0, "attention_factor": 2.0, "beta_fast": 16, "beta_slow": 2},
    {"factor": 2.0},
    {"rope_theta": 5e5},
]
KEYS = [
    *("rope_theta", "rope_parameters", "rope_scaling", "head_dim", "partial_rotary_factor", "hidden_size"),
    *("num_attention_heads", "max_position_embeddings", "original_max_position_embeddings", "rotary_dim"),
    *("rotary_pct", "rotary_emb_base", "rope_local_base_freq", "global_rope_theta", "qk_rope_head_dim"),
    *("layer_types", "sliding_window", "attn_rotary_emb", "rope_interleave", "rope_thta", "rope-theta"),
    *("partial_rotary_facto", "hed_dim", "rope_scalling", "rope_parameter"),
]
VALUES = [None, 0, -1, 1, "64", float("nan"), float("inf"), 10**30, True, False, [], {}, 0.5, 2.5, 64, 128, 5e5]
MUTATIONS = st.one_of(
    st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none()),
    st.tuples(st.just("set"), st.sampled_from(KEYS), st.sampled_from(VALUES)),
    st.tuples(st.just("set"), st.sampled_from(["rope_parameters", "rope_scaling"]), st.sampled_from(SCALINGS)),
    st.tuples(st.just("inside"), st.sampled_from(["rope_theta", "factor", "rope_type"]), st.sampled_from(VALUES)),
    st.tuples(st.just("misspell"), st.sampled_from(KEYS), st.integers(0, 20)),
    st.tuples(
        st.just("into"), st.sampled_from(KEYS), st.sampled_from(["rope_parameters", "rope_scaling", "attn_config"])
    ),
    st.tuples(st.just("outside"), st.sampled_from(["rope_theta", "partial_rotary_factor"]), st.none()),
)


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(PATHS)), st.lists(MUTATIONS, min_size=1, max_size=3), st.data())
def test_a_mutated_config_is_right_or_refused_or_warned_of(key, mutations, data):
    cls, config_cls, config = original(key)
    assume(config.get("model_type") and not is_of_two_axes(key))
    mutated = copy.deepcopy(config)
    for mutation in mutations:
        apply(mutated, *mutation)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            layer_type = data.draw(st.sampled_from(layer_types(mutated) or (None,)))
            ours = load_rope(copy.deepcopy(mutated), layer_type=layer_type)
        except (TypeError, ValueError) as error:
            assert len(str(error)) <= 300  # noqa: PT017  # most are refused, no matter which
            return
    theirs = of_class(cls, config_cls, mutated, layer_type)
    latent = mutated.get("qk_rope_head_dim")
    if theirs is not None and latent and len(theirs.frequencies) * 2 != latent:
        return  # the table has another width than the channels that it rotates: the model fails when it runs
    if ours is not None and theirs is not None and not caught:
        assert difference(ours, theirs) in ("", "no call of its rotation is accepted")


@cache
def original(key):
    """Return a class, and its default config with the class of it; no config if it stands between parts of a model."""
    module = importlib.import_module(PATHS[key])
    cls = getattr(module, key[1])
    for config, _ in of_transformers.configs_of(module, cls):
        try:
            cls(config)
        except Exception:  # noqa: BLE001, S112  # not a config of this class
            continue
        return cls, type(config), config.to_dict() if config.get_text_config() is config else {}
    return cls, None, {}


@cache
def is_of_two_axes(key):
    """Return whether the frequencies of a class are those of one axis of an image, which `difference` compares not."""
    config = original(key)[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return isinstance(load_rope(config), AxialRotary)
        except (TypeError, ValueError):
            return False


def apply(config, how, key, value):
    """Change a config by one mutation; what it does not have is left as it is."""
    rope = config.get("rope_parameters")
    if how == "delete":
        config.pop(key, None)
    elif how == "set":
        config[key] = copy.deepcopy(value)
    elif how == "misspell" and key in config:
        config[key[:value] + key[value + 1 :]] = config.pop(key)
    elif how == "into" and key in config and isinstance(config.get(value) or {}, dict):
        config[value] = {**(config.get(value) or {}), key: config.pop(key)}
    elif how == "inside" and isinstance(rope, dict):
        rope[key] = copy.deepcopy(value)
    elif how == "outside" and isinstance(rope, dict) and key in rope:
        config[key] = rope.pop(key)


def of_class(cls, config_cls, config, layer_type):
    """Return what the class computes from a config; None if it, or its config, refuses it or it is not a number."""
    fields = {
        key: value for key, value in copy.deepcopy(config).items() if key not in ("model_type", "transformers_version")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            part = cls(config_cls(**fields))
        except Exception:  # noqa: BLE001  # whatever their code raises
            return None
    prefix = f"{layer_type}_" if hasattr(part, f"{layer_type}_inv_freq") else ""
    frequencies = getattr(part, f"{prefix}inv_freq", None)
    if frequencies is None or not len(frequencies) or not np.isfinite(frequencies.numpy()).all():
        return None
    return Theirs(frequencies.double().numpy(), getattr(part, f"{prefix}attention_scaling", 1.0), [])
