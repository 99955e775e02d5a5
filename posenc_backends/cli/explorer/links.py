"""Links: the chosen values as the query of a URL, and the encodings that they describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from posenc_core._values import Value
from posenc_core.encodings import Encoding
from posenc_core.encodings.examples import example
from posenc_core.scaling import Scaling

from .catalogue import KINDS, SCALINGS, divisors, has_as_many_positions_as_its_length
from .controls import (
    FIELDS,
    INNER,
    LENGTH,
    NONE,
    OF_ROTARY,
    VIEWS,
    WITH,
    Control,
    fields_of,
    is_remapped,
    kind_control,
    views_of,
)
from .view import View

Values = dict[str, Any]
SIDES = ("", WITH)  # the prefixes of the controls of the first and the second encoding
MOST_SENTENCES = 5
WORDS = {"yes": True, "no": False}


def texts_of(query: str) -> dict[str, str]:
    """Return the parts of a query `?name=text&…`, without those that it has twice."""
    parts = _parts(query)
    repeated = repeated_in(query)
    return {name: text for name, text in parts if name not in repeated}


def repeated_in(query: str) -> tuple[str, ...]:
    """Return the names that a query has more than once."""
    return tuple(name for name, count in Counter(name for name, _ in _parts(query)).items() if count > 1)


def query_of(values: Mapping[str, Any]) -> str:
    """Return the query with these values."""
    alone = values.get(WITH + "encoding") == NONE
    said = {name: text_of(value) for name, value in values.items() if value is not None}
    return "?" + urlencode(
        {name: text for name, text in said.items() if not (alone and name.startswith(WITH))}, safe=","
    )


def text_of(value: Any) -> str:
    """Return a value as it stands in a link: a list as numbers with commas."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def link_to(encoding: Encoding) -> str:
    """Return the query of the view of an encoding: what the explorer opens for it.

    Raises:
        ValueError: if the explorer does not offer the encoding, or a field is out of the bounds of its control.

    >>> from posenc_core import Rotary
    >>> link_to(Rotary(head_dim=128, layout="half", base=500000))
    '?encoding=Rotary&head_dim=128&layout=half&placement=lead&direction=forward&precision=exact&base=500000&scaling=none'
    """
    kind = type(encoding).__name__
    if kind not in KINDS:
        raise ValueError(f"`encoding` must be one of {', '.join(KINDS)} to be drawn, got {kind}.")
    values = {"encoding": kind} | _values_of(encoding)
    scaling = getattr(encoding, "scaling", None)
    if scaling is not None:
        values |= {INNER + name: value for name, value in _values_of(scaling).items()}
    texts = {name: text_of(value) for name, value in values.items() if value is not None}
    found, wrong = read(texts)
    if wrong:
        raise ValueError(" ".join(wrong))
    if view_of(found).encoding != encoding:
        raise ValueError(f"`encoding` has a field without a control in the explorer: {encoding!r}."[:300])
    return query_of(texts)


def link_to_all(encodings: Sequence[Encoding]) -> str:
    """Return the query of the view of one encoding, or of two beside each other.

    Raises:
        ValueError: as `link_to`, or if there are not one or two.
    """
    if len(encodings) not in (1, 2):
        raise ValueError(f"`encodings` must be one to show, or two to compare, got {len(encodings)}.")
    texts = texts_of(link_to(encodings[0]))
    for name, text in texts_of(link_to(encodings[1])).items() if len(encodings) > 1 else ():
        texts.setdefault(name if name in VIEWS else WITH + name, text)
    return query_of(texts)


def controls_of(texts: Mapping[str, str]) -> tuple[Control, ...]:
    """Return the controls of the chosen encodings and scalings, in order."""
    controls: list[Control] = []
    views: set[Control] = set()
    for prefix in SIDES:
        kind = kind_control(prefix)
        controls.append(kind)
        cls = KINDS.get(_value(kind, texts, []))
        if cls is not None:
            fields = tuple(fields_of(cls, prefix))
            values = {field.name: _value(field, texts, []) for field in fields}
            scaling = SCALINGS.get(values.get(prefix + "scaling") or NONE)
            controls += [*fields, *(fields_of(scaling, prefix + INNER) if scaling else ())]
            views |= set(views_of(cls, values.get(prefix + "num_axes")))
    return *controls, *(control for control in VIEWS.values() if control in views)


