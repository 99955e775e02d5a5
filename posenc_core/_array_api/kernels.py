"""Kernels: what turns the arrays of one library faster than its operators do, to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .namespace import Array


class Kernel(NamedTuple):
    """What a room offers for its arrays.

    Attributes:
        takes: whether the kernel may turn this array of floating-point numbers: its library would compute at once, here,
            and nobody records or changes what it computes.
        rotate: `x`, turned by checked tables, `(x, cos, sin, pairing, out)`, into `out` unless that is None; None where the
            formula is to be used: for any reason, at any time.
    """

    supports: Callable[[Any], bool]
    rotate: Callable[..., Any]


_kernels: dict[type, Kernel] = {}


def register_kernel(kind: type, kernel: Kernel) -> None:
    """Turn arrays of this very class, and of none that is derived from it, by `kernel`."""
    _kernels[kind] = kernel


def kernel_for(x: Array) -> Kernel | None:
    """The kernel of the class of `x`, if there is one and it takes `x`."""
    kernel = _kernels.get(type(x))
    return kernel if kernel is not None and kernel.supports(x) else None
