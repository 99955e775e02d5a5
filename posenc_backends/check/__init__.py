"""The verdict: whether any callable of any framework computes an encoding, and which mistake it makes if not."""

from .verdict import DEFAULT, Verdict, check

__all__ = ["DEFAULT", "Verdict", "check"]
