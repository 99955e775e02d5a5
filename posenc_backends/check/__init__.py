"""Check whether a function of any framework computes an encoding, and name the mistake if it does not."""

from .result import CheckResult
from .run import DEFAULT, check

__all__ = ["DEFAULT", "CheckResult", "check"]
