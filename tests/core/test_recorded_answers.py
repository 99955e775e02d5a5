"""Configs of each kind, and the same with one value changed: the answers as recorded in `recorded_answers.json`.

An answer is an encoding, positions, or an error, and the warnings. After a change on purpose, write the file anew with
`python -m tests.core.test_recorded_answers`, and read the difference.
"""

import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from posenc_core.huggingface import load_position, load_query_scale, load_rope, vision_positions
from posenc_core.huggingface.diffusers import diffusers_positions
from posenc_core.huggingface.facts.models import MODELS as FACTS
from posenc_core.huggingface.timm import timm_positions

from .test_formats_gguf import ANSWERS as GGUF
from .test_formats_gguf import BY_LAYER, HEAD, metadata
from .test_formats_megatron import ANSWERS as MEGATRON
from .test_published_configs import DIFFUSERS, TOWERS
from .test_published_configs import MODELS as PUBLISHED

RECORDED = Path(__file__).with_name("recorded_answers.json")
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 8192}
BY_KEYS = {tuple(one["config"]): name for name, one in reversed(DIFFUSERS.items())}  # a class for each set of keys
LIST = [1.0 + pair / 8 for pair in range(8)]
SCALINGS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {
        "factor": 4.0, "original_max_position_embeddings": 2048, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 0.7,
        "mscale_all_dim": 0.5, "truncate": False,
    },
    "longrope": {
        "short_factor": LIST, "long_factor": LIST[::-1], "factor": 4.0, "original_max_position_embeddings": 2048,
    },
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 2048,
    },
    "proportional": {"partial_rotary_factor": 0.5},
}  # fmt: skip
TOWERS_TRIED = (
    "dinov3_vit",
    "gemma4_vision",
    "llama4_vision_model",
    "qwen2_5_vl_vision",
    "sam3_vit_model",
    "sam2_video",
)
CONFIGS = {
    **{kind: LLAMA | {"rope_parameters": {"rope_type": kind, **keys}} for kind, keys in SCALINGS.items()},
    "older yarn": LLAMA | {"rope_scaling": {"type": "yarn", **SCALINGS["yarn"]}},
    **{
        name: PUBLISHED[name]["config"]
        for name in (
            "bert", "t5", "mpt", "falcon", "gemma3_text", "gpt2", "gptj", "mimo_v2_flash", "modernbert",
            "qwen2_vl_text", "deepseek_v3", "cohere2", "swin", "vit", "longformer", "whisper", "fnet", "xlnet",
            "deberta-v2", "llama4_text", "inkling2_text",
        )
        if name in PUBLISHED
    },
    **{f"GGUF, {name}": metadata(one, **HEAD | keys) for name, (one, keys, _) in GGUF.items()},
    **{f"GGUF, {name}": metadata(one, **HEAD | keys) for name, (one, keys, *_) in BY_LAYER.items()},
    **{f"Megatron, {name}": words for name, (words, _) in MEGATRON.items()},
    **{f"diffusers, {name}": DIFFUSERS[name]["config"] for name in BY_KEYS.values()},
    **{
        f"timm, {kind}": {
            "architecture": "eva_of_ones_own", "use_rot_pos_emb": True, "rope_type": kind, "embed_dim": 64,
            "num_heads": 2, "rope_grid_offset": 0.5, "rope_temperature": 100.0, "ref_feat_shape": [8, 8],
            "rope_rotate_half": True, "rope_mrope_section": [4, 6, 6],
        }
        for kind in ("cat", "axial", "dinov3", "mrope")
    },
    **{f"tower, {name}": PUBLISHED[name]["config"] for name in TOWERS_TRIED},
}  # fmt: skip
LAYERS = (None, "full_attention", "sliding_attention")
OTHERS = (None, 0, 1, 2, 3, 0.5, 1e9, True, "x", [1, 2])
SHORT = 120  # characters of a recorded answer


def variants(config):
    """Yield the config and those with one value changed or left out, each with a name; of words, each left out."""
    yield "as it is", config
    if isinstance(config, str):
        words = config.split()
        for index, word in enumerate(words):
            yield f"{index}: without {word}", " ".join(words[:index] + words[index + 1 :])
            yield f"{index}: 3, not {word}", " ".join([*words[:index], "3", *words[index + 1 :]])
        return
    for key, value in config.items():
        yield f"{key}: left out", {name: other for name, other in config.items() if name != key}
        if isinstance(value, dict):
            yield from ((f"{key}: {name}", config | {key: inner}) for name, inner in variants(value))
        for other in OTHERS if not isinstance(value, str | dict) else (None, 1, "x"):
            yield f"{key}: {other!r}", config | {key: other}
        if isinstance(value, list):
            yield f"{key}: less one", config | {key: value[1:]}


def answer(config):
    """Return in a few words what all readers say of a config."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        said = [attempt(reader, config) for reader in readers(config)]
    notes = {shortened(one.message) for one in warned}
    return " | ".join([*said, *sorted(notes)])


def readers(config):
    """Return the functions that read configs like this one."""
    if isinstance(config, str):
        return [load_rope]
    if "_class_name" in config:
        return [load_rope, lambda config: diffusers_positions(config, height=4, width=6, frames=1)]
    if "architecture" in config:
        return [load_rope, lambda config: timm_positions(config, height=4, width=6)]
    if config.get("model_type") in TOWERS:
        return [load_rope, lambda config: vision_positions(config, [(4, 20)], part=None)]
    return [load_position, load_query_scale]


def attempt(reader, config):
    try:
        found = reader(config)
    except (OSError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {shortened(error)}"
    if isinstance(found, np.ndarray):
        return f"positions {found.shape}, {np.round(found @ np.arange(1, found.shape[1] + 1), 3) + 0.0}"
    return str(found)


def shortened(message):
    """Return a message without the value that the name of the variant has."""
    return str(message).partition(", got ")[0][:SHORT]


def answers(config):
    """Return each answer with the names of the variants that have it."""
    by_answer = {}
    for name, variant in variants(config):
        by_answer.setdefault(answer(variant), []).append(name)
    return {said: joined(names) for said, names in by_answer.items()}


def bare(name):
    """Return the answers of a known model to a config with sizes alone: for all layers, or for those of one type."""
    sizes = {"model_type": name, "hidden_size": 12288, "num_attention_heads": 48}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = {"rope_parameters": {"rope_type": "default"}}
        configs = (sizes, sizes | {"head_dim": 128}, sizes | plain)
        said = [attempt(partial(load_rope, layer_type=kind), config) for config in configs for kind in LAYERS]
    return list(dict.fromkeys(said))


def joined(names):
    """Return names of variants as text, those of the same key together."""
    by_key = {}
    for key, _, change in (name.rpartition(": ") for name in names):
        by_key.setdefault(key, []).append(change)
    return "; ".join(f"{key}: {', '.join(changes)}" for key, changes in by_key.items())


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CONFIGS)
def test_each_config_and_its_variants_have_the_recorded_answers(name, record):
    assert answers(CONFIGS[name]) == record[name]


@pytest.mark.parametrize("name", FACTS)
def test_facts_of_models_are_those_that_configs_without_them_have(name, record):
    assert bare(name) == record["bare"][name]


def test_nothing_else_is_recorded(record):
    assert record.keys() == CONFIGS.keys() | {"bare"}
    assert record["bare"].keys() == FACTS.keys()


if __name__ == "__main__":
    found = {name: answers(config) for name, config in CONFIGS.items()} | {"bare": {name: bare(name) for name in FACTS}}
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
