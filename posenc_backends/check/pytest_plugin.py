"""The pytest plugin `posenc.conformance`: a test of any implementation is one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from posenc_backends.check import Verdict


@pytest.fixture(scope="session")
def conforms() -> Callable[..., Verdict]:
    """Fails the test unless a callable computes an encoding, and says which mistake it makes.

    What it gives is called like `posenc_backends.verdict.check`, whose verdict it returns:

        def test_rope(conforms):
            conforms(my_rope, "Rotary(head_dim=64, layout='half')")

    Raises:
        TypeError, ValueError, ImportError: if the check cannot be made; the test errs.
    """

    def check(function: Callable[..., Any], *spec: Any, **options: Any) -> Verdict:
        from posenc_backends import check as verdict

        told = verdict.check(function, *spec, **options)
        if told.status:
            pytest.fail(f"{getattr(function, '__name__', function)} {told}", pytrace=False)
        return told

    return check
