"""Sameness: whether two configs, of any format that `load_rope` reads, describe the same rotation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeAlias

from .._array_api.checks import check_flag, check_integer, check_type, shown
from ..encodings import DualChunk
from ..encodings.remapping import inner_rotary
from ..encodings.rotary.base import RotaryEncoding
from ..huggingface import layer_types, load_rope
from ..huggingface.config import FLAGS, INTERVAL, LENGTHS, ROTATED, contents, find_text, get_values, is_translated
from ..huggingface.dual_chunk import KEY as CHUNKS
from ..huggingface.facts.models import find_model
from ..huggingface.indexer import INDEXER
from ..huggingface.load_layers import DRAFT, index_types, list_layers, name_layers
from ..huggingface.load_rope import find_known_part
from ..huggingface.parameters import LAYER_BASES, list_types
from ..huggingface.parts import is_tower
from ..positions.sequences import LIMIT
from ..scaling import DynamicNTK
from .causes import Cause, causes, find_origin
from .differences import TOLERANCE, Difference, FirstOff, PairDifference, Property, check_tolerance, difference, is_same

LONGEST = 2**17  # positions that are compared where no config says a length
SWITCHES = (*FLAGS, "position_embedding_type", ROTATED, INTERVAL, LAYER_BASES, "layer_types", "model_type")
Texts: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
Pair: TypeAlias = tuple[
    str | None, str | None, tuple[int, ...], RotaryEncoding | DualChunk | None, RotaryEncoding | DualChunk | None
]
RELAY = "the same frequencies; the channels are paired otherwise: re-lay the weights by `posenc relayout`"
REORDERED = "the result has its channels in another order, on which no attention score depends"


@dataclass(frozen=True, kw_only=True)
class SameLayers:
    """The comparison of layers that rotate alike in each of the two models.

    Attributes:
        part: `"indexer"` or `"mtp"`; None for the attention.
        layer_type: their type; None if layers have no types, or these layers are not all of one type.
        indices: the layers, from 0; none if they are all layers, or a config does not say which layer has which type.
        same: whether they rotate alike in all sequences that were compared.
        rotates_a, rotates_b: whether the layers have RoPE.
        differences: one for each length of the sequence that changes frequencies; none if a side has no RoPE, or they
            count positions in other chunks.
        causes: the keys that make them differ.
        remarks: sentences about what differs on purpose.
    """

    part: str | None = None
    layer_type: str | None
    indices: tuple[int, ...] = ()
    same: bool
    rotates_a: bool
    rotates_b: bool
    differences: tuple[Difference, ...] = ()
    causes: tuple[Cause, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def worst(self) -> Difference | None:
        """The comparison in the shortest sequences that differ, or else in the longest."""
        return next((one for one in self.differences if not one.same), next(reversed(self.differences), None))

    @property
    def first_off(self) -> FirstOff:
        return () if self.worst is None else self.worst.first_off

    @property
    def properties(self) -> tuple[Property, ...]:
        return () if self.worst is None else self.worst.properties

    @property
    def name(self) -> str:
        """The layers in words, such as "layers 0–2, 4–6"."""
        return ": ".join(filter(None, (self.part, name_layers(self.layer_type, self.indices))))

    def __str__(self) -> str:
        return "\n".join(
            (f"{self.name}: {self.verdict}", *map(_line, self.causes), *(f"  {text}" for text in self.remarks))
        )

    @property
    def verdict(self) -> str:
        """One sentence: whether they are the same, and from which position on and by how much they differ."""
        if self.worst is None and self.rotates_a and self.rotates_b:
            return "different distances: positions are counted in other chunks"
        if self.worst is None:
            return "no RoPE in both" if self.same else f"only {'A' if self.rotates_a else 'B'} has RoPE"
        worst = self.worst
        bound, first = worst.first_off[0]
        length = "" if worst.seq_len is None else f" in sequences of {worst.seq_len:,}"
        if self.same:
            later = "" if first is None else f"; beyond them, they differ by more than {bound:g} from {first:,} on"
            return f"the same rotation at {worst.positions:,} positions{later}"
        start = "on their axes alone" if first is None else f"from position {first:,} on"
        if not worst.pairs:
            return f"different {start}{length}: other channels form a pair"
        changed = [pair for pair in worst.pairs if pair.frequency_a != pair.frequency_b]
        distance = max(pair.distance for pair in worst.pairs)
        angles = f", by up to {max(pair.angle for pair in changed):.3g} radians" if changed else ""
        which = f"{_which(changed)} rotate by another angle" if changed else _which(worst.pairs)
        return f"different {start}{length}: {which}{angles}; a unit vector differs by up to {distance:.3g}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Whether two configs describe the same rotation in each layer; `str` gives a few lines.

    Attributes:
        same: whether all layers rotate alike.
        a, b: the names of the configs.
        positions: how many positions were compared, from 0.
        tolerance: the largest distance of rotated unit vectors that counts as the same.
        layers: one comparison for the layers that have the same two encodings, or for each layer type.
    """

    same: bool
    a: str
    b: str
    positions: int
    tolerance: float
    layers: tuple[SameLayers, ...]

    def __str__(self) -> str:
        return "\n".join(
            ("the same" if self.same else "different", f"A: {self.a}", f"B: {self.b}", *map(str, self.layers))
        )


