"""Calls on a GPU that are launched again: all that was checked and computed for a call holds for others of its key.

For one token, checks and Triton's own look at its arguments take several times as long as a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.compiler import is_compiling

from posenc_core.rotation import Pairing

from ..distributed import PLAIN
from .compiled import is_eager
from .spec import RotationSpec, Rows

MOST = 1024  # plans; a model has a few for its decoding, and one for each length of its prompts
ALIGNED = 16  # bytes; Triton compiles other code for memory that begins elsewhere
SMALL = 2**31  # bytes of a storage, for which Triton compiles other code on AMD


class Call(NamedTuple):
    """A call whose plan may be kept.

    Attributes:
        key: all that decides how it is launched.
        tensors: `(q, k, cos, sin, positions, cu_seqlens, start, out of q, out of k)`, each of them or None, and with a
            norm the weights of the first tokens and of the last.
    """

    key: tuple[Any, ...]
    tensors: tuple[Any, ...]

    @property
    def given(self) -> Tensor | None:
        """The integers that find the rows of tokens, if there are any."""
        _, _, _, _, positions, cu_seqlens, start, *_ = self.tensors
        first: Tensor | None = cu_seqlens if positions is None else positions
        return start if first is None else first


class _Repetition(NamedTuple):
    """How a call is launched again.

    Attributes:
        plan: of the launch.
        tables: sizes and strides of both tables as the kernel sees them.
        rows: how a token finds its row, without the integers that a call gives for it.
        sizes: of these integers as the kernel sees them.
        spec: of the rotation.
        differentiable: launches a call that records a gradient, and records it; None for other calls.
    """

    plan: Any
    tables: tuple[Any, Any]
    rows: Rows
    sizes: torch.Size
    spec: RotationSpec
    differentiable: Callable[..., Any] | None


class Plans:
    """The plans of the kernels, by the keys of calls.

    A key has all that checks of arguments, the choice of the kernel and its compiler look at: of each tensor its class,
    dtype, device, shape, strides, alignment, whether it asks for a gradient, and whether its numbers are to be negated.
    A call whose key cannot be known has none. Two facts differ between calls of one key, the start and the memory
    of results: each call compares them.
    """

    def __init__(self) -> None:
        self._plans: dict[Any, _Repetition] = {}

    def call(self, tensors: tuple[Any, ...], *how: Any) -> Call | None:
        """Return a call; None where something traces it, or tensors are not plain.

        Args:
            tensors: as `Call` has them.
            how: all other arguments but an integer `start`; equal ones have to mean the same.
        """
        near = tensors[1] if tensors[0] is None else tensors[0]
        if near is None or is_compiling() or not is_eager():
            return None
        key: list[Any] = [how, torch.is_grad_enabled()]
        try:
            for x in tensors:
                if x is None:
                    key.append(None)
                    continue
                if type(x) not in PLAIN:
                    return None
                lies = x.shape, x.stride(), x.data_ptr() % ALIGNED == 0
                key.append((type(x), x.dtype, x.device, lies, x.requires_grad, x.is_neg()))
                if torch.version.hip:
                    key.append(x.untyped_storage().nbytes() < SMALL)
            for x, out in zip(tensors[:2], tensors[7:9], strict=True):  # in place, channels of no pair are not copied
                key.append(x is not None and out is not None and x.data_ptr() == out.data_ptr())
            if near.is_cuda and near.device.index != torch.cuda.current_device():
                return None
        except RuntimeError:  # of tensors without strides or memory
            return None
        return Call(tuple(key), tensors)

    def keep(
        self,
        call: Call,
        plan: Any,
        tables: tuple[Tensor, Tensor],
        rows: Rows,
        spec: RotationSpec,
        weights: Sequence[Any],
        differentiable: Callable[..., Any],
    ) -> None:
        """Keep the plan of a call that was checked and launched, if it was by the memory that the call names."""
        named = *call.tensors[2:4], call.given, *call.tensors[9:]
        for one, other in zip(named, (*tables, rows.given, *weights), strict=True):
            if (one is None) != (other is None) or (one is not None and one.data_ptr() != other.data_ptr()):
                return
        if len(self._plans) >= MOST:
            self._plans.clear()
        _, is_grad_enabled, *_ = call.key
        is_followed = is_grad_enabled and any(x is not None and x.requires_grad for x in (*call.tensors[:2], *weights))
        sizes = torch.Size() if rows.given is None else rows.given.shape
        rows, (cos, sin) = rows._replace(given=None), ((table.shape, table.stride()) for table in tables)
        self._plans[call.key] = _Repetition(
            plan, (cos, sin), rows, sizes, spec, differentiable if is_followed else None
        )

    def find(self, call: Call | None) -> Any:
        """Return the plan that the key of a call has; None for others."""
        kept = None if call is None else self._plans.get(call.key)
        return kept and kept.plan

    def rotate(
        self, call: Call | None, start: int = 0, made: tuple[Any, Any] | None = None, record: bool = True
    ) -> Any:
        """Return both results of a call by the plan that its key has; None where it has to be checked.

        Args:
            call: as `call` returns it.
            start: an integer `start`.
            made: new tensors for the results; by default such as queries and keys.
            record: whether to record a gradient that the call needs.
        """
        kept = None if call is None else self._plans.get(call.key)
        if call is None or kept is None or not 0 <= start <= kept.plan.last_start:
            return None
        plan, tensors = kept.plan, call.tensors
        q, k, cos, sin, _, _, _, q_out, k_out, *weights = tensors
        if record and kept.differentiable is not None:
            given = None if call.given is None else call.given.view(kept.sizes)
            tables = cos.as_strided(*kept.tables[0]), sin.as_strided(*kept.tables[1])
            rows = Rows(kept.rows.find, given, kept.rows.axes, start)
            return kept.differentiable(
                lambda: self.rotate(call, start, record=False), rows, kept.spec, *tables, q, k, *weights
            )
        is_new = q_out is None and k_out is None
        if is_new:
            q_out, k_out = made or (
                None if q is None else torch.empty_like(q),
                None if k is None else torch.empty_like(k),
            )
        elif not _are_apart(tensors, plan.stays):
            return None
        first = (k, k_out) if q is None else (q, q_out)
        last = first if k is None else (k, k_out)
        is_aligned = not is_new or (first[1].data_ptr() | (0 if last[1] is None else last[1].data_ptr())) % ALIGNED == 0
        launch = plan.repeat if is_aligned else plan.launch
        launch(*first, *last, cos, sin, call.given, plan.axes, start, *weights)
        if not is_new:
            torch.autograd.graph.increment_version([out for out in (q_out, k_out) if out is not None])
        return q_out, k_out


def _are_apart(tensors: tuple[Any, ...], stays: bool) -> bool:
    """Return whether the memory of each result has no part of that of others, or is that of its own tokens.

    Args:
        tensors: as `Call` has them.
        stays: whether a rotation in place is right: the channels of a pair stay where they are.
    """
    places = [None if x is None else (x.data_ptr(), x.data_ptr() + _bytes(x)) for x in tensors]
    for index in (7, 8):
        out = places[index]
        for other, place in enumerate(places):
            if out is None or place is None or other == index:
                continue
            if stays and other == index - 7 and out == place and tensors[index].stride() == tensors[other].stride():
                continue
            if out[0] < place[1] and place[0] < out[1]:
                return False
    return True


def _bytes(x: Tensor) -> int:
    """Return how many bytes lie from the first number of a tensor to its last."""
    last = 0
    for size, step in zip(x.shape, x.stride(), strict=True):
        last += (size - 1) * step
    return (last + 1) * x.element_size()


def may_write(outs: Sequence[Tensor], tokens: Sequence[Tensor], others: Sequence[Any], pairing: Pairing) -> bool:
    """Return whether each result lies apart from all that is read, or is its own tokens, whose channels stay."""
    for i, (out, x) in enumerate(zip(outs, tokens, strict=True)):
        in_place = pairing.split == pairing.join and out.data_ptr() == x.data_ptr() and out.stride() == x.stride()
        read = [other for other in (*others, *tokens, *outs[:i]) if other is not None and other is not x]
        if any(_overlap(out, other) for other in read) or not (in_place or not _overlap(out, x)):
            return False
    return True


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors may share memory; parts of one fused tensor, side by side in it, do not."""
    if not one.numel() or not other.numel():
        return False
    low, high = sorted((one, other), key=Tensor.data_ptr)
    apart = high.data_ptr() - low.data_ptr()
    if apart >= low.element_size() * (1 + _reach(low)):
        return False
    size, apart = low.element_size(), apart // low.element_size()
    if low.stride() != high.stride() or high.element_size() != size or not apart:
        return True
    sizes = zip(map(max, low.shape, high.shape), low.stride(), strict=True)
    outer = sorted(step for length, step in sizes if length > 1 and step > apart)
    rows = outer and all(step % outer[0] == 0 for step in outer)
    return not rows or _reach(low, apart) >= apart or apart + _reach(high, apart) >= outer[0]


def _reach(x: Tensor, up_to: int | None = None) -> int:
    """Return how far the last element is from the first, along axes of strides up to one."""
    steps = zip(x.shape, x.stride(), strict=True)
    return sum((size - 1) * step for size, step in steps if size > 1 and (up_to is None or step <= up_to))
