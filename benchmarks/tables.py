"""Time tables: our exact ones against those of others, and the transfer of a table to a framework.

    python benchmarks/tables.py --backend torch -o tables-torch.json
    python benchmarks/tables.py --only import --threads 1

Backends: numpy, torch, paddle, mxnet, jax, mlx, keras. The yardstick is a memcpy of 64 MiB, the size of a table of
131072 x 128. "differences" are the errors of the other tables. The yardstick of imports is the import of NumPy.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
from harness import Case, Implementation, main, memcpy

from posenc_core import Rotary, Sinusoidal, XPos
from posenc_core.tables.frequencies import as_float64, geometric

LENGTH, WIDTH = 131072, 128
FAR = 0.05  # the error of float32 angles at these positions


def cases(backend: str) -> Iterator[Case]:
    """Yield the cases: tables, their transfer, and the import."""
    yield Case(f"cos and sin, {LENGTH} x {WIDTH // 2} each", lambda: _rotary(backend), FAR)
    yield Case(f"sinusoidal, {LENGTH} x {WIDTH}", lambda: _sinusoidal(backend), FAR)
    yield Case(f"handed over, {LENGTH} x {WIDTH}", lambda: _transfer(backend))
    if backend == "numpy":
        yield Case("XPos, 32768 x 64 each", _xpos, FAR)
        yield Case("import", _imports)


def _rotary(backend: str) -> dict[str, Implementation]:
    implementations = {
        "posenc": Implementation(
            lambda: Rotary(head_dim=WIDTH, layout="half").cos_sin(np.arange(LENGTH)), _concatenate
        ),
        "float64-then-cast": Implementation(_plain, _concatenate),
        "float32 angles": Implementation(_single, _concatenate),
    }
    peers = {"torch": {"torchtune": _torchtune, "transformers": _transformers}}.get(backend, {})
    return (
        {"memcpy": memcpy(4 * LENGTH * WIDTH)}
        | implementations
        | {name: Implementation(function, _concatenate) for name, function in peers.items()}
    )


def _sinusoidal(backend: str) -> dict[str, Implementation]:
    implementations = {"posenc": Implementation(lambda: Sinusoidal(dim=WIDTH).table(np.arange(LENGTH)), np.asarray)}
    if backend == "torch":
        implementations |= {
            "d2l": Implementation(_d2l, np.asarray),
            "positional-encodings": Implementation(_positional_encodings, np.asarray),
        }
    return {"memcpy": memcpy(4 * LENGTH * WIDTH)} | implementations


def _xpos() -> dict[str, Implementation]:
    """Return implementations of xPos, whose columns grow; its tables for keys are the inverses of those for queries."""
    positions = np.arange(32768)

    def plain() -> list[Any]:
        cos, sin = (table[: len(positions)] for table in _plain())
        sizes = np.log((np.arange(WIDTH // 2) / (WIDTH // 2) + 0.4) / 1.4) / 512
        grown = np.exp(positions[:, None] * sizes)
        return [(each * by).astype(np.float32) for by in (grown, 1 / grown) for each in (cos, sin)]

    ours = XPos(head_dim=WIDTH, layout="half")
    implementations = {
        "posenc": Implementation(lambda: [*ours.rows(positions).values()][:2], _concatenate),
        "plain": Implementation(lambda: plain()[:2], _concatenate),
    }
    return {"memcpy": memcpy(4 * LENGTH * WIDTH)} | implementations


def _transfer(backend: str) -> dict[str, Implementation]:
    """Return the transfer of a table from NumPy to the framework: as our layers do it, and as users do."""
    table = np.ones((LENGTH, WIDTH), np.float32)
    arrays = import_module(f"posenc_backends.{backend}").backend if backend != "numpy" else None
    implementations = {"memcpy": memcpy(table.nbytes), "fresh copy": Implementation(table.copy)}
    if arrays is not None:
        transfer = getattr(arrays, "adopted", arrays.from_numpy)  # layers adopt tables if the backend can
        implementations["posenc"] = Implementation(lambda: _ready(transfer(table)))
        implementations["usual"] = Implementation(lambda: _ready(_usual(backend)(table)))
    return implementations


def _usual(backend: str) -> Callable[[Any], Any]:
    module, name = {
        "torch": ("torch", "tensor"),
        "paddle": ("paddle", "to_tensor"),
        "mxnet": ("mxnet.np", "array"),
        "jax": ("jax.numpy", "array"),
        "mlx": ("mlx.core", "array"),
        "keras": ("keras.ops", "convert_to_tensor"),
    }[backend]
    function: Callable[[Any], Any] = getattr(import_module(module), name)
    return function


def _ready(array: Any) -> Any:
    """Wait for an array and return it: MXNet and JAX work in the background."""
    for wait in ("block_until_ready", "wait_to_read"):
        if hasattr(array, wait):
            getattr(array, wait)()
    return array


def _concatenate(both: Any) -> Any:
    return np.concatenate([np.asarray(each) for each in both], axis=-1)


def _plain() -> tuple[Any, Any]:
    angles = np.arange(LENGTH)[:, None] * as_float64(geometric(WIDTH))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _single() -> tuple[Any, Any]:
    angles = np.arange(LENGTH, dtype=np.float32)[:, None] * as_float64(geometric(WIDTH)).astype(np.float32)
    return np.cos(angles), np.sin(angles)


def _torchtune() -> tuple[Any, Any]:
    """Compute as `build_rope_cache`: one array that holds both."""
    import torch

    frequencies = 1.0 / (10000 ** (torch.arange(0, WIDTH, 2)[: WIDTH // 2].float() / WIDTH))
    angles = torch.einsum("i, j -> ij", torch.arange(LENGTH, dtype=frequencies.dtype), frequencies).float()
    cache = torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1)
    return cache[..., 0], cache[..., 1]


def _transformers() -> tuple[Any, Any]:
    """Compute as `LlamaRotaryEmbedding.forward`, whose tables repeat their columns; return one half."""
    import torch

    frequencies = 1.0 / (10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.int64).to(dtype=torch.float) / WIDTH))
    positions = torch.arange(LENGTH)[None, None, :].float()
    angles = (frequencies[None, :, None] @ positions).transpose(1, 2)
    both = torch.cat((angles, angles), dim=-1)
    return (both.cos() * 1.0)[0, :, : WIDTH // 2], (both.sin() * 1.0)[0, :, : WIDTH // 2]


def _d2l() -> Any:
    """Compute as `PositionalEncoding.__init__`."""
    import torch

    table = torch.zeros((1, LENGTH, WIDTH))
    angles = torch.arange(LENGTH, dtype=torch.float32).reshape(-1, 1) / torch.pow(
        10000, torch.arange(0, WIDTH, 2, dtype=torch.float32) / WIDTH
    )
    table[:, :, 0::2], table[:, :, 1::2] = torch.sin(angles), torch.cos(angles)
    return table[0]


def _positional_encodings() -> Any:
    """Compute as `PositionalEncoding1D.forward`."""
    import torch

    frequencies = 1.0 / (10000 ** (torch.arange(0, WIDTH, 2).float() / WIDTH))
    angles = torch.einsum("i,j->ij", torch.arange(LENGTH, dtype=frequencies.dtype), frequencies)
    both = torch.stack((angles.sin(), angles.cos()), dim=-1)
    table = torch.zeros((LENGTH, WIDTH))
    table[:, :] = torch.flatten(both, -2, -1)
    return table


def _imports() -> dict[str, Implementation]:
    """Return new processes that import one module each."""
    modules = {"import numpy": "numpy", "posenc": "posenc_core"}
    return {
        name: Implementation(lambda module=module: _import_in_new_process(module)) for name, module in modules.items()
    }  # type: ignore[misc]


def _import_in_new_process(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


if __name__ == "__main__":
    main("tables", cases)
