"""Load the RoPE of each layer of a model, by its index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._array_api.checks import shown
from ..encodings.remapping import DualChunk
from ..encodings.rotary.base import RotaryEncoding
from ..formats.values import MOST_LAYERS
from .config import check_size, common_value, get_values, read
from .facts.models import find_model
from .load_rope import load_rope
from .parameters import LAYER_BASES, layer_bases, layer_types, list_types

COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
ROTATED, INTERVAL = "no_rope_layers", "no_rope_layer_interval"


def load_layers(config: Any) -> tuple[RotaryEncoding | DualChunk | None, ...]:
    """Load the RoPE of each layer of a text model, in the order of the layers.

    Layers differ by their type (`layer_types`), by their index (`no_rope_layers`, `no_rope_layer_interval`) or by their
    base (`layer_rope_theta`).

    Args:
        config: as in `load_rope`.
    Returns:
        One encoding for each layer; None for a layer that rotates nothing.
    Raises:
        TypeError, ValueError: as in `load_rope`, or if the config does not say how many layers the model has, or which
            layer has which type.
        OSError: if there is no such file.
    Warns:
        UserWarning: as in `load_rope`.
    Source: the code of the models in transformers 5.23.

    >>> layers = load_layers({"model_type": "smollm3", "head_dim": 128, "num_hidden_layers": 8})
    >>> [index for index, rotary in enumerate(layers) if rotary is None]
    [3, 7]
    """
    text = read(config)
    found = list_layers(text)
    if found is not None:
        return found
    if count_layers(text) is None:
        raise ValueError("`num_hidden_layers` is missing, so that the layers cannot be listed: add it.")
    raise ValueError(f"`layer_types` is missing, but layers of the types {shown(layer_types(text))} differ: add it.")


def list_layers(text: dict[str, Any]) -> tuple[RotaryEncoding | DualChunk | None, ...] | None:
    """Return the rotation of each layer of a text model; None if its config does not say which layer has which.

    The arguments, the exceptions and the warnings are those of `load_layers`.
    """
    count, names, kinds, without = count_layers(text), list_types(text), layer_types(text), layers_without(text)
    if count is None or (len(kinds) > 1 and not names):
        return None
    bases, types = layer_bases(text)[:count], (names or (kinds or (None,)) * count)[:count]  # more: draft layers follow
    if len(types) < count:
        raise ValueError(f"`layer_types` must have a type for each of the {count} layers, got {len(names)}.")
    if bases and len(bases) < count:
        raise ValueError(f"`{LAYER_BASES}` must have a base for each of the {count} layers, got {len(bases)}.")
    alike = {key: value for key, value in text.items() if key != LAYER_BASES}
    by_type = {name: load_rope(alike, layer_type=name) for name in dict.fromkeys(types)}
    layers = [None if index in without else by_type[name] for index, name in enumerate(types)]
    if not bases:
        return tuple(layers)
    return tuple(rotary and replace(rotary, base=base) for rotary, base in zip(layers, bases, strict=True))


def count_layers(text: Mapping[str, Any]) -> int | None:
    """Return the number of layers that the config of a text model says; None if it does not."""
    counts = get_values(text, COUNTS)
    for name, count in counts.items():
        check_size(name, count)
        if count > MOST_LAYERS:
            raise ValueError(f"`{name}` must be at most {MOST_LAYERS}, got {count}.")
    lists = (text.get(name) for name in ("layer_types", ROTATED, LAYER_BASES))
    listed = next((len(one) for one in lists if isinstance(one, list | tuple) and one), None)
    return listed if (count := common_value(counts)) is None else count


def layers_without(text: Mapping[str, Any]) -> frozenset[int]:
    """Return the indices of the layers without RoPE, but for those that have none by their type.

    Raises:
        TypeError, ValueError: if a key is of the wrong type, or the number of layers is missing.
    """
    count, rotated = count_layers(text), text.get(ROTATED)
    if rotated:
        if not isinstance(rotated, list | tuple) or not all(one in (0, 1) for one in rotated):
            raise TypeError(f"`{ROTATED}` must be a list of 0 and 1, got {shown(rotated)}.")
        if count is not None and len(rotated) < count:
            raise ValueError(f"`{ROTATED}` must have 0 or 1 for each of the {count} layers, got {len(rotated)}.")
        return frozenset(index for index, one in enumerate(rotated[:count]) if not one)
    bases = layer_bases(text)[:count]
    interval = find_model(text).no_rope_interval
    if text.get(INTERVAL) is not None and (interval is not None or "layout_from" in text):  # of another format
        interval = text[INTERVAL]
        check_size(INTERVAL, interval)
    if bases or interval is None:
        return frozenset(index for index, base in enumerate(bases) if not base)
    if count is None:
        raise ValueError("`num_hidden_layers` or `num_layers` is missing, and so is a list of layers without RoPE.")
    return frozenset(range(interval - 1, count, interval) if interval > 0 else range(count - 1, -1, interval))
