"""Megatron: the RoPE that Megatron-LM's arguments describe, as the dict of a Hugging Face config.

Source: `megatron/training/arguments.py` and `megatron/core/models/common/embeddings` of Megatron-LM, August 2026.
"""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .._array_api.checks import shown
from .megatron_layers import LAYERS, SPARSE, VARIANT, read_layers
from .values import SHOWN, Config, Reader, choice, flag, integer, number, numbers, refuse, warn

TYPES = ("learned_absolute", "rope", "yarn", "mrope", "relative", "none")
FLAGS = (
    "use_rotary_position_embeddings", "rotary_interleaved", "use_rope_scaling", "multi_latent_attention",
    "yarn_correction_range_round_to_int", "dsa_indexer_rope_interleaved",
)  # fmt: skip
SIZES = ("hidden_size", "num_attention_heads", "kv_channels", "qk_pos_emb_head_dim", "num_layers")
LINEAR = "rotary_seq_len_interpolation_factor"
YARN = {  # with ordinary attention and with multi-head latent attention
    "yarn_original_max_position_embeddings": "original_max_position_embeddings",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}
INDEXER = {  # of sparse attention
    "dsa_indexer_head_dim": "index_head_dim",
    "dsa_indexer_topk_freq": "index_topk_freq",
    "dsa_indexer_skip_topk_offset": "index_skip_topk_offset",
}
SCALES = ("rotary_scaling_factor", "mscale", "mscale_all_dim")
MARKS = {  # that no other format has
    "use_rotary_position_embeddings", "rotary_base", "rotary_percent", "rotary_interleaved", LINEAR, "use_rope_scaling",
    "no_rope_freq", "multi_latent_attention", "qk_pos_emb_head_dim", "rotary_scaling_factor",
    "yarn_original_max_position_embeddings",
}  # fmt: skip
USED = {*FLAGS, *SIZES, *MARKS, *YARN, *YARN.values(), *SCALES, "position_embedding_type", "rope_type", "mrope_section",
        "rope_scaling_factor", *INDEXER, *LAYERS}  # fmt: skip
HARMLESS = re.compile(r"(apply|no)_rope_fusion|fused_single_qkv_rope")
ROTARY = re.compile(r"(?<!p)rope|rotary|yarn|theta")
CHOSEN = {"rope_scaling_factor": 8.0, LINEAR: None, "use_rope_scaling": False, "rotary_interleaved": False}
DEFAULTS = {  # of the command line, which a namespace has whether they are read or not
    "rotary_base": 10000, "rotary_percent": 1, "rotary_scaling_factor": 1, "rope_scaling_factor": 8, "mscale": 1,
    "mscale_all_dim": 0, "original_max_position_embeddings": 4096, "beta_fast": 32,
    "beta_slow": 1, "yarn_original_max_position_embeddings": 4096, "yarn_beta_fast": 32, "yarn_beta_slow": 1,
    "yarn_correction_range_round_to_int": True, "rope_type": "rope", LINEAR: 1,
    "dsa_indexer_topk_freq": 1, "dsa_indexer_skip_topk_offset": 0,
}  # fmt: skip
_OPTION = re.compile(r"--(position-embedding-type|rotary-|use-rotary|use-rope-scaling|multi-latent|hybrid-)")


def is_megatron(content: Config) -> bool:
    """Return whether a dict has names of Megatron-LM."""
    return bool(MARKS & {_name(key) for key in content})


def is_command_line(text: str) -> bool:
    """Return whether a text, which is not JSON, has options of Megatron-LM."""
    return not text.lstrip().startswith(("{", "[")) and _OPTION.search(text) is not None


def from_megatron(arguments: Any) -> dict[str, Any]:
    """Return the config that Megatron-LM's arguments describe.

    Args:
        arguments: an argparse namespace, a dict with the same names, the words of a command line, or its text.
    Raises:
        TypeError, ValueError: if an argument is missing, of the wrong type, out of range or has no effect.
    """
    given = vars(arguments) if isinstance(arguments, Namespace) else arguments
    given = _words(given) if isinstance(given, str) else given
    given = _parse(given) if isinstance(given, list | tuple) else given
    arguments = Reader({_name(key): value for key, value in given.items()})
    config = _config(arguments)
    if config.get("use_rope") is not False:
        arguments.warn_of_unread(USED.difference(SIZES), DEFAULTS, "Megatron-LM does not read it beside the others")
    return config | {"own_keys": arguments.read_keys(DEFAULTS)}


