"""The conformance suite: cases that every backend passes, compared with golden numbers."""
