"""Causes: the keys of two configs that make their rotations differ, and where each config says their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from fractions import Fraction
from itertools import combinations
from typing import Any

from .._array_api.checks import check_items, check_type
from ..encodings import AxialRotary, MultimodalRotary, Rotary
from ..encodings.rotary.base import RotaryEncoding
from ..huggingface.config import BASES, COUNTS, HEADS, LENGTHS, LOCAL_BASES, ROPES, SHARES, SIZES, WIDTHS
from ..huggingface.export import TYPES
from ..scaling import Scaling

Fields = dict[str, Any]
MODEL = "model_type"
SPELLINGS: dict[str, tuple[str, ...]] = {
    "rope_theta": ("layer_rope_theta", *BASES, "rope_ratio", "theta", "rope_temperature"),
    "partial_rotary_factor": (*SHARES, *WIDTHS, MODEL),
    "head_dim": ("qk_rope_head_dim", "global_head_dim", "swa_head_dim", *HEADS, *SIZES, *COUNTS, MODEL),
    "layout": ("rope_interleave", "rotary_emb_interleaved", MODEL, "_class_name"),
    "mrope_section": ("mrope_section", MODEL),
    "rope_scaling": ROPES,
    "axes_dims": ("axes_dims", "axes_dims_rope", "rope_axes_dim", "axes_dim", "_class_name"),
    "factor": ("factor", *LENGTHS),
    "alpha": ("alpha",),
    "original_max_position_embeddings": ("original_max_position_embeddings", *LENGTHS),
    "attention_factor": ("attention_factor", "attn_factor", "mscale", "mscale_all_dim"),
}
OWN_SPELLINGS: dict[str, tuple[str, ...]] = {  # in the formats that are translated: Megatron, GGUF, params.json
    "rope_theta": ("rotary_base", "rope.freq_base", "rope_theta"),
    "partial_rotary_factor": ("rotary_percent", "rope.dimension_count"),
    "head_dim": (
        "qk_pos_emb_head_dim", "kv_channels", "hidden_size", "rope.dimension_count", "attention.key_length",
        "embedding_length", "qk_rope_head_dim", "head_dim", "dim",
    ),
    "layout": ("rotary_interleaved", "multi_latent_attention", "general.architecture"),
    "no_rope_layers": (
        "hybrid_layer_pattern", "hybrid_override_pattern", "linear_attention_freq", "no_rope_freq",
        "nope_layer_interval", "attention.head_count_kv", "full_attention_interval", "general.architecture",
    ),
    "layer_types": ("attention.sliding_window_pattern", "general.architecture"),
    "use_rope": ("position_embedding_type", "no_rope_freq", "general.architecture"),
    "mrope_section": ("mrope_section", "rope.dimension_sections"),
    "rope_scaling": (
        "use_rope_scaling", "rotary_seq_len_interpolation_factor", "rotary_scaling_factor", "rope.scaling.type",
        "rope.scaling.factor", "rope_freqs.weight", "yarn", "use_scaled_rope",
    ),
    "factor": (
        "rope_scaling_factor", "rotary_seq_len_interpolation_factor", "rotary_scaling_factor", "rope.scaling.factor",
        "yarn",
    ),
    "original_max_position_embeddings": (
        "yarn_original_max_position_embeddings", "original_max_position_embeddings",
        "rope.scaling.original_context_length", "yarn",
    ),
    "attention_factor": ("mscale", "mscale_all_dim", "rope.scaling.attn_factor", "yarn"),
}  # fmt: skip
_AXIAL = ("axes_dims", "arrangement", "series", "unit", "scaling")


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A key that makes two configs differ.

    Attributes:
        key: its name in configs of transformers.
        a, b: its values; where the whole scaling differs, the keys of the scaling as a dict, or None without one.
        a_from, b_from: where each config says the value; None if it does not, and the default of the model is used.
    """

    key: str
    a: Any
    b: Any
    a_from: str | None
    b_from: str | None


def causes(
    a: RotaryEncoding,
    b: RotaryEncoding,
    configs: tuple[Mapping[str, Any], Mapping[str, Any]],
    *,
    layer_type: str | None,
    is_same: Callable[[RotaryEncoding], bool],
) -> tuple[Cause, ...]:
    """Return the smallest set of keys whose values, taken from B into A, make A rotate as B does.

    Args:
        a, b: the encodings that the configs describe.
        configs: the text parts of the configs.
        layer_type: the layers of the encodings.
        is_same: whether an encoding rotates as `b` does.
    Returns:
        One cause for each key; none if the two have no keys in common, as an image's and a text's have not.
    Raises:
        TypeError: if an argument is not what it should be.
    """
    for name, encoding in (("a", a), ("b", b)):
        check_type(name, encoding, RotaryEncoding, "a rotary encoding")
    if len(check_items("configs", configs, Mapping, "two dicts")) != 2:
        raise TypeError(f"`configs` must be two dicts, got {len(configs)}.")
    check_type("layer_type", layer_type, str | None, "a string or None")
    check_type("is_same", is_same, Callable, "a function")
    ours, theirs = _fields(a, b), _fields(b, a)
    if ours.keys() != theirs.keys():
        return ()
    differing = [key for key in ours if ours[key] != theirs[key]]
    for size in range(1, len(differing) + 1):
        for keys in combinations(differing, size):
            changed = _encoding(ours | {key: theirs[key] for key in keys})
            if changed is not None and is_same(changed):
                return tuple(
                    Cause(
                        key=key,
                        a=_shown(ours[key]),
                        b=_shown(theirs[key]),
                        a_from=find_origin(configs[0], key, layer_type),
                        b_from=find_origin(configs[1], key, layer_type),
                    )
                    for key in keys
                )
    return ()


