"""Load the RoPE of each layer of a model, by its index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any, NamedTuple

from .._array_api.checks import check_items, check_type, shown
from ..encodings.remapping import DualChunk
from ..encodings.rotary.base import RotaryEncoding
from ..formats.values import integer, layer_count, warn
from .config import (
    INTERVAL,
    ROPES,
    ROTATED,
    check_size,
    common_value,
    contents,
    find_text,
    find_value,
    is_foreign,
    is_translated,
)
from .facts.models import find_model
from .indexer import INDEXER, find_indexer, layers_with_indexer
from .load_rope import find_known_part, load_rope
from .parameters import LAYER_BASES, NOT_ATTENTION, layer_bases, layer_types, list_types
from .parts import is_tower

Layer = RotaryEncoding | DualChunk | None
COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
DEPTHS, SINGLE = (*COUNTS, "depth", "encoder_layers"), "num_single_layers"  # of towers, diffusers and timm
DRAFT, DRAFTS = "mtp", ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers", "num_mtp_layers")
MISSING = "`num_hidden_layers` or `num_layers` is missing, and so is a list of layers: add it."
BY_LAYER = ("layer_types", ROTATED, LAYER_BASES)


class Group(NamedTuple):
    """Layers that rotate alike.

    Attributes:
        layer_type: their type; None if all layers have the same.
        rotary: their RoPE.
        indices: their indices; none if they are all layers of the type, or it is not known which.
    """

    layer_type: str | None
    rotary: Layer
    indices: tuple[int, ...]

    @property
    def name(self) -> str:
        """The layers in words, such as "layers 0–2, 4–6"."""
        return name_layers(self.layer_type, self.indices)


def load_layers(config: Any, *, part: str | None = None) -> tuple[Layer, ...]:
    """Load the RoPE of each layer of a model, in the order of the layers.

    Layers differ by their type (`layer_types`, or what the code of the model takes without it), by their index
    (`no_rope_layers`, `no_rope_layer_interval`) or by their base (`layer_rope_theta`).

    Args:
        config: as in `load_rope`.
        part: `"indexer"` for the indexers of sparse attention, `"mtp"` for the layers after the last, which predict
            more tokens, or a nested config as in `load_rope`. The default is the attention of the text model.
    Returns:
        One encoding for each layer; None for a layer that rotates nothing, or has no indexer of its own.
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
    check_type("part", part, str | None, "a string or None")
    content = contents(config)
    if part not in (None, INDEXER, DRAFT):
        content, part = find_known_part(content, part), None
    if part is None and (is_tower(content) or is_foreign(content)):
        arguments = content.get("model_args")
        sizes = content | (dict(arguments) if isinstance(arguments, Mapping) else {})
        count = common_value({name: layer_count(sizes, name) for name in DEPTHS})
        if count is None:
            raise ValueError(MISSING)
        return (load_rope(content),) * (count + (layer_count(sizes, SINGLE, minimum=0) or 0))
    text = find_text(content)
    found = list_layers(text, part)
    if found is not None:
        return found
    if count_layers(text) is None:
        raise ValueError(MISSING)
    raise ValueError(f"`layer_types` is missing, but layers of the types {shown(layer_types(text))} differ: add it.")


def list_layers(
    text: dict[str, Any], part: str | None = None, load: Callable[..., Layer] = load_rope
) -> tuple[Layer, ...] | None:
    """Return the rotation of each layer of a text model; None if its config does not say which layer has which.

    The arguments are those of `group_layers`, the exceptions and the warnings those of `load_layers`.
    """
    if part == DRAFT:
        return _list_draft(text)
    count, names = count_layers(text), index_types(text)
    if count is None or names is None:
        return None
    bases, without = layer_bases(text)[:count], layers_without(text)
    if bases and len(bases) < count:
        raise ValueError(f"`{LAYER_BASES}` must have a base for each of the {count} layers, got {len(bases)}.")
    alike = {key: value for key, value in text.items() if key != LAYER_BASES}
    by_type = {name: _load_type(alike, name, load) for name in dict.fromkeys(names)}
    layers = [None if index in without else by_type[name] for index, name in enumerate(names)]
    if bases:
        given = {find_value(text, path) for path in ("rope_theta", *(f"{name}.rope_theta" for name in ROPES))} - {None}
        if given and any(bases) and given.isdisjoint(bases):
            warn(f"`rope_theta` {shown(*given)} has no effect: `{LAYER_BASES}` has the base of each layer.")
        layers = [rotary and replace(rotary, base=base) for rotary, base in zip(layers, bases, strict=True)]
    if part == INDEXER:
        own = layers_with_indexer(text, names)
        return tuple(find_indexer(text, rotary) if has else None for rotary, has in zip(layers, own, strict=True))
    return tuple(layers)


def _load_type(text: dict[str, Any], name: str | None, load: Callable[..., Layer]) -> Any:
    """Return the RoPE of the layers of a type, which may have a name of its own in the parameters."""
    if name in NOT_ATTENTION:
        return None
    label = find_model(text).rope_of_type.get(name or "", name)
    return load(text, layer_type=label if label in (*layer_types(text), *list_types(text)) else None)


