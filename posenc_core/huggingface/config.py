"""Configs: read a Hugging Face config, or its text part, as a dict, and check that its keys are supported."""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

from .._array_api.checks import check_integer, check_number, shown
from ..formats.gguf import ARCHITECTURE, from_gguf
from ..formats.megatron import from_megatron, is_command_line, is_megatron
from ..formats.params import from_params, is_params
from ..formats.values import quote
from .config_file import read_config_file
from .facts.models import MODELS, find_model
from .facts.records import Model
from .hub_keys import SPELLINGS, TRANSLATIONS

ROPES = ("rope_parameters", "rope_scaling")
BASES = ("rope_theta", "rotary_emb_base", "rotary_embedding_base", "global_rope_theta")
LOCAL_BASES = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta", "compress_rope_theta")
SHARES = (
    "partial_rotary_factor", "rotary_pct", "rotary_emb_fraction", "rotary_percentage", "rope_pct", "rope_percent",
    "rope_percentage",
)  # fmt: skip
WIDTHS = ("rotary_dim", "rotary_emb_dim", "attn_rotary_emb", "rope_dim")
LENGTHS = ("max_position_embeddings", "n_positions", "seq_length")

HEADS = ("head_dim", "attention_head_dim", "kv_channels", "head_size")
SIZES = ("hidden_size", "n_embd", "d_model")
COUNTS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_num_attention_heads",
    "speech_encoder_attention_heads",
)  # fmt: skip
TEXTS = (
    "thinker_config", "vlm_config", "text_config", "llm_config", "language_config", "language_model_config",
    "lm_config", "transformer_layer_config",
)  # fmt: skip
DEEPEST, MOST_VALUES = 50, 2**20  # of a config, which is a Python object
SPELLED = (*ROPES, *BASES, *LOCAL_BASES, *SHARES, *WIDTHS, "head_dim", "model_type")
FOREIGN = ("_class_name", "architecture")  # keys that diffusers and timm have, and models of transformers have not
_ROTARY = re.compile(r"(?<!p)rope|fope|rotary|theta", re.IGNORECASE)  # not "properties"
_NO_TEXT = re.compile(r"vision|visual|vit_|image|img|video|audio|speech|wav|codec", re.IGNORECASE)
ROTARY_FLAGS = (  # False: no RoPE
    "rotary", "use_rope", "use_mem_rope", "use_rotary_pos_emb", "use_rotary_embedding", "rope",
)  # fmt: skip
NO_ROTARY_FLAGS = ("alibi", "use_alibi", "mla_use_nope")  # True: no RoPE
# Read for some models; False: the channels of a pair are half the width apart, in the attention or in the indexer.
INTERLEAVED = tuple(dict.fromkeys(model.interleaved_key for model in MODELS.values() if model.interleaved_key))
INDEXER_LAYOUT = "indexer_rope_interleave"
FLAGS = (
    *ROTARY_FLAGS, *NO_ROTARY_FLAGS, "use_mla", "rope_interleave", "rotary_emb_interleaved", *INTERLEAVED,
    INDEXER_LAYOUT, "use_dynamic_ntk",
)  # fmt: skip
ROTATED, INTERVAL = LAYERS_WITHOUT = ("no_rope_layers", "no_rope_layer_interval")  # read by `load_layers`
KNOWN = {
    *ROPES, *BASES, *LOCAL_BASES, *SHARES, *WIDTHS, *FLAGS, "rope_ratio", "qk_rope_head_dim", "layer_rope_theta",
    *LAYERS_WITHOUT,
}  # fmt: skip
HARMLESS = {"ignore_keys_at_rope_validation"}  # names of keys for a validator of transformers
REFUSED = {  # what the key does, and how to write it
    "use_dynamic_ntk": "scales the frequencies by the length of the prompt: make an `NTKAlpha` for a length, with the "
    "alpha 2 ** ceil(log2(length / seq_length) + 1) - 1",
    "rotary_scaling_factor": "scales the base in prompts longer than `max_trained_positions`: make a `DynamicNTK` with "
    "this factor and that length",
    "position_encoding_2d": "gives each half of a head positions of its own: make an `AxialRotary` with the "
    "arrangement 'blocks'",
    "video_rope": "orders the axes: write it as the `rope_type` of the RoPE parameters",
}
POSITIONS = ("position_embedding_type", "position_embeddings_type")
LARGEST = 2**31


