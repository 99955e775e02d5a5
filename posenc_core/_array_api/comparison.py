"""Compare numbers of any two dtypes exactly: no cast of one rounds it, cuts it or changes its sign."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .namespace import Array, dtype_name, dtype_of, namespace_of

Relation = Callable[[Any, Any], Any]
_REVERSED = {operator.ge: operator.le, operator.gt: operator.lt, operator.le: operator.ge}


def compared(relation: Relation, first: Array, second: Array) -> Array:
    """Return where `relation`, `operator.ge`, `gt` or `le`, holds for numbers of arrays that broadcast to each other.

    >>> import numpy as np
    >>> compared(operator.ge, np.float32([2**24]), np.array([2**24, 2**24 + 1]))
    array([ True, False])
    >>> compared(operator.gt, np.uint8([255]), np.int8([-1]))
    array([ True])
    """
    one, other = dtype_name(first), dtype_name(second)
    if one == other or "None" in (one, other):  # symbols of some frameworks have no dtype
        return relation(first, second)
    (kind, bits), (other_kind, other_bits) = _kind(one), _kind(other)
    if kind == other_kind:
        return relation(*_in_wider(first, second, kind))
    if kind == "float":
        return _with_integers(relation, first, second)
    if other_kind == "float":
        return _with_integers(_REVERSED[relation], second, first)
    if kind == "uint":
        return _unsigned_with_signed(relation, first, second, is_wider=bits >= other_bits)
    return _unsigned_with_signed(_REVERSED[relation], second, first, is_wider=other_bits >= bits)


def _kind(dtype: str) -> tuple[str, int]:
    """Return a dtype's kind, `"int"`, `"uint"` or `"float"`, and its number of bits."""
    word = dtype.rstrip("0123456789")
    return word.removeprefix("b"), int(dtype[len(word) :])


def _in_wider(first: Array, second: Array, kind: str) -> tuple[Array, Array]:
    """Return both in the wider of their dtypes; half precision in float32, as bfloat16 and float16 hold others."""
    xp = namespace_of(first)
    wider = first if _kind(dtype_name(first))[1] >= _kind(dtype_name(second))[1] else second
    dtype = xp.float32 if kind == "float" and _kind(dtype_name(wider))[1] < 64 else dtype_of(wider)
    return xp.astype(first, dtype), xp.astype(second, dtype)


def _with_integers(relation: Relation, floats: Array, integers: Array) -> Array:
    """Compare floats with integers, which round to floats in their order: equal ones decide as integers."""
    xp = namespace_of(floats)
    if _kind(dtype_name(floats))[1] < 32:
        floats = xp.astype(floats, xp.float32)
    rounded, (kind, bits) = xp.astype(integers, dtype_of(floats)), _kind(dtype_name(integers))
    limit = xp.full_like(floats, float(2 ** (bits - (kind == "int"))))  # past all that the integers can be
    is_past, is_least = floats >= limit, floats >= rounded
    is_tie = xp.where(floats < limit, xp.where(is_least, rounded >= floats, is_least), floats < limit)
    whole = xp.astype(xp.where(is_tie, floats, xp.zeros_like(floats)), dtype_of(integers))
    decided = xp.where(is_tie, relation(whole, integers), relation(floats, rounded))
    return xp.where(is_past, relation(floats, xp.zeros_like(floats)), decided)


def _unsigned_with_signed(relation: Relation, unsigned: Array, signed: Array, *, is_wider: bool) -> Array:
    xp = namespace_of(unsigned)
    if not is_wider:
        return relation(xp.astype(unsigned, dtype_of(signed)), signed)
    is_negative = signed < xp.zeros_like(signed)
    numbers = xp.astype(xp.where(is_negative, xp.zeros_like(signed), signed), dtype_of(unsigned))
    below = relation(xp.ones_like(unsigned), xp.zeros_like(unsigned))
    return xp.where(is_negative, below, relation(unsigned, numbers))


def differs(integers: Array, number: int) -> Array:
    """Return where integers are not this number, which their dtype may be unable to hold.

    >>> import numpy as np
    >>> differs(np.uint8([1, 255]), -1), differs(np.uint8([1, 255]), 255)
    (array([ True,  True]), array([ True, False]))
    """
    xp = namespace_of(integers)
    kind, bits = _kind(dtype_name(integers))
    lowest = 0 if kind == "uint" else -(2 ** (bits - 1))
    if not lowest <= number < lowest + 2**bits:
        return xp.zeros_like(integers) < xp.ones_like(integers)
    wanted = xp.full_like(integers, number)
    return xp.where(integers > wanted, integers > wanted, wanted > integers)
