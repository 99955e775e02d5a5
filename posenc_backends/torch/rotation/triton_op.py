"""The kernel as an operator that compilers see through: Inductor launches it without Python functions of ours."""

from typing import Any

import torch
from torch import Tensor

from posenc_core.rotation import Pairing, rotate_reference

from .spec import RotationSpec, Rows, aligned_rows
from .triton_kernel import rotate_kernel
from .triton_launch import OPTIONS, plan_of


@torch.library.triton_op("posenc::rotate_by_triton", mutates_args=())
def rotate_by_triton(  # noqa: PLR0913, PLR0917
    tokens: list[Tensor],
    cos: Tensor,
    sin: Tensor,
    find: str,
    given: Tensor | None,
    axes: Tensor | None,
    split: str,
    join: str,
    placement: str,
    blocks: int,
    back: bool,
    seq_axis: int,
) -> list[Tensor]:
    """Rotate as `gpu.rotate_op` does; compiled code has the launch itself."""
    outs, spec = (
        [torch.empty_like(x) for x in tokens],
        RotationSpec(Pairing(split, join, placement, blocks), back, seq_axis),
    )
    both, rows = list(zip(tokens, outs, strict=True)), Rows(find, given, axes)
    plan = plan_of(both, (cos, sin), rows, spec)
    if plan is None:
        return [rotate_reference(x, *aligned_rows((cos, sin), rows, spec, x), spec.pairing) for x in tokens]
    second = both[1] if len(both) == 2 else (None, None)  # the same memory twice would be taken for two results
    kernel = torch.library.wrap_triton(rotate_kernel)
    kernel[plan.grid](*both[0], *second, cos, sin, given, axes, 0, *plan.numbers, num_warps=OPTIONS["num_warps"])
    return outs


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    _, cos, sin, find, given, axes, *spec = inputs
    ctx.save_for_backward(cos, sin, given, axes)
    ctx.find, ctx.spec = find, RotationSpec(Pairing(*spec[:4]), *spec[4:])


def _rotate_back(ctx: Any, gradients: Any) -> Any:
    cos, sin, given, axes = ctx.saved_tensors
    spec = ctx.spec.opposite
    back = rotate_by_triton(gradients, cos, sin, ctx.find, given, axes, *spec.pairing, spec.back, spec.seq_axis)
    return back, *([None] * 11)


rotate_by_triton.register_autograd(_rotate_back, setup_context=_save)
