"""The machine: what it is, what is installed, and processes with a number of threads."""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

VARIABLE = "POSENC_BENCHMARK_THREADS"
VARIABLES = (  # by which libraries are told how many threads to use, before they are imported
    VARIABLE,
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "MXNET_CPU_WORKER_NTHREADS",
    "NPROC",  # XLA
)
PACKAGES = (
    *("posenc", "numpy", "numba", "torch", "jax", "jaxlib", "keras", "tensorflow-cpu", "paddlepaddle", "mxnet"),
    *("transformers", "torchtune", "rotary-embedding-torch", "x-transformers", "positional-encodings", "diffusers"),
    *("timm", "keras-hub", "flax", "d2l"),
)


def machine() -> dict[str, str | int]:
    """Processor, cores, memory, system and Python; the commit that is measured, where it is known."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory, GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {key.strip(): value.strip() for key, value in told.items()}
    model = names.get("model name", platform.machine())
    family = f" (family {names['cpu family']}, model {names['model']})" if "cpu family" in names else ""
    return model + family


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def versions() -> dict[str, str]:
    """Of what is installed and could matter."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def threads() -> int:
    """How many threads this process may use for one computation."""
    return int(os.environ.get(VARIABLE, "1"))


def is_apart() -> bool:
    """Whether this process was started by `run_apart`."""
    return VARIABLE in os.environ


def run_apart(arguments: Sequence[str], count: int) -> bool:
    """Run a script in a process that has so many threads, and as many cores; whether it came to its end."""
    cores = sorted(os.sched_getaffinity(0))
    if count > len(cores):
        print(f"{count} threads are left out: there are {len(cores)} cores.", file=sys.stderr)
        return True
    environment = os.environ | dict.fromkeys(VARIABLES, str(count))
    os.sched_setaffinity(0, cores[-count:])  # inherited
    try:
        return subprocess.run([sys.executable, *arguments], env=environment, check=False).returncode == 0
    finally:
        os.sched_setaffinity(0, cores)


def repeat_apart(output: str | None) -> None:
    """Run this script again, in a process with one thread, to write its result to the file; without one it is printed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(output or Path(folder, "result.json"))
        if not run_apart([*sys.argv, "-o", str(path)], 1):
            sys.exit("The benchmark ended early.")
        if not output:
            print(path.read_text(encoding="utf-8"))


@cache
def pool(count: int) -> concurrent.futures.ThreadPoolExecutor:
    """Threads that wait for work."""
    return concurrent.futures.ThreadPoolExecutor(count)
