"""Sizes and grids: checks of numbers that configs and processors give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._array_api.checks import shown
from .config import LARGEST, check_size


def read_size(config: Mapping[str, Any], key: str, *, minimum: int = 1) -> int:
    """Return the value of a key, which must be a size.

    Raises:
        TypeError, ValueError: if the key is missing, or the value is not an integer from `minimum` on.
    """
    if config.get(key) is None:
        raise ValueError(f"`{key}` is missing: add it to the config.")
    check_size(key, config[key], minimum=minimum)
    size: int = config[key]
    return size


def to_array(name: str, values: Any) -> npt.NDArray[Any]:
    """Return an array.

    Raises:
        ValueError: if the values are rows of different lengths.
    """
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must be rows of the same length, got {shown(values)}.") from error


def to_integers(name: str, values: Any) -> npt.NDArray[np.int64]:
    """Return an array of integers.

    Raises:
        TypeError, ValueError: if the values are not integers, or rows of different lengths.
    """
    array = to_array(name, values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"`{name}` must be made of integers, got {array.dtype}.")
    return array.astype(np.int64)


def read_grids(name: str, grid_thw: Any) -> list[tuple[int, int, int]]:
    """Return the frames, the height and the width of each grid; frames may be left out, and so may the list of one.

    Raises:
        TypeError, ValueError: if they are not grids.
    """
    grids = to_integers(name, grid_thw)
    if not grids.size:
        return []
    rows = np.atleast_2d(grids)
    if rows.ndim != 2 or rows.shape[1] not in (2, 3) or rows.min() < 1:
        raise ValueError(
            f"`{name}` must be (frames, height, width) of each, all from 1 on, got {shown(grids.tolist())}."
        )
    found = [(1, *row) if len(row) == 2 else tuple(row) for row in rows.tolist()]
    if sum(map(math.prod, found)) >= LARGEST:
        raise ValueError(f"`{name}` must have less than {LARGEST} patches, got {shown(grids.tolist())}.")
    return found
