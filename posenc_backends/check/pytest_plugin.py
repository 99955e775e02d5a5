"""The pytest plugin `posenc.conformance`: test any implementation in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from posenc_backends.check import CheckResult


@pytest.fixture(scope="session")
def conforms() -> Callable[..., CheckResult]:
    """Return a function that fails the test, and names the mistake, unless a callable computes an encoding.

    It takes the arguments of `posenc_backends.check.check` and returns its result:

        def test_rope(conforms):
            conforms(my_rope, "Rotary(head_dim=64, layout='half')")

    Raises:
        TypeError, ValueError, ImportError: if the check cannot run; pytest then reports an error, not a failure.
    """

    def conforms(function: Callable[..., Any], *spec: Any, **options: Any) -> CheckResult:
        from posenc_backends.check import check

        result = check(function, *spec, **options)
        if result.status:
            pytest.fail(f"{getattr(function, '__name__', function)} {result}", pytrace=False)
        return result

    return conforms