def compare_rope(
    a: Any,
    b: Any,
    *,
    layer_type: str | None = None,
    part: str | None = None,
    any_layout: bool = False,
    positions: int | None = None,
    tolerance: float = TOLERANCE,
) -> Comparison:
    """Compare the rotations that two configs describe, and name the keys that make them differ.

    Layers are compared by their index. Where a config does not say which layer has which type, they are compared by
    type; where one of two models whose layers are all alike has more layers, all are compared with each.
    Frequencies are exact, and so are the first positions. Two rotations are the same if no unit vector, rotated by
    either, differs by more than the tolerance at any position that is compared.

    Args:
        a, b: anything that `load_rope` takes: files, folders, dicts, config objects.
        layer_type: the layers to compare; all by default.
        part: the part to compare, as in `load_layers`: `"indexer"`, `"mtp"` or a nested config such as `"vision"`. The
            default is the attention of the text model, and its indexers if both have some.
        any_layout: whether to ignore which channels form a pair, where a format permutes the weights accordingly.
        positions: how many positions to compare; by default the longest length that either config says, or 131,072.
        tolerance: between 0 and 1; one rotated entry rounded to bfloat16 is off by 2**-9.
    Returns:
        The comparison.
    Raises:
        TypeError, ValueError, OSError: as in `load_rope`, or if an argument is out of range.
    Warns:
        UserWarning: as in `load_rope`.

    >>> llama = {"model_type": "llama", "head_dim": 128, "max_position_embeddings": 8192}
    >>> (layers,) = compare_rope(llama | {"rope_theta": 5e5}, llama).layers
    >>> layers.same, layers.first_off[0], [(cause.key, cause.a, cause.b) for cause in layers.causes]
    (False, (0.001, 1), [('rope_theta', 500000.0, 10000)])
    """
    if positions is not None:
        positions = check_integer("positions", positions, maximum=LIMIT)
    check_tolerance(tolerance)
    check_type("layer_type", layer_type, str | None, "a string or None")
    any_layout = check_flag("any_layout", any_layout)
    check_type("part", part, str | None, "a string or None")
    names = _name(a, "A"), _name(b, "B")
    a, b = _read("a", a, part), _read("b", b, part)
    texts = find_text(a), find_text(b)
    pairs: list[Pair]
    if is_tower(a) or is_tower(b):
        pairs = [(None, None, (), load_rope(a), load_rope(b))]
    else:
        own = part if part in (INDEXER, DRAFT) else None
        pairs = _pairs(texts, layer_type, own)
        if own is None and all(find_model(text).indexer for text in texts):
            pairs += _pairs(texts, layer_type, INDEXER)
    length = positions or max((_longest(one, other, texts) for *_, one, other in pairs), default=LONGEST)
    layers = tuple(_layers(pair, texts, length, any_layout=any_layout, tolerance=tolerance) for pair in pairs)
    return Comparison(
        same=all(layer.same for layer in layers),
        a=names[0],
        b=names[1],
        positions=length,
        tolerance=tolerance,
        layers=layers,
    )


