"""All positional encodings of a model, from its Hugging Face config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from .._array_api.checks import shown
from .._values import Value
from ..encodings.additive.base import Additive
from ..encodings.query_scale import QueryEncoding
from ..encodings.remapping import DualChunk
from ..encodings.rotary.base import RotaryEncoding
from ..encodings.scoring.base import Scoring
from .config import TEXTS, contents, is_foreign, is_rotary_key, is_set, read, translate
from .facts.audio import AUDIO
from .facts.images import IMAGES
from .facts.kinds import Axial, Config, Factor, Facts, Found, FourAxes, If, Note, Part, Rope, as_tuple
from .facts.models import MODELS, OTHERS
from .facts.parts import PARTS, WHOLES
from .facts.text import TEXT
from .facts.towers import TOWERS
from .indexer import INDEXER
from .load_layers import group_layers, layers_without
from .load_query_scale import find_query_scale, layers_with_factor
from .load_rope import find_note, load_rope, load_text
from .sections import is_xdrope

NO_ROPE = "no RoPE: queries and keys are not rotated"
FACTS: dict[str, Facts] = TEXT | AUDIO | IMAGES | WHOLES


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionEncodings(Value):
    """The positional encodings of a model or of one part; none if all fields except `notes` are empty.

    Attributes:
        additive: pairs of the kind of input, such as `"tokens"` or `"patches"`, and the encoding.
        start: the position of the first token in additive encodings.
        rotary: pairs of a layer type, None for all layers, and the encoding; None for layers without one.
        scoring: pairs of the place where the bias is added, such as `"self-attention"`, and the encoding.
        layers_without: indices from 0 of layers without rotation, if other layers rotate.
        query_scale: the factor of queries as a function of their position; a note says it if only some layers have it.
        lacks: names of encodings that posenc does not have.
        notes: how the encodings are used, in sentences.
        parts: pairs of the name of a part, such as `"encoder"` or `"vision"`, and its encodings.
    """

    additive: tuple[tuple[str, Additive], ...] = ()
    start: int = 0
    rotary: tuple[tuple[str | None, RotaryEncoding | DualChunk | None], ...] = ()
    scoring: tuple[tuple[str, Scoring], ...] = ()
    layers_without: tuple[int, ...] = ()
    query_scale: QueryEncoding | None = None
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parts: tuple[tuple[str, PositionEncodings], ...] = ()

    def __str__(self) -> str:
        """Return one line for each encoding, lack and note; parts are indented below their names."""
        return "\n".join(self._lines())

    def name_layers(self, layer_type: str | None) -> str:
        """Return the words for the layers of a type; for None, "all layers", without those that rotate nothing."""
        but = f" but {', '.join(map(str, self.layers_without))}" if self.layers_without else ""
        return layer_type or f"all layers{but}"

    def _lines(self) -> Iterator[str]:
        for name, additive in self.additive:
            yield f"added to {name}: {additive!r}"
        if self.start:
            yield f"position of the first token: {self.start}"
        for layer_type, rotary in self.rotary:
            yield f"rotates queries and keys of {self.name_layers(layer_type)}: {rotary or 'no'}"
        for name, scoring in self.scoring:
            yield f"added to the scores of {name}: {scoring!r}"
        if self.layers_without and len(self.rotary) > 1:
            yield f"layers without rotation: {', '.join(map(str, self.layers_without))}"
        if self.query_scale:
            yield f"multiplies queries: {self.query_scale!r}"
        yield from (f"lacks: {lack}" for lack in self.lacks)
        yield from (f"note: {note}" for note in self.notes)
        for name, part in self.parts:
            yield f"{name}:"
            yield from (f"  {line}" for line in part._lines())


def load_position(config: Any) -> PositionEncodings:
    """Load all positional encodings of a model from its Hugging Face config.

    For a model whose parts differ, such as an encoder and a decoder, or a text and a vision model, `parts` contains the
    encodings of each part. `lacks` names the encodings that posenc does not have.

    Args:
        config: a `config.json`, its folder, its content as a dict, or a config object of transformers.
    Returns:
        The encodings, with the sizes of the config.
    Raises:
        TypeError, ValueError: if the `model_type` is unknown, or a key is missing, out of range or contradicts another.
        OSError: if there is no such file.
    Warns:
        UserWarning: as in `load_rope`.
    Source: the code of the models in transformers 5.23.

    >>> config = {"model_type": "bert", "hidden_size": 768, "max_position_embeddings": 512}
    >>> print(load_position(config))
    added to tokens: Learned(dim=768, length=512)
    """
    return _encodings(_find(contents(config)))


def _encodings(found: Found) -> PositionEncodings:
    """Return the items that were found as encodings, each once."""
    fields: dict[str, Any] = {name: tuple(dict.fromkeys(items)) for name, items in found.items() if name != "parts"}
    fields |= {name: fields[name][0] for name in ("start", "query_scale") if fields.get(name)}
    fields["query_scale"] = fields.get("query_scale") or None
    return PositionEncodings(**fields, parts=tuple((name, _encodings(part)) for name, part in found.get("parts", ())))


def _find(config: dict[str, Any], whole: Config | None = None) -> Found:
    """Return what is known about a model.

    Args:
        config: the config of the model.
        whole: the config that it stands in, for the text model of several.
    """
    name = config.get("model_type")
    if not isinstance(name, str | None):
        raise TypeError(f"`model_type` must be a string or None, got {shown(name)}.")
    facts = FACTS.get(name or "")
    if facts is None:
        facts = _assume_facts(name, config, whole)
    own = _read_all(facts, (whole or config) if isinstance(facts, Rope) else config)
    usual, nested = PARTS.get(name or "", {}), {key: one for key, one in config.items() if isinstance(one, Mapping)}
    if name not in FACTS and isinstance(facts, Note):  # of an unknown model
        nested = {key: one for key, one in nested.items() if key in TEXTS}
    parts = (_part(name or "", key, config) for key, one in nested.items() if key in usual or one.get("model_type"))
    left_out = [key for key in usual if key not in config and key not in TEXTS]
    notes = tuple(f"the config leaves `{key}` out, and so the encodings of that part" for key in left_out)
    return _merge((own, {"notes": notes}, *parts))


def _assume_facts(name: str | None, config: Config, whole: Config | None) -> Facts:
    """Return the facts about a model that the tables do not have: it is rotary, or consists of others.

    Raises:
        ValueError: if it is neither.
    """
    if is_foreign(config):
        return Rope()
    texts = [key for key in TEXTS if isinstance(config.get(key), Mapping)]
    rotary = any(is_rotary_key(key) and is_set(value) for key, value in config.items())
    model = (name or "").removesuffix("_text")
    known = model in MODELS or (model in OTHERS and OTHERS[model].never)
    if not texts and (known or rotary or whole is not None):
        return Rope()
    if name in PARTS or known or (name is None and texts):  # such as the config of a model that drafts tokens
        return ()
    if texts:
        return Note(f"`model_type` {shown(name)} is unknown: only its text model is described")
    raise ValueError(f"`model_type` must be one that is known, because it determines the encoding, got {shown(name)}.")


def _part(name: str, key: str, config: dict[str, Any]) -> Found:
    """Return what is known about the model whose config stands below a key, as a part.

    Raises:
        ValueError: with the key, if a key inside of it is missing or wrong.
    """
    default = PARTS.get(name, {}).get(key)
    part = {**config[key]}
    own = part.get("model_type")
    older = own == name and default is not None and key not in TEXTS  # has the name of the whole model
    part["model_type"] = default if older or not own else own
    part = translate(part)
    others = {other for other in PARTS.get(name, {}) if other != key}
    whole = {k: v for k, v in config.items() if k not in others} | {key: part} if key in TEXTS else None
    try:
        found = _find(part, whole)
    except ValueError as error:
        raise ValueError(f"`{key}`: {error}") from error
    return {"parts": ((key.removesuffix("_config"), found),)}


def _read_all(facts: Facts, config: Config) -> Found:
    """Return what the facts say together."""
    return _merge(_read(fact, config) for fact in as_tuple(facts))


def _merge(founds: Iterable[Found]) -> Found:
    """Return the items of all of them, field by field."""
    together: Found = {}
    for found in founds:
        for field, items in found.items():
            together[field] = together.get(field, ()) + items
    return together


@singledispatch
def _read(fact: Any, config: Config) -> Found:
    """Return what a fact says; one about RoPE needs `load_rope`, which imports facts, so that it has no `read`."""
    found: Found = fact.read(config)
    return found


@_read.register
def _(fact: If, config: Config) -> Found:
    return _read_all(fact.choose(config), config)


@_read.register
def _(fact: Part, config: Config) -> Found:
    return {"parts": ((fact.name, _read_all(fact.facts, config)),)}


@_read.register
def _(fact: Rope, config: Config) -> Found:
    if is_foreign(config):  # whose layers are all alike
        rotary = load_rope(dict(config))
        return {"rotary": ((None, rotary),)} if rotary is not None else {"notes": (NO_ROPE,)}
    text_config = read(config)
    groups, without = group_layers(text_config, load=load_text)
    factor = _read(Factor(), text_config)
    if [group.rotary for group in groups] == [None]:
        return _merge((factor, {"notes": (NO_ROPE,)}))
    types = [group.layer_type for group in groups]
    names = [name if types.count(name) == 1 else group.name for name, group in zip(types, groups, strict=True)]
    rotary = [group.rotary for group in groups]
    without = without or tuple(layers_without(text_config))  # raises if it is not known which
    found = {"rotary": tuple(zip(names, rotary, strict=True)), "layers_without": without}
    notes = {find_note(text_config, encoding) for encoding in rotary} - {None}
    indexers, without = group_layers(text_config, INDEXER, load=load_text)
    if indexers:
        own = tuple((group.layer_type, group.rotary) for group in indexers)
        found["parts"] = ((INDEXER, {"rotary": own, "layers_without": without}),)
    return _merge((found, factor or {"notes": tuple(notes)}))


@_read.register
def _(fact: Factor, config: Config) -> Found:
    scale, layers = find_query_scale(config), layers_with_factor(config)
    if scale is None:
        return {}
    notes = (f"queries are multiplied by `query_scale` in layers {layers} alone",) if layers else ()
    return {"query_scale": (scale,), "notes": notes}


@_read.register
def _(fact: FourAxes, config: Config) -> Found:
    return _read(Rope(), config) if is_xdrope(config) else {"lacks": (fact.lack,)}


@_read.register
def _(fact: Axial, config: Config) -> Found:
    try:
        rotary: Any = load_rope(dict(config))
    except (TypeError, ValueError):
        rotary = None
    if rotary is None or not rotary.needs_positions:
        return {"lacks": (fact.lack,)}
    tower = TOWERS.get(config["model_type"])
    return {"rotary": ((None, rotary),), "lacks": (tower.note,) if tower and tower.note else ()}
