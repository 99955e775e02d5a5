"""The base classes of encodings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_numbers, check_rank, shown
from .._array_api.lazy import tables_by_block
from .._array_api.namespace import A, Array, Weights, beside, dtype_name, namespace_of
from .._values import Value
from ..positions.sequences import LIMIT, from_array, sequence
from ..tables.sincos import DType

Tables = dict[str, npt.NDArray[Any]]


class TokenRows(NamedTuple):
    """The rows of tokens, and how they are applied.

    Attributes:
        rows: cosine and sine; those of keys follow those of queries where they differ.
        rotate_by: rotates the pairs of tokens by a cosine and a sine: `(x, cos, sin) -> x`.
        weights: the parameters of a layer, by name.
        keys: whether the tokens are keys.
        seq_axis: the axis of the sequence.
    """

    rows: tuple[Any, ...]
    rotate_by: Callable[[Any, Any, Any], Array]
    weights: Weights
    keys: bool
    seq_axis: int = -2


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A learned array: its shape, and how its initial numbers follow from normally distributed ones.

    Args:
        shape: of the array.
        std: standard deviation of the initial numbers.
        mean: of the initial numbers.
        start: returns the initial numbers from an array of this shape with numbers of mean 0 and standard deviation 1,
            in its framework, where they are not merely scaled; in place of `std` and `mean`.
    """

    shape: tuple[int, ...]
    std: float = 1.0
    mean: float = 0.0
    start: Callable[[Any], Any] | None = field(default=None, repr=False)

    @property
    def is_drawn(self) -> bool:
        """Whether the initial numbers are random."""
        return self.start is not None or self.std > 0

    def initial(self, drawn: A) -> A:
        """Return the initial numbers, given an array of this shape with numbers of mean 0 and standard deviation 1.

        >>> Parameter(shape=(2,), std=0.5, mean=1.0).initial(np.array([0.0, 2.0]))
        array([1., 2.])
        """
        numbers: Any = drawn * self.std + self.mean if self.start is None else self.start(drawn)
        return cast("A", numbers)


@dataclass(frozen=True, kw_only=True, repr=False)
class Encoding(Value):
    """A positional encoding as a value. It owns no arrays; `constants` and `parameters` describe those of a layer."""

    @property
    def limit(self) -> int:
        """The number of its positions: the first one that it cannot encode."""
        return LIMIT

    #: The axis of the heads in those of its constants and parameters that have one, by name.
    head_axes: ClassVar[Mapping[str, int]] = {}

    #: The layer that holds its arrays, by the name that it has in every backend.
    layer_name: ClassVar[str]

    #: Whether positions are coordinates, usually from -1 to 1, and not counts of tokens.
    uses_coordinates: ClassVar[bool] = False

    #: Whether a call must give positions, because tokens on a grid cannot be counted from a start.
    needs_positions: ClassVar[bool] = False

    #: Whether attention applies it, because it rotates each token several times, so that a layer alone cannot.
    needs_attention: ClassVar[bool] = False

    #: Whether it adds a term to scores that depends on queries and keys as well as on their positions.
    uses_content: ClassVar[bool] = False

    #: How many times as wide as tokens a layer returns them.
    widening: ClassVar[int] = 1

    @property
    def num_axes(self) -> int:
        """The number of axes; positions are `(length,)` for one axis, `(axes, length)` for more."""
        return 1

    @property
    def table_heads(self) -> int | None:
        """The number of heads that have rows of their own; None where all have the same."""
        return None

    @property
    def max_seq_len(self) -> int | None:
        """The longest sequence for which the frequencies are valid; None if unlimited."""
        return None

    @property
    def longest(self) -> int | None:
        """The longest sequence that models with this encoding are known to be for; None if that is not known."""
        return None

    #: Whether a score depends on other keys than its own, so that keys cannot be taken block by block.
    needs_all_keys: ClassVar[bool] = False

    #: The names of those constants and parameters that have one row per position, in the order of `rows`.
    table_names: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def constants(self, max_len: int) -> Tables:
        """Return the arrays that never change, by name, for the first `max_len` positions; rounded once to float32."""

    def parameters(self) -> dict[str, Parameter]:
        """Return the descriptions of the learned arrays, by name."""
        return {}

    def take_heads(self, weights: Weights, heads: Any) -> Weights:
        """Return the arrays of some heads, where a process has a part of them.

        Args:
            weights: constants and parameters, by name; those that have the given heads alone are returned as they are.
            heads: the numbers of the heads, a range of step 1 or an integer array `(heads,)` of the framework.
        Raises:
            ValueError: if an array has neither all heads nor as many as are given.
        """
        taken, count = dict(weights), num_heads_of(heads)
        all_heads: Any = self.table_heads or getattr(self, "num_heads", None)
        if self.head_axes and isinstance(heads, range) and heads.stop > all_heads:
            raise ValueError(f"`heads` must be below the {all_heads} of {shown(self)}, got {heads}.")
        for name, axis in self.head_axes.items():
            x, parameter = weights[name], self.parameters().get(name)
            columns = 1 if parameter is None else parameter.shape[axis] // all_heads  # of each head
            if x.shape[axis] == all_heads * columns:
                taken[name] = columns_of_heads(x, heads, axis, columns)
            elif x.shape[axis] != count * columns:
                raise ValueError(
                    f"`heads` must be as many as {shown(name)} has, {x.shape[axis] // columns}, or {shown(name)} must "
                    f"have the {all_heads} of {shown(self)}, got {count}."
                )
        return taken

    def plain_rope(self) -> Encoding | None:
        """Return the `Rotary` with its frequencies; None if it has none, or for several axes."""
        return None


