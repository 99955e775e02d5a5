"""Explain and draw encodings: pairs, precision, curves, the RoPE of a config."""