def read(config: Any) -> dict[str, Any]:
    """Read the config of the text model: for a nested config, its innermost text part; one of diffusers or timm whole.

    Other formats, as in `formats`, are translated into a config.

    Raises:
        TypeError: if `config` is not a config.
        ValueError: if a file is not JSON, or parts contradict each other.
        FileNotFoundError: if there is no such file.
    """
    return find_text(contents(config))


def contents(config: Any) -> dict[str, Any]:
    """Read a whole config, with all its parts; the exceptions are those of `read`."""
    content = config
    if isinstance(config, PathLike) or (isinstance(config, str) and not is_command_line(config)):
        content = read_config_file(Path(config))
    elif hasattr(config, "to_dict"):
        content = _from_object(config)
    if isinstance(content, Namespace | list | tuple | str):
        content = from_megatron(content)
    elif not isinstance(content, Mapping):
        raise TypeError(
            f"`config` must be a path, a dict or a config object of transformers, got {type(config).__name__}."
        )
    elif not content.keys() & {"model_type", "rope_parameters"} and is_megatron(content):
        content = from_megatron(content)
    elif ARCHITECTURE in content:
        content = from_gguf(content)
    elif content.get("model_type", "transformer") == "transformer" and is_params(content):
        content = from_params(content)  # no model in transformers has the type "transformer"
    if type(content).__module__.startswith("diffusers.") and "_class_name" not in content:
        raise ValueError(
            "`config` must have the key `_class_name`, which `model.config` of diffusers lacks: give "
            '`{"_class_name": type(model).__name__, **model.config}`.'
        )
    _check_bounded(content)
    return dict(content)


def find_text(content: dict[str, Any]) -> dict[str, Any]:
    """Return the config of the text model in a whole config; one of diffusers or timm whole."""
    return content if is_foreign(content) else _find_text_part(content)


def is_foreign(config: Mapping[str, Any]) -> bool:
    """Return whether a config is one of diffusers or timm; transformers wraps those of timm."""
    return config.get("model_type") in (None, "timm_wrapper") and any(isinstance(config.get(k), str) for k in FOREIGN)


def is_translated(config: Mapping[str, Any]) -> bool:
    """Return whether a config was translated from another format, whose reader says what the layout is from."""
    return "layout_from" in config


def is_rotary_key(key: object) -> bool:
    """Return whether the name of a key suggests that it concerns RoPE, in any spelling."""
    return _ROTARY.search(str(key)) is not None


def is_set(value: object) -> bool:
    """Return whether a value is set: neither None nor False."""
    return value is not None and value is not False


def common_value(candidates: Mapping[str, Any]) -> Any:
    """Return the value of the keys that have one, or None if none has.

    Raises:
        ValueError: if two of the values differ.
    """
    (first, common), *rest = [item for item in candidates.items() if item[1] is not None] or [("", None)]
    for key, value in rest:
        if value != common:
            raise ValueError(
                f"`{first}` is {shown(common)}, but {quote(key)} is {shown(value)}: leave one of the two out."
            )
    return common