def read(texts: Mapping[str, str]) -> tuple[Values, tuple[str, ...]]:
    """Return the value of each control, and the errors in the texts; the default replaces a missing or wrong value.

    >>> values, wrong = read({"encoding": "Sinusoidal", "dim": "many"})
    >>> values["dim"], wrong
    (64, ("`dim` must be a whole number from 1 to 1536, got 'many'.",))
    """
    wrong: list[str] = []
    controls = controls_of(texts)
    values = {control.name: _value(control, texts, wrong) for control in controls}
    names = ", ".join(values)
    unknown = [name for name in texts if name not in values]
    wrong += [f"`{name[:40]}` is not a control here; the controls are {names}." for name in unknown[:MOST_SENTENCES]]
    return values, tuple(wrong)


def view_of(values: Mapping[str, Any]) -> View:
    """Return the view of the first encoding that these values describe.

    Raises:
        ValueError: if they contradict each other.
    """
    return views_in(values)[0]


def views_in(values: Mapping[str, Any]) -> tuple[View, ...]:
    """Return the views of one encoding or two.

    Raises:
        ValueError: if values contradict each other.
    """
    shown = {name: values[name] for name in VIEWS if name in values}
    kinds = [prefix for prefix in SIDES if values.get(prefix + "encoding", NONE) != NONE]
    return tuple(View(encoding=_encoding_of(values, prefix), **shown) for prefix in kinds)


def _encoding_of(values: Mapping[str, Any], prefix: str) -> Encoding:
    cls = KINDS[values[prefix + "encoding"]]
    fields = _fields(cls, values, prefix)
    scaling = SCALINGS.get(fields.get("scaling", NONE))
    if "scaling" in fields:
        fields["scaling"] = None
    if scaling is not None:
        inner = _fields(scaling, values, prefix + INNER)
        pairs = (fields["rotary_dim"] or fields["head_dim"]) // 2
        lists = {name: divisors(value, pairs) for name, value in inner.items() if isinstance(value, tuple)}
        fields["scaling"] = Scaling.from_dict({"kind": scaling.__name__} | inner | lists)
    if has_as_many_positions_as_its_length(cls.__name__):
        fields[LENGTH.name] = values[LENGTH.name]
    return example(cls.__name__, **{name: value for name, value in fields.items() if value is not None})


def _fields(cls: type[Value], values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the values of the fields of a class, as `from_dict` takes them."""
    chosen = {control.name.removeprefix(prefix): values[control.name] for control in fields_of(cls, prefix)}
    return {FIELDS.get(name, name): WORDS.get(value, value) for name, value in chosen.items()}


def _values_of(value: Value) -> dict[str, Any]:
    """Return the values of the controls that make an encoding or a scaling; those of its scaling are left out."""
    values: dict[str, Any] = {}
    for control in fields_of(type(value)):
        owner = vars(value)["rotary"] if is_remapped(type(value)) and control.name in OF_ROTARY else value
        field = getattr(owner, FIELDS.get(control.name, control.name))
        if control.name == "scaling":
            field = NONE if field is None else type(field).__name__
        elif control.name == "seq_len" and field is None:
            field = vars(value)["original_max_position_embeddings"]
        values[control.name] = {True: "yes", False: "no"}[field] if isinstance(field, bool) else field
    if has_as_many_positions_as_its_length(type(value).__name__):
        values[LENGTH.name] = vars(value)[LENGTH.name]
    return values


def _parts(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query.removeprefix("?"), keep_blank_values=True)


def _value(control: Control, texts: Mapping[str, str], wrong: list[str]) -> Any:
    if control.name not in texts:
        return control.default
    try:
        return control.value(texts[control.name])
    except ValueError as error:
        wrong.append(str(error))
        return control.default