def consecutive_heads(given: Any) -> Any:
    """Return the numbers of heads as a range; an array of a framework as it is.

    Raises:
        TypeError: if they are not integers.
        ValueError: if they are not consecutive, from 0 on.
    """
    if hasattr(given, "shape") and not isinstance(given, np.ndarray):
        check_numbers("heads", given, kinds=("int", "uint"))
        check_rank("heads", given, minimum=1, maximum=1, axes="(heads,)")
        return given
    if isinstance(given, range) and given and given.start >= 0 and given.step == 1:
        return given
    if not isinstance(given, (range, list, tuple, np.ndarray)) or getattr(given, "ndim", 1) != 1:
        raise TypeError(f"`heads` must be a range or an array of the numbers of heads, got {shown(given)}.")
    heads = [check_integer("heads", number, minimum=0) for number in given]
    if not heads or heads != list(range(heads[0], heads[0] + len(heads))):
        raise ValueError(f"`heads` must be consecutive numbers, like range(4, 8), got {shown(given)}.")
    return range(heads[0], heads[-1] + 1)


def num_heads_of(heads: Any) -> int:
    """Return how many heads a range or an array of their numbers has."""
    return len(heads) if isinstance(heads, range) else int(heads.shape[0])


def columns_of_heads(x: Array, heads: Any, axis: int, columns: int = 1) -> Array:
    """Return the columns of some heads on an axis that has several for each."""
    if isinstance(heads, range):
        index = [slice(None)] * len(x.shape)
        index[axis] = slice(heads.start * columns, heads.stop * columns)
        taken: Array = x[tuple(index)]
        return taken
    xp = namespace_of(x)
    within = xp.astype(xp.arange(columns, **beside(heads)), heads.dtype)
    places = xp.expand_dims(heads, axis=-1) * columns + within
    return xp.take(x, xp.reshape(places, (-1,)), axis=axis)


