"""Run all that needs a GPU in a few minutes, where a machine with one is lent: tests, tiles, speed.

    python benchmarks/device_day.py FOLDER [--only STEP ...] [--device cpu]

First, beside each other: the tests of the kernel on the device, the common suite with all arrays there, and whatever
compiles code. Then what is timed, one after the other. Results and logs are written to FOLDER; a table is printed last.
Needs posenc, PyTorch with Triton, pytest and hypothesis; transformers, Liger and JAX where they are installed.
`--device cpu` tries the program where there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

BENCHMARKS = Path(__file__).parent


class Step(NamedTuple):
    """One command.

    Attributes:
        name: names its log.
        arguments: of Python; "FOLDER" and "DEVICE" stand for those of the command line.
        limit: seconds.
        beside: whether it runs beside others.
    """

    name: str
    arguments: tuple[str, ...]
    limit: int
    beside: bool = False


def script(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the arguments of Python that run a benchmark on the device."""
    return (str(BENCHMARKS / f"{name}.py"), "--device", "DEVICE", *arguments)


def pytest(*arguments: str) -> tuple[str, ...]:
    """Return the arguments of Python that run tests of the backend for PyTorch."""
    plugins = ("-p", "no:cacheprovider", "-p", "no:benchmark")
    return ("-m", "pytest", "--backend", "torch", "-q", *plugins, "--timeout", "100", *arguments)


QUICK = ("-m", "not mode and not slow", "-k", "not compiled and not training")
STEPS = [
    Step("device", pytest("tests/gpu/device", "-n", "8"), 150, beside=True),
    Step("suite", pytest("tests/backends", "--device", "DEVICE", "-n", "6", *QUICK), 110, beside=True),
    *(
        Step(f"compile-tiles-{part}", script("gpu_tiles", "--rounds", "0", "--part", f"{part}/3"), 90, beside=True)
        for part in (1, 2, 3)
    ),
    *(
        Step(f"compile-{word}", script("gpu", "--few", "--rounds", "0", "--only", word), 120, beside=True)
        for word in ("prefill", "training", "packed", "decode")
    ),
    Step("compile-ways", script("gpu_compiled", "--rounds", "0"), 120, beside=True),
    Step("compile-norm", script("gpu_qk_norm", "--rounds", "0"), 120, beside=True),
    Step("gpu", script("gpu", "--few", "--rounds", "30", "-o", "FOLDER/gpu.json"), 150),
    Step("tiles", script("gpu_tiles", "--rounds", "20", "-o", "FOLDER/tiles.json"), 80),
    Step("compiled", script("gpu_compiled", "-o", "FOLDER/compiled.json"), 80),
    Step("norm", script("gpu_qk_norm", "-o", "FOLDER/norm.json"), 80),
    Step("jax", script("gpu_jax", "-o", "FOLDER/jax.json"), 60),
]


def start(step: Step, folder: Path, device: str) -> subprocess.Popen[bytes]:
    """Start a step; its output goes to a log."""
    words = {"FOLDER": str(folder), "DEVICE": device}
    arguments = [argument.replace("FOLDER", str(folder)) if "/" in argument else words.get(argument, argument)
                 for argument in step.arguments]  # fmt: skip
    variables = os.environ | {"PYTHONPATH": f"{Path.cwd()}:{os.environ.get('PYTHONPATH', '')}", "OMP_NUM_THREADS": "2",
                              "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1"}  # fmt: skip
    command = ["timeout", "-k", "5", str(step.limit), sys.executable, *arguments]
    with (folder / f"{step.name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=variables)


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(description="What needs a GPU, in a few minutes.")
    parser.add_argument("folder", type=Path, help="for results and logs")
    parser.add_argument("--only", nargs="+", default=[step.name for step in STEPS], help="steps, by name")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True, parents=True)
    steps, began, codes = [step for step in STEPS if step.name in options.only], time.monotonic(), {}
    for group in ([step for step in steps if step.beside], *([step] for step in steps if not step.beside)):
        running = {step.name: start(step, options.folder, options.device) for step in group}
        for name, process in running.items():
            codes[name] = process.wait()
            lines = (options.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
            print(
                f"{time.monotonic() - began:4.0f} s  {name}: {codes[name]}  {lines[-1][:200] if lines else ''}",
                flush=True,
            )
    for path in sorted(options.folder.glob("*.json")):
        summarize(json.loads(path.read_text(encoding="utf-8")))
    sys.exit(any(codes.values()))


def summarize(found: dict[str, Any]) -> None:
    """Print a line for each case of a result."""
    print(f"\n{found['benchmark']} {found.get('backend', '')}: {found['machine']['GPU']}")
    for case in found["cases"]:
        name = case["name"].replace("bfloat16", "bf16").removeprefix("dtype ")
        medians = {name: round(three[1], 2) for name, three in case.get("ratios", {}).items()}
        rest = {name: value for name, value in case.items() if name.startswith(("of ", "microseconds", "broken"))}
        if "of a copy" in rest:
            rest = {"of a copy": rest["of a copy"][1]}
        print(name, medians or "", *(f"{name} {value}" for name, value in rest.items()))


if __name__ == "__main__":
    main()
