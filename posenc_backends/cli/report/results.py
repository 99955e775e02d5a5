"""The results of a report: one row for each encoding of each backend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from posenc_backends import HOST_NAMES, NAMES
from posenc_core._requirement import requirement

Result = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A backend to test.

    Attributes:
        backend: its name.
        module, package: the module to look for, and the package that has its version.
        keras_backend: the framework that Keras runs on; empty for other backends.
    """

    backend: str
    module: str
    package: str
    keras_backend: str = ""

    @property
    def name(self) -> str:
        """The name in the report, such as `keras (jax)`."""
        return f"{self.backend} ({self.keras_backend})" if self.keras_backend else self.backend

    @property
    def missing(self) -> str | None:
        """The package that `pip install` needs; None if everything is installed."""
        if find_spec(self.module) is None:
            return requirement(self.backend)
        return self.keras_backend if self.keras_backend and find_spec(self.keras_backend) is None else None

    @property
    def version(self) -> str:
        """The version of the package; empty if it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""


TARGETS = tuple(
    target
    for target in (
        Target("numpy", "numpy", "numpy"),
        Target("strict", "array_api_strict", "array-api-strict"),
        Target("torch", "torch", "torch"),
        Target("keras", "keras", "keras", "tensorflow"),
        Target("keras", "keras", "keras", "jax"),
        Target("keras", "keras", "keras", "torch"),
        Target("paddle", "paddle", "paddlepaddle"),
        Target("mxnet", "mxnet", "mxnet"),
        Target("jax", "jax", "jax"),
        Target("mlx", "mlx", "mlx"),
    )
    if {target.backend, target.keras_backend or "numpy"} <= {*HOST_NAMES, *NAMES, "tensorflow"}
)

COLUMNS = ("tables", "forward", "gradient", "compiled", "saved", "defect", "modes")
KNOWN_FAILURE = "gap"  # the word in JSON for a check in which every case is a known failure
LEGEND = (
    "tables, modes: how many cases are right. Others: the worst error in ulp (units in the last place). "
    "mode: one of the framework's own tools, such as compile, export, save. "
    "–: there is no such case, or the framework cannot do it"
)


@dataclass
class Section:
    """The results of one backend."""

    target: Target
    results: list[Result] = field(default_factory=list)
    cases: int = 0
    crash: str = ""

    @property
    def failed(self) -> list[Result]:
        """The cases that failed unexpectedly, and the known failures that passed."""
        return [result for result in self.results if result["passed"] == bool(result["gap"])]

    @property
    def known_failures(self) -> list[str]:
        """The reasons of the known failures, each once."""
        return sorted({result["gap"] for result in self.results if result["gap"]})

    @property
    def complete(self) -> bool:
        """Whether the backend ran to its end and nothing failed."""
        return not self.crash and not self.failed and len(self.results) == self.cases > 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each encoding; its keys are those of `posenc report --json`."""
        for encoding in dict.fromkeys(result["encoding"] for result in self.results):
            results = [result for result in self.results if result["encoding"] == encoding]
            yield {
                "backend": self.target.name,
                "version": self.target.version,
                "encoding": encoding,
                "tables": _passed([result for result in results if result["check"] == "table"]),
                **{check: _worst(results, check) for check in COLUMNS if check not in ("tables", "modes")},
                "modes": _passed([result for result in results if result["is_mode"] and not result["gap"]]),
                "seconds": sum(result["seconds"] for result in results),
                "gaps": sorted({result["gap"] for result in results if result["gap"]}),
                "failed": [result for result in self.failed if result["encoding"] == encoding],
            }


def cell(value: object) -> str:
    """Return a value of a row as the text of a table."""
    if value in (None, KNOWN_FAILURE):
        return "–"
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def why(result: Result) -> str:
    """Return why a case failed."""
    if result["gap"]:
        return "passed, but it is listed as a known failure"
    return result.get("error") or f"off by {result['worst']:g}, limit {result['limit']:g}"


def _passed(results: list[Result]) -> str | None:
    return f"{sum(result['passed'] for result in results)}/{len(results)}" if results else None


def _worst(results: list[Result], check: str) -> float | str | None:
    """Return the worst error of a check; `KNOWN_FAILURE` if it has no other case, None if it has no case."""
    results = [result for result in results if result["check"] == check and not result["is_mode"]]
    errors = [result.get("worst", math.inf) for result in results if not result["gap"]]
    if not errors:
        return KNOWN_FAILURE if results else None
    return math.inf if any(math.isnan(error) for error in errors) else max(errors)
