"""Time the operators of a rotation of one token without the kernel, and what the calls around them add.

    python benchmarks/operators.py --backend torch --threads 1 -o operators-torch.json

The yardstick is transformers' eager function. "operators of" is what a call of ours computes, without its checks and
look-ups; the forms after it compute the same by other operators. The number of operators is that of PyTorch's profiler.
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ["POSENC_KERNEL"] = "off"  # read when the library is loaded

import torch
from harness import Case, Implementation, main
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from posenc_backends.torch import RotaryEmbedding, apply_rotary
from posenc_core import Rotary, rotate

SHAPES = {"one token": (1, 32, 32), "one token, grouped": (1, 32, 8), "batch of 8": (8, 32, 32)}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
WIDTH, POSITION = 128, 1000
WITHIN = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1.5e-1}  # tables and sums of others in half precision


def cases(backend: str) -> Iterator[Case]:
    """Yield a case for each shape and dtype."""
    if backend != "torch":
        raise SystemExit("The operators are those of PyTorch: add `--backend torch`.")
    for shape, dtype in itertools.product(SHAPES, DTYPES):
        yield Case(f"{shape}, {dtype}", partial(_implementations, *SHAPES[shape], DTYPES[dtype]), WITHIN[dtype])


def _implementations(batch: int, heads: int, key_heads: int, dtype: torch.dtype) -> dict[str, Implementation]:
    llama = importlib.import_module("transformers.models.llama.modeling_llama")
    q, k = (torch.randn(batch, count, 1, WIDTH).to(dtype) for count in (heads, key_heads))
    rotary = Rotary(head_dim=WIDTH, layout="half")
    layer = RotaryEmbedding(rotary)
    tables = cos, sin = tuple(table[POSITION : POSITION + 1] for table in layer.tables)
    both, other = torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)
    narrow = both.to(dtype)[None], torch.cat((sin, sin), -1).to(dtype)[None]

    def each(form: Callable[..., Tensor]) -> Callable[[], Any]:
        return lambda: (form(q, both, other, sin), form(k, both, other, sin))

    def joined() -> Any:
        wide = torch.cat((q, k), -3)
        return _rolled(wide, both, other, sin).unsafe_split_with_sizes((heads, key_heads), -3)

    calls: dict[str, Callable[[], Any]] = {
        "transformers": lambda: llama.apply_rotary_pos_emb(q, k, *narrow),
        "posenc, a layer": lambda: layer(q, k, start=POSITION),
        "posenc.apply_rotary": lambda: apply_rotary(q, k, *tables, layout="half"),
        "posenc.rotate, twice": lambda: (rotate(q, cos, sin, layout="half"), rotate(k, cos, sin, layout="half")),
        "operators of rotate, twice": each(_rolled),
    }
    if batch == 1:
        calls["operators of apply_rotary"] = joined
    calls |= {form.__name__[1:].replace("_", " "): each(form) for form in (_slices, _flipped, _fused)}
    return {f"{name}: {_operators(call)}": Implementation(call, _to_numpy) for name, call in calls.items()}


def _rolled(x: Tensor, cos: Tensor, sin: Tensor, _: Tensor) -> Tensor:
    wide = x.float()
    swapped = wide.roll(WIDTH // 2, -1)
    return (wide * cos if wide is x else wide.mul_(cos)).add_(swapped.mul_(sin)).to(x.dtype)


def _flipped(x: Tensor, cos: Tensor, sin: Tensor, _: Tensor) -> Tensor:
    wide = x.float()
    swapped = wide.view(*x.shape[:-1], 2, -1).flip(-2).view(x.shape)
    return (wide * cos).add_(swapped.mul_(sin)).to(x.dtype)


def _slices(x: Tensor, cos: Tensor, _: Tensor, sin: Tensor) -> Tensor:
    wide = x.float()
    result = wide * cos
    (first, second), (to_first, to_second) = (one.split(WIDTH // 2, -1) for one in (wide, result))
    to_first.sub_(second * sin)
    to_second.add_(first * sin)
    return result.to(x.dtype)


def _fused(x: Tensor, cos: Tensor, sin: Tensor, _: Tensor) -> Tensor:
    """Rotate with one operator less, which PyTorch's vectorized loops round once instead of twice: other bits."""
    wide = x.float()
    return (wide * cos).addcmul_(wide.roll(WIDTH // 2, -1), sin).to(x.dtype)


def _operators(call: Callable[[], Any]) -> int:
    """Return how many operators a call dispatches, those within others not counted."""
    call()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        call()
    return sum(event.cpu_parent is None and event.name.startswith("aten::") for event in profiled.events() or ())


def _to_numpy(both: Any) -> Any:
    return torch.cat([one.float() for one in both], -3).numpy()


if __name__ == "__main__":
    main("operators", cases)
