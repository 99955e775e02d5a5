"""Rows of configs as published: the rotary class that transformers builds from each, beside `load_rope`."""

import importlib
import json
from pathlib import Path

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc_core.huggingface.dual_chunk import KEY as DUAL_CHUNK

from . import of_transformers
from .rows import VERDICTS, Row

PACKAGES = of_transformers.PACKAGES
PUBLISHED = Path(__file__).parents[2] / "core" / "published" / "models.json"
MODELS = {name: one["config"] for name, one in json.loads(PUBLISHED.read_text(encoding="utf-8")).items()}
OTHERS = ("Vision", "Audio", "Talker", "Code2Wav", "DiT")  # in the names of classes that do not belong to the text


def rows():
    """Yield a row for each config."""
    for name, config in MODELS.items():
        yield row(config["model_type"], name)


def classes_by_name():
    """Return the `model_type` of each config, by itself and the name of the config."""
    return {(config["model_type"], name): config["model_type"] for name, config in MODELS.items()}


def row(kind, name):
    """Return the row of a config; one that transformers does not read as its authors do counts as not built."""
    blank = Row(kind, name, config=kind, known=True)
    if DUAL_CHUNK in MODELS[name]:
        return blank._replace(note=f"transformers does not read `{DUAL_CHUNK}`.")
    if kind not in CONFIG_MAPPING:
        return blank._replace(note="Its code stands beside the weights, not in transformers.")
    try:
        config = CONFIG_MAPPING[kind].from_dict(dict(MODELS[name])).get_text_config()
    except Exception as error:  # noqa: BLE001  # transformers checks more than it reads
        return blank._replace(note=f"{type(error).__name__}: {error}".splitlines()[0])
    folder, found = type(config).__module__.split(".")[2], []
    for path, cls in of_transformers.classes(folder):
        if not any(other in cls for other in OTHERS):
            module = importlib.import_module(path)
            found.append(of_transformers.compared(module, getattr(module, cls)(config).eval(), config))
    if not found:
        return blank._replace(note="Its code in transformers has no class of its own for a rotation.")
    last = max(found, key=lambda one: VERDICTS.index(one.verdict))
    verdict = "cannot be built" if last.verdict == "refused" else last.verdict
    note = last.note or ("" if verdict == "agrees" else "`load_rope` returns None.")
    return last._replace(folder=kind, name=name, config=kind, verdict=verdict, note=note, known=True)