def get_values(config: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return the values of the keys, without those that are missing or None."""
    return {key: value for key in keys if key in config and (value := config[key]) is not None}


def find_value(config: Mapping[str, Any], path: str) -> Any:
    """Return the value of a key, or one inside of it, as in `"attn_config.alibi"` or `"widths.0"`; None without it."""
    value: Any = config
    for name in path.split("."):
        if isinstance(value, list | tuple):
            number = int(name) if name.lstrip("-").isdecimal() else len(value)
            value = value[number] if -len(value) <= number < len(value) else None
        else:
            value = value.get(name) if isinstance(value, Mapping) else None
    return value


def join_names(names: Iterable[Any]) -> str:
    """Return names for a message."""
    return shown(sorted(names, key=str))[1:].removesuffix("]")


def _from_object(config: Any) -> Any:
    try:
        return config.to_dict()
    except Exception as error:
        raise TypeError(f"`config` must have a `to_dict` that works, got {type(error).__name__} from it.") from error


def _check_bounded(config: Mapping[Any, Any]) -> None:
    """Raise unless a config can be walked through and printed, as error messages do; one that holds itself cannot."""
    level: list[Any] = [config]
    try:
        for _ in range(DEEPEST):
            level = list(islice(chain.from_iterable(map(_children, level)), MOST_VALUES))
            if not level or len(level) == MOST_VALUES:
                break
        if not level:
            repr(config)
    except ValueError as error:
        raise ValueError(f"`config` must have shorter numbers: {error}.") from error
    except Exception as error:
        raise TypeError(f"`config` must hold values that can be printed, got {type(error).__name__}.") from error
    if level:
        raise ValueError(f"`config` must be nested less deeply, at most {DEEPEST} times, and have fewer values.")


def _children(part: Any) -> Iterable[Any]:
    if isinstance(part, Mapping):
        return [value for _, value in part.items()]
    return part if isinstance(part, list | tuple) else ()


def translate(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config, or one part of it, with the keys that transformers has for the same numbers.

    Raises:
        TypeError, ValueError: if such a number is out of range, or lists of layers contradict each other.
    """
    config = config | {usual: config[key] for key, usual in SPELLINGS.items() if key in config and usual not in config}
    return TRANSLATIONS.get(find_model(config).quirks.hub_keys, dict)(config)


def _find_text_part(config: dict[str, Any]) -> dict[str, Any]:
    """Return the innermost text config, with the RoPE keys that only the outer configs have."""
    _check_nested(config := translate(config))
    _check_spelling(config)
    for name in TEXTS:
        part = config.get(name)
        if not isinstance(part, Mapping | None):
            raise TypeError(f"`{name}` must be a dict or None, got {shown(part)}.")
        if part is not None:
            outer = get_values(config, ("model_type", *filter(is_rotary_key, config)))
            for key in {*BASES, *SHARES} & outer.keys():
                common_value({key: outer[key], f"{name}.{key}": part.get(key)})
            return _find_text_part(
                outer | {key: value for key, value in part.items() if value is not None or key not in outer}
            )
    return _add_attention_keys(config)


def _check_spelling(config: Mapping[str, Any]) -> None:
    """Raise if a key is one letter off another, which the encoding would silently be without."""
    for key, value in config.items():
        if key not in SPELLED and is_set(value) and (meant := _find_near_key(key)):
            raise ValueError(
                f"{quote(key)} is unknown, got {shown(value)}: write `{meant}`, or leave it out if it changes no angle."
            )


def _find_near_key(key: object) -> str | None:
    """Return the key with one letter more, less, changed or exchanged, if there is one."""
    if not isinstance(key, str) or len(key) > len(max(SPELLED, key=len)) + 1:
        return None
    return next((_NEAR[near] for near in (key, *_drop_one_letter(key)) if near in _NEAR), None)


def _drop_one_letter(key: str) -> Iterator[str]:
    """Yield the key without each of its letters."""
    return (key[:place] + key[place + 1 :] for place in range(len(key)))


_NEAR = {near: key for key in SPELLED for near in (key, *_drop_one_letter(key))}


def _add_attention_keys(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config with the position keys of `attn_config`, where DBRX and MPT have them."""
    attention = config.get("attn_config")
    if not isinstance(attention, Mapping):
        return config
    for key in filter(lambda key: key == "alibi" or is_rotary_key(key), attention):
        config = {**config, key: common_value({key: config.get(key), f"attn_config.{key}": attention[key]})}
    return config


def _check_nested(config: Mapping[str, Any]) -> None:
    """Raise if a RoPE key is set in a dict that is not read."""
    for name, part in config.items():
        if isinstance(part, Mapping) and name not in (*TEXTS, *ROPES, "attn_config"):
            for path, value in _rotary_paths(str(name), part):
                raise ValueError(
                    f"{quote(path)} is not read there, got {shown(value)}: move it to the top level, or leave it out "
                    "if it changes no angle."
                )


def _rotary_paths(path: str, part: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if _NO_TEXT.search(path) or "model_type" in part:
        return
    for key, value in part.items():
        if is_rotary_key(key) and is_set(value):
            yield f"{path}.{key}", value
        elif isinstance(value, Mapping):
            yield from _rotary_paths(f"{path}.{key}", value)


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise if the config has a RoPE key that is not supported, or a value of the wrong type.

    Raises:
        TypeError, ValueError: with the name of the key.
    """
    for key, value in get_values(config, FLAGS).items():
        check_flag(key, value)
    for key, reason in REFUSED.items():
        if is_set(config.get(key)):
            raise ValueError(f"`{key}` is not supported, got {shown(config[key])}; it {reason}.")
    model = find_model(config)
    for key in (*INTERLEAVED, INDEXER_LAYOUT):
        is_read = key == model.interleaved_key or (key == INDEXER_LAYOUT and model.indexer)
        if config.get(key) is not None and not is_read:
            raise ValueError(
                f"`{key}` is not read for this `model_type`, got {shown(config[key])}: leave it out and pass `layout`."
            )
    plain_types = model.plain_types
    for key in (
        key for key, value in config.items() if key not in KNOWN | HARMLESS and is_rotary_key(key) and is_set(value)
    ):
        if not _scales_all(config, key) and not (key == "rope_type" and config[key] in plain_types):
            raise ValueError(f"{quote(key)} is unknown, got {shown(config[key])}: leave it out if it changes no angle.")
    for key in ("model_type", *POSITIONS):
        if not isinstance(config.get(key), str | None):
            raise TypeError(f"`{key}` must be a string or None, got {shown(config[key])}.")
    check_values(config)


def check_values(config: Mapping[str, Any]) -> None:
    """Raise unless every base, share and width is a number in its range."""
    for key, base in get_values(config, (*BASES, *LOCAL_BASES)).items():
        check_number(key, base, above=1)
    for key, share in get_values(config, SHARES).items():
        check_number(key, share, minimum=0)
        if share > 1:
            raise ValueError(f"`{key}` must be at most 1, got {shown(share)}.")
    for key, width in get_values(config, (*WIDTHS, "head_dim", "qk_rope_head_dim", "qk_nope_head_dim")).items():
        check_size(key, width, minimum=0)
    check_flag("mrope_interleaved", config.get("mrope_interleaved"))


def check_flag(name: str, value: object) -> None:
    """Raise unless `value` is True, False or None."""
    if not isinstance(value, bool | None):
        raise TypeError(f"`{name}` must be True or False, got {shown(value)}.")


def check_size(name: str, value: Any, *, minimum: int = 1) -> None:
    """Raise unless `value` is an integer from `minimum` on that is small enough for the size of an array."""
    check_integer(name, value, minimum=minimum, maximum=math.inf)
    if value >= LARGEST:
        raise ValueError(f"`{name}` must be less than {LARGEST}, got {shown(value)}.")


def is_rotary(config: Mapping[str, Any], model: Model) -> bool:
    """Return whether the model uses RoPE at all."""
    if model.never or True in get_values(config, NO_ROTARY_FLAGS).values():
        return False
    if False in get_values(config, ROTARY_FLAGS).values():
        return False
    name = next(iter(get_values(config, POSITIONS).values()), None)
    if model.position_embedding_type is not None:
        return name == model.position_embedding_type
    if name in (None, "", "rope", "rotary"):
        return True
    if name in ("nope", "alibi"):
        return False
    return bool(get_values(config, (*ROPES, *BASES, *SHARES, *WIDTHS)))  # "absolute" is left over in some RoPE models


def _scales_all(config: Mapping[str, Any], key: str) -> bool:
    """Return whether the key is Molmo 2's list of scaled layers, and lists all layers."""
    count, layers = config.get("num_hidden_layers"), config[key]
    is_list = key == "rope_scaling_layers" and isinstance(layers, list) and len(layers) == count
    return is_list and layers == list(range(len(layers)))
