"""Checks: each function compares one native result with golden numbers and returns a `Measurement`."""
