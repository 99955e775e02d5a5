"""Conformance suite: the cases that every backend passes, against golden numbers."""
