"""Rows of transformers: every class of a rotary embedding, found by its name in the sources of the models."""

import importlib
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import PreTrainedConfig

from posenc_core import AxialRotary, huggingface
from posenc_core.huggingface import layer_types, load_rope

from .attentions import builders_of, rotation_of
from .rows import VERDICTS, Row, Theirs, difference, shown

CLASS = re.compile(r"^class (\w*(?:Rotary|Rope|RoPE)\w*Embed\w*)", re.MULTILINE)
FOLDER = Path(transformers.__file__).parent / "models"
FIELDS = {  # the least that makes a default config use the class, or its values go together
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5e6}}},
    "esm": {"position_embedding_type": "rotary"},
    "glm4_moe": {"head_dim": 128},
    "glm4v_moe_text": {"head_dim": 128},
    "glm4v_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "glm_image_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "granitemoehybrid": {"position_embedding_type": "rope", "num_hidden_layers": 1, "layer_types": ["full_attention"]},
    "minimax_m3_vl_text": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}
    },
    "qwen3_omni_moe_text": {"num_attention_heads": 32, "head_dim": 128},
    "qwen3_omni_moe_talker_text": {"head_dim": 128},
    "qwen4_exp_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}},
    "seamless_m4t": {"position_embeddings_type": "rotary"},
    "wav2vec2-bert": {"position_embeddings_type": "rotary"},
    "wav2vec2-conformer": {"position_embeddings_type": "rotary"},
    "zamba2": {"use_mem_rope": True},
}
PACKAGES = ("transformers", "torch")
LENGTH, HEADS = 7, 3  # they differ, so that one cannot be taken for the other


transformers.logging.set_verbosity_error()  # default configs are not those of a checkpoint


def rows():
    """Yield a row for each class."""
    for path, name in classes():
        yield row(path, name)


def classes(folder="*"):
    """Yield the module and the name of each class, or of each in a folder; no model is imported."""
    for file in sorted(FOLDER.glob(f"{folder}/modeling_*.py")):
        for name in CLASS.findall(file.read_text(encoding="utf-8")):
            yield f"transformers.models.{file.parent.name}.{file.stem}", name


def classes_by_name():
    """Return the module of each class, by its folder and name."""
    return {(path.split(".")[2], name): path for path, name in classes()}