def _read(name: str, config: Any, part: str | None) -> dict[str, Any]:
    """Return the config of a model or of a nested part; an error names the argument of which there are two."""
    try:
        content = contents(config)
        return content if part is None or part in (INDEXER, DRAFT) else find_known_part(content, part)
    except (TypeError, ValueError, FileNotFoundError) as error:
        raise type(error)(str(error).replace("`config`", f"`{name}`")) from error


def _pairs(texts: Texts, layer_type: str | None, part: str | None) -> list[Pair]:
    """Return the pairs of encodings with their layers: by index, or else by type."""
    listed = [None if layer_type else list_layers(text, part) for text in texts]
    if layer_type or any(layers is None and layer_types(text) for layers, text in zip(listed, texts, strict=True)):
        return [*_by_type(*texts, layer_type, part)]
    a, b = ((load_rope(text, part=part),) if one is None else one for one, text in zip(listed, texts, strict=True))
    count = max(len(a), len(b))
    a, b = (layers[:1] * count if len(set(layers)) == 1 else layers for layers in (a, b))
    if len(a) != len(b):
        raise ValueError(
            f"`a` must have as many layers as `b`, since they are not all alike, got {len(a)} and {len(b)}: give "
            "`layer_type`."
        )
    groups: dict[Any, list[int]] = {}
    for index, pair in enumerate(zip(a, b, strict=True)):
        if part is None or pair != (None, None):
            groups.setdefault(pair, []).append(index)
    return [(part, *_describe(indices, count, texts), *pair) for pair, indices in groups.items()]


def _describe(indices: list[int], count: int, texts: Texts) -> tuple[str | None, tuple[int, ...]]:
    """Return the type of layers and, unless they are all layers of this type or of the models, their indices."""
    if len(indices) == count:
        return None, ()
    named = [names for names in map(list_types, texts) if names]
    types = {names[index] for names in named for index in indices if index < len(names)}
    name = types.pop() if len(types) == 1 else None
    is_whole = name is not None and all(names.count(name) == len(indices) for names in named)
    return name, () if is_whole else tuple(indices)


def _by_type(a: Any, b: Any, layer_type: str | None, part: str | None) -> Iterator[Pair]:
    """Yield each layer type with its two encodings; a config without types has all its layers compared with each."""
    types = layer_types(a), layer_types(b)
    names: tuple[str | None, ...] = tuple(dict.fromkeys((*types[0], *types[1]))) or (None,)
    if layer_type is not None and layer_type not in names:
        raise ValueError(f"`layer_type` must be one of {shown(names)}, got {shown(layer_type)}.")
    for name in names if layer_type is None else (layer_type,):
        for side, own in zip("AB", types, strict=True):
            if own and name not in own:
                raise ValueError(
                    f"`layer_type` must be a type that both have, as {side} has no {shown(name)} among {shown(own)}."
                )
        one, other = (
            load_rope(config, layer_type=name if own else None, part=part)
            for config, own in zip((a, b), types, strict=True)
        )
        yield part, name, (), one, other