def _fields(encoding: RotaryEncoding, beside: RotaryEncoding) -> Fields:
    """Return what describes an encoding, under the names of configs; a scaling by its keys if `beside` has the like."""
    fields: Fields = {name: getattr(encoding, name) for name in ("head_dim", "layout", "placement", "direction")}
    if isinstance(encoding, AxialRotary):
        return fields | {name: getattr(encoding, name) for name in _AXIAL} | {"rope_theta": encoding.base}
    if not isinstance(encoding, Rotary):
        return fields
    fields["rope_theta"] = encoding.base
    fields["partial_rotary_factor"] = Fraction(encoding.rotary_channels, encoding.head_dim)
    multimodal = isinstance(encoding, MultimodalRotary)
    fields["mrope_section"] = (encoding.sections, encoding.arrangement) if multimodal else None  # type: ignore[attr-defined]
    fields["frequencies"] = encoding.own
    scaling = encoding.scaling
    if scaling is None or not isinstance(getattr(beside, "scaling", None), type(scaling)):
        return fields | {"rope_scaling": scaling}
    return fields | {"rope_type": type(scaling)} | scaling._arguments()


def _encoding(fields: Fields) -> RotaryEncoding | None:
    """Return the encoding of these fields; None if they contradict each other."""
    common = {name: fields[name] for name in ("head_dim", "layout", "placement", "direction")}
    common["base"] = fields["rope_theta"]
    try:
        if "axes_dims" in fields:
            return AxialRotary(**common, **{name: fields[name] for name in _AXIAL})
        common["rotary_dim"] = int(fields["partial_rotary_factor"] * fields["head_dim"])
        common["frequencies"] = fields["frequencies"]
        common["scaling"] = _scaling(fields)
        if fields["mrope_section"] is None:
            return Rotary(**common)
        sections, arrangement = fields["mrope_section"]
        return MultimodalRotary(**common, sections=sections, arrangement=arrangement)
    except (TypeError, ValueError):
        return None


def _scaling(fields: Fields) -> Scaling | None:
    if "rope_type" not in fields:
        return fields["rope_scaling"]
    cls: type[Scaling] = fields["rope_type"]
    return cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})


def _shown(value: Any) -> Any:
    """Return a value as configs write it."""
    if isinstance(value, Scaling):
        defaults = {field.name: field.default for field in fields_of(value)}
        keys = {name: one for name, one in value._arguments().items() if one != defaults[name]}
        return {"rope_type": TYPES.get(type(value), type(value).__name__)} | keys
    if isinstance(value, Fraction):
        return float(value)
    return list(value[0]) if isinstance(value, tuple) and value and isinstance(value[0], tuple) else value


def find_origin(config: Mapping[str, Any], key: str, layer_type: str | None) -> str | None:
    """Return where a config says the value of a key: a path, or two of them where a quotient is meant."""
    if "own_keys" in config:
        names = OWN_SPELLINGS.get(key, (key,))
        return next((name for name in names if name in config["own_keys"]), None)
    names = SPELLINGS.get(key, (key, MODEL) if key in ("placement", "direction") else (key,))
    if key == "rope_theta" and layer_type not in (None, "full_attention", "main"):
        names = (*LOCAL_BASES, *names)
    places = list(_places(config, layer_type))
    for name in names:
        for path, part in places:
            if part.get(name) is not None:
                return f"{path}{name}" if name not in SIZES else f"{path}{name} / {_count(part)}"
    return None


def _places(config: Mapping[str, Any], layer_type: str | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the parts of a config that may have the keys, the innermost first."""
    for name in ROPES:
        part = config.get(name)
        if isinstance(part, Mapping):
            inner = part.get(layer_type)
            if isinstance(inner, Mapping):
                yield f"{name}.{layer_type}.", inner
            yield f"{name}.", part
    yield "", config


def _count(config: Mapping[str, Any]) -> str:
    return next((name for name in COUNTS if config.get(name) is not None), COUNTS[0])
