"""Modes of JAX with several devices: the tokens are cut into shards.

The mesh has as many of the devices as divide the axis into equal shards. With one device, these modes are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from posenc_backends.conformance.tooling import LayerCase, Run

AXIS = "shards"


def by_sequence(case: LayerCase, folder: Path) -> Run:
    """Compile with `jit`, a part of the sequence on each device; the compiler partitions the program."""
    call = jax.jit(partial(case.call, case.layer()))
    return lambda *arrays: call(*_sharded(arrays, [axes[:1] for axes in case.sizes]))


def by_heads(case: LayerCase, folder: Path) -> Run:
    """Compile with `jit`, a part of the heads on each device, or of the channels if heads have no axis."""
    call = jax.jit(partial(case.call, case.layer()))
    are_tokens = [not name.endswith(("start", "positions")) for name in case.names]
    axes = [(-3 if x.ndim > 3 else -1,) if cut else () for x, cut in zip(case.arrays(), are_tokens, strict=True)]
    return lambda *arrays: call(*_sharded(arrays, axes))


def manual(case: LayerCase, folder: Path) -> Run:
    """Apply `shard_map` over the sequence: each device has all keys, and computes `start` from its index."""
    layer, replicated = case.layer(), ("k", "keys", "values", "key_positions")
    axes = [() if name in replicated else cut[:1] for name, cut in zip(case.names, case.sizes, strict=True)]

    def call(x: Any, *others: Any) -> Any:
        named = dict(zip(case.names, (x, *others), strict=True))
        if "positions" not in named:
            named["start"] = named.get("start", 0) + jax.lax.axis_index(AXIS) * x.shape[-2]
        return layer(**named, **case.options)

    def run(*arrays: Any) -> Any:
        specs = tuple(map(_spec, arrays, axes))
        mesh = _mesh(arrays[0].shape[-2])
        return jax.jit(jax.shard_map(call, mesh=mesh, in_specs=specs, out_specs=specs[0]))(*arrays)

    return run


def _sharded(arrays: tuple[Any, ...], axes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the arrays on the devices, each cut along its axis if it has one."""
    mesh = _mesh(arrays[0].shape[axes[0][0]])
    return [jax.device_put(x, NamedSharding(mesh, _spec(x, cut))) for x, cut in zip(arrays, axes, strict=True)]


def _spec(x: Any, axes: tuple[int, ...]) -> Spec:
    """Return the specification that cuts these axes of `x`."""
    return Spec(*(AXIS if axis - x.ndim in axes else None for axis in range(x.ndim)))


def _mesh(size: int) -> Mesh:
    """Return a mesh of as many devices as divide an axis of this size into equal parts."""
    devices = jax.devices()
    count = max(count for count in range(1, len(devices) + 1) if size % count == 0)
    return Mesh(np.array(devices[:count]), (AXIS,))
