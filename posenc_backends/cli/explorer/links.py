"""Links: the chosen values as the query of a URL, and the encoding that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from posenc_core.analysis.curves import plain_rope
from posenc_core.encodings import Alibi, Encoding

from .controls import INNER, KINDS, NONE, SCALINGS, VIEWS, Control, fields_of, kind_control, views_of

Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class View:
    """An encoding and what the pictures show of it.

    Attributes:
        encoding: the encoding.
        length: number of positions.
        pair: the pair that is shown; the last one if there are fewer.
        head: the head whose bias is shown; the last one if there are fewer.
        position: the position that the pair is shown at; the last one if there are fewer.
    """

    encoding: Encoding
    length: int
    pair: int = 0
    head: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", max(min(self.length, self.encoding.limit), 1))
        object.__setattr__(self, "position", min(self.position, self.length - 1))
        if isinstance(self.encoding, Alibi):
            object.__setattr__(self, "head", min(self.head, self.encoding.num_heads - 1))
        elif (rotary := plain_rope(self.encoding)) is not None:
            object.__setattr__(self, "pair", min(self.pair, len(rotary.frequencies()) - 1))


def texts_of(query: str) -> dict[str, str]:
    """Return the parts of a query `?name=text&…`."""
    return dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True))


def query_of(values: Mapping[str, Any]) -> str:
    """Return the query with these values."""
    return "?" + urlencode({name: value for name, value in values.items() if value is not None})


def controls_of(texts: Mapping[str, str]) -> tuple[Control, ...]:
    """Return the controls of the chosen encoding and scaling, in order."""
    first = kind_control()
    cls = KINDS[_value(first, texts, [])]
    fields = tuple(fields_of(cls))
    scaling = next((_value(field, texts, []) for field in fields if field.name == "scaling"), NONE)
    more = () if scaling == NONE else tuple(fields_of(SCALINGS[scaling], prefix=INNER))
    return first, *fields, *more, *views_of(cls)


def read(texts: Mapping[str, str]) -> tuple[Values, tuple[str, ...]]:
    """Return the value of each control, and the errors in the texts; the default replaces a missing or wrong value.

    >>> values, wrong = read({"encoding": "Sinusoidal", "dim": "many"})
    >>> values["dim"], wrong
    (64, ("`dim` must be a whole number from 1 to 256, got 'many'.",))
    """
    wrong: list[str] = []
    controls = controls_of(texts)
    values = {control.name: _value(control, texts, wrong) for control in controls}
    names = ", ".join(values)
    wrong += [f"`{name}` is not a control here; the controls are {names}." for name in texts if name not in values]
    return values, tuple(wrong)


def view_of(values: Mapping[str, Any]) -> View:
    """Return the view that these values describe.

    Raises:
        ValueError: if they contradict each other.
    """
    return View(encoding=_encoding_of(values), **{name: values[name] for name in VIEWS if name in values})


def _encoding_of(values: Mapping[str, Any]) -> Encoding:
    cls = KINDS[values["encoding"]]
    fields = {control.name: _plain(values[control.name]) for control in fields_of(cls)}
    if fields.get("scaling") == NONE:
        fields["scaling"] = None
    elif "scaling" in fields:
        inner = {
            control.name: _plain(values[INNER + control.name]) for control in fields_of(SCALINGS[fields["scaling"]])
        }
        fields["scaling"] = {"kind": fields["scaling"]} | inner
    if "length" in cls.__dataclass_fields__:
        fields["length"] = values["length"]
    return Encoding.from_dict({"kind": cls.__name__} | fields)


def _plain(value: Any) -> Any:
    return {"yes": True, "no": False}.get(value, value) if isinstance(value, str) else value


def _value(control: Control, texts: Mapping[str, str], wrong: list[str]) -> Any:
    if control.name not in texts:
        return control.default
    try:
        return control.value(texts[control.name])
    except ValueError as error:
        wrong.append(str(error))
        return control.default
