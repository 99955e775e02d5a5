"""Facts: the kinds of statement about a model's positional encodings, and how each takes its sizes from a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, prod
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..._array_api.checks import shown
from ...encodings import GridSinusoidal, Learned, Sinusoidal, Timestep
from ...encodings.additive.grid_sinusoidal import GridConvention
from ...encodings.additive.sinusoidal import SinusoidConvention
from ...formats.values import number
from ..config import check_flag, check_size, find_value

Config: TypeAlias = Mapping[str, Any]
Found: TypeAlias = dict[str, tuple[Any, ...]]
Size: TypeAlias = int | str | tuple[str, int]  # a number; a key, a path of keys or a product of them; and a default

COUNTED = (
    "positions count the tokens that are not padding, as `from_mask` does; padding has a row of its own, that of "
    "`pad_token_id`"
)
COUNTED_FROM_ZERO = "`start` counts the tokens that are not padding; the rows of padding are zeros"


class Encoding(Protocol):
    """A statement about a model that follows from sizes in its config."""

    def read(self, config: Config) -> Found:
        """Return what it says about a model with this config: for fields of `PositionEncodings`, items to append.

        Raises:
            TypeError, ValueError: if a size is missing or out of range.
        """


class Rope(NamedTuple):
    """RoPE of the text model, as `load_rope` reads it, for each layer type."""


class Factor(NamedTuple):
    """The factor of queries, if there is one, as `load_query_scale` reads it."""


class FourAxes(NamedTuple):
    """RoPE by four axes, if the config has the keys of the authors of HunYuan-VL.

    Attributes:
        lack: what the code of transformers does, for the keys of transformers.
    """

    lack: str = "RoPE whose two channels of a pair have the angles of different axes, which is not a rotation"


class Axial(NamedTuple):
    """A rotary encoding by several axes, which `load_rope` may read from the config.

    Attributes:
        lack: what the model has where `load_rope` does not read it.
    """

    lack: str = "a rotary encoding by height and width, which `load_rope` does not read from this config"


class If(NamedTuple):
    """Facts that hold if a key has one of some values.

    Attributes:
        key: the key.
        values: the values; a key that is missing counts as `default`.
        then, otherwise: the facts if it has one of the values, and if not.
    """

    key: str
    values: tuple[Any, ...]
    then: Facts
    otherwise: Facts = ()
    default: Any = None

    def choose(self, config: Config) -> Facts:
        """Return the facts that hold."""
        value = config.get(self.key, self.default)
        if isinstance(self.values[0], bool):
            check_flag(self.key, value)
        is_one = any(value is one or (type(value) is type(one) and value == one) for one in self.values)
        return self.then if is_one else self.otherwise


class Part(NamedTuple):
    """Facts about one part of a model whose parts share a config: an encoder, a decoder."""

    name: str
    facts: Facts


Fact: TypeAlias = Encoding | Rope | Factor | FourAxes | Axial | If | Part
Facts: TypeAlias = Fact | tuple[Fact, ...]


def as_tuple(facts: Facts) -> tuple[Fact, ...]:
    """Return facts as a tuple, also where there is one, which is a named tuple."""
    return facts if type(facts) is tuple else (facts,)  # type: ignore[return-value]


def both_parts(*facts: Fact) -> Facts:
    """Return the facts that hold for an encoder and for a decoder."""
    return Part("encoder", facts), Part("decoder", facts)


def size(config: Config, key: Size) -> int:
    """Return a size from 1 on: a number, or that of a key.

    Raises:
        TypeError, ValueError: if the key is missing, or its value no such number.
    """
    if isinstance(key, int):
        return key
    name, default = (key, None) if isinstance(key, str) else key
    if " * " in name:
        return prod(size(config, int(one) if one.isdecimal() else one) for one in name.split(" * "))
    value = find_value(config, name)
    value = default if value is None else value
    if value is None:
        raise ValueError(f"`{name}` is missing: add it to the config.")
    check_size(name, value)
    return int(value)


def count_patches(config: Config, image: str = "image_size", patch: str = "patch_size") -> tuple[int, int]:
    """Return the number of patches from top to bottom of an image, and from left to right.

    Raises:
        ValueError: if there is none.
    """
    pairs = zip(sizes(config, image, 2), sizes(config, patch, 2), strict=True)
    height, width = (side // step for side, step in pairs)
    if not height * width:
        raise ValueError(f"`{image}` must hold at least one patch of `{patch}`, got {shown(config[image])}.")
    return height, width


def sizes(config: Config, key: str, count: int | None = None) -> tuple[int, ...]:
    """Return the sizes of a key that has a list, or one number that stands for `count` equal ones."""
    value = config.get(key)
    if isinstance(value, Mapping) and {"height", "width"} <= value.keys():
        value = (value["height"], value["width"])
    if not isinstance(value, list | tuple):
        return (size(config, key),) * (count or 1)
    if not value or len(value) != (count or len(value)):
        raise ValueError(f"`{key}` must have {count or 'some'} numbers, got {shown(value)}.")
    return tuple(size({key: one}, key) for one in value)


class Rows(NamedTuple):
    """A learned row for each position.

    Attributes:
        length: the number of rows, less `more`.
        dim: the number of columns.
        offset: the row of position 0; `"padding"` is the row after that of the padding token.
        more: the number of rows that the table has beyond `length`.
        name: what has these rows.
    """

    length: Size = "max_position_embeddings"
    dim: Size = "hidden_size"
    offset: int | str = 0
    more: int = 0
    name: str = "tokens"

    def read(self, config: Config) -> Found:
        offset = _first_row(config, self.offset)
        rows = size(config, self.length) + self.more
        if rows <= offset:
            raise ValueError(f"`{self.length}` must leave a row after the {offset} for padding, got {rows}.")
        encoding = Learned(dim=size(config, self.dim), length=rows - offset, offset=offset)
        return {"additive": ((self.name, encoding),)} | ({"notes": (COUNTED,)} if self.offset == "padding" else {})


def _first_row(config: Config, given: int | str) -> int:
    """Return the row of the first token: the one given, or for `"padding"` the one after that of the padding token."""
    if given != "padding":
        return int(given)
    value = config.get("pad_token_id")
    if value is None:
        raise ValueError("`pad_token_id` is missing: add it to the config, as positions start after it.")
    check_size("pad_token_id", value, minimum=0)
    return int(value) + 1


class Table(NamedTuple):
    """Learned rows, as many as a formula says.

    Attributes:
        name: what has these rows.
        rows: the number of rows of a config.
        dim: the number of columns, times `parts`, or a formula for it.
        parts: the number of tables that stand side by side.
    """

    name: str
    rows: Callable[[Config], int]
    dim: Size | Callable[[Config], int] = "hidden_size"
    parts: int = 1

    def read(self, config: Config) -> Found:
        columns = self.dim(config) if callable(self.dim) else size(config, self.dim)
        encoding = Learned(dim=columns // self.parts, length=self.rows(config))
        return {"additive": ((self.name, encoding),)}


class Patches(NamedTuple):
    """A learned row for each patch of an image, row by row, and rows for other tokens.

    Attributes:
        prefix: the number of other tokens, such as the class token, or the key of that number.
        image, patch: the keys of the height and width of the image and of a patch, pixels.
        dim: the number of columns.
        last: whether the other tokens come after the patches.
    """

    prefix: Size = 1
    image: str = "image_size"
    patch: str = "patch_size"
    dim: Size = "hidden_size"
    last: bool = False

    def read(self, config: Config) -> Found:
        height, width = count_patches(config, self.image, self.patch)
        prefix = size(config, self.prefix) if self.prefix else 0
        length = height * width + prefix
        others = f"{prefix} other token{'s' * (prefix > 1)}"
        cells = f"a grid of {height} x {width} patches, row by row"
        order = (cells, others) if self.last else (others, cells)
        return {
            "additive": (("patches", Learned(dim=size(config, self.dim), length=length)),),
            "notes": (f"the rows are {', then '.join(order) if prefix else cells}",),
        }


class Sines(NamedTuple):
    """Sines and cosines of positions.

    Attributes:
        convention: as in `Sinusoidal`.
        dim: the number of columns.
        start: the position of the first token; `"padding"` is the one after the padding token.
        base: the geometric base.
        name: what has these rows.
    """

    convention: SinusoidConvention
    dim: Size = "hidden_size"
    start: int | str = 0
    base: Size = 10000
    name: str = "tokens"

    def read(self, config: Config) -> Found:
        start = _first_row(config, self.start)
        dim, base = size(config, self.dim), size(config, self.base)
        encoding = Sinusoidal(dim=dim, base=base, convention=self.convention)
        found: Found = {"additive": ((self.name, encoding),)} | ({"start": (start,)} if start else {})
        return found | ({"notes": (COUNTED_FROM_ZERO,)} if self.start == "padding" else {})


class CosinesFirst(NamedTuple):
    """Cosines and sines of positions, with the frequencies of tensor2tensor."""

    dim: Size = "hidden_size"

    def read(self, config: Config) -> Found:
        encoding = Timestep(dim=size(config, self.dim), order="cos_first", shift=1)
        return {"additive": (("tokens", encoding),)}


class Periods(NamedTuple):
    """Sines, then cosines, between two periods or two timescales.

    Attributes:
        shortest, longest: their keys, and the defaults.
        timescales: whether they are timescales, of which the code multiplies by the shortest, as in TimesFM.
    """

    shortest: tuple[str, float]
    longest: tuple[str, float]
    dim: Size = "hidden_size"
    name: str = "tokens"
    timescales: bool = False

    def read(self, config: Config) -> Found:
        low, high = (number(config, key, default, above=0) for key, default in (self.shortest, self.longest))
        scale = low if self.timescales else 2 * pi / low
        encoding = Timestep(dim=size(config, self.dim), order="sin_first", shift=1, base=high / low, scale=scale)
        return {"additive": ((self.name, encoding),)}


class SineGrid(NamedTuple):
    """Sines and cosines of rows and columns, as in `GridSinusoidal`.

    Attributes:
        other_base: the key of the base of the columns, if the model has one; it must be equal.
    """

    convention: GridConvention
    dim: Size = "hidden_size"
    base: Size = 10000
    name: str = "cells"
    other_base: Size | None = None

    def read(self, config: Config) -> Found:
        base = size(config, self.base)
        if self.other_base is not None and size(config, self.other_base) != base:
            raise ValueError(
                f"`{self.other_base}` must be equal to `{self.base}` {base}: rows and columns share a base."
            )
        encoding = GridSinusoidal(dim=size(config, self.dim), base=base, convention=self.convention)
        return {"additive": ((self.name, encoding),)}


class Note(NamedTuple):
    """A sentence about the use of the encodings."""

    text: str

    def read(self, config: Config) -> Found:
        return {"notes": (self.text,)}


CONVOLUTIONAL = Note("no positional encoding: convolutions tell the order")


class Lack(NamedTuple):
    """An encoding of the model that this library does not have.

    Attributes:
        text: its name.
        ends_with: the class, or `CLASS.field`, that would be it; None if the config does not say which encoding it is.
    """

    text: str
    ends_with: str | None

    def read(self, config: Config) -> Found:
        return {"lacks": (self.text,)}
