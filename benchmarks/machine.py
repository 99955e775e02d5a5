"""Describe the machine and what is installed; run processes with a number of threads."""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from posenc_backends._kernels import level

VARIABLE = "POSENC_BENCHMARK_THREADS"
VARIABLES = (  # libraries read their number of threads from these on import
    VARIABLE,
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "MXNET_CPU_WORKER_NTHREADS",
    "NPROC",  # XLA
)
PACKAGES = (
    *("posenc", "numpy", "torch", "jax", "jaxlib", "keras", "tensorflow-cpu", "paddlepaddle", "mxnet", "mlx"),
    *("transformers", "torchtune", "rotary-embedding-torch", "x-transformers", "positional-encodings", "diffusers"),
    *("timm", "keras-hub", "flax", "d2l", "triton", "liger-kernel", "flash-attn", "flashinfer-python"),
)


def machine() -> dict[str, str | int]:
    """Return processor, cores, memory, system, Python, level of the kernel, and the commit that is measured."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory, GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(),
        "python": platform.python_version(),
        "kernel": level(),
        "commit": _commit(),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {key.strip(): value.strip() for key, value in fields.items()}
    model = names.get("model name", platform.machine())
    family = f" (family {names['cpu family']}, model {names['model']})" if "cpu family" in names else ""
    return model + family


def _commit() -> str:
    if not shutil.which("git"):
        return "unknown"
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def versions() -> dict[str, str]:
    """Return the versions of installed packages that could matter."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def threads() -> int:
    """Return how many threads this process may use for one computation."""
    return int(os.environ.get(VARIABLE, "1"))


def is_subprocess() -> bool:
    """Return whether this process was started by `run_in_subprocess`."""
    return VARIABLE in os.environ


def run_in_subprocess(arguments: Sequence[str], count: int, **variables: str) -> bool:
    """Run a script in a process with `count` threads, as many cores and some variables; return whether it succeeded."""
    cores = sorted(os.sched_getaffinity(0))
    if count > len(cores):
        print(f"{count} threads are left out: there are {len(cores)} cores.", file=sys.stderr)
        return True
    environment = os.environ | dict.fromkeys(VARIABLES, str(count)) | variables
    os.sched_setaffinity(0, cores[-count:])  # the process inherits it
    try:
        return subprocess.run([sys.executable, *arguments], env=environment, check=False).returncode == 0
    finally:
        os.sched_setaffinity(0, cores)


def rerun_in_subprocess(output: str | None) -> None:
    """Run this script again in a process with one thread; write its result to a file, or print it without one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(output or Path(folder, "result.json"))
        if not run_in_subprocess([*sys.argv, "-o", str(path)], 1):
            sys.exit("The benchmark ended early.")
        if not output:
            print(path.read_text(encoding="utf-8"))


@cache
def pool(count: int) -> concurrent.futures.ThreadPoolExecutor:
    """Return a pool of threads, the same for each call."""
    return concurrent.futures.ThreadPoolExecutor(count)
