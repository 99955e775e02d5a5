"""The gradient of a rotation: its weights, turned back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_backends.conformance.errors import ulp_of
from posenc_core.rotation import rotate_pairs

from .calling import Framework, NoAnswerError, ask_gradient
from .calls import Question
from .candidates import Float64s
from .diagnosis import FITS, LIMIT, Mistake
from .signatures import Form, Rotation

NAME = "wrong gradient"


def gradient_mistake(callee: Callable[..., Any], world: Framework, form: Form, question: Question) -> Mistake | None:
    """What is wrong with the gradient with respect to the first array; None if nothing is."""
    weights = np.random.default_rng(1).standard_normal(question.tokens[0].shape).astype(np.float32).astype(np.float64)
    try:
        got = ask_gradient(callee, world, form, question, weights)
    except NoAnswerError as failed:
        return _mistake(question, f"there is none: {failed}", np.inf)
    right = _back(form, question, weights)
    if got.shape != right.shape:
        return _mistake(question, f"its shape is {got.shape}, not {right.shape}", np.inf)
    size = np.full_like(right, np.abs(right).max())
    off = _off(got, right, size)
    if off <= LIMIT:
        return None
    for told, wrong in _wrong(form, question, weights):
        if _off(got, wrong, size) <= FITS:
            return _mistake(question, told, off)
    return _mistake(question, "no known mistake gives these numbers", off)


def _back(form: Form, question: Question, weights: Float64s) -> Float64s:
    """The weights, turned back; those of an addition, as they are."""
    if not isinstance(form, Rotation):
        return weights
    encoding: Any = question.sketch.encoding
    way = encoding.pairing
    cos, sin = (table[..., : encoding.pairs] for table in question.sketch.tables())
    return np.asarray(rotate_pairs(weights, cos, -sin, pairing=way._replace(split=way.join, join=way.split)))


def _wrong(form: Form, question: Question, weights: Float64s) -> Iterator[tuple[str, Float64s]]:
    """What wrong gradients are."""
    yield "it is 0: what is computed is detached", np.zeros_like(weights)
    if isinstance(form, Rotation):
        yield "it is turned forwards, not back", form.wanted(question.sketch, (weights,), 0)[0]
        yield "it is not turned", weights
        factor: float = getattr(question.sketch.encoding, "attention_factor", 1.0)
        right = _back(form, question, weights)
        yield "the attention factor is missing", right / factor
        yield "the attention factor is squared", right * factor
    right = _back(form, question, weights)
    yield "it has the other sign", -right
    for factor in (2.0, 0.5):
        yield f"it is multiplied by {factor:g}", right * factor


def _off(got: Float64s, wanted: Float64s, size: Float64s) -> float:
    off = np.abs(got - wanted) / ulp_of(size, "float32")
    return float("inf") if np.isnan(off).any() else float(off.max(initial=0))


def _mistake(question: Question, told: str, off: float) -> Mistake:
    start = f"in {question.told}."
    return Mistake(name=NAME, told=told, outputs=(), questions=("gradient",), off=off, start=start)