def _layers(pair: Pair, texts: Texts, positions: int, *, any_layout: bool, tolerance: float) -> SameLayers:
    part, name, indices, a, b = pair
    kind: dict[str, Any] = {"part": part, "layer_type": name, "indices": indices}
    if a is None or b is None:
        same = a is b
        found = () if same else _given(SWITCHES, texts)
        return SameLayers(**kind, same=same, rotates_a=a is not None, rotates_b=b is not None, causes=found)
    if a.remapping != b.remapping:
        found = _given((CHUNKS,), texts)
        return SameLayers(**kind, same=False, rotates_a=True, rotates_b=True, causes=found)
    a, b = inner_rotary(a), inner_rotary(b)
    options: dict[str, Any] = {"any_layout": any_layout, "tolerance": tolerance}
    at_lengths: list[dict[str, Any]] = [
        {"positions": length or positions, "seq_len": length} for length in _lengths(a, b, positions)
    ]

    def rotates_as_b(one: RotaryEncoding, **changed: bool) -> bool:
        return all(is_same(one, b, **at_length, **{**options, **changed}) for at_length in at_lengths)

    differences = tuple(difference(a, b, **at_length, **options) for at_length in at_lengths)
    same = all(found.same for found in differences)
    remarks = (REORDERED,) if same and a.pairing.split == b.pairing.split and a.pairing != b.pairing else ()
    return SameLayers(
        **kind,
        same=same,
        rotates_a=True,
        rotates_b=True,
        differences=differences,
        causes=() if same else _types(indices, texts) or causes(a, b, texts, layer_type=name, is_same=rotates_as_b),
        remarks=(RELAY,) if not same and rotates_as_b(a, any_layout=True) else remarks,
    )


def _given(keys: Sequence[str], texts: Texts) -> tuple[Cause, ...]:
    """Return those of the keys that a file has, and whose values differ; a translated config has no `model_type`."""
    a, b = texts
    known = [key for key in keys if key != "model_type" or not any(map(is_translated, texts))]
    differing = {key: [find_origin(text, key, None) for text in texts] for key in known if a.get(key) != b.get(key)}
    return tuple(
        Cause(key=key, a=a.get(key), b=b.get(key), a_from=a_from, b_from=b_from)
        for key, (a_from, b_from) in differing.items()
        if a_from or b_from
    )


def _types(indices: tuple[int, ...], texts: Texts) -> tuple[Cause, ...]:
    """Return the types of these layers if the two models have others there."""
    lists = [index_types(text) or () for text in texts]
    a, b = ([*dict.fromkeys(names[index] for index in indices if index < len(names))] for names in lists)
    if a == b or None in (*a, *b) or not (a and b):
        return ()
    origins = [find_origin(text, "layer_types", None) for text in texts]
    return (Cause(key="layer_types", a=a, b=b, a_from=origins[0], b_from=origins[1]),)


def _lengths(a: RotaryEncoding, b: RotaryEncoding, positions: int) -> Iterator[int | None]:
    """Yield the lengths of sequences to compare: around each change of frequencies, and the longest."""
    limits = [one.max_seq_len for one in (a, b) if one.max_seq_len is not None]
    if not limits:
        yield None
        return
    yield from sorted({length for limit in limits for length in (limit, limit + 1) if length < positions} | {positions})


def _longest(a: RotaryEncoding | DualChunk | None, b: RotaryEncoding | DualChunk | None, texts: Texts) -> int:
    """Return the longest length that either config says; without one, that its scaling stretches to."""
    stated = [length for text in texts for length in get_values(text, LENGTHS).values() if isinstance(length, int)]
    limits = [one.max_seq_len + 1 for one in (a, b) if one is not None and one.max_seq_len is not None]
    stretched = [0]
    for scaling in (getattr(one, "scaling", None) for one in (a, b)):
        original, factor = (getattr(scaling, name, None) for name in ("original_max_position_embeddings", "factor"))
        if original and factor and (isinstance(scaling, DynamicNTK) or all(one < 2 for one in stated)):
            stretched.append(round(original * factor))
    longest = max(stated + limits + stretched)
    return min(longest, LIMIT) if longest > 1 else LONGEST


def _which(pairs: Sequence[PairDifference]) -> str:
    """Return in words which pairs these are."""
    first, last = pairs[0].index, pairs[-1].index
    if last - first + 1 != len(pairs):
        return f"{len(pairs)} pairs from {first} to {last}"
    return f"pairs {first}–{last}" if last > first else f"pair {first}"


def _name(config: Any, default: str) -> str:
    return str(config) if isinstance(config, str | PathLike) else default


def _line(cause: Cause) -> str:
    sides = ((cause.a, cause.a_from, "A"), (cause.b, cause.b_from, "B"))
    words = (f"{value!r} ({f'`{origin}`' if origin else 'not given'}) in {side}" for value, origin, side in sides)
    return f"  {cause.key}: {', '.join(words)}"
