"""Values: read one key of a flat config, with errors that stay short whatever the value is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from typing import Any

from .._array_api.checks import check_integer, check_known, check_number, shown

Config = Mapping[str, Any]
SHOWN = 60  # characters of a name or a number that is text
LARGEST = 2**31
MOST_LAYERS = 2**14


class Reader(dict[str, Any]):
    """A dict that records which of its keys are read.

    Attributes:
        unread: the keys that nothing has read yet.
    """

    def __init__(self, content: Config) -> None:
        super().__init__(content)
        self.unread: set[str] = set(content)

    def __getitem__(self, key: str) -> Any:
        self.unread.discard(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default if it is missing."""
        self.unread.discard(key)
        return super().get(key, default)

    def read_keys(self, defaults: Config) -> tuple[str, ...]:
        """Return the keys that were read and have another value than their default."""
        read = {key: value for key, value in self.items() if key not in self.unread and value is not None}
        return tuple(key for key, value in read.items() if key not in defaults or value != defaults[key])

    def warn_of_unread(self, keys: Collection[str], neutral: Config, reason: str) -> None:
        """Warn of each of the keys that nothing has read, unless it has no value or the neutral one."""
        for key, value in self.items():
            is_neutral = (
                value is None or value is False or (isinstance(value, int | float | str) and value == neutral.get(key))
            )
            if key in self.unread and key in keys and not is_neutral:
                warn(f"{quote(key)} {shown(value)} has no effect: {reason}.")


def quote(key: object) -> str:
    """Return a key for a message, between backticks: one line, shortened."""
    return f"`{shown(str(key))[1:-1]}`"


def number(config: Config, key: str, default: Any = None, **bounds: float) -> Any:
    """Return a finite number, or the default if the key is missing or None.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is out of bounds, as in `check_number`.
    """
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`{key}` must be a number, got {shown(value)}.")
    if not -1e308 < value < 1e308:  # NaN is not in between
        raise ValueError(f"`{key}` must be a finite number, got {shown(value)}.")
    check_number(key, float(value), **bounds)
    return value


def integer(config: Config, key: str, default: Any = None, *, minimum: int = 1) -> Any:
    """Return an integer below 2**31, or the default if the key is missing or None.

    Raises:
        TypeError: if it is not an integer.
        ValueError: if it is out of bounds.
    """
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{key}` must be an integer, got {shown(value)}.")
    if value >= LARGEST:
        raise ValueError(f"`{key}` must be less than {LARGEST}, got {shown(value)}.")
    check_integer(key, value, minimum=minimum)
    return value


def layer_count(config: Config, key: str, *, minimum: int = 1) -> int | None:
    """Return the number of layers, at most `MOST_LAYERS`, or None; the exceptions are those of `integer`."""
    count: int | None = integer(config, key, minimum=minimum)
    if count is not None and count > MOST_LAYERS:
        raise ValueError(f"`{key}` must be at most {MOST_LAYERS}, got {count}.")
    return count


def skip_layers(count: int, interval: int) -> list[int]:
    """Return 1 for each layer with RoPE and 0 for each without, if every `interval`-th layer has none."""
    return [int(index % interval > 0) for index in range(1, count + 1)]


def flag(config: Config, key: str, default: bool = False) -> bool:
    """Return True or False, or the default if the key is missing or None."""
    value = config.get(key)
    if not isinstance(value, bool | None):
        raise TypeError(f"`{key}` must be True or False, got {shown(value)}.")
    return default if value is None else value


def choice(config: Config, key: str, choices: tuple[str, ...], default: str) -> str:
    """Return one of the strings `choices`, or the default if the key is missing or None."""
    value = config.get(key)
    if value is None:
        return default
    check_known(key, value, choices)
    return str(value)


def numbers(config: Config, key: str, *, length: int | None = None, **bounds: float) -> list[float] | None:
    """Return a list of finite numbers, each within bounds, or None if the key is missing or None."""
    value = config.get(key)
    if value is None:
        return None
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple) or (length is not None and len(value) != length):
        wanted = "a list of numbers" if length is None else f"a list of {length} numbers"
        raise ValueError(f"`{key}` must be {wanted}, got {shown(value)}.")
    for one in value:
        if number({key: one}, key, **bounds) is None:
            raise TypeError(f"`{key}` must be a list of numbers, got {shown(value)}.")
    return list(value)


def refuse(config: Config, keys: Mapping[str, Any], reason: str, fix: str = "leave it out") -> None:
    """Raise if one of the keys has another value than the one that changes nothing.

    By default, the advice is to leave the key out, for keys that the code of the format does not read.

    Raises:
        ValueError: with the name of the key.
    """
    for key, nothing in keys.items():
        value = config.get(key)
        if value is not None and not (isinstance(value, int | float | str) and value == nothing):
            raise ValueError(f"`{key}` {reason}, got {shown(value)}: {fix}.")


def warn(message: str) -> None:
    """Issue a UserWarning."""
    warnings.warn(message, UserWarning, stacklevel=2)


def find_share(part: int, whole: int) -> float:
    """Return the share whose product with the whole, rounded down, is exactly the part."""
    share = part / whole
    return math.nextafter(share, 1) if int(whole * share) < part else share
