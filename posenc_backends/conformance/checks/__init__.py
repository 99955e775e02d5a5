"""Checks: one function per kind of case."""
