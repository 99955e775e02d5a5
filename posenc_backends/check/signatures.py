"""Forms: what a callable takes and what it returns, and what it ought to return."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posenc_backends.conformance.errors import pair_lengths
from posenc_core.analysis.precision import ROUNDED
from posenc_core.encodings import Additive, Encoding, PositionScoring, Rotary, XPos
from posenc_core.rotation import rotate_pairs

from .candidates import Float64s, Sketch, Tables

HEADS = (4, 2)  # of queries and of keys: grouped


@dataclass(frozen=True)
class Form(ABC):
    """A kind of callable.

    Attributes:
        encoding: the encoding that it is to compute.
    """

    encoding: Any

    name: ClassVar[str]
    has_arrays: ClassVar[bool] = True  # whether it takes tokens, and so has gradients and other dtypes
    outputs: ClassVar[tuple[str, ...]] = ("result",)

    def tokens(self, draw: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tuple[Float64s, ...]:
        """The arrays that it is called with, less the positions; `shape` is that of the positions, `(batch, length)`."""
        return tuple(ROUNDED[dtype](draw.standard_normal(each)).astype(np.float64) for each in self.shapes(shape))

    @abstractmethod
    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The shapes of these arrays."""

    @abstractmethod
    def wanted(self, sketch: Sketch, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        """What it returns if it computes what the sketch says.

        Args:
            sketch: the encoding and the positions.
            tokens: its arrays.
            width: how many columns it returns; tables may have a column for each pair, or for each channel.
        """

    def sizes(self, sketch: Sketch, wanted: Float64s) -> Float64s:
        """The numbers in whose units in the last place an output is measured."""
        return np.abs(wanted)


class Rotation(Form):
    """`(q, k, positions) -> (q, k)`; arrays are `(batch, heads, length, head_dim)`."""

    name = "rotation"
    outputs: ClassVar[tuple[str, ...]] = ("queries", "keys")

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [(shape[0], heads, shape[1], self.encoding.head_dim) for heads in HEADS[: len(self.outputs)]]

    def wanted(self, sketch: Sketch, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        encoding: Any = sketch.encoding
        tables = (table[..., : encoding.pairs] for table in sketch.tables())
        cos, sin = (table if table.ndim == 2 else table[:, None] for table in tables)
        return tuple(rotate_pairs(x, cos, sin, pairing=encoding.pairing) for x in tokens)

    def sizes(self, sketch: Sketch, wanted: Float64s) -> Float64s:
        encoding: Any = sketch.encoding
        return np.asarray(pair_lengths(encoding, wanted))


class Turn(Rotation):
    """`(x, positions) -> x`."""

    name = "turn"
    outputs = ("result",)


class CosSin(Form):
    """`positions -> (cos, sin)`, one column for each pair, or two."""

    name = "table"
    has_arrays = False
    outputs = ("cos", "sin")

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return []

    def wanted(self, sketch: Sketch, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        encoding: Any = sketch.encoding
        tables = sketch.tables()
        if width != 2 * tables[0].shape[-1]:
            return tables
        if encoding.layout == "interleaved":
            return tuple(np.repeat(table, 2, axis=-1) for table in tables)
        return tuple(np.concatenate([table, table], axis=-1) for table in tables)

    def sizes(self, sketch: Sketch, wanted: Float64s) -> Float64s:
        encoding: Any = sketch.encoding
        return np.full_like(wanted, encoding.attention_factor)


class Table(Form):
    """`positions -> table`, shape `(length, dim)`."""

    name = "table"
    has_arrays = False

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return []

    def wanted(self, sketch: Sketch, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return sketch.tables()

    def sizes(self, sketch: Sketch, wanted: Float64s) -> Float64s:
        turning = sketch.encoding.angular_frequencies() != 0 if isinstance(sketch.encoding, Additive) else False
        return np.where(turning, np.maximum(np.abs(wanted), 1), np.abs(wanted))


class Addition(Table):
    """`(x, positions) -> x + rows`; `x` is `(batch, length, dim)`."""

    name = "addition"
    has_arrays = True

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [(*shape, self.encoding.dim)]

    def wanted(self, sketch: Sketch, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return (tokens[0] + sketch.tables()[0],)

    def sizes(self, sketch: Sketch, wanted: Float64s) -> Float64s:
        return np.maximum(np.abs(wanted), 1)


class BiasTable(Form):
    """`(query_positions, key_positions) -> bias`, shape `(heads, queries, keys)`."""

    name = "bias"
    has_arrays = False

    def shapes(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        return []

    def wanted(self, sketch: Sketch, tokens: tuple[Float64s, ...], width: int) -> tuple[Float64s, ...]:
        return sketch.tables()


KINDS: dict[type[Any], dict[int, type[Any]]] = {  # by how many arguments they take
    Rotary: {3: Rotation, 2: Turn, 1: CosSin},
    Additive: {1: Table, 2: Addition},
    PositionScoring: {2: BiasTable},
}
NAMES = ("rotation", "turn", "table", "addition", "bias")


def form_of(callee: Callable[..., Any], encoding: Encoding, name: str | None) -> Any:
    """The form of a callable: the one named, or the one that its signature and the kind of the encoding tell.

    Raises:
        TypeError: if the encoding is of no kind that can be checked.
        ValueError: if it has no such form, or the signature tells none.
    """
    kind = next((kind for kind in KINDS if isinstance(encoding, kind)), None)
    is_plain = (
        kind is not None
        and not isinstance(encoding, XPos)
        and not encoding.parameters()
        and getattr(encoding, "num_axes", 1) == 1
    )
    if kind is None or not is_plain:
        raise TypeError(
            f"`spec` must be a Rotary, an additive or a scoring encoding of one axis without parameters, got {encoding!r}."
        )
    forms = KINDS[kind]
    named = {form.name: form for form in forms.values()}
    if name is not None:
        if name not in named:
            raise ValueError(f"`form` of {encoding!r} must be one of {', '.join(map(repr, named))}, got {name!r}.")
        return named[name](encoding)
    count = _arguments(callee, most=max(forms))
    if count not in forms:
        taken = "; ".join(f"{form.name!r}: {inspect.getdoc(form)}" for form in forms.values())
        raise ValueError(f"`function` takes {count} arguments, which tells no form; give `form`: {taken}")
    return forms[count](encoding)


def _arguments(callee: Callable[..., Any], *, most: int) -> int:
    """How many arguments it has to be called with; `most`, where nothing tells."""
    try:
        parameters = inspect.signature(callee).parameters.values()
    except (TypeError, ValueError):
        return most
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return most
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    asked = [number for number, each in enumerate(places, 1) if each.default is each.empty or "pos" in each.name]
    return max(asked, default=0)


__all__ = ["NAMES", "Form", "Tables", "form_of"]
