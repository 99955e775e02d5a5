"""Record the default configs of other libraries for `tests/core`: `python -m tests.peers.recording`.

The answers beside them are ours; the other tests here compare them with the models. Where a peer is not installed, the
tests of the core notice by these files if a default or a fact changes.
"""

import inspect
import json
import re
import warnings
from pathlib import Path

import diffusers
from transformers import CONFIG_MAPPING

from posenc_core.huggingface import load_position, load_rope, vision_positions
from posenc_core.huggingface.config import is_rotary_key
from posenc_core.huggingface.diffusers import diffusers_positions
from posenc_core.huggingface.diffusers_classes import RULES
from posenc_core.huggingface.facts.towers import HARMLESS, TOWERS
from posenc_core.huggingface.image_rules import build_rising

from .coverage.of_diffusers import FIELDS
from .test_timm import MODELS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "core" / "published"
FILES = [path for path in (ROOT / "posenc_core" / "huggingface").rglob("*") if path.suffix in (".py", ".json")]
SOURCE = " ".join(path.read_text(encoding="utf-8") for path in FILES)
WORDS = set(re.findall(r"\w+", SOURCE))
BROKEN = {"gemma4_assistant", "nougat"}  # transformers itself refuses their defaults
GRIDS = [(4, 20)]  # wider than a window
TOKENS = {"height": 4, "width": 6}


def transformers_configs():
    """Return the default config of each model type: the keys that the answer depends on, and the answer in lines."""
    whole = {name: default_config(name) for name in CONFIG_MAPPING if name not in BROKEN}
    kept = {name: {key: config[key] for key in keys_that_matter(config)} for name, config in whole.items()}
    return {name: {"config": brief(config, kept), "answer": answer(config)} for name, config in kept.items()}


def default_config(name):
    """Return the values of a default config that the library may read."""
    return json.loads(json.dumps(_known(CONFIG_MAPPING[name]().to_dict())))


def _known(value):
    if not isinstance(value, dict):
        return value
    return {key: _known(inner) for key, inner in sorted(value.items()) if key in WORDS and inner is not None}


def answer(config):
    """Return what `load_position` finds, without the notes, or its error."""
    try:
        lines = str(load_position(config)).splitlines()
    except (TypeError, ValueError) as error:
        return [f"{type(error).__name__}: {error}"]
    return [line for line in lines if not line.lstrip().startswith("note:")]


def keys_that_matter(config):
    """Yield the keys of RoPE, and those without which, or with another value, the answer is another."""
    whole = answer(config)
    for key, value in config.items():
        others = {name: other for name, other in config.items() if name != key}
        other = changed(value)
        is_kept = key == "model_type" or isinstance(value, dict) or (is_rotary_key(key) and key not in HARMLESS)
        if is_kept or answer(others) != whole or answer(others | {key: other}) != whole:
            yield key


def changed(value):
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case list():
            return value[:-1]
        case _:
            return f"{value}x"


def brief(config, kept):
    """Return a config whose inner ones are cut to what their `model_type` reads, if the answer stays the same."""
    short = {key: cut(value, kept) if isinstance(value, dict) else value for key, value in config.items()}
    return short if answer(short) == answer(config) else config


def cut(config, kept):
    """Return the keys of a config inside of another that its `model_type` reads, all cut in the same way."""
    read = kept.get(config.get("model_type"), config)
    return {key: cut(value, kept) if isinstance(value, dict) else value for key, value in config.items() if key in read}


def towers():
    """Return for each vision tower the positions of patches by its default config, and the numbers in that config."""
    found = {}
    for name, tower in TOWERS.items():
        if name not in CONFIG_MAPPING:
            continue
        options = {"merge_sizes": [2]} if name == "video_llama_3_vision" else {}
        options |= {"layer_type": "full_attention"} if name == "sam3_vit_model" else {}
        positions = vision_positions({"model_type": name}, GRIDS, part=None, **options)
        config = default_config(name)
        defaults = {key: config[key] for key in tower.defaults if key in config}
        found[name] = {"options": options, "defaults": defaults, "positions": positions.tolist()}
    return found


def diffusers_classes():
    """Return the defaults of each class, from its signature, and our encoding and positions for them."""
    found = {}
    for name, rule in RULES.items():
        parameters = inspect.signature(getattr(diffusers, name).__init__).parameters
        defaults = {key: parameters[key].default for key in rule.defaults if key in parameters}
        fields = {key: value for key, value in FIELDS.get(name, {}).items() if key in rule.defaults}
        fields |= {"num_attention_heads": 1} if rule.build is build_rising else {}  # one number for each pair
        config, text = {"_class_name": name} | defaults | fields, 2 if rule.text else 0
        positions = diffusers_positions(config, **TOKENS, text=text).tolist() if rule.image else None
        encoding = load_rope(config).to_dict()
        found[name] = {"config": config, "fields": fields, "text": text, "encoding": encoding, "positions": positions}
    return found


def files():
    """Return the content of each file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            "transformers": transformers_configs(), "towers": towers(), "diffusers": diffusers_classes(),
            "timm": MODELS,
        }  # fmt: skip
    return {f"{name}.json": lines(content) for name, content in found.items()}


def lines(content):
    """Return a dict as JSON, one line for each key."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()) + "\n}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
