"""The rotation of queries and keys in one call, by rows of tables that it looks up itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack
from torch.compiler import is_compiling

from posenc_core._array_api.checks import check_alike, check_floating, check_positions_shape, check_rank
from posenc_core._array_api.kernels import kernel_for
from posenc_core.layers.inputs import batch_size, sequence_axis
from posenc_core.rotation import Layout, Pairing, Placement, pairing_of, rotate_checked

from ..distributed import PLAIN, replicate_beside
from . import gpu
from .plans import Call
from .spec import RotationSpec, Rows, aligned_rows, packed_positions, rows_of
from .words import HALF_PRECISION

INTEGERS = (torch.int32, torch.int64)


def apply_rotary(  # noqa: PLR0913
    q: Tensor | None,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    *,
    layout: Layout,
    placement: Placement = "lead",
    blocks: int = 1,
    positions: Tensor | None = None,
    axes: Sequence[int] | None = None,
    start: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    inverse: bool = False,
    seq_axis: int = -2,
    out: tuple[Tensor | None, Tensor | None] | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Rotate queries and keys by the rows of their positions: on a GPU in one launch of a Triton kernel.

    Nothing is copied between host and device, and nobody waits: positions are not looked at, and those that the tables
    do not have give NaN. Elsewhere, and without Triton, operators compute the same bits.

    Args:
        q, k: queries and keys, or None: `(batch, heads, length, width)`, or any shape with the tokens on `seq_axis`;
            heads may differ. All strides are read as they are.
        cos, sin: tables on the device of the tokens, float32 or, already rounded, of half precision; for float64 tokens
            also float64: `(rows, pairs)`, or `(batch, length, pairs)` if the rows are already those of the tokens.
        layout, placement, blocks: as in `rotate`.
        positions: the rows of the tokens, int32 or int64, `(length,)` or `(batch, length)`; `(axes, length)` or
            `(axes, batch, length)` with `axes`. By default tokens have the rows from `start` on.
        axes: the axis of the positions that rotates each pair, as `encoding.axes`.
        start: the row of the first token, or of the first token of each batch row, int32 or int64, `(batch,)`; with
            `cu_seqlens`, of each sequence, `(sequences,)`.
        cu_seqlens: cumulative lengths of packed sequences, int32 or int64, `(sequences + 1,)`; each begins with the row
            `start`. Tokens after the last have row 0.
        inverse: whether to rotate back, by the opposite angle, as `unrotate` does.
        seq_axis: the axis of the tokens: -2, or -3 for `(batch, length, heads, width)` and `(length, heads, width)`.
        out: tensors for the results, None where there are no tokens; the tokens themselves to rotate in place. Not
            where a gradient is recorded.
    Returns:
        The rotated queries and keys, None where none were given; half precision is rotated in float32 and rounded once.
        Gradients reach queries and keys by the same kernel, and tables by operators.
    Raises:
        TypeError: if an argument is not a tensor, or of another dtype than said here.
        ValueError: if shapes or devices do not fit each other, positions are given twice, `start` is an int past the
            tables, or `out` is given while a gradient is recorded.
    Source: Su et al. 2021, equation 34 (arXiv:2104.09864). Angles in radians.

    >>> q, k = torch.ones(1, 2, 3, 4), torch.ones(1, 1, 3, 4)
    >>> cos, sin = torch.zeros(8, 2), torch.ones(8, 2)
    >>> apply_rotary(q, k, cos, sin, layout="half", positions=torch.tensor([7, 0, 8]))[1]
    tensor([[[[-1., -1.,  1.,  1.],
              [-1., -1.,  1.,  1.],
              [nan, nan, nan, nan]]]])
    """
    pairing, call = pairing_of(layout, placement, blocks), None
    one: Any = k if q is None else q
    if gpu.IS_INTERPRETED or (isinstance(one, Tensor) and one.is_cuda):
        call, rotated = gpu.repeated(
            (q, k, cos, sin, positions, cu_seqlens), start, out, pairing, axes, inverse, seq_axis
        )
    elif positions is axes is cu_seqlens is out is None and not inverse and seq_axis == -2:
        rotated = _rotated_by_kernel(q, k, cos, sin, start, pairing)
    else:
        rotated = None
    if rotated is not None:
        return rotated
    given = positions, axes, start, cu_seqlens
    return rotate_checked_tokens(q, k, (cos, sin), pairing, given, inverse, seq_axis, out, call)


