"""Measure the factor and the frequencies that a function has, where they are those of no known mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Alibi, Encoding, RotaryEncoding, T5Bias
from posenc_core.rotation import channel_pairs

from .candidates import Float64s
from .mistakes.base import Mistake, at_frequencies, has_base, with_frequencies, with_tables
from .sample_calls import TestCall
from .signatures import Bias, CosSin, RotateQueriesAndKeys, Signature

SAME = 1e-6  # numbers that differ by less, relatively, are the same: float32 cannot tell them apart
LEAST = 1e-3  # that a factor differs from 1: tables in half precision have other sizes as well
CLOSE = 1e-4  # that frequencies are a simple function of the right ones
SHOWN = 6  # slopes of heads
STEPS = 3  # of a fit by least squares, each from the angles that the last one leaves
WORDS = {"wrong base": "the base is {:.6g}", "wrong frequencies": "frequencies are those of base {:.6g} alone"}

Complexes = npt.NDArray[np.complex128]


def wrong_factors(signature: Signature, call: TestCall, results: tuple[Float64s, ...]) -> Iterator[Mistake]:
    """Yield the mistake of results that are multiplied by another factor, which their size gives."""
    found: set[str] = set()
    expected = signature.results(call.expected, call.tokens, results[0].shape[-1])
    pairs = list(zip(results, expected, strict=True))
    if isinstance(signature, CosSin):
        pairs = [(np.hypot(*results), np.hypot(*expected))]
    for got, right in pairs:
        if isinstance(signature, RotateQueriesAndKeys) and not _can_be_measured(call.expected.encoding):
            continue
        factor = _factor(signature, call.expected.encoding, got.reshape(right.shape), right)
        if not LEAST < abs(factor - 1) < np.inf or factor <= 0 or f"{factor:.6g}" in found:
            continue
        found.add(f"{factor:.6g}")
        words = "cosine and sine are" if isinstance(call.expected.encoding, RotaryEncoding) else "the right numbers are"
        description = f"{words} multiplied by {factor:.6g}"
        yield Mistake("wrong factor", description, with_tables(lambda *tables, f=factor: tuple(t * f for t in tables)))


def _factor(signature: Signature, encoding: Any, got: Float64s, right: Float64s) -> float:
    """Return the factor by which results are larger than the right ones; a rotation keeps lengths."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if isinstance(signature, RotateQueriesAndKeys):
            channels = np.concatenate([np.arange(encoding.head_dim)[part] for part in _channels(encoding, "join")])
            return float(np.sqrt((got[..., channels] ** 2).sum() / (right[..., channels] ** 2).sum()))
        return float((got * right).sum() / (right * right).sum())


def wrong_biases(signature: Signature, call: TestCall, results: tuple[Float64s, ...]) -> Iterator[Mistake]:
    """Yield the mistakes of other slopes of ALiBi, and of other buckets of T5, which the results give."""
    find = OF_BIASES.get(type(call.expected.encoding))
    if not isinstance(signature, Bias) or find is None:
        return
    (right,) = signature.results(call.expected, call.tokens, 0)
    yield from find(call, results[0].reshape(right.shape), right)


