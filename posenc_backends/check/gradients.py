"""Check gradients: for a rotation, the weights rotated back; of every array, in every dtype, twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from posenc_backends.conformance.errors import ulp_of
from posenc_core.analysis.precision import ROUNDED
from posenc_core.rotation import rotate_pairs

from .candidates import Candidate, Float64s
from .diagnosis import LIMIT, MATCH_LIMIT, FoundMistake, errors_of, found_in
from .frameworks import CallError, CheckedFunction
from .mistakes.base import Mistake
from .normalized import NormalizeAndRotate
from .sample_calls import TestCall
from .signatures import SUMS, OfPairs, PolarQueriesAndKeys, RotateQueriesAndKeys, ScaleQueries, Signature

POSITIONS = np.arange(3, 8)  # so near that float32 angles are right
STEP = 2.0**-14  # of differences: their error is below 1e-7 even where scores are curved
SMALL_STEP = 2.0**-20  # where tokens are as small as 2**-9
Causes = dict[str, Mistake | None]  # by output


def gradient_mistakes(checked: CheckedFunction, dtypes: tuple[str, ...], causes: Causes) -> Iterator[FoundMistake]:
    """Yield the mistakes in the gradient of each result with respect to its array, at most one for each array.

    Args:
        checked: the function.
        dtypes: dtypes of tokens that it accepts.
        causes: the mistakes that results have; their gradients are those of what is computed with the mistake.
    """
    caller = checked.caller
    outputs, of_pairs = caller.signature.outputs, isinstance(caller.signature, OfPairs)
    for number in range(2 if of_pairs else len(outputs)):
        for dtype in dtypes:
            call = caller.call("gradient", dtype, POSITIONS)
            if of_pairs:
                call = caller.call("gradient", dtype, np.r_[POSITIONS[-2:], POSITIONS], 2, batch=1, heads=(2, 2))
            cause = causes.get(outputs[0 if of_pairs else number])
            candidates = [call.expected] if cause is None else list(cause.candidates(call.expected))[:1]
            found = _mistake(checked, call, candidates, number)
            if found is not None:
                yield found
                break


def _mistake(checked: CheckedFunction, call: TestCall, candidates: list[Candidate], number: int) -> FoundMistake | None:
    signature, outputs = checked.caller.signature, (("queries", "keys")[number],) if len(call.tokens) > 1 else ()
    *lead, width = call.tokens[number].shape
    shape: tuple[int, ...] = (*lead, signature.encoding.widening * width)
    if isinstance(signature, OfPairs):
        shape = signature.results(call.expected, call.tokens, 0)[0].shape
    wrong_gradient = partial(found_in, call, "wrong gradient", outputs=outputs)
    weights = ROUNDED["bfloat16"](np.random.default_rng(1).standard_normal(shape)).astype(np.float64)
    for candidate in candidates:
        right = _right_gradient(signature, candidate, call, weights, number)
        if not right.any():
            return None  # the result does not depend on this array
        magnitude = np.full_like(
            right, np.abs(right).max() * (SUMS if isinstance(signature, OfPairs | NormalizeAndRotate) else 1)
        )
        limit = LIMIT if candidate is call.expected else MATCH_LIMIT + POSITIONS.max()
        for time in ("", "the second time, "):
            try:
                gradient = checked.gradient(call, weights, number)
            except CallError as failure:
                return wrong_gradient(f"{time}there is none: {failure}", error=np.inf)
            if gradient.shape != right.shape:
                return wrong_gradient(f"{time}its shape is {gradient.shape}, not {right.shape}", error=np.inf)
            error = _worst_error(gradient, right, magnitude, call.dtype)
            if error <= limit:
                continue
            wrong = _wrong_gradients(signature, candidate, number, weights, right)
            known = (text for text, one in wrong if _worst_error(gradient, one, magnitude, call.dtype) <= limit + LIMIT)
            description = next(known, "no known mistake gives these numbers")
            if _is_result(checked, call, candidate):
                return wrong_gradient(time + description, error=error)
            break  # earlier calls have changed what it computes, and so the right gradient
    return None


def _is_result(checked: CheckedFunction, call: TestCall, candidate: Candidate) -> bool:
    """Return whether the function still returns what the candidate gives."""
    try:
        errors = errors_of(checked.caller.signature, candidate, call, checked.call(call).results)
    except (CallError, ValueError):
        return True
    return all(float(error.max(initial=0)) <= MATCH_LIMIT + POSITIONS.max() for error in errors)


def _right_gradient(
    signature: Signature, candidate: Candidate, call: TestCall, weights: Float64s, number: int
) -> Float64s:
    """Return the weights rotated back, or multiplied; for an addition, the weights themselves."""
    if isinstance(signature, ScaleQueries):
        return signature.results(candidate, (weights,), 0)[0]
    if isinstance(signature, OfPairs | PolarQueriesAndKeys | NormalizeAndRotate):
        return _by_differences(signature, candidate, call, weights, number)
    if not isinstance(signature, RotateQueriesAndKeys):
        return weights
    if candidate.apply is not None or candidate.outcomes:
        return _transposed(signature, candidate, call, weights, number)
    tables, encoding = candidate.tables(), candidate.encoding
    cos, sin = (table[..., : encoding.pairs] for table in (tables[2:] if number and len(tables) == 4 else tables[:2]))
    return np.asarray(rotate_pairs(weights, cos, -sin, pairing=encoding.pairing.inverse))


def _by_differences(
    signature: Signature, candidate: Candidate, call: TestCall, weights: Float64s, number: int
) -> Float64s:
    """Return central differences in float64, which are exact where the results are linear.

    For each number; where each token alone determines its results, for one channel of all tokens at once, and where
    each head does, of all heads as well.
    """
    gradient, of_pairs = np.empty_like(call.tokens[number]), isinstance(signature, OfPairs)
    places: Any = ((..., channel) for channel in range(gradient.shape[-1]))
    axes: Any = None if of_pairs else -1 if candidate.norm is None else candidate.norm.axes
    if of_pairs:
        places = np.ndindex(*gradient.shape)
    elif axes == (-3, -1):
        places = ((slice(None), head, ..., channel) for head, channel in np.ndindex(*gradient.shape[1::2]))
    size = STEP if candidate.norm is None else SMALL_STEP
    for at in places:
        results = []
        for step in (size, -size):
            moved = [x.copy() for x in call.tokens]
            moved[number][at] += step
            results.append(signature.results(candidate, tuple(moved), 0)[0 if of_pairs else number])
        gradient[at] = (weights * (results[0] - results[1])).sum(axis=axes) / (2 * size)
    return gradient


def _transposed(signature: Signature, candidate: Candidate, call: TestCall, weights: Float64s, number: int) -> Float64s:
    """Apply the transpose of a linear map of channels, which the map of each unit vector gives."""
    result = np.empty_like(weights)
    for channel in range(weights.shape[-1]):
        unit = tuple(np.zeros_like(x) for x in call.tokens)
        unit[number][..., channel] = 1
        result[..., channel] = (weights * signature.results(candidate, unit, 0)[number]).sum(axis=-1)
    return result


def _wrong_gradients(
    signature: Signature, candidate: Candidate, number: int, weights: Float64s, right: Float64s
) -> Iterator[tuple[str, Float64s]]:
    """Yield known mistakes with the gradients that they give."""
    yield "it is 0: the result is detached", np.zeros_like(right)
    if isinstance(signature, RotateQueriesAndKeys):
        units = (weights,) * (number + 1)
        yield "it is rotated forwards, not back", signature.results(candidate, units, 0)[number]
        yield "it is not rotated", weights
        factor: float = getattr(candidate.encoding, "attention_factor", 1.0)
        yield "the attention factor is missing", right / factor
        yield "the attention factor is squared", right * factor
    yield "it has the opposite sign", -right
    for factor in (2.0, 0.5):
        yield f"it is multiplied by {factor:g}", right * factor


def _worst_error(gradient: Float64s, wanted: Float64s, magnitude: Float64s, dtype: str) -> float:
    error = np.abs(gradient - wanted) / ulp_of(magnitude, dtype)
    return float("inf") if np.isnan(error).any() else float(error.max(initial=0))
