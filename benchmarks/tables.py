"""Tables: ours, exact, beside those of others, and what it takes to hand them over to a framework.

    python benchmarks/tables.py --backend torch -o tables-torch.json
    python benchmarks/tables.py --only import --threads 1

Rooms: numpy, torch, paddle, mxnet, jax, keras. The yardstick is a memcpy of 64 MiB, the size of a table of 131072 x 128. "differences" say
how far the tables of others are from the exact one. For the cases of import, the yardstick is a process that imports NumPy.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Form, main, memcpy

from posenc_core import Rotary, Sinusoidal, XPos
from posenc_core.tables.frequencies import as_float64, geometric

LENGTH, WIDTH = 131072, 128
FAR = 0.05  # how far float32 angles are off, at these positions


def cases(backend: str) -> Iterator[Case]:
    """What is built, what is handed over, and the import."""
    yield Case(f"cos and sin, {LENGTH} x {WIDTH // 2} each", lambda: _rotary(backend), FAR)
    yield Case(f"sinusoidal, {LENGTH} x {WIDTH}", lambda: _sinusoidal(backend), FAR)
    yield Case(f"handed over, {LENGTH} x {WIDTH}", lambda: _handed(backend))
    if backend == "numpy":
        yield Case("XPos, 32768 x 64 each", _xpos, FAR)
        yield Case("import", _imports)


def _rotary(backend: str) -> dict[str, Form]:
    forms = {
        "posenc": Form(lambda: Rotary(head_dim=WIDTH, layout="half").cos_sin(np.arange(LENGTH)), _joined),
        "float64-then-cast": Form(_plain, _joined),
        "float32 angles": Form(_single, _joined),
    }
    peers = {"torch": {"torchtune": _torchtune, "transformers": _transformers}}.get(backend, {})
    return {"memcpy": memcpy(4 * LENGTH * WIDTH)} | forms | {name: Form(form, _joined) for name, form in peers.items()}


def _sinusoidal(backend: str) -> dict[str, Form]:
    forms = {"posenc": Form(lambda: Sinusoidal(dim=WIDTH).table(np.arange(LENGTH)), np.asarray)}
    if backend == "torch":
        forms |= {"d2l": Form(_d2l, np.asarray), "positional-encodings": Form(_encodings, np.asarray)}
    return {"memcpy": memcpy(4 * LENGTH * WIDTH)} | forms


def _xpos() -> dict[str, Form]:
    """The encoding whose columns grow: four tables, those of keys being the others' inverses."""
    positions = np.arange(32768)

    def plain() -> list[Any]:
        cos, sin = (table[: len(positions)] for table in _plain())
        sizes = np.log((np.arange(WIDTH // 2) / (WIDTH // 2) + 0.4) / 1.4) / 512
        grown = np.exp(positions[:, None] * sizes)
        return [(each * by).astype(np.float32) for by in (grown, 1 / grown) for each in (cos, sin)]

    ours = XPos(head_dim=WIDTH, layout="half")
    forms = {
        "posenc": Form(lambda: [*ours.rows(positions).values()][:2], _joined),
        "plain": Form(lambda: plain()[:2], _joined),
    }
    return {"memcpy": memcpy(4 * LENGTH * WIDTH)} | forms


def _handed(backend: str) -> dict[str, Form]:
    """A table from NumPy's memory into the framework's: as our layers do it, and as one does."""
    table = np.ones((LENGTH, WIDTH), np.float32)
    arrays = import_module(f"posenc_backends.{backend}").backend if backend != "numpy" else None
    forms = {"memcpy": memcpy(table.nbytes), "fresh copy": Form(table.copy)}
    if arrays is not None:
        hand = getattr(arrays, "adopted", arrays.from_numpy)  # the first, where layers have another way with tables
        forms["posenc"] = Form(lambda: _ready(hand(table)))
        forms["usual"] = Form(lambda: _ready(_usual(backend)(table)))
    return forms


def _usual(backend: str) -> Callable[[Any], Any]:
    module, name = {
        "torch": ("torch", "tensor"), "paddle": ("paddle", "to_tensor"), "mxnet": ("mxnet.np", "array"), "jax": ("jax.numpy", "array"),
        "keras": ("keras.ops", "convert_to_tensor"),
    }[backend]  # fmt: skip
    function: Callable[[Any], Any] = getattr(import_module(module), name)
    return function


def _ready(array: Any) -> Any:
    """The array, once it is there: MXNet and JAX work in the background."""
    for wait in ("block_until_ready", "wait_to_read"):
        if hasattr(array, wait):
            getattr(array, wait)()
    return array


def _joined(both: Any) -> Any:
    return np.concatenate([np.asarray(each) for each in both], axis=-1)


def _plain() -> tuple[Any, Any]:
    angles = np.arange(LENGTH)[:, None] * as_float64(geometric(WIDTH))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _single() -> tuple[Any, Any]:
    angles = np.arange(LENGTH, dtype=np.float32)[:, None] * as_float64(geometric(WIDTH)).astype(np.float32)
    return np.cos(angles), np.sin(angles)


def _torchtune() -> tuple[Any, Any]:
    """`build_rope_cache`: one array that holds both."""
    import torch

    frequencies = 1.0 / (10000 ** (torch.arange(0, WIDTH, 2)[: WIDTH // 2].float() / WIDTH))
    angles = torch.einsum("i, j -> ij", torch.arange(LENGTH, dtype=frequencies.dtype), frequencies).float()
    cache = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
    return cache[..., 0], cache[..., 1]


def _transformers() -> tuple[Any, Any]:
    """`LlamaRotaryEmbedding.forward`: both halves of both tables, which are equal; half of them is looked at."""
    import torch

    frequencies = 1.0 / (10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.int64).to(dtype=torch.float) / WIDTH))
    positions = torch.arange(LENGTH)[None, None, :].float()
    angles = (frequencies[None, :, None] @ positions).transpose(1, 2)
    both = torch.cat((angles, angles), dim=-1)
    return (both.cos() * 1.0)[0, :, : WIDTH // 2], (both.sin() * 1.0)[0, :, : WIDTH // 2]


def _d2l() -> Any:
    """`PositionalEncoding.__init__`."""
    import torch

    table = torch.zeros((1, LENGTH, WIDTH))
    angles = torch.arange(LENGTH, dtype=torch.float32).reshape(-1, 1) / torch.pow(
        10000, torch.arange(0, WIDTH, 2, dtype=torch.float32) / WIDTH
    )
    table[:, :, 0::2], table[:, :, 1::2] = torch.sin(angles), torch.cos(angles)
    return table[0]


def _encodings() -> Any:
    """`PositionalEncoding1D.forward`."""
    import torch

    frequencies = 1.0 / (10000 ** (torch.arange(0, WIDTH, 2).float() / WIDTH))
    angles = torch.einsum("i,j->ij", torch.arange(LENGTH, dtype=frequencies.dtype), frequencies)
    both = torch.stack((angles.sin(), angles.cos()), dim=-1)
    table = torch.zeros((LENGTH, WIDTH))
    table[:, :] = torch.flatten(both, -2, -1)
    return table


def _imports() -> dict[str, Form]:
    """New processes, which import one module."""
    modules = {"import numpy": "numpy", "posenc": "posenc_core"}
    return {name: Form(lambda module=module: _imported(module)) for name, module in modules.items()}  # type: ignore[misc]


def _imported(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


if __name__ == "__main__":
    main("tables", cases)
