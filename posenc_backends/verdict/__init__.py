"""The former name of `posenc_backends.check`, kept so that imports from it still work."""

from posenc_backends.check import DEFAULT, CheckResult, check

Verdict = CheckResult

__all__ = ["DEFAULT", "CheckResult", "Verdict", "check"]
