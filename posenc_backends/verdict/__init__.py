"""The former name of `posenc_backends.check`."""

from posenc_backends.check import DEFAULT, Verdict, check

__all__ = ["DEFAULT", "Verdict", "check"]
