"""Compute a table and a rotation block by block on two workers, and write each block at once.

    python benchmarks/blocks.py [ROWS [COLUMNS [ENTRIES]]]

Neither fits into memory. ENTRIES is the size of a block. Needs dask, distributed and zarr. Rows at the ends of blocks
are read back and compared with NumPy's, bit for bit. Memory is the peak of a process less its peak before. Prints JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster

from posenc_core import Rotary, Sinusoidal, rotate

WORKERS = 2


def results(positions: Any, columns: int) -> dict[str, Any]:
    """Return a table, and another table as tokens, rotated; lazy if positions are lazy."""
    tokens = Sinusoidal(dim=columns, base=100).table(positions)
    cos, sin = Rotary(head_dim=columns, layout="half").cos_sin(positions)
    return {"table": Sinusoidal(dim=columns).table(positions), "rotation": rotate(tokens, cos, sin, layout="half")}


def write(lazy: Any, path: Path, client: Client) -> dict[str, Any]:
    """Write an array; return its sizes, seconds and memory."""
    before, began = [*client.run(peak).values()], time.perf_counter()
    lazy.to_zarr(str(path))
    seconds, after = time.perf_counter() - began, [*client.run(peak).values()]
    return {
        "shape": lazy.shape,
        "blocks": lazy.npartitions,
        "bytes": lazy.nbytes,
        "seconds": round(seconds, 1),
        "peak of each worker over before, MiB": [round((a - b) / 2**10) for a, b in zip(after, before, strict=True)],
    }


def peak() -> int:
    """Return the peak memory of this process, KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def equals_numpy(path: Path, name: str, step: int) -> bool:
    """Return whether the rows at the ends of blocks equal what NumPy computes of these positions."""
    stored = zarr.open_array(str(path), mode="r")
    rows, columns = stored.shape
    ends = [min(end, rows) for end in range(step, rows + step, step)]
    some = np.unique([row for end in ends for row in range(max(end - 2, 0), min(end + 2, rows))])
    return bool((stored.oindex[some] == results(some, columns)[name]).all())


def main(folder: Path, rows: int = 100_000_000, columns: int = 2, entries: int = 2**21) -> dict[str, Any]:
    """Write both, compare them with NumPy, and return the measurements."""
    step = entries // columns
    found: dict[str, Any] = {"workers": WORKERS}
    with LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        for lazy in results(da.arange(4, chunks=1), columns).values():
            lazy.compute()  # import everything first
        before = peak()
        for name, lazy in results(da.arange(rows, chunks=step), columns).items():
            found[name] = write(lazy, folder / name, client)
        found["peak of this process over before, MiB"] = round((peak() - before) / 2**10)
    for name in ("table", "rotation"):
        found[name]["equal to NumPy's"] = equals_numpy(folder / name, name, step)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(main(Path(folder), *map(int, sys.argv[1:])), indent=1))