def _name(key: object) -> str:
    return key.lstrip("-").replace("-", "_") if isinstance(key, str) and len(key) < SHOWN else ""


def _words(text: str) -> list[str]:
    """Return the words of a command line, or of a script that contains one."""
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise ValueError(f"`config` must be a command line with closed quotes: {str(error).rstrip('.')}.") from None


def _parse(words: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments by their names; other options are passed over."""
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"`config` must be a list of words, got {shown(words)}.")
    found: dict[str, Any] = {"rotary_scaling_factor": 1.0}  # the default of the command line, not that of its class
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        name = _name(option)
        if not option.startswith("--") or not (name in USED or name.startswith("no_yarn") or ROTARY.search(name)):
            continue
        if name in FLAGS or name == "no_yarn_correction_range_round_to_int" or HARMLESS.fullmatch(name):
            if equals:
                raise ValueError(f"`--{name.replace('_', '-')}` takes no value, got {shown(value)}.")
            found[name.removeprefix("no_")] = not name.startswith("no_")
            continue
        values = [value] if equals else _until_option(words[index + 1 :])
        if not values:
            raise ValueError(f"`--{name.replace('_', '-')}` must have a value.")
        parsed = [_value(value) for value in values]
        found[name] = parsed if name == "mrope_section" else parsed[0]
    return found


def _until_option(words: Sequence[str]) -> list[str]:
    end = next((index for index, word in enumerate(words) if word.startswith("--") or not word.strip()), len(words))
    return list(words[:end])


def _value(text: str) -> Any:
    """Return a number where the text is one, else the text."""
    if not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", text, re.ASCII | re.IGNORECASE) or len(text) > SHOWN:
        return text
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _config(given: Config) -> dict[str, Any]:
    for key, value in given.items():
        if ROTARY.search(key) and key not in USED and not HARMLESS.fullmatch(key) and value not in (None, False):
            raise ValueError(f"`{key}` is unknown, got {shown(value)}: leave it out if it changes no angle.")
    layers, symbols, latent = read_layers(given)
    kind = _kind(given, latent=latent)
    if kind is None or not any(layers.get("no_rope_layers", (1,))):
        layers.pop("no_rope_layers", None)
        return layers | {"use_rope": False}
    rope = {"rope_theta": number(given, "rotary_base", 10000, above=1)}
    rope |= {"yarn": _yarn, "mrope": _sections, "rope": _rope}[kind](given, latent)
    config = layers | _head(given, latent=latent) | {"rope_parameters": rope} | _layout(given, kind, latent=latent)
    is_sparse = SPARSE in symbols or (latent and given.get(VARIANT) == "dsa")
    return config | (_indexer(given, symbols) if is_sparse else {})


def _indexer(given: Config, symbols: str) -> dict[str, Any]:
    """Return the keys of DeepSeek-V3.2; of its numbers of layers, 0 is as 1 here."""
    sizes = {name: integer(given, key, minimum=0) for key, name in INDEXER.items()}
    kept = {"index_skip_topk_offset": 1} | {name: max(size, 1) for name, size in sizes.items() if size is not None}
    step, first = kept.get("index_topk_freq", 1), kept["index_skip_topk_offset"]
    own = [symbol in SPARSE and not max(number - first, 0) % step for number, symbol in enumerate(symbols, 1)]
    types = {"indexer_types": ["full" if one else "shared" for one in own]} if symbols else {}
    interleaved = flag(given, "dsa_indexer_rope_interleaved")
    return kept | types | {"model_type": "deepseek_v32", "indexer_rope_interleave": interleaved}


def _kind(given: Config, *, latent: bool) -> str | None:
    """Return `"rope"`, `"yarn"` or `"mrope"`; None if there is no RoPE."""
    if latent:
        if choice(given, "position_embedding_type", TYPES, "rope") == "mrope":
            raise ValueError("`position_embedding_type` must not be 'mrope' with `multi_latent_attention`.")
        return choice(given, "rope_type", ("rope", "yarn"), "yarn")
    if flag(given, "use_rotary_position_embeddings"):
        kind = "rope"
    elif given.get("position_embedding_type") is None:
        raise ValueError(
            "`position_embedding_type` is missing: without it, Megatron-LM learns a table and has no RoPE."
        )
    else:
        kind = choice(given, "position_embedding_type", TYPES, "")
    if kind in ("rope", "yarn", "mrope"):
        refuse(given, {"rope_type": "rope"}, "must be 'rope' without `multi_latent_attention`")
        return kind
    return None


def _head(given: Config, *, latent: bool) -> dict[str, Any]:
    if latent:
        return {"head_dim": integer(given, "qk_pos_emb_head_dim", 64)}
    if (width := integer(given, "kv_channels")) is not None:
        return {"head_dim": width}
    return {key: integer(given, key) for key in ("hidden_size", "num_attention_heads")}


def _layout(given: Config, kind: str, *, latent: bool) -> dict[str, Any]:
    interleaved = flag(given, "rotary_interleaved")
    if interleaved and (latent or kind != "rope"):
        what = "`multi_latent_attention`" if latent else f"`position_embedding_type` {shown(kind)}"
        raise ValueError(f"`rotary_interleaved` must be False with {what}, got True.")
    if latent:
        # whose softmax scale Megatron-LM multiplies in the same way
        return {"model_type": "deepseek_v3", "rope_interleave": True, "layout_from": "multi_latent_attention"}
    return {"rotary_emb_interleaved": interleaved, "layout_from": "rotary_interleaved"}


def _rope(given: Config, latent: bool) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_type": "default"} | _share(given)
    if latent:
        refuse(given, CHOSEN, "is not read with `multi_latent_attention`")
        return rope
    linear = number(given, LINEAR, minimum=1)
    if not flag(given, "use_rope_scaling"):
        return rope if linear in (None, 1) else rope | {"rope_type": "linear", "factor": linear}
    if linear not in (None, 1):
        raise ValueError(f"`{LINEAR}` must be left out beside `use_rope_scaling`, got {shown(linear)}.")
    factor, other = number(given, "rope_scaling_factor", 8.0, minimum=1), given.get("rotary_scaling_factor")
    if other not in (None, 1, factor):
        warn(
            f"`rotary_scaling_factor` {shown(other)} has no effect: beside `use_rope_scaling`, Megatron-LM takes "
            f"`rope_scaling_factor`, which is {factor}; write `--rope-scaling-factor {shown(other)}` if it is meant."
        )
    return rope | {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1,
        "high_freq_factor": 4,
        "original_max_position_embeddings": 8192,
    }


def _share(given: Config) -> dict[str, float]:
    share = number(given, "rotary_percent", 1, above=0)
    return {} if share >= 1 else {"partial_rotary_factor": share}


def _sections(given: Config, latent: bool) -> dict[str, Any]:
    refuse(given, {"use_rope_scaling": False}, "is not read with `position_embedding_type` 'mrope'")
    sections = numbers(given, "mrope_section", length=3, minimum=0)
    if sections is None:
        raise ValueError("`mrope_section` is missing: `position_embedding_type` 'mrope' needs it.")
    linear = number(given, LINEAR, minimum=1)
    scaling = {} if linear in (None, 1) else {"rope_type": "linear", "factor": linear}
    return {"rope_type": "default"} | _share(given) | scaling | {"mrope_section": sections}


def _yarn(given: Config, latent: bool) -> dict[str, Any]:
    """Return the parameters of YaRN, whose names have a prefix with ordinary attention."""
    reason = (
        "is not read with `multi_latent_attention`" if latent else "is not read with `position_embedding_type` 'yarn'"
    )
    refuse(given, {LINEAR: None, "use_rope_scaling": False, "rotary_percent": 1}, reason)
    if latent and given.get("rotary_scaling_factor") is None:
        raise ValueError(
            "`rotary_scaling_factor` is missing: it is 1 on the command line, but 40 in `MLATransformerConfig`."
        )
    original, fast, slow = (name if latent else key for key, name in YARN.items())
    factor = number(given, "rotary_scaling_factor", 1.0, minimum=1)
    rope = {
        "factor": factor,
        "original_max_position_embeddings": integer(given, original, 4096, minimum=2),
        "beta_fast": number(given, fast, 32, above=0),
        "beta_slow": number(given, slow, 1, above=0),
        "truncate": latent or flag(given, "yarn_correction_range_round_to_int", default=True),
    }
    mscales = {
        "mscale": number(given, "mscale", 1.0, minimum=0),
        "mscale_all_dim": number(given, "mscale_all_dim", 0.0, minimum=0),
    }
    if mscales == {"mscale": 1, "mscale_all_dim": 0}:
        return rope | {"rope_type": "yarn"}
    return rope | mscales | {"rope_type": "yarn" if all(mscales.values()) else "deepseek_yarn"}
