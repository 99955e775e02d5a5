"""Questions: the calls that a callable is put through, in an order that brings caches to light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Encoding, PositionScoring

from .candidates import Float64s, Sketch
from .signatures import Form

LONGEST = 2**20
FAR = (1000, 4090, 8200, 32760, 65531, 131065, 262139, 524283, 1048563)  # first positions, to both sides of powers of 2
PREFILL = 600  # tokens from 0 on: more than bfloat16 can count
MAY_REFUSE = ("each row its own", "out of order")  # callables that take one run of positions are right in those
TWICE = 2  # the rows of a batch
HALVES = ("bfloat16", "float16")
OTHERS = {  # positions that are asked for by name; float32 has them all
    "negative": np.arange(-13, 4),
    "real": np.array([0.5, 3.25, 2.75, 9.125, 33.5, 100.0625, 1000.75, 4090.5, 7.0]),
}


class Question(NamedTuple):
    """One call.

    Attributes:
        name: what it is about.
        dtype: of the tokens.
        positions: `(length,)`, or `(batch, length)`; of a bias, those of queries and then those of keys.
        queries: of a bias, how many of the positions are those of queries.
        tokens: the other arrays, in float64.
        sketch: the right answer.
        is_optional: whether a callable may refuse it.
    """

    name: str
    dtype: str
    positions: npt.NDArray[Any]
    queries: int
    tokens: tuple[Float64s, ...]
    sketch: Sketch
    is_optional: bool = False

    @property
    def places(self) -> tuple[npt.NDArray[Any], ...]:
        """The positions as the callable takes them."""
        return (self.positions[: self.queries], self.positions[self.queries :]) if self.queries else (self.positions,)

    @property
    def told(self) -> str:
        """The call in words."""
        shapes = " and ".join(str(x.shape) for x in self.tokens)
        tokens = f"{shapes} in {self.dtype} at " if self.tokens else ""
        ends = [" and ".join(f"{row[0]} … {row[-1]}" for row in np.atleast_2d(each)) for each in self.places]
        return f"{tokens}positions {' for keys '.join(ends)}"

    def rows(self, most: int) -> npt.NDArray[np.int64] | None:
        """At most so many of its positions, evenly spread: where causes are looked for; None if that is all of them."""
        length = self.positions.shape[-1]
        if self.queries or length <= most:
            return None
        return np.unique(np.linspace(0, length - 1, most).round().astype(np.int64))

    def at(self, rows: npt.NDArray[np.int64] | None) -> Question:
        """The same of these rows alone."""
        if rows is None:
            return self
        tokens = tuple(x[..., rows, :] for x in self.tokens)
        return self._replace(positions=self.positions[..., rows], tokens=tokens, sketch=self.sketch.at(rows))


def questions(
    encoding: Encoding, form: Form, *, longest: int, takes: tuple[str, ...], optional: tuple[str, ...]
) -> Iterator[Question]:
    """All calls, in order: near, from elsewhere, one by one, each row its own, far, out of order, in other dtypes, again.

    Args:
        encoding: the right one.
        form: what the callable takes.
        longest: the first position that it is not asked for.
        takes: dtypes to ask in besides float32, and names of other positions.
        optional: those of them that it may refuse.
    """
    if isinstance(encoding, PositionScoring):
        yield from _of_bias(encoding, form, longest)
    else:
        yield from _of_rows(encoding, form, longest, tuple(each for each in takes if each in HALVES), optional)
    for name in (each for each in takes if each in OTHERS):
        positions, queries = OTHERS[name], 5 if isinstance(encoding, PositionScoring) else 0
        yield _question(encoding, form, name, "float32", np.r_[positions[:queries], positions], queries)


def _of_rows(
    encoding: Encoding, form: Form, longest: int, dtypes: tuple[str, ...], optional: tuple[str, ...]
) -> Iterator[Question]:
    """Tables, and what they are added to or turn."""
    for name, positions in _float32(longest):
        yield _question(encoding, form, name, "float32", positions)._replace(is_optional=name in MAY_REFUSE)
    prefill = np.arange(min(PREFILL, longest))
    if not form.has_arrays:
        yield _question(encoding, form, "from 0", "float32", prefill)
        return
    for dtype in dtypes:
        spare = dtype in optional
        for name, first in (("from elsewhere", min(4001, longest - 13)), ("from 0", 0)):
            positions = prefill if first <= 0 else np.arange(first, first + 13)
            yield _question(encoding, form, f"{dtype}, {name}", dtype, positions)._replace(is_optional=spare)
        yield _question(encoding, form, f"after {dtype}", "float32", prefill)


def _float32(longest: int) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Names and positions in float32."""
    near, elsewhere = (3, 100) if longest > 200 else (1, max(longest // 2, 1))
    length = min(17, longest - elsewhere)
    yield "near", np.arange(near, near + length)
    yield "from elsewhere", np.arange(elsewhere, elsewhere + length)
    yield "near again", np.arange(near, near + length)
    for place in (elsewhere + length - 5, elsewhere + length - 1):
        yield "one token", np.array([place])
    rows = np.stack([np.arange(near, near + 7), np.arange(elsewhere, elsewhere + 7)]) % longest
    yield "each row its own", rows
    for first in (first for first in FAR if first + 13 <= longest):
        yield "far", np.arange(first, first + 13)
    yield "out of order", np.array([9, 2, 30, 4, 4, 77, 0, 51, 23, 1, 65]) % longest


def _question(
    encoding: Encoding, form: Form, name: str, dtype: str, positions: npt.NDArray[Any], queries: int = 0
) -> Question:
    draw = np.random.default_rng(positions.size)
    tokens = form.tokens(draw, (TWICE, positions.shape[-1]), dtype)
    sketch = Sketch(encoding=encoding, positions=positions, queries=queries)
    return Question(name, dtype, positions, queries, tokens, sketch)


def _of_bias(encoding: Encoding, form: Form, longest: int) -> Iterator[Question]:
    """Queries and keys from 0 on; the last of many; far; each with other lengths."""
    for name, queries, keys in (
        ("near", range(17), range(17)),
        ("the last of many", range(20, 23), range(23)),
        ("one token", range(23, 24), range(24)),
        ("far", range(longest - 5, longest), range(longest - 13, longest)),
        ("far apart", range(longest - 5, longest), range(5)),
        ("near again", range(17), range(17)),
    ):
        positions = np.r_[queries, keys]
        yield _question(encoding, form, name, "float32", positions, len(queries))