def rotate_checked_tokens(  # noqa: PLR0913, PLR0917
    q: Any,
    k: Any,
    tables: tuple[Any, Any],
    pairing: Pairing,
    given: tuple[Any, Any, Any, Any] = (None, None, 0, None),
    inverse: bool = False,
    seq_axis: int = -2,
    out: Any = None,
    call: Call | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Check the arguments of `apply_rotary`, and rotate.

    Args:
        q, k, tables, inverse, seq_axis, out: as `apply_rotary` takes them.
        pairing: its layout, placement and blocks.
        given: its `positions`, `axes`, `start` and `cu_seqlens`.
        call: keeps the plan of the launch.
    """
    tokens, tables, rows, spec = check_call(q, k, tables, pairing, given, inverse, seq_axis)
    outs = None if out is None else _outs(out, (q, k))
    if not tables[0].shape[-1] or not gpu.runs(tokens, *tables):
        if tables[0].dtype in HALF_PRECISION:
            tables = tuple(rows_of(table, rows, tokens[0].shape[spec.seq_axis]).float() for table in tables)
            rows = Rows("rows")
        results: Any = _rotated_by_operators(tokens, tables, rows, spec, outs)
    elif outs is None:
        results = gpu.rotated(tokens, tables, rows, spec, call=call)
    else:
        gpu.rotate_into(outs, tokens, tables, rows, spec, call)
        results = outs
    results = iter(results)
    return None if q is None else next(results), None if k is None else next(results)


def check_call(
    q: Any,
    k: Any,
    tables: tuple[Any, Any],
    pairing: Pairing,
    given: tuple[Any, Any, Any, Any],
    inverse: bool,
    seq_axis: int,
) -> tuple[list[Tensor], tuple[Any, Any], Rows, RotationSpec]:
    """Return the tokens that are given, the tables beside them, how a token finds its row, and the rotation.

    Raises:
        TypeError, ValueError: as `apply_rotary`.
    """
    tokens: list[Any] = [x for name, x in (("q", q), ("k", k)) if _is_given(name, x)]
    if not tokens:
        raise ValueError("`q` or `k` must be given, got None for both.")
    axis = sequence_axis(tokens[0], seq_axis, name="k" if q is None else "q") - tokens[0].ndim
    spec = RotationSpec(pairing, False, axis)
    spec = spec.opposite if inverse else spec
    _check_alike_tokens(tokens, spec.seq_axis)
    _check_tables(tokens[0], *tables, pairing.blocks)
    if type(tokens[0]) not in PLAIN:
        tables = replicate_beside(tables[0], tokens[0]), replicate_beside(tables[1], tokens[0])
    return tokens, tables, _rows(tokens, tables, spec.seq_axis, *given), spec


def _rotated_by_kernel(q: Any, k: Any, cos: Any, sin: Any, start: Any, pairing: Pairing) -> Any:
    """Return queries and keys rotated by consecutive rows in one call on the CPU; None where arguments are checked."""
    if is_compiling() or not (type(q) is type(k) is type(cos) is type(sin) is Tensor and type(start) is int):
        return None
    kernel = kernel_for(q) if q.is_cpu else None
    if kernel is None or kernel.rotate_rows is None:
        return None
    sizes, others, rows = q.shape, k.shape, cos.shape
    if len(sizes) != len(others) or len(sizes) < 2 or sizes[-2:] != others[-2:] or q.dtype is not k.dtype:
        return None
    if len(rows) != 2 or sin.shape != rows or 2 * rows[1] > sizes[-1] or rows[1] % pairing.blocks:
        return None
    rotated = kernel.rotate_rows(q, k, cos, sin, (start, sizes[-2]), pairing)
    return rotated and tuple(rotated)


def _rotated_by_operators(
    tokens: list[Tensor], tables: tuple[Tensor, Tensor], rows: Rows, spec: RotationSpec, outs: list[Tensor] | None
) -> list[Tensor]:
    results = [rotate_checked(x, *aligned_rows(tables, rows, spec, x), spec.pairing) for x in tokens]
    return results if outs is None else [out.copy_(result) for out, result in zip(outs, results, strict=True)]


def _is_given(name: str, x: Any) -> bool:
    if x is None:
        return False
    if not isinstance(x, Tensor):
        raise TypeError(f"`{name}` must be a tensor or None, got {type(x).__name__}.")
    check_floating(name, x)
    check_rank(name, x, minimum=2, axes="(..., length, width)")
    return True


def _check_alike_tokens(tokens: list[Tensor], seq_axis: int) -> None:
    """Raise unless queries and keys differ in their heads alone."""
    q, k = tokens[0], tokens[-1]
    if q.dtype != k.dtype or q.device != k.device:
        raise TypeError(f"`k` must be {q.dtype} on {q.device} as `q`, got {k.dtype} on {k.device}.")
    if q.ndim != k.ndim or q.shape[-1] != k.shape[-1] or q.shape[seq_axis] != k.shape[seq_axis]:
        raise ValueError(
            f"`k` must be as long and as wide as `q`, got shapes {tuple(k.shape)} and {tuple(q.shape)}; "
            "rotate them in two calls."
        )


def _check_tables(x: Tensor, cos: Any, sin: Any, blocks: int) -> None:
    wanted = (torch.float32, torch.float64) if x.dtype == torch.float64 else (torch.float32, *HALF_PRECISION)
    for name, table in (("cos", cos), ("sin", sin)):
        if not isinstance(table, Tensor):
            raise TypeError(f"`{name}` must be a tensor, got {type(table).__name__}.")
        if table.dtype not in wanted:
            raise TypeError(f"`{name}` must be float32 for tokens of {x.dtype}, got {table.dtype}.")
        check_rank(name, table, minimum=2, maximum=3, axes="(rows, pairs) or (batch, length, pairs)")
        _check_device(name, table, x)
    check_alike("sin", sin, cos)
    if 2 * cos.shape[-1] > x.shape[-1]:
        raise ValueError(f"`cos` must have at most {x.shape[-1] // 2} pairs, half the width, got {cos.shape[-1]}.")
    if cos.shape[-1] % blocks:
        raise ValueError(f"`blocks` must divide the {cos.shape[-1]} pairs, got {blocks}.")


def _check_device(name: str, given: Tensor, x: Tensor) -> None:
    if given.device != x.device:
        raise ValueError(f"`{name}` must be on {x.device}, where the tokens are, got {given.device}; move it once.")


def _rows(
    tokens: list[Tensor],
    tables: tuple[Tensor, Tensor],
    seq_axis: int,
    positions: Any,
    axes: Any,
    start: Any,
    cu_seqlens: Any,
) -> Rows:
    """Return how a token finds its row of the tables."""
    length, counted = tokens[0].shape[seq_axis], type(start) is int or isinstance(start, torch.SymInt)
    given = positions is not None, cu_seqlens is not None, not counted or start != 0
    if (given[0] and sum(given) > 1) or (tables[0].ndim == 3 and any(given)):
        names = (name for name, way in zip(("positions", "cu_seqlens", "start"), given, strict=True) if way)
        raise ValueError(
            "`positions` must be given without `cu_seqlens` and `start`, and none of them with tables of three axes, "
            f"got {' and '.join(names)}."
        )
    if axes is not None and positions is None:
        raise ValueError("`axes` must be left out without `positions`, `(axes, batch, length)`.")
    if tables[0].ndim == 3:
        _check_fits("cos", tables[0].shape[:-1], tokens, seq_axis, length)
        return Rows("rows")
    if not counted or any(given[:2]):
        return _gathered(tokens, tables[0], seq_axis, positions, axes, start, cu_seqlens)
    if start < 0 or start + length > tables[0].shape[0]:
        raise ValueError(
            f"`start` must leave {length} tokens within the {tables[0].shape[0]} rows of the tables, got {start}."
        )
    return Rows("rows", start=start)


def _gathered(
    tokens: list[Tensor], table: Tensor, seq_axis: int, positions: Any, axes: Any, start: Any, cu_seqlens: Any
) -> Rows:
    """Return how a token finds its row in a tensor of positions, starts or cumulative lengths."""
    if not table.shape[0]:
        raise ValueError("`cos` must have at least one row, got none.")
    length = tokens[0].shape[seq_axis]
    if cu_seqlens is not None:
        _check_integers("cu_seqlens", cu_seqlens, tokens[0])
        check_rank("cu_seqlens", cu_seqlens, minimum=1, maximum=1, axes="(sequences + 1,)")
        if not cu_seqlens.shape[0]:
            raise ValueError("`cu_seqlens` must have shape (sequences + 1,), got (0,).")
        if type(start) is int and start == 0:
            return Rows("packed", cu_seqlens)
        if not isinstance(start, int | torch.SymInt):
            _check_integers("start", start, tokens[0])
            check_positions_shape("start", tuple(start.shape), (), cu_seqlens.shape[0] - 1)
        return Rows("positions", packed_positions(cu_seqlens, length, start)[None, None])
    if positions is None:
        _check_integers("start", start, tokens[0])
        _check_fits("start", start.shape, tokens, seq_axis)
        return Rows("starts", start.reshape(-1))
    _check_integers("positions", positions, tokens[0])
    if axes is None or positions.ndim == 1:
        _check_fits("positions", positions.shape, tokens, seq_axis, length)
        return Rows("positions", positions[None, None] if positions.ndim == 1 else positions[None])
    found = _axes(axes, table.shape[-1], positions)
    _check_fits("positions", positions.shape[1:], tokens, seq_axis, length)
    return Rows("positions", positions if positions.ndim == 3 else positions[:, None], found)


def _check_fits(name: str, sizes: Sequence[int], tokens: list[Tensor], seq_axis: int, *tail: int) -> None:
    """Raise unless `sizes` are `tail`, or that for each batch row of queries and of keys."""
    for x in tokens:
        check_positions_shape(name, tuple(sizes), tail, batch_size(x, seq_axis % x.ndim))


def _axes(axes: Sequence[int], pairs: int, positions: Tensor) -> Tensor:
    """Return the axis of each pair on the device of the positions, which eager code copies there once."""
    known, count = tuple(axes), positions.shape[0]
    if len(known) != pairs or not all(type(axis) is int and 0 <= axis < count for axis in known):
        raise ValueError(f"`axes` must be {pairs} integers below {count}, the axes of `positions`, got {known}.")
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack():
        return torch.tensor(known, device=positions.device)
    return _kept_axes(known, positions.device)


@lru_cache(maxsize=64)
def _kept_axes(axes: tuple[int, ...], device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # gradients may need it later
        return torch.tensor(axes, device=device)


def _check_integers(name: str, given: Any, x: Tensor) -> None:
    if not isinstance(given, Tensor) or given.dtype not in INTEGERS:
        found = given.dtype if isinstance(given, Tensor) else type(given).__name__
        wanted = "an int, or an int32 or int64 tensor" if name == "start" else "an int32 or int64 tensor"
        raise TypeError(f"`{name}` must be {wanted}, got {found}.")
    _check_device(name, given, x)


def _outs(out: Any, tokens: tuple[Tensor | None, Tensor | None]) -> list[Tensor]:
    """Return the tensors for the results, checked."""
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise TypeError(f"`out` must be a pair of tensors or None, for `q` and `k`, got {type(out).__name__}.")
    outs = []
    for name, to, x in zip(("q", "k"), out, tokens, strict=True):
        if (to is None) != (x is None):
            raise ValueError(f"`out` must have a tensor for `{name}` where that is given, and None where it is not.")
        if x is None or to is None:
            continue
        check_alike("out", to, x)
        _check_device("out", to, x)
        if torch.is_grad_enabled() and (to.requires_grad or x.requires_grad):
            raise ValueError("`out` must be None while a gradient is recorded; call within `torch.no_grad()`.")
        if any(size > 1 and not step for size, step in zip(to.shape, to.stride(), strict=True)):
            raise ValueError(f"`out` must have memory for each element, got strides {to.stride()}; it is expanded.")
        outs.append(to)
    return outs