def _wrong_slopes(call: TestCall, got: Float64s, right: Float64s) -> Iterator[Mistake]:
    """Yield the mistake of the slopes that the results give, one for each head."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (got * right).sum(axis=(-2, -1)) / (right * right).sum(axis=(-2, -1))
    if (ratios > 0).all() and np.ptp(ratios) > SAME:
        slopes = ", ".join(f"{one:.5g}" for one in (call.expected.encoding.constants(0)["slopes"] * ratios)[:SHOWN])
        description = f"the slopes are {slopes}{', …' if len(ratios) > SHOWN else ''}"
        yield Mistake("wrong slopes", description, with_tables(lambda bias: (bias * ratios[:, None, None],)))


def _wrong_buckets(call: TestCall, got: Float64s, right: Float64s) -> Iterator[Mistake]:
    """Yield the mistake of the buckets whose rows of the table are nearest to the results."""
    got, right = np.moveaxis(got, 0, -1), np.moveaxis(right, 0, -1)
    table = np.asarray(call.expected.weights["table"])
    queries, keys = call.position_arguments
    offsets, place = np.unique(keys[None, :] - queries[:, None], return_inverse=True)
    first = np.array([np.argmax(place.ravel() == number) for number in range(len(offsets))])
    rows, expected = (one.reshape(-1, one.shape[-1])[first] for one in (got, right))
    buckets, usual = (np.abs(one[:, None] - table).max(axis=-1).argmin(axis=-1) for one in (rows, expected))
    differ = np.flatnonzero(buckets != usual)
    if differ.size:
        at = differ[np.abs(offsets[differ]).argmin()]
        description = f"a key at offset {offsets[at]} has bucket {buckets[at]}, not {usual[at]}"
        bias = np.moveaxis(table[buckets][place.reshape(got.shape[:-1])], -1, 0)
        yield Mistake("wrong buckets", description, with_tables(lambda _: (bias,)))


OF_BIASES: dict[type[Encoding], Callable[[TestCall, Float64s, Float64s], Iterator[Mistake]]] = {
    Alibi: _wrong_slopes,
    T5Bias: _wrong_buckets,
}


def wrong_frequencies(
    signature: Signature, call: TestCall, results: tuple[Float64s, ...], estimates: dict[int, Float64s], first: bool
) -> Iterator[Mistake]:
    """Yield the mistakes of other frequencies, which the angles of results give; `estimates` by output are refined.

    Args:
        signature: of the function.
        call: a call.
        results: its results, which are wrong.
        estimates: the frequencies that earlier results gave.
        first: whether to measure without an estimate, from rows of neighbouring positions, as if for the first time.
    """
    encoding = call.expected.encoding
    is_rotation = isinstance(signature, RotateQueriesAndKeys | CosSin)
    if not is_rotation or not _can_be_measured(encoding):
        return
    for number in range(len(results) if isinstance(signature, RotateQueriesAndKeys) else 1):
        if not first and number not in estimates:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            rotations = _rotations(signature, call, results, number)
            frequencies = _frequencies(encoding, call.positions, rotations, None if first else estimates[number])
        if frequencies is not None and np.isfinite(frequencies).all():
            mistake = _named(encoding, frequencies)
            if mistake is not None:
                estimates[number] = frequencies
                yield mistake


def _can_be_measured(encoding: Any) -> bool:
    """Return whether each pair rotates by a frequency of its own along one axis."""
    is_rotary = isinstance(encoding, RotaryEncoding) and not encoding.keys_differ
    return is_rotary and not encoding.parameters() and encoding.table_heads is None


def _channels(encoding: Any, side: str) -> tuple[Any, Any]:
    """Return the first and the second channels of pairs, before (`"split"`) or after (`"join"`) the rotation."""
    pairing = encoding.pairing
    first, second = channel_pairs(encoding.head_dim, len(encoding.frequencies()), pairing, getattr(pairing, side))
    return first, second


def _rotations(signature: Signature, call: TestCall, results: tuple[Float64s, ...], number: int) -> Complexes:
    """Return the complex number that each pair is multiplied by, `(..., length, pairs)`."""
    encoding = call.expected.encoding
    if isinstance(signature, CosSin):
        cos, sin = results
        columns, pairs = slice(None), len(encoding.frequencies())
        if cos.shape[-1] == 2 * pairs:
            columns = slice(None, None, 2) if encoding.layout == "interleaved" else slice(pairs)
        return np.asarray((cos + 1j * sin)[..., columns]).reshape(*call.positions.shape[-1:], -1)
    x, y = (
        tokens[..., first] + 1j * tokens[..., second]
        for tokens, (first, second) in (
            (call.tokens[number], _channels(encoding, "split")),
            (results[number], _channels(encoding, "join")),
        )
    )
    has_rows = call.positions.ndim > 1 + (encoding.num_axes > 1)
    axes = 1 if has_rows else (0, 1)
    return np.asarray((np.conj(x) * y).sum(axis=axes) / (np.abs(x) ** 2).sum(axis=axes))


def _frequencies(
    encoding: Any, positions: npt.NDArray[Any], rotations: Complexes, estimate: Float64s | None
) -> Float64s | None:
    """Return the frequency of each pair; None if there is no estimate and positions are too far from each other."""
    own = np.moveaxis(positions[list(encoding.axes)], 0, -1) if encoding.num_axes > 1 else positions[..., None]
    own = np.broadcast_to(own, rotations.shape).astype(np.float64)
    right = encoding.frequencies() * (-1 if encoding.direction == "inverse" else 1)
    if estimate is None:
        steps, turns = np.diff(own, axis=-2), rotations[..., 1:, :] * np.conj(rotations[..., :-1, :])
        turns = np.where(steps < 0, np.conj(turns), turns)
        is_next = np.abs(steps) == 1
        axes = tuple(range(own.ndim - 1))
        if not is_next.any(axis=axes).all():
            return None
        estimate = np.angle(np.where(is_next, turns, 0).sum(axis=axes))
        estimate = np.where(np.abs(np.exp(1j * estimate) - np.exp(1j * right)) < CLOSE, right, estimate)
    axes = tuple(range(own.ndim - 1))
    squares = (own**2).sum(axis=axes)
    for _ in range(STEPS):
        left = np.angle(rotations * np.exp(-1j * own * estimate))
        estimate = estimate + (own * left).sum(axis=axes) / np.where(squares == 0, 1, squares)
    tolerance = 2 * SAME / max(float(np.abs(own).max()), 1.0)
    return np.where(np.abs(estimate - right) < tolerance, right, estimate)


def _named(encoding: Any, frequencies: Float64s) -> Mistake | None:
    """Return the mistake of these frequencies and what they have to do with the right ones; None if they are right."""
    right = encoding.frequencies() * (-1 if encoding.direction == "inverse" else 1)
    differ = np.flatnonzero(frequencies != right)
    if not differ.size:
        return None
    change = at_frequencies(frequencies, encoding.axes if encoding.num_axes > 1 else None)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        factor = frequencies[-1] / right[-1] if right[-1] else np.nan
        base = _base_of(encoding, frequencies)
    name, pair = "wrong frequencies", int(differ[0])
    if np.abs(np.exp(1j * factor * right) - np.exp(1j * frequencies)).max() < CLOSE and abs(factor - 1) > CLOSE:
        description = f"every frequency is multiplied by {factor:.6g}"
    elif base is not None:
        name = "wrong frequencies" if encoding.scaling else "wrong base"
        description = WORDS[name].format(base)
    elif np.ptp(frequencies) < CLOSE:
        description = f"all frequencies are {frequencies[0]:.6g}"
    else:
        count = "all" if differ.size == len(right) else str(differ.size)
        numbers = f"{frequencies[pair]:.6g} radians per position, not {right[pair]:.6g}"
        description = f"{count} of {len(right)} frequencies differ, first that of pair {pair}: {numbers}"
    return Mistake(name, description, change, is_measured=True)


def _base_of(encoding: Any, frequencies: Float64s) -> float | None:
    """Return the base of which these are the geometric frequencies, if there is one.

    It follows from the highest ones, which are measured best.
    """
    if encoding.num_axes > 1 or not has_base(encoding):
        return None
    exponents = np.arange(len(frequencies)) * 2 / encoding.rotary_channels
    if len(frequencies) == 1 or not (frequencies[: len(frequencies) // 2 + 1] > 0).all():
        return None
    used = slice(1, len(frequencies) // 2 + 1)
    base = float(np.exp(-(exponents[used] * np.log(frequencies[used])).sum() / (exponents[used] ** 2).sum()))
    is_geometric = np.abs(frequencies - base**-exponents).max() < SAME
    return base if is_geometric and base > 1 + CLOSE else None


def in_float32(mistake: Mistake, encoding: Any, frequencies: Float64s) -> Mistake | None:
    """Return the mistake of these frequencies rounded to float32, which may be made beside that of float32 angles."""
    if not hasattr(encoding, "own") or not (frequencies > 0).all():
        return None
    rounded = np.float32(frequencies).astype(np.float64)
    return with_frequencies(mistake.name, mistake.description, encoding, rounded)._replace(is_measured=True)
