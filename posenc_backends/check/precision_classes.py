"""Classes of precision: how exact a function is that makes no other mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

UNKNOWN = "differs, cause unknown"
EXACT, ROUNDED_ONCE, ROUNDED = "exact", "rounded once", "rounded several times"
FLOAT32, HALF, WRONG = "float32 angles", "half-precision angles", "wrong"
CLASSES = (EXACT, ROUNDED_ONCE, ROUNDED, FLOAT32, HALF, WRONG)  # the best first
HALF_ULP = 0.52  # half an ulp, and the error of the float32 numbers before the last rounding
MISTAKES_OF = {
    **{f"{dtype} {part}": HALF for dtype in ("bfloat16", "float16") for part in ("positions", "frequencies", "angles")},
    **{f"{dtype} tables": HALF for dtype in ("bfloat16", "float16")},
    FLOAT32: FLOAT32,
    "float32 positions": FLOAT32,
}


def class_of_call(dtype: str, from_truth: float, from_formula: float) -> str:
    """Return the class of results that are right: how often they are rounded.

    Args:
        dtype: of the tokens.
        from_truth: the worst error in ulp against the true numbers.
        from_formula: the same against the float32 formula with tables that are rounded once.
    """
    if from_truth <= HALF_ULP:
        return EXACT
    return ROUNDED if dtype != "float32" and from_formula > HALF_ULP else ROUNDED_ONCE


def worst_class(classes: Iterable[str], mistakes: Iterable[str]) -> str:
    """Return the lowest of the classes of calls and of mistakes, by name."""
    found = [*classes, *(MISTAKES_OF.get(name, WRONG) for name in mistakes)]
    return max(found, key=CLASSES.index, default=EXACT)


def names_of(mistakes: Iterable[Any]) -> Iterator[str]:
    """Yield the names of found mistakes, one by one where two are made together."""
    for one in mistakes:
        yield from [one.name] if one.name == UNKNOWN else one.name.split(", ")
