"""Configs as they should be, and with one thing wrong: a key deleted, retyped, misspelt, moved, null or absurd."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from posenc_core.huggingface.facts.models import MODELS

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "rope_models.json").read_text(encoding="utf-8"))
WHOLE = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 2, "head_dim": 128,
    "max_position_embeddings": 131072,
}  # fmt: skip
ORIGINAL = {"original_max_position_embeddings": 32768}
SCALINGS: list[dict[str, Any]] = [
    {"rope_type": "default"},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, **ORIGINAL},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.0, "truncate": False, **ORIGINAL},
    {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.25, **ORIGINAL},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL},
    {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [2.0] * 64, "factor": 4.0, **ORIGINAL},
    {"rope_type": "proportional", "partial_rotary_factor": 0.25},
]
NUMBERS = {  # keys whose value must be a number, inside of the parameters or outside of them
    "rope_theta", "partial_rotary_factor", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
    "attention_factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "head_dim",
    "max_position_embeddings", "rotary_dim", "rotary_pct", "rotary_emb_base", "rope_local_base_freq",
    "local_rope_theta", "global_rope_theta", "qk_rope_head_dim",
}  # fmt: skip
NAMED = (*NUMBERS, "rope_parameters", "rope_scaling", "rope_type", "type", "mrope_section", "truncate")
NOT_NUMBERS = [
    "10000",
    "",
    True,
    False,
    [1.0],
    {"x": 1.0},
    float("nan"),
    float("inf"),
    -float("inf"),
    b"1",
    1j,
    "x" * 1000,
    [1.0] * 1000,
]
ABSURD = [0, -1, -0.5, 1e-300, 1e300, 9e307, 2**31, 2**63, 10**400, 10**5000, 0.3, 1, 3]
PARTS = ("text_config", "rope_parameters", "rope_scaling", "attn_config", "vision_config", "other")
LETTERS = "abcdefghijklmnopqrstuvwxyz_0"


class Mutated(NamedTuple):
    """A config with one change: what was done, the path of the key, the config before and after."""

    kind: str
    path: tuple[str, ...]
    before: dict[str, Any]
    after: dict[str, Any]


def old_spelling(config):
    """Return a config with the keys of transformers 4."""
    rope = dict(config["rope_parameters"])
    kept = {key: value for key, value in config.items() if key != "rope_parameters"}
    kept |= {key: rope.pop(key) for key in ("rope_theta", "partial_rotary_factor") if key in rope}
    scaling = None if rope["rope_type"] == "default" else {"type": rope.pop("rope_type"), **rope}
    return kept | {"rope_scaling": scaling}


@st.composite
def whole_configs(draw, names=None):
    """Draw a config of a known model, with the keys of transformers 4 or 5, or one of the golden numbers."""
    golden = [case["config"] for case in GOLDEN]
    if draw(st.integers(0, 3)) == 0 and names is None:
        return draw(st.sampled_from(golden))
    rope = draw(st.sampled_from(SCALINGS)) | {"rope_theta": draw(st.sampled_from([10000.0, 500000.0, 1e6]))}
    config = {"model_type": draw(st.sampled_from(names or sorted(MODELS))), **WHOLE, "rope_parameters": rope}
    return old_spelling(config) if draw(st.booleans()) else config


def paths(config, prefix=()):
    """Yield the path of each key."""
    for key, value in config.items():
        yield (*prefix, key)
        if isinstance(value, dict):
            yield from paths(value, (*prefix, key))


def at(config, path):
    """Return the value at a path."""
    for key in path:
        config = config[key]
    return config


def changed(config, path, **new):
    """Return the config without the key at the path, and with what stands in `new` beside it."""
    first, *rest = path
    if rest:
        return config | {first: changed(config[first], rest, **new)}
    return {key: value for key, value in config.items() if key != first} | new


def without(config, path):
    """Return the config without the key at the path."""
    return changed(config, path)


@st.composite
def misspelt(draw, word):
    """Draw a word that is one letter off, or has two exchanged."""
    place = draw(st.integers(0, len(word) - 1))
    letter = draw(st.sampled_from(LETTERS))
    end = word[place + 1 :]
    return draw(
        st.sampled_from(
            [
                word[:place] + end,
                word[:place] + letter + end,
                word[:place] + letter + word[place:],
                word[:place] + end[:1] + word[place] + end[1:],
            ]
        ).filter(lambda other: other != word)
    )


@st.composite
def mutated(draw, configs=None, kinds=None):
    """Draw a config and change one thing."""
    config = draw(whole_configs() if configs is None else configs)
    kind = draw(st.sampled_from(sorted(CHANGES) if kinds is None else kinds))
    found = [path for path in paths(config) if path[-1] in NAMED] or list(paths(config))
    path = draw(st.sampled_from(found))
    return Mutated(kind, path, config, CHANGES[kind](draw, config, path))


def _moved(draw, config, path):
    part, key = draw(st.sampled_from(PARTS)), path[-1]
    left = without(config, path)
    if part == "text_config":  # with all other keys, as those of the text model are read from there alone
        outer = {"model_type": config.get("model_type")}
        return outer | ({part: config} if len(path) > 1 else {key: at(config, path), part: left})
    inner = left.get(part)
    return left | {part: (inner if isinstance(inner, dict) else {}) | {key: at(config, path)}}


def _twice(draw, config, path):
    """Return a config with a second spelling of the key, or a second place for it, of the same value or another."""
    key, value = path[-1], at(config, path)
    value = draw(st.sampled_from([value, 7, "linear", None]))
    others = {"rope_type": "type", "type": "rope_type", "rope_parameters": "rope_scaling"}
    others |= {
        "rope_scaling": "rope_parameters",
        "partial_rotary_factor": "rotary_pct",
        "rope_theta": "rotary_emb_base",
    }
    if key in others and draw(st.booleans()):
        return changed(config, path, **{key: at(config, path), others[key]: value})
    if len(path) > 1:
        return config | {key: value}
    rope = next((name for name in ("rope_parameters", "rope_scaling") if isinstance(config.get(name), dict)), None)
    return config | {rope or "rope_parameters": (config.get(rope) or {}) | {key: value}}


CHANGES = {
    "deleted": lambda draw, config, path: without(config, path),
    "null": lambda draw, config, path: changed(config, path, **{path[-1]: None}),
    "retyped": lambda draw, config, path: changed(config, path, **{path[-1]: draw(st.sampled_from(NOT_NUMBERS))}),
    "absurd": lambda draw, config, path: changed(config, path, **{path[-1]: draw(st.sampled_from(ABSURD))}),
    "misspelt": lambda draw, config, path: changed(config, path, **{draw(misspelt(path[-1])): at(config, path)}),
    "moved": _moved,
    "twice": _twice,
}
