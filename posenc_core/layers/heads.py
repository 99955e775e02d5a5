"""The heads of a process, where several processes share those of attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .._array_api.checks import shown
from ..encodings.base import columns_of_heads, consecutive_heads, num_heads_of
from .backend import Backend, Given, Tensor
from .inputs import host_values


@dataclass(frozen=True)
class Heads:
    """The heads of one process where several share them.

    Attributes:
        numbers: a range, or an integer array `(heads,)`.
        processes: those that share them, which sum gradients and gather tokens; None where the caller does.
    """

    numbers: Any
    processes: Any = None

    @property
    def count(self) -> int:
        """The number of heads."""
        return num_heads_of(self.numbers)

    def of_keys(self, num_heads: int, num_kv_heads: int) -> Heads:
        """Return the heads of keys, each of which serves several neighbouring heads of queries.

        Raises:
            ValueError: if one of them serves heads of other processes as well.
        """
        if num_heads == num_kv_heads:
            return self
        group, heads = num_heads // num_kv_heads, self.numbers
        if self.count % group or (isinstance(heads, range) and heads.start % group):
            raise ValueError(f"`heads` must be whole groups of {group} heads that share keys, got {shown(heads)}.")
        if isinstance(heads, range):
            return replace(self, numbers=range(heads.start // group, heads.stop // group))
        return replace(self, numbers=heads[::group] // group)

    def of_mask(self, mask: Tensor) -> Tensor:
        """Return these heads of a mask; itself if all heads share it."""
        if len(mask.shape) < 3 or mask.shape[-3] == 1:
            return mask
        of_heads: Tensor = columns_of_heads(mask, self.numbers, len(mask.shape) - 3)
        return of_heads


def parse_heads(given: Given, backend: Backend) -> Heads | None:
    """Return the heads that a process has, given their numbers; None if it has all.

    Raises:
        TypeError, ValueError: if they are not consecutive integers from 0 on.
    """
    if given is None or isinstance(given, Heads):
        return given
    host = host_values(given, backend) if hasattr(given, "shape") else None
    return Heads(consecutive_heads(given if host is None else host))


class PartOfHeads(NamedTuple):
    """The heads of queries, and those of keys and values, that a process has; None for all."""

    of_queries: Heads | None = None
    of_keys: Heads | None = None


ALL_HEADS = PartOfHeads()
