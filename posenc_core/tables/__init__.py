"""Frequencies, angles, and exact tables of cosines and sines."""

from .sincos import Envelope, Positions, Table, cos_sin, cos_sin_of_float32, write_cos_sin, write_derivatives

__all__ = ["Envelope", "Positions", "Table", "cos_sin", "cos_sin_of_float32", "write_cos_sin", "write_derivatives"]
