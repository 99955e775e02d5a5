"""Check the gradient: for a rotation, the weights rotated back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_backends.conformance.errors import last_places
from posenc_core.rotation import rotate_pairs

from .calling import CallError, Framework, call_gradient
from .calls import TestCall
from .candidates import Float64s
from .diagnosis import LIMIT, MATCH_LIMIT, FoundMistake
from .signatures import RotateQueriesAndKeys, Signature


def gradient_mistake(
    function: Callable[..., Any], framework: Framework, signature: Signature, test_call: TestCall
) -> FoundMistake | None:
    """Return the mistake in the gradient with respect to the first array; None if the gradient is right."""
    weights = np.random.default_rng(1).standard_normal(test_call.tokens[0].shape).astype(np.float32).astype(np.float64)
    try:
        gradient = call_gradient(function, framework, test_call, weights)
    except CallError as failure:
        return _found(test_call, f"there is none: {failure}", np.inf)
    right = _right_gradient(signature, test_call, weights)
    if gradient.shape != right.shape:
        return _found(test_call, f"its shape is {gradient.shape}, not {right.shape}", np.inf)
    magnitude = np.full_like(right, np.abs(right).max())
    error = _worst_error(gradient, right, magnitude)
    if error <= LIMIT:
        return None
    for description, wrong in _wrong_gradients(signature, test_call, weights, right):
        if _worst_error(gradient, wrong, magnitude) <= MATCH_LIMIT:
            return _found(test_call, description, error)
    return _found(test_call, "no known mistake gives these numbers", error)


def _right_gradient(signature: Signature, test_call: TestCall, weights: Float64s) -> Float64s:
    """Return the weights rotated back; for an addition, the weights themselves."""
    if not isinstance(signature, RotateQueriesAndKeys):
        return weights
    encoding: Any = test_call.expected.encoding
    pairing = encoding.pairing
    cos, sin = (table[..., : encoding.pairs] for table in test_call.expected.tables())
    back = pairing._replace(split=pairing.join, join=pairing.split)
    return np.asarray(rotate_pairs(weights, cos, -sin, pairing=back))


def _wrong_gradients(
    signature: Signature, test_call: TestCall, weights: Float64s, right: Float64s
) -> Iterator[tuple[str, Float64s]]:
    """Yield known mistakes with the gradients that they give."""
    yield "it is 0: the result is detached", np.zeros_like(weights)
    if isinstance(signature, RotateQueriesAndKeys):
        yield "it is rotated forwards, not back", signature.results(test_call.expected, (weights,), 0)[0]
        yield "it is not rotated", weights
        factor: float = getattr(test_call.expected.encoding, "attention_factor", 1.0)
        yield "the attention factor is missing", right / factor
        yield "the attention factor is squared", right * factor
    yield "it has the opposite sign", -right
    for factor in (2.0, 0.5):
        yield f"it is multiplied by {factor:g}", right * factor


def _worst_error(gradient: Float64s, wanted: Float64s, magnitude: Float64s) -> float:
    error = np.abs(gradient - wanted) / last_places(magnitude, "float32")
    return float("inf") if np.isnan(error).any() else float(error.max(initial=0))


def _found(test_call: TestCall, description: str, error: float) -> FoundMistake:
    return FoundMistake(
        name="wrong gradient",
        description=description,
        outputs=(),
        calls=("gradient",),
        error=error,
        start=f"in {test_call.description}.",
    )