def _list_draft(text: dict[str, Any]) -> tuple[Layer, ...]:
    """Return the rotation of the layers after the last, from what lists say of them or as that of all others."""
    count, drafts = count_layers(text), common_value({name: layer_count(text, name, minimum=0) for name in DRAFTS}) or 0
    longer = {key: text[key] for key in BY_LAYER if count and len(text.get(key) or ()) > count}
    if longer and drafts:
        kept = {key: value for key, value in text.items() if key not in (*BY_LAYER, *COUNTS, *DRAFTS)}
        later = {key: list(islice(values, count, None)) for key, values in longer.items()}
        return list_layers(kept | later | {COUNTS[0]: drafts}) or ()
    layers = set(list_layers(text) or ()) if drafts else {None}
    if len(layers) != 1:
        raise ValueError(f"`layer_types` must have a type for each of the {drafts} layers after the last: add them.")
    return tuple(layers) * drafts


def group_layers(
    text: dict[str, Any],
    part: str | None = None,
    *,
    layer_type: str | None = None,
    load: Callable[..., Layer] = load_rope,
) -> tuple[tuple[Group, ...], tuple[int, ...]]:
    """Return the layers that rotate alike, in the order of their types, and the indices of those that rotate nothing.

    A type of which no layer rotates is a group without RoPE, but for the indexers. There are no indices if it is not
    known which layer has which type.

    Args:
        text: the config of the text model.
        part: None, or `"indexer"`.
        layer_type: the layers to return; all by default.
        load: `load_rope`, or `load_text`, which does not warn of other uses of positions.
    Raises:
        TypeError, ValueError: as in `load_layers`, but if the number of layers is missing.
    """
    check_type("layer_type", layer_type, str | None, "a string or None")
    labels: tuple[str | None, ...] = (layer_types(text) or (None,)) if layer_type is None else (layer_type,)
    listed, model, groups = list_layers(text, part, load), find_model(text), list[Group]()
    types = [name if name is None else model.rope_of_type.get(name, name) for name in index_types(text) or ()]
    kind = model.indexer and model.rope_of_type.get(model.indexer.layer_type or "", model.indexer.layer_type)
    for label in labels:
        own = [index for index, name in enumerate(types) if label in (None, name)]
        alike: dict[Layer, list[int]] = {}
        for index in own:
            alike.setdefault((listed or ())[index], []).append(index)
        if not alike and (part is None or (listed is None and kind in (None, label))):
            rotary = load(text, layer_type=label)
            alike = {find_indexer(text, rotary) if part else rotary: []}
        still = alike.pop(None, None)
        groups += [Group(label, one, () if len(at) == len(own) else tuple(at)) for one, at in alike.items()]
        if not alike and still is not None and part is None:
            groups.append(Group(label, None, ()))
    return tuple(groups), tuple(index for index, rotary in enumerate(listed or ()) if rotary is None)


def name_layers(layer_type: str | None, indices: Sequence[int]) -> str:
    """Return layers in words, such as "layers 0–2, 4–6"; without indices, all layers or those of the type."""
    if not indices:
        return layer_type or "all layers"
    runs = [[index for _, index in run] for _, run in groupby(enumerate(indices), lambda one: one[1] - one[0])]
    words = ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"layer{'s' * (len(indices) > 1)} {words}" + (f" ({layer_type})" if layer_type else "")


def count_layers(text: Mapping[str, Any]) -> int | None:
    """Return the number of layers that the config of a text model says; None if it does not."""
    count: int | None = common_value({name: layer_count(text, name) for name in COUNTS})
    lists = (text.get(name) for name in BY_LAYER)
    listed = next((len(one) for one in lists if isinstance(one, list | tuple) and one), None)
    return listed if count is None else count


def index_types(text: dict[str, Any]) -> tuple[str | None, ...] | None:
    """Return the type of each layer; None if neither the config nor the code of the model says it.

    Raises:
        TypeError, ValueError: if a key is of the wrong type, or lists too few layers.
    """
    count, model, kinds = count_layers(text), find_model(text), layer_types(text)
    if count is None:
        return None
    names = list_types(text) or list_types({"layer_types": text.get("layers_block_type")})
    if not names and model.types_key is not None:
        key, types = model.types_key
        values = find_value(text, key) or ()
        if not isinstance(values, list | tuple) or any(value not in types for value in values):
            raise TypeError(f"`{key}` must be a list of {shown([*types])}, got {shown(values)}.")
        names = tuple(types[value] for value in values)
    if names:
        if len(names) < count:
            raise ValueError(f"`layer_types` must have a type for each of the {count} layers, got {len(names)}.")
        return names[:count]  # more: draft layers follow
    pattern = model.pattern
    if pattern is not None and not text.get(pattern.unless):
        step: int = integer(text, pattern.key or "", pattern.step)
        first = step - 1 if pattern.first is None else pattern.first
        of_kind = {*range(first, count, step), *(index % count for index in pattern.also)}
        if (given := text.get(pattern.indices)) is not None:
            of_kind = set(check_items(pattern.indices, given, int, "indices of layers"))
        more = {index: name for name, start in pattern.more.items() for index in range(start, count, step)}
        return tuple(pattern.kind if index in of_kind else more.get(index, pattern.others) for index in range(count))
    if model.no_rope_interval is not None or len(kinds) < 2:
        return (next(iter(kinds), None),) * count
    return None


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
    if text.get(INTERVAL) is not None and (interval is not None or is_translated(text)):
        interval = text[INTERVAL]
        check_size(INTERVAL, interval)
    if bases or interval is None:
        return frozenset(index for index, base in enumerate(bases) if not base)
    if count is None:
        raise ValueError(MISSING)
    return frozenset(range(interval - 1, count, interval) if interval > 0 else range(count - 1, -1, interval))
