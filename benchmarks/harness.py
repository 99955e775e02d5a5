"""Time implementations of one computation as ratios, which are taken within each of many rounds in one process.

A benchmark is a script beside this file that ends in

    if __name__ == "__main__":
        main("name of the benchmark", cases)

and is called as

    python benchmarks/SCRIPT.py [--backend NAME] [--threads 1 2] [--rounds N] [--seconds S] [--only WORD ...] [-o FILE]

`cases(backend)` yields a `Case` for each row of the result. Its `implementations()` is called in a process whose number
of threads is set, and returns a dictionary of `Implementation`s by name; all must do the same work. The first is the
yardstick, for example `memcpy(nbytes)`: times are given as ratios to it. Names of ours begin with "posenc"; ours are
also given as ratios to each of the others. Before anything is timed, each implementation runs once, and its result is
compared with that of our first. One of others that raises an error is left out, and the result has the error. A call
must wait for frameworks that work in the background.

`--rounds 0` only checks. `--clock processor` is for one thread on a busy machine: it does not run while others use the
processor. `python benchmarks/compare.py A.json B.json` compares two results.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import machine
import numpy as np

OURS = "posenc"
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
LEAST = 0.002  # seconds: shorter calls are repeated
LONG = 1.0  # seconds of three rounds, after which there are no more, if `seconds` are over as well


class Implementation(NamedTuple):
    """One way to compute something.

    Attributes:
        call: the function to time.
        to_numpy: converts the result of `call` to a NumPy array to compare; None for copies, which are not compared.
        within: how far the result may be from ours, if it is known to be farther than the case allows.
    """

    call: Callable[[], Any]
    to_numpy: Callable[[Any], Any] | None = None
    within: float | None = None


class Case(NamedTuple):
    """One row of a result.

    Attributes:
        name: its parts, with commas between them; `--only` searches for words in it.
        implementations: returns the implementations, the yardstick first.
        within: how far results of others may be from ours; more ends the benchmark.
    """

    name: str
    implementations: Callable[[], dict[str, Implementation]]
    within: float = 0.0


def memcpy(nbytes: int) -> Implementation:
    """Return the yardstick: a copy of `nbytes` into memory that was written before, by all threads."""
    parts = machine.threads() if nbytes >= 2**22 else 1
    pieces = [(np.ones(nbytes // parts, np.uint8), np.ones(nbytes // parts, np.uint8)) for _ in range(parts)]
    if parts == 1:
        return Implementation(lambda: np.copyto(*pieces[0]))
    pool = machine.pool(parts)
    return Implementation(lambda: [*pool.map(lambda piece: np.copyto(*piece), pieces)])


def measure(case: Case, rounds: int, seconds: float = math.inf, clock: str = "wall") -> dict[str, Any]:
    """Return the result of a case: ratios as first quartile, median and third quartile."""
    working, differences, failed = check(case)
    result: dict[str, Any] = {"name": case.name, "differences": differences, "failed": failed}
    if rounds:
        times = time_interleaved({name: one.call for name, one in working.items()}, rounds, seconds, clock)
        result |= {"clock": clock} | ratios(times)
    return result


def check(case: Case) -> tuple[dict[str, Implementation], dict[str, float], dict[str, str]]:
    """Return the implementations that work, how far the result of each is from ours, and the errors of the rest."""
    working, arrays, failed = {}, {}, {}
    for name, one in case.implementations().items():
        try:
            returned = one.call()
        except Exception as error:
            if name.startswith(OURS):
                raise
            failed[name] = f"{type(error).__name__}: {error}".strip().partition("\n")[0][:200]
            continue
        working[name] = one
        if one.to_numpy is not None:
            arrays[name] = np.asarray(one.to_numpy(returned), np.float64)
    ours = next((name for name in arrays if name.startswith(OURS)), None)
    differences = {name: _difference(array, arrays[ours]) for name, array in arrays.items() if ours and name != ours}
    for name, difference in differences.items():
        limit = case.within if working[name].within is None else working[name].within
        if not difference <= limit:
            raise ValueError(f"{case.name}: {name} is {difference} off {ours}, more than {limit}.")
    return working, differences, failed


def _difference(array: Any, other: Any) -> float:
    if array.shape != other.shape:
        return math.inf
    return float(np.abs(array - other).max(initial=0))


def time_interleaved(
    calls: dict[str, Callable[[], Any]], rounds: int, seconds: float = math.inf, clock: str = "wall"
) -> dict[str, list[float]]:
    """Return the seconds of each call in each round: five rounds, and more until `rounds` or `seconds` are reached.

    Three rounds are enough if they take longer than `seconds` and than a second. The order is random in each round. A
    short call is repeated until it takes 2 ms in a round.
    """
    repeats = {name: _repeats(call, clock) for name, call in calls.items()}
    order, shuffle = [*calls], random.Random(0).shuffle
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    began = time.perf_counter()
    try:
        while (done := len(times[order[0]])) < rounds:
            spent = time.perf_counter() - began
            if spent >= seconds and (done >= 5 or (done >= 3 and spent >= LONG)):
                break
            shuffle(order)
            for name in order:
                times[name].append(_seconds(calls[name], repeats[name], clock))
    finally:
        gc.enable()
    return times


def _repeats(call: Callable[[], Any], clock: str) -> int:
    """Return how many calls take `LEAST` seconds together."""
    repeats = 1
    while (together := repeats * _seconds(call, repeats, clock)) < LEAST:
        repeats = max(2 * repeats, math.ceil(repeats * LEAST / max(together, LEAST / 100)))
    return repeats


def _seconds(call: Callable[[], Any], repeats: int, clock: str) -> float:
    now = CLOCKS[clock]
    began = now()
    for _ in range(repeats):
        call()
    return (now() - began) / repeats


def ratios(times: dict[str, list[float]]) -> dict[str, Any]:
    """Return the times of each implementation over the yardstick's, and of ours over each other one's, per round."""
    yardstick = next(iter(times))
    ours = [name for name in times if name.startswith(OURS)]
    return {
        "yardstick": yardstick,
        "rounds": len(times[yardstick]),
        "seconds of the yardstick": statistics.median(times[yardstick]),
        "ratios": {name: _quartiles(mine, times[yardstick]) for name, mine in times.items() if name != yardstick},
        "ours over": {
            name: {other: _quartiles(times[name], theirs) for other, theirs in times.items() if other != name}
            for name in ours
        },
    }


def _quartiles(numerators: list[float], denominators: list[float]) -> list[float]:
    found = [above / below for above, below in zip(numerators, denominators, strict=True)]
    three = statistics.quantiles(found, n=4, method="inclusive") if len(found) > 1 else found * 3
    return [float(f"{number:.4g}") for number in three]


def main(name: str, cases: Callable[[str], Iterable[Case]]) -> None:
    """Run a benchmark with the options of the command line, in a process of its own for each number of threads."""
    options = _options(name)
    if machine.is_subprocess():
        path = Path(options.output)
        for results in _run(cases(options.backend), options):
            path.write_text(json.dumps({"versions": machine.versions(), "cases": results}), encoding="utf-8")
        return
    found: dict[str, Any] = {
        "benchmark": name,
        "backend": _backend_name(options.backend),
        "machine": machine.machine(),
        "versions": {},
        "cases": [],
    }
    for threads in options.threads:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "result.json")
            ended = machine.run_in_subprocess([*sys.argv, "-o", str(path)], threads)
            part = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": []}
        found["versions"] |= part.get("versions", {})
        found["cases"] += [{"threads": threads} | case for case in part["cases"]]
        if options.output:
            Path(options.output).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if not ended:
            sys.exit(f"The benchmark ended early with {threads} threads; the finished cases are kept.")
    if not options.output:
        print(json.dumps(found, indent=1))


def _backend_name(name: str) -> str:
    """Return the name of the backend; for Keras with the backend that Keras runs on."""
    return f"keras on {os.environ.get('KERAS_BACKEND', 'tensorflow')}" if name == "keras" else name


def _run(cases: Iterable[Case], options: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """Yield the results so far, after each case."""
    results = []
    for case in cases:
        if all(word in case.name for word in options.only):
            results.append(measure(case, options.rounds, options.seconds, options.clock))
            print(_summary(results[-1]), file=sys.stderr, flush=True)
            yield results
            gc.collect()


def _summary(result: dict[str, Any]) -> str:
    parts = [f"{name} {three[1]:.3g}" for name, three in result.get("ratios", {}).items()]
    parts += [f"{name} fails" for name in result["failed"]]
    return f"threads {machine.threads()}, {result['name']}: {'; '.join(parts) or 'checked'}"


def _options(name: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Benchmark: {name}. Ratios of time, as JSON.")
    parser.add_argument("--backend", default="numpy", help="the backend to measure; numpy by default")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="1 and 2, one after the other")
    parser.add_argument("--rounds", type=int, default=25, help="the largest number of rounds; 0 only checks")
    parser.add_argument(
        "--seconds",
        type=float,
        default=20,
        help="after them a case ends, but for its first five rounds, or three long ones",
    )
    parser.add_argument("--only", nargs="+", default=[], help="cases with all these words in their names")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="processor: for 1 thread on a busy machine")
    parser.add_argument("-o", "--output", help="a file for the result; else it is printed")
    options = parser.parse_args()
    if options.clock == "processor" and options.threads != [1]:
        parser.error("`--clock processor` adds up the time of all threads; it goes with `--threads 1`.")
    return options
