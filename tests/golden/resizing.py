"""Golden numbers of learned tables resized to other lengths, grids and windows: new rows are sums over all old rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
from numbers_of import DTYPES, drawn, rounded


def resizing() -> Iterator[dict[str, Any]]:
    """Yield each method for growing and shrinking tables, with class tokens, three axes and half precision."""
    numbers = random.Random(19811229)
    antialiased = {"method": "antialiased_cubic"}
    for arguments, old in (
        ({"size": 9, "method": "cubic"}, [4]),
        ({"size": 3, "method": "cubic"}, [8]),
        ({"size": 7, "method": "linear"}, [3]),
        ({"size": 3, "method": "antialiased_linear"}, [7]),
        ({"size": 5, "method": "aligned_linear"}, [3]),
        ({"size": 1, "method": "aligned_linear"}, [3]),
        ({"size": [5, 4], "prefix_tokens": 1} | antialiased, [3, 3]),
        ({"size": [2, 7], "prefix_tokens": 2, "old_size": [5, 3]} | antialiased, [5, 3]),
        ({"size": [4, 3], "old_size": [2, 3]} | antialiased, [2, 3]),
        ({"size": [2, 3, 3], "old_size": [3, 1, 4], "method": "linear"}, [3, 1, 4]),
        ({"size": [4, 4], "prefix_tokens": 1, "dtype": "bfloat16"} | antialiased, [3, 3]),
        ({"size": [3, 2], "prefix_tokens": 1, "dtype": "float16"} | antialiased, [4, 4]),
        ({"window": [3, 3], "method": "cubic"}, [3, 3]),
        ({"window": [2, 3], "old_window": [3, 2], "prefix_tokens": 1, "method": "cubic"}, [5, 3]),
        ({"window": [5, 9], "prefix_tokens": 1, "method": "geometric"}, [7, 7]),
        ({"window": [6, 3], "old_window": [3, 4], "method": "geometric"}, [5, 7]),
        ({"window": [12], "method": "geometric"}, [5]),
        ({"window": [4], "method": "geometric"}, [1]),
        ({"size": [2, 4], "old_size": [5, 4], "method": "cubic", "offset": 0.1, "prefix_tokens": 1}, [5, 4]),
        ({"size": [2, 7], "old_size": [3, 4], "offset": 0.1} | antialiased, [3, 4]),
    ):
        yield _resized(dict(arguments), old, numbers)


def _resized(arguments: dict[str, Any], old: list[int], numbers: random.Random) -> dict[str, Any]:
    settings = ", ".join(f"{name} {value}" for name, value in arguments.items())
    dtype = arguments.pop("dtype", "float32")
    bits = DTYPES[dtype]
    prefix = arguments.get("prefix_tokens", 0)
    before, after = (0, 3 * prefix) if "window" in arguments else (prefix, 0)
    cells = list(itertools.product(*map(range, old)))
    table = [[drawn(numbers, bits) for _ in range(2)] for _ in range(before + len(cells) + after)]
    new = [2 * size - 1 for size in arguments.get("window", ())] or _listed(arguments["size"])
    offset = mp.mpf(arguments.get("offset", 0))
    shares = [_shares(arguments["method"], *sizes, offset) for sizes in zip(old, new, strict=True)]
    result = table[:before]
    for place in itertools.product(*map(range, new)):
        share = [mp.fprod(s[i][j] for s, i, j in zip(shares, place, cell, strict=True)) for cell in cells]
        rows = table[before : before + len(cells)]
        sums = [mp.fsum(part * mp.mpf(row[column]) for part, row in zip(share, rows, strict=True)) for column in (0, 1)]
        result.append([rounded(value, bits) if bits < 24 else float(value) for value in sums])
    result = result + table[len(table) - after :]
    name = f"Learned, {' × '.join(map(str, old))} rows, {settings}"
    return {"name": name, "encoding": {"kind": "Learned"}, "dtype": dtype, "arguments": arguments, "table": table} | {
        "result": result
    }


def _listed(size: int | list[int]) -> list[int]:
    return size if isinstance(size, list) else [size]


def _shares(method: str, old: int, new: int, offset: Any) -> list[list[Any]]:
    """Return the weight of each old row in each new row."""
    if method == "geometric":
        return [_between(t - new // 2, _distances(old // 2, new // 2)) for t in range(new)]
    if method.startswith("antialiased"):
        return [_normed(_around(method, old, new + offset, i)) for i in range(new)]
    return [_repeated(method, old, new + offset, i) for i in range(new)]


def _around(method: str, old: int, new: Any, i: int) -> list[Any]:
    """Return the kernel at the centers of the old cells, as wide as a new cell if that is wider than an old one."""
    ratio = mp.mpf(old) / new
    middle, width = (i + mp.mpf(1) / 2) * ratio, max(ratio, mp.mpf(1))
    return [_kernel(method)((j + mp.mpf(1) / 2 - middle) / width) for j in range(old)]


def _normed(shares: list[Any]) -> list[Any]:
    return [share / mp.fsum(shares) for share in shares]


def _repeated(method: str, old: int, new: Any, i: int) -> list[Any]:
    """Return the kernel at old rows; the first and the last row are repeated beyond the border."""
    middle = mp.mpf(2 * i + 1) * old / (2 * new) - mp.mpf(1) / 2
    if method == "aligned_linear":
        middle = mp.mpf(i) * (old - 1) / (new - 1) if new > 1 else mp.mpf(0)
    shares = [mp.mpf(0)] * old
    for j in range(-4, old + 4):
        shares[min(max(j, 0), old - 1)] += _kernel(method)(j - middle)
    return shares


def _kernel(method: str) -> Callable[[Any], Any]:
    if method.endswith("linear"):
        return lambda x: max(1 - abs(x), mp.mpf(0))
    a = -mp.mpf(1) / 2 if method.startswith("antialiased") else -mp.mpf(3) / 4
    return lambda x: _keys(abs(x), a)


def _keys(x: Any, a: Any) -> Any:
    """Return the kernel of Keys 1981, equation 8, where a is the slope at distance 1."""
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else mp.mpf(0)


def _distances(count: int, border: int) -> list[Any]:
    """Return the positions of the old rows: 0, 1, 1 + q, … to either side, the last at the border if q permits."""

    def excess(q: Any) -> Any:
        return mp.fsum(q**k for k in range(count)) - border

    low, high = mp.mpf("1.01"), mp.mpf("1.5")
    q = low if excess(low) >= 0 else high if excess(high) <= 0 else mp.findroot(excess, (low, high), solver="anderson")
    distances = [mp.fsum(q**k for k in range(n)) for n in range(1, count + 1)]
    return [-distance for distance in reversed(distances)] + [mp.mpf(0)] + distances


def _between(target: int, places: list[Any]) -> list[Any]:
    """Return weights that interpolate between the two positions next to the target; beyond the ends, the last row."""
    shares = [mp.mpf(0)] * len(places)
    inside = min(max(mp.mpf(target), places[0]), places[-1])
    upper = next(j for j, place in enumerate(places) if place >= inside)
    lower = max(upper - 1, 0)
    shares[upper] = (inside - places[lower]) / (places[upper] - places[lower]) if upper else mp.mpf(1)
    shares[lower] += 1 - shares[upper] if upper else 0
    return shares
