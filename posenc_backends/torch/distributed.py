"""Distributed tensors: tables are replicated in every process."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import BuiltinFunctionType
from typing import Any

import torch

from posenc_core.layers.heads import Heads

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


def check_formula() -> None:
    """Raise where the formula would miss the keys of other processes: inside PyTorch's `context_parallel`."""
    attention: Any = torch.nn.functional.scaled_dot_product_attention  # which it replaces by a function of its own
    if not isinstance(attention, BuiltinFunctionType) and attention.__module__.startswith("torch.distributed."):
        raise ValueError(
            "Attention inside `context_parallel` must be PyTorch's ring attention, which takes no mask, bias, dropout, "
            'weights or float64: give rotary positions with `causal="order"`, or gather the keys outside of it.'
        )


def distribute_like(own: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return numbers distributed as a parameter is, those of the first process in all of them."""
    if not is_distributed(own):
        return numbers
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(numbers, own.device_mesh, own.placements)


@dataclass(frozen=True)
class HeadProcesses:
    """The processes that share the heads of attention, after `parallelize_module` with `ColwiseParallel`.

    Each attends with plain tensors of its own heads, so that no operator has to know how `DTensor`s are sharded.
    """

    mesh: Any

    def part(self, num_heads: int) -> Heads:
        """Return the heads of this process.

        Raises:
            ValueError: if the heads are not equal shares.
        """
        count, rest = divmod(num_heads, self.mesh.size())
        if rest:
            raise ValueError(
                f"`num_heads` must be a multiple of the {self.mesh.size()} processes that share heads, got {num_heads}."
            )
        first = self.mesh.get_local_rank() * count
        return Heads(range(first, first + count), self)

    def split(self, projected: torch.Tensor) -> torch.Tensor:
        """Return the columns of the heads of this process, given those of all or these."""
        from torch.distributed.tensor import DTensor, Shard

        if not isinstance(projected, DTensor):
            return projected
        return projected.redistribute(placements=[Shard(projected.ndim - 1)]).to_local()

    def join(self, merged: torch.Tensor, projection: Any) -> torch.Tensor:
        """Return the results of all heads for a projection that takes them; plain ones for one without `DTensor`s."""
        from torch.distributed.tensor import DTensor, Shard

        joined = DTensor.from_local(merged, self.mesh, [Shard(merged.ndim - 1)], run_check=False)
        return joined if is_distributed(projection.weight) else joined.full_tensor()

    def gather(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return queries or keys of all heads, `(batch, heads, length, width)`, given those of this process."""
        from torch.distributed.tensor import DTensor, Shard

        return self._whole(DTensor.from_local(tokens, self.mesh, [Shard(1)], run_check=False))

    def sum_gradients(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return constants and parameters, which all processes have, by name; gradients of parameters are summed."""
        return {name: self._whole(x) if x.requires_grad or is_distributed(x) else x for name, x in arrays.items()}

    def _whole(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor that all processes have, or the whole of a `DTensor`; its gradient is the sum of theirs."""
        from torch.distributed.tensor import DTensor, Partial, Replicate

        everywhere = [Replicate()]
        if not isinstance(x, DTensor):
            x = DTensor.from_local(x, self.mesh, everywhere, run_check=False)
        return x.redistribute(placements=everywhere).to_local(grad_placements=[Partial()])


def head_processes(weight: torch.Tensor) -> HeadProcesses | None:
    """Return the processes that share the rows of the weight of a projection, and so its heads; None if none do."""
    from torch.distributed.tensor import Shard

    placements = getattr(weight, "placements", ())
    return HeadProcesses(weight.device_mesh) if tuple(placements) == (Shard(0),) else None
