"""Rows of diffusers: every model in whose module something rotates, found by the names in its source."""

import importlib
import inspect
import re
from pathlib import Path

import diffusers
import torch
from diffusers import ConfigMixin, ModelMixin

from posenc_core.huggingface import load_rope
from posenc_core.huggingface.diffusers_classes import REFUSED, RULES, WITHOUT_ROPE

from ..diffusers_cases import CASES
from ..pictures import difference
from .making import recorded
from .rows import STILL, Row, shown

MENTIONS = re.compile(r"rotary|rope\b|RoPE|Rope[A-Z]|[a-z]Rope|freqs_cis")
MAKERS = re.compile(r"(Rotary|Rope|RoPE|PosEmb|EmbedND)(?!.*Model$)")
FOLDER = Path(diffusers.__file__).parent
LONGROPE = {"short_factor": (1.0,) * 48, "long_factor": (2.0,) * 48, "type": "su"}
ROTATE = {"use_rotary_positional_embeddings": True}
FIELDS = {  # the least that makes the defaults build the class, or turns its rotation on
    "CogVideoXTransformer3DModel": ROTATE,
    "ConsisIDTransformer3DModel": ROTATE,
    "EasyAnimateTransformer3DModel": {"in_channels": 16, "out_channels": 16, "patch_size": 2},
    "HiDreamImageTransformer2DModel": {
        "patch_size": 2, "axes_dims_rope": (64, 32, 32), "caption_channels": (4096, 4096), "llama_layers": (0, 1),
    },
    "HunyuanDiT2DControlNetModel": {"in_channels": 4, "patch_size": 2},
    "HunyuanDiT2DModel": {"in_channels": 4, "patch_size": 2, "activation_fn": "gelu-approximate"},
    "LuminaNextDiT2DModel": {"num_kv_heads": 32, "ffn_dim_multiplier": 1.0},
    "OmniGenTransformer2DModel": {"rope_scaling": LONGROPE},
    "PRXTransformer2DModel": {"axes_dim": (32, 32)},
    "ZImageControlNetModel": {
        "control_layers_places": (0,), "control_refiner_layers_places": (0,), "control_in_dim": 16,
    },
}  # fmt: skip
PACKAGES = ("diffusers", "torch")
WAYS = {case.name: case for case in CASES}


def rows():
    """Yield a row for each class."""
    for path, name in classes():
        yield row(path, name)


def classes():
    """Yield the module and the name of each class."""
    for file in sorted(FOLDER.glob("models/**/*.py")):
        if not MENTIONS.search(file.read_text(encoding="utf-8")):
            continue
        path = ".".join(file.relative_to(FOLDER.parent).with_suffix("").parts)
        for name, one in vars(importlib.import_module(path)).items():
            if inspect.isclass(one) and one.__module__ == path and issubclass(one, ModelMixin) and _has_config(one):
                yield path, name


def classes_by_name():
    """Return the module of each class, by its folder and name."""
    return {(path.split(".")[-1], name): path for path, name in classes()}


def row(path, name):
    """Return the row of a class."""
    module, fields = importlib.import_module(path), FIELDS.get(name, {})
    cls = getattr(module, name)
    known = name in {*RULES, *REFUSED, *WITHOUT_ROPE}
    blank = Row(path.split(".")[-1], name, config=name, fields=fields, known=known)
    content = {"_class_name": name} | _defaults(cls) | fields
    try:
        encoding = load_rope(content)
    except (TypeError, ValueError) as error:
        return blank._replace(verdict="refused", note=str(error))
    try:
        with recorded(module, MAKERS) as made, torch.device("meta"):  # without the memory that the weights would need
            content |= cls(**fields).config
    except Exception as error:  # noqa: BLE001  # whatever their code raises is the reason
        return blank._replace(note=f"{type(error).__name__}: {error}")
    if encoding is None:
        return blank._replace(verdict="disagrees", note=f"it makes {made}") if made else blank._replace(**STILL)
    with recorded(module, MAKERS) as asked:
        where = difference(encoding, content, WAYS[name])
    if others := [one for one in asked if one not in made]:
        where = f"it makes {made}, not {others}"
    return blank._replace(verdict="disagrees" if where else "agrees", note=where, ours={"": shown(encoding)})


def _has_config(cls):
    return issubclass(cls, ConfigMixin) and hasattr(vars(cls).get("__init__"), "__wrapped__")  # by register_to_config


def _defaults(cls):
    """Return the arguments of a class that have a default."""
    parameters = inspect.signature(cls.__init__).parameters
    return {name: one.default for name, one in parameters.items() if one.default is not inspect.Parameter.empty}
