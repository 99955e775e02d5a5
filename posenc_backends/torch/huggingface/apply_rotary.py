"""Rotate queries and keys in models of transformers, by the signature that transformers maps its kernels to."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from posenc_core._array_api.checks import check_known
from posenc_core.rotation import Layout, pairing_of, rotate

from ..backend import is_traced
from ..rotation import gpu
from ..rotation.apply_rotary import rotate_checked_tokens
from ..rotation.dynamo import after_compiler

Columns: TypeAlias = Literal["half", "interleaved", "pairs"]
COLUMNS: tuple[Columns, ...] = ("half", "interleaved", "pairs")
LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")  # of the functions that models have


def apply_rotary_transformers(
    q: Tensor,
    k: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    unsqueeze_dim: int = 1,
    *,
    layout: Layout = "half",
    columns: Columns = "half",
) -> tuple[Tensor, Tensor | None]:
    """Return `q` and `k` rotated by the tables that models of transformers compute.

    Args:
        q: queries, `(batch, heads, length, head_dim)` or `(batch, length, heads, head_dim)`.
        k: keys, which may have another number of heads; None to rotate `q` alone.
        cos, sin: `(batch, length, width)` or `(length, width)`, in any floating dtype; channels of `q` and `k` past
            those that they are for stay unchanged. The gradient reaches `q` and `k`.
        unsqueeze_dim: the axis of heads in the first shape (1, the default) or in the second (2).
        layout: which channels form a pair, as in `rotate`.
        columns: how the tables are written: the columns of all pairs twice, one after the other (`"half"`, the
            default, as most models do), each column twice (`"interleaved"`, as Cohere does), or one column per pair
            (`"pairs"`, as gpt-oss does).
    Returns:
        Both rotated, of the shapes and dtypes of `q` and `k`; half precision is rotated in float32 and rounded once.
    Raises:
        TypeError: if `q` or `k` is not floating-point.
        ValueError: if the tables do not fit, or the two columns of a pair differ; numbers on a GPU, which a call would
            have to wait for, and those of traced tables are not compared.
    Source: `apply_rotary_pos_emb` of transformers.

    >>> q, cos, sin = torch.ones(1, 2, 3, 4), torch.zeros(1, 3, 4), torch.ones(1, 3, 4)
    >>> apply_rotary_transformers(q, None, cos, sin)[0][0, 0, 0]
    tensor([-1., -1.,  1.,  1.])
    """
    check_known("columns", columns, COLUMNS)
    heads_axis = unsqueeze_dim - cos.ndim - 1 if unsqueeze_dim >= 0 else unsqueeze_dim
    if heads_axis not in (-2, -3):
        raise ValueError(
            f"`unsqueeze_dim` must be the axis of heads, before or after the length, got {unsqueeze_dim}; "
            f"for tables of shape {tuple(cos.shape)} give {cos.ndim - 2} or {cos.ndim - 1}."
        )
    if gpu.IS_INTERPRETED or not q.is_cpu:
        return _rotate_on_device(q, k, cos, sin, heads_axis, layout, columns)
    cos, sin = _one_column_per_pair("cos", cos, columns), _one_column_per_pair("sin", sin, columns)
    cos, sin = cos.unsqueeze(heads_axis), sin.unsqueeze(heads_axis)
    rotated = rotate(q, cos, sin, layout=layout)
    return rotated, None if k is None else rotate(k, cos, sin, layout=layout)


def _rotate_on_device(
    q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, heads_axis: int, layout: Layout, columns: Columns
) -> Any:
    """Rotate by tables of any dtype and their columns, which the kernel reads where they lie."""
    call = gpu.PLANS.call((q, k, cos, sin, None, None, None, None, None), layout, columns, repr(heads_axis))
    found = gpu.PLANS.rotate(call)
    if found is None:
        cos, sin = _one_column_per_pair("cos", cos, columns), _one_column_per_pair("sin", sin, columns)
        if (q.dtype == torch.float64) != (cos.dtype == torch.float64):
            cos, sin = cos.float(), sin.float()
        found = rotate_checked_tokens(q, k, (cos, sin), pairing_of(layout), seq_axis=-5 - heads_axis, call=call)
    return found


def _one_column_per_pair(name: str, table: Tensor, columns: Columns) -> Tensor:
    if columns == "pairs":
        return table
    if table.shape[-1] % 2:
        raise ValueError(f"`{name}` must have two columns for each pair, got {table.shape[-1]}; else say `columns`.")
    middle = table.shape[-1] // 2
    first, second = (
        (table[..., ::2], table[..., 1::2]) if columns == "interleaved" else (table[..., :middle], table[..., middle:])
    )
    if table.is_cpu and not is_traced(table) and not torch.equal(first, second):
        differ = first.ne(second) & first.eq(first)  # which is not so of NaN
        if differ.any():
            raise ValueError(
                f"`{name}` must have the same number in both columns of a pair, got {first[differ][0].item()} and "
                f"{second[differ][0].item()}; say by `columns` how the table is written."
            )
    return first


class Form(NamedTuple):
    """The rotation that a function of transformers computes.

    Attributes:
        layout, columns: as in `apply_rotary_transformers`.
        sign: -1 if it rotates by the opposite angles.
    """

    layout: Layout
    columns: Columns
    sign: int


FORMS = tuple(Form(*form) for form in product(LAYOUTS, COLUMNS, (1, -1)))


class _RotaryPosEmb(nn.Module):
    """The layer whose `forward` replaces that of a model's own function, and rotates as that does."""

    can_torch_compile = True
    has_backward = True

    def forward(self, q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        form = _form_of(type(self))
        if form is None:
            return type(self).forward(self, q, k, cos, sin, unsqueeze_dim)
        layout, columns, sign = form
        return apply_rotary_transformers(
            q, k, cos, sin if sign > 0 else -sin, unsqueeze_dim, layout=layout, columns=columns
        )


def _form_of(layer: Any) -> Form | None:
    """Return the form, found once while code is traced."""
    return form_of(layer)


after_compiler(lambda: torch.compiler.assume_constant_result(_form_of))


@cache
def form_of(layer: Any) -> Form | None:
    """Return the form that rotates four numbers as the layer of a model does; None if there is none."""
    with _disable_current_modes():  # of compilers, which compute nothing
        return next((form for form in FORMS if _is_of_form(layer(), form)), None)


def _is_of_form(layer: nn.Module, form: Form) -> bool:
    x = torch.tensor([[[[1.0, 2.0, 3.0, 5.0]]]], dtype=torch.float32, device="cpu")
    angles = torch.tensor([[[0.5, 2.0]]], dtype=torch.float32, device="cpu")
    cos, sin = written(angles.cos(), form.columns), written(angles.sin(), form.columns)
    try:
        theirs, _ = layer.forward(x, x, cos, sin)
    except RuntimeError:  # of shapes that do not fit
        return False
    ours, _ = apply_rotary_transformers(x, None, cos, form.sign * sin, layout=form.layout, columns=form.columns)
    return theirs.shape == x.shape and torch.allclose(ours, theirs)


def written(table: Tensor, columns: str) -> Tensor:
    """Return a table of one column per pair in the columns of a model."""
    if columns == "half":
        return torch.cat([table, table], dim=-1)
    return table.repeat_interleave(2, dim=-1) if columns == "interleaved" else table


class _Kernel(NamedTuple):
    """An entry for the mapping of the package `kernels`, which asks it for a layer."""

    name: str

    def load(self) -> type[nn.Module]:
        """Return the layer."""
        return _RotaryPosEmb


rotary_kernel: _Kernel = _Kernel("posenc_backends.torch.rotary_kernel")
