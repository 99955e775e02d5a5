"""Kernels: faster rotations of the arrays of one library, bit-identical to its operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .namespace import Array


class Kernel(NamedTuple):
    """A fused rotation for the arrays of one library.

    Attributes:
        supports: `(x) -> bool`: whether to ask the kernel: the library of this array would compute now, in this
            process, and nothing traces or intercepts its operators.
        rotate: `(x, cos, sin, pairing, out)` -> rotated `x`, written to `out` unless that is None. It returns None,
            for any reason and before it changes anything, if the operators are to be used instead. Nothing is checked
            before: a kernel raises what `posenc_core.rotation.check_sizes` raises, or returns None.
        rotate_rows: `(q, k, cos, sin, (start, length), pairing)` -> `q`, and `k` unless it is None, of this length,
            rotated by the rows of the tables from `start` on, which it reads where they lie; with None in place of
            `(start, length)` by tables that broadcast to both. None as `rotate`. A kernel may lack it.
        rotate_at: `(q, k, cos, sin, start, positions, pairing, seq_axis)` -> both rotated by the rows at positions:
            integers of NumPy within the tables, or those that the host has not read, or from a start or such starts on
            if positions are None: NaN where a table has none. None as `rotate`. A kernel may lack it.
        normalize: `(tokens, cos, sin, weights, pairing, norm)` -> a tuple of one or two arrays normalized and rotated,
            as `normalize_and_rotate` does, by tables that broadcast to them. The weights, those of the first and of the
            last array, were checked, each of them or None. None as `rotate`. A kernel may lack it.
    """

    supports: Callable[[Any], bool]
    rotate: Callable[..., Any]
    rotate_rows: Callable[..., Any] | None = None
    rotate_at: Callable[..., Any] | None = None
    normalize: Callable[..., Any] | None = None


_kernels: dict[type, Kernel] = {}


def register_kernel(kind: type, kernel: Kernel) -> None:
    """Rotate arrays of exactly this class, not of its subclasses, by `kernel`.

    Only backends register kernels, each for its own arrays, and only if the kernel can run here.
    """
    _kernels[kind] = kernel


def kernel_for(x: Array) -> Kernel | None:
    """Return the kernel of the class of `x`, if there is one and it supports `x`."""
    kernel = _kernels.get(type(x))
    return kernel if kernel is not None and kernel.supports(x) else None
