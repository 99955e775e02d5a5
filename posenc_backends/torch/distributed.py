"""Distributed tensors: tables are replicated in every process."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_distributed(array: Any, /) -> bool:
    """Return whether it is a `DTensor`, of which each process holds a part."""
    if type(array) in PLAIN or not torch.distributed.is_available():
        return False
    from torch.distributed.tensor import DTensor  # takes a second, where it is not there yet

    return isinstance(array, DTensor)


def is_arriving(array: Any, /) -> bool:
    """Return whether it is the result of a collective that has not been waited for."""
    if type(array) in PLAIN or not torch.distributed.is_available():
        return False
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    return isinstance(array, AsyncCollectiveTensor)


def replicate_beside(rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return rows that can be combined with tokens: replicated in every process where the tokens are distributed."""
    if not is_distributed(x) or is_distributed(rows):
        return rows
    from torch.distributed.tensor import DTensor, Replicate

    return DTensor.from_local(rows, x.device_mesh, [Replicate()] * x.device_mesh.ndim, run_check=False)


def replicating(x: torch.Tensor) -> AbstractContextManager[None]:
    """Return a context in which plain tensors that meet distributed ones count as replicated; not in compiled code."""
    if not is_distributed(x) or torch.compiler.is_compiling():
        return nullcontext()
    from torch.distributed.tensor.experimental import implicit_replication

    within = getattr(type(x)._op_dispatcher, "_allow_implicit_replication", False)  # which leaving would end
    return nullcontext() if within else implicit_replication()


def distribute_like(own: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return numbers distributed as a parameter is, those of the first process in all of them."""
    if not is_distributed(own):
        return numbers
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(numbers, own.device_mesh, own.placements)
