"""Modes of several devices: what JAX does with a layer whose tokens are cut into shards.

As many devices take part, of those that there are, as cut the axis into equal parts. Where there is one, nothing is tried.
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


def by_sequence(layer_case: LayerCase, folder: Path) -> Run:
    """`jit` of tokens on several devices, where there are some, each with a part of the sequence; the compiler finds its way."""
    call = jax.jit(partial(layer_case.call, layer_case.layer()))
    return lambda *arrays: call(*_placed(arrays, [axes[:1] for axes in layer_case.sizes]))


def by_heads(layer_case: LayerCase, folder: Path) -> Run:
    """The same with a part of the heads on each device, or of the channels where heads have no axis."""
    call = jax.jit(partial(layer_case.call, layer_case.layer()))
    tokens = [not name.endswith(("start", "positions")) for name in layer_case.names]
    axes = [(-3 if x.ndim > 3 else -1,) if cut else () for x, cut in zip(layer_case.arrays(), tokens, strict=True)]
    return lambda *arrays: call(*_placed(arrays, axes))


def manual(layer_case: LayerCase, folder: Path) -> Run:
    """`shard_map` over the sequence: a device knows its tokens, and from its index where they stand; all keys are on each."""
    layer, whole = layer_case.layer(), ("k", "keys", "values", "key_positions")
    axes = [() if name in whole else cut[:1] for name, cut in zip(layer_case.names, layer_case.sizes, strict=True)]

    def part(x: Any, *others: Any) -> Any:
        given = dict(zip(layer_case.names, (x, *others), strict=True))
        if "positions" not in given:
            given["start"] = given.get("start", 0) + jax.lax.axis_index(AXIS) * x.shape[-2]
        return layer(**given, **layer_case.options)

    def run(*arrays: Any) -> Any:
        specs = tuple(map(_spec, arrays, axes))
        mesh = _mesh(arrays[0].shape[-2])
        return jax.jit(jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=specs[0]))(*arrays)

    return run


def _placed(arrays: tuple[Any, ...], axes: Sequence[tuple[int, ...]]) -> list[Any]:
    """The arrays on the devices, each cut along its axis if it has one."""
    mesh = _mesh(arrays[0].shape[axes[0][0]])
    return [jax.device_put(x, NamedSharding(mesh, _spec(x, cut))) for x, cut in zip(arrays, axes, strict=True)]


def _spec(x: Any, axes: tuple[int, ...]) -> Spec:
    return Spec(*(AXIS if axis - x.ndim in axes else None for axis in range(x.ndim)))


def _mesh(size: int) -> Mesh:
    """Devices in a row, as many as cut an axis of this size into equal parts."""
    devices = jax.devices()
    count = max(count for count in range(1, len(devices) + 1) if size % count == 0)
    return Mesh(np.array(devices[:count]), (AXIS,))