def configs():
    """Yield the classes of the configs of all models."""
    for file in sorted(FOLDER.glob("*/configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{file.parent.name}.{file.stem}")
        yield from (value for value in vars(module).values() if _is_config(value, module))


def row(path, name):
    """Return the row of a class."""
    module, folder = importlib.import_module(path), path.split(".")[2]
    cls, reasons = getattr(module, name), []
    for config, fields in configs_of(module, cls):
        try:
            part = cls(config).eval()
        except Exception as error:  # noqa: BLE001  # whatever their code raises is the reason
            reasons.append(f"{type(config).__name__}: {type(error).__name__}: {error}")
            continue
        named = config.model_type or type(config).__name__
        return compared(module, part, config)._replace(folder=folder, name=name, config=named, fields=fields)
    return Row(folder, name, note="; ".join(reasons))


def configs_of(module, cls):
    """Yield configs that the class may take, and what they have beside the defaults.

    The first ones are those of the modules that build the class, then those of its annotation.
    """
    found = {}
    for file in sorted(Path(module.__file__).parent.glob("configuration_*.py")):
        sibling = importlib.import_module(f"{module.__package__}.{file.stem}")
        found |= {name: one for name, one in vars(sibling).items() if _is_config(one, sibling)}
    own = " ".join(str(one.annotation) for one in inspect.signature(cls.__init__).parameters.values())
    builders = " ".join(builders_of(inspect.getsource(module), cls.__name__))
    named = {name: [not re.search(rf"\b{name}\b", text) for text in (builders, own)] for name in found}
    for name in sorted(found, key=named.get):
        fields = FIELDS.get(found[name].model_type, {})
        try:
            config = found[name](**fields)
        except Exception:  # noqa: BLE001, S112  # its defaults are not a config
            continue
        yield config, fields
        if (text := config.get_text_config()) is not config:
            fields = FIELDS.get(text.model_type, {})
            yield (type(text)(**fields) if fields else text), fields


def _is_config(value, module):
    return inspect.isclass(value) and issubclass(value, PreTrainedConfig) and value.__module__ == module.__name__


def compared(module, part, config):
    """Return a row with the verdict on all layers."""
    verdicts, ours, known = [], {}, True
    for layer_type in _layer_types(part, config):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            verdict, note, encoding = _verdict(module, part, config, layer_type)
        known &= not any(re.search(r"is unknown: .* assumed; pass", str(one.message)) for one in caught)
        verdicts.append((verdict, f"{layer_type}: {note}" if note and layer_type else note))
        ours[layer_type or ""] = shown(encoding)
    verdict, note = max(verdicts, key=lambda one: VERDICTS.index(one[0]))
    return Row("", "", verdict=verdict, note=note, known=known, ours=ours)


def _layer_types(part, config):
    """Return the layer types whose frequencies the class keeps; if it keeps one series, those with RoPE."""
    kept = [name.removesuffix("_inv_freq") for name, _ in part.named_buffers() if name.endswith("_inv_freq")]
    if kept := [name for name in kept if not name.endswith("original")]:
        return kept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            types = [name for name in layer_types(config) if load_rope(config, layer_type=name)]
        except (TypeError, ValueError):
            types = []
    return types or [None]


def _verdict(module, part, config, layer_type):
    """Return the verdict on layers of a type, the reason, and our encoding of them."""
    if config.get_text_config() is not config:
        return "refused", "It stands between the parts of the model, for which `load_rope` answers.", None
    try:
        encoding = _load(config, layer_type)
    except (TypeError, ValueError) as error:
        return "refused", str(error), None
    if encoding is None:
        return "no rotation", "", None
    try:
        theirs = _theirs(module, part, config, layer_type, encoding)
    except Exception as error:  # noqa: BLE001  # their code does not run
        return "disagrees", f"{type(error).__name__}: {error}", encoding
    where = difference(encoding, theirs)
    return "disagrees" if where else "agrees", where, encoding


def _load(config, layer_type):
    if layer_type in layer_types(config):
        return load_rope(config, layer_type=layer_type)
    return load_rope(config)


def _theirs(module, part, config, layer_type, encoding):
    """Return what the class, and the function that the attention of the model calls with its tables, compute."""
    prefix = f"{layer_type}_" if hasattr(part, f"{layer_type}_inv_freq") else ""
    frequencies = getattr(part, f"{prefix}inv_freq", None)
    rotation = rotation_of(module, part, config)
    generator = np.random.default_rng(0)
    turns = []
    for positions, form, tables in _tables(part, config, layer_type, encoding):
        size = (1, HEADS, np.shape(positions)[-1], encoding.head_dim)
        x = torch.tensor(generator.normal(size=size), dtype=torch.float32)
        turns += [(positions, x.numpy(), after.numpy()) for after in rotation(x, tables, form)]
    turn = 2 * np.pi if getattr(encoding, "unit", "") == "turn" else 1  # which they multiply by later
    return Theirs(
        None if frequencies is None else turn * frequencies.double().numpy(),
        getattr(part, f"{prefix}attention_scaling", 1.0),
        turns,
    )


def _tables(part, config, layer_type, encoding):
    """Yield positions, each form of them that the class accepts, and what it returns."""
    wanted = inspect.signature(part.forward).parameters
    axes = getattr(encoding, "num_axes", 1)
    if "position_ids" not in wanted:
        positions = huggingface.vision_positions(config) if axes > 1 else np.arange(LENGTH)
        size = (1, 3, config.image_size, config.image_size) if "pixel_values" in wanted else (1, LENGTH, 8)
        yield positions, torch.arange(LENGTH)[None], part(torch.zeros(size))
        return
    more = {"layer_type": layer_type} if "layer_type" in wanted else {}
    positions = np.random.default_rng(1).integers(0, 300, (axes, LENGTH)) if axes > 1 else 41 * np.arange(LENGTH)
    given = torch.tensor(positions)
    forms = [given[None]] if axes == 1 else [given[:, None], given.T, given.T[None]]
    if isinstance(encoding, AxialRotary):  # the order of whose axes is that of `vision_positions`
        forms += [given.flip(0).T, given.flip(0).T[None]]
    for form in forms:
        try:
            yield positions, form, part(torch.zeros(1, LENGTH, 8), form, **more)
        except Exception:  # noqa: BLE001, S112  # not the form that it takes
            continue