@dataclass(frozen=True, kw_only=True, repr=False)
class Tabular(Encoding):
    """An encoding whose arrays have one row per position."""

    #: Whether a layer computes rows from parameters by `rows_of`, in its framework, and holds no table.
    computes_rows: ClassVar[bool] = False

    #: Whether a layer changes rows of its tables by its parameters, by `mixed`.
    mixes_rows: ClassVar[bool] = False

    #: Whether keys are computed otherwise than queries, so that the same tokens differ as queries and as keys.
    keys_differ: ClassVar[bool] = False

    #: The row of a learned table that belongs to position 0.
    offset: ClassVar[int] = 0

    @abstractmethod
    def rows(self, positions: npt.NDArray[Any], dtype: DType = np.float32) -> Tables:
        """Return the rows of positions, by table, each `(..., length, columns)`, of float32 or float64."""

    def rows_by_block(self, positions: Any, dtype: DType = np.float32) -> tuple[npt.NDArray[Any], ...]:
        """Return the arrays of `rows` for any positions, block by block where positions are a lazy array."""
        return tables_by_block(lambda at: tuple(self.rows(from_array(at), dtype).values()), positions)

    def rows_of(self, weights: Weights, positions: Array) -> tuple[Array, ...]:
        """Compute the rows of positions from the constants and parameters of a layer, in its framework.

        Raises:
            TypeError: unless `computes_rows`.
        """
        raise TypeError(
            f"`rows_of` is for encodings whose rows are computed from parameters, got {shown(self)}; call `rows`."
        )

    def mixed(self, weights: Weights, rows: tuple[Array, ...]) -> tuple[Array, ...]:
        """Compute rows from those of tables and from the parameters of a layer, in its framework; by default the same.

        Args:
            weights: the constants and parameters of a layer, by name.
            rows: rows of the tables, `(..., length, columns)` each.
        Returns:
            Rows of the same shape; with an axis of `table_heads` before the length where each head has its own.
        """
        return rows

    def derivatives(self, positions: npt.NDArray[Any]) -> Tables:
        """Return the derivatives of `rows` with respect to the positions, by table; empty where rows are not smooth."""
        return {}

    def angular_frequencies(self) -> npt.NDArray[np.float64]:
        """Return the angular frequency of each column in radians per position, `(columns,)`.

        The shape is `(axes, columns)` where axes mix. A column other than a sine or cosine has the frequency 0 and a
        constant derivative.
        """
        return np.zeros(1)

    def traced_rows(self, positions: Array, /) -> tuple[Array, ...]:
        """Compute the rows of traced real positions in their framework, where rows are smooth.

        In float32, or in float64 for positions in float64. Frequencies and angles are rounded on the way, so that
        angles are off by up to 2**-23 of their size, and entries by as much.

        Raises:
            TypeError: if rows are not smooth.
        """
        raise TypeError(
            f"Traced positions of {shown(self)} must be int32 or int64, got {dtype_name(positions)}; real positions "
            "must be known when code is traced: give them as a NumPy array."
        )

    def constants(self, max_len: int) -> Tables:
        max_len = check_integer("max_len", max_len, maximum=LIMIT)
        return self.rows(sequence(min(max_len, self.max_table_len)))

    @property
    def max_table_len(self) -> int:
        """The largest number of rows in the tables of a layer; compiled code indexes them without a check."""
        return self.limit

    def _known(self, positions: Any, *, minimum: int = -LIMIT) -> npt.NDArray[Any]:
        """Return positions as a NumPy array, or raise if the encoding does not have one of them."""
        array = from_array(positions)
        outside = array[(array < minimum) | (array >= self.limit)]
        if outside.size:
            raise ValueError(
                f"`positions` of {shown(self)} must lie from {minimum} to {self.limit - 1}, got {outside.flat[0]}."
            )
        return array

    def _integers(self, positions: Any, *, minimum: int = -LIMIT) -> npt.NDArray[Any]:
        """Return positions as `_known`, or raise if they are not integers."""
        known = self._known(positions, minimum=minimum)
        if known.dtype.kind == "f":
            raise TypeError(f"`positions` of {type(self).__name__} must be integers, got real numbers.")
        return known
