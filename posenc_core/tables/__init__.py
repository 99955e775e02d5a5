"""Compute exact tables of sines and cosines."""

from .sincos import cos_sin, cos_sin_of_float32, write_cos_sin, write_derivatives

__all__ = ["cos_sin", "cos_sin_of_float32", "write_cos_sin", "write_derivatives"]
