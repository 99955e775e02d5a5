"""Time as ratios: the forms of one computation take turns in one process, round after round, and are compared within each round.

A benchmark is a script beside this file that ends in

    if __name__ == "__main__":
        main("name of the benchmark", cases)

and is called as

    python benchmarks/SCRIPT.py [--backend BACKEND] [--threads 1 2] [--rounds N] [--seconds S] [--only WORD ...] [-o FILE]

`cases(room)` yields a `Case` for each row of the result. Its `forms()` is called when its turn comes, in a process whose number
of threads is set, and returns a dictionary of `Form`s by name; all must do the same work. The first is the yardstick (say, `memcpy(nbytes)`):
times are given as ratios to it. Forms whose names begin with "posenc" are ours; they are also given as ratios to each other form.
Before anything is timed, each form runs once, and what it returns is compared with our first; a form of others that
raises is left out, and the result says why. Frameworks that work in the background are waited for within the call.

`--rounds 0` only checks. `--clock processor` is for one thread on a machine that others use: it stands still while they do. `python benchmarks/compare.py A.json B.json` compares two results.
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
LEAST = 0.002  # seconds: what is shorter is called several times in a row


class Form(NamedTuple):
    """One way to compute something.

    Attributes:
        call: what is timed.
        shown: makes the NumPy array that is compared of what `call` returned; None for copies, which are not.
        within: how far that may be from ours where it is known to be farther off than the case allows.
    """

    call: Callable[[], Any]
    shown: Callable[[Any], Any] | None = None
    within: float | None = None


class Case(NamedTuple):
    """One row of a result.

    Attributes:
        name: what it is, with commas between its parts; `--only` looks for words in it.
        forms: makes the forms, the yardstick first.
        within: how far what others return may be from ours; more ends the benchmark.
    """

    name: str
    forms: Callable[[], dict[str, Form]]
    within: float = 0.0


def memcpy(nbytes: int) -> Form:
    """The yardstick: so many bytes copied into memory that was touched before, by as many threads as there are."""
    parts = machine.threads() if nbytes >= 2**22 else 1
    pieces = [(np.ones(nbytes // parts, np.uint8), np.ones(nbytes // parts, np.uint8)) for _ in range(parts)]
    if parts == 1:
        return Form(lambda: np.copyto(*pieces[0]))
    pool = machine.pool(parts)
    return Form(lambda: [*pool.map(lambda piece: np.copyto(*piece), pieces)])


def measured(case: Case, rounds: int, seconds: float = math.inf, clock: str = "wall") -> dict[str, Any]:
    """The result of a case: ratios as first quartile, median and third quartile."""
    working, differences, failed = checked(case)
    result: dict[str, Any] = {"name": case.name, "differences": differences, "failed": failed}
    if rounds:
        times = interleaved({name: form.call for name, form in working.items()}, rounds, seconds, clock)
        result |= {"clock": clock} | ratios(times)
    return result


def checked(case: Case) -> tuple[dict[str, Form], dict[str, float], dict[str, str]]:
    """The forms that work, how far what each returns is from ours, and why others fail."""
    working, shown, failed = {}, {}, {}
    for name, form in case.forms().items():
        try:
            returned = form.call()
        except Exception as error:
            if name.startswith(OURS):
                raise
            failed[name] = f"{type(error).__name__}: {error}".strip().partition("\n")[0][:200]
            continue
        working[name] = form
        if form.shown is not None:
            shown[name] = np.asarray(form.shown(returned), np.float64)
    ours = next((name for name in shown if name.startswith(OURS)), None)
    differences = {name: _difference(array, shown[ours]) for name, array in shown.items() if ours and name != ours}
    for name, difference in differences.items():
        limit = case.within if working[name].within is None else working[name].within
        if not difference <= limit:
            raise ValueError(f"{case.name}: {name} is {difference} off {ours}, more than {limit}.")
    return working, differences, failed


def _difference(array: Any, other: Any) -> float:
    if array.shape != other.shape:
        return math.inf
    return float(np.abs(array - other).max(initial=0))


def interleaved(
    calls: dict[str, Callable[[], Any]], rounds: int, seconds: float = math.inf, clock: str = "wall"
) -> dict[str, list[float]]:
    """Seconds of each call in each round; at least five rounds, more until `rounds` or `seconds` are reached.

    The order within a round is drawn anew each time. What is short is called so often that a round takes it 2 ms.
    """
    repeats = {name: _repeats(call, clock) for name, call in calls.items()}
    order, shuffle = [*calls], random.Random(0).shuffle
    times: dict[str, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        while (done := len(times[order[0]])) < rounds and (done < 5 or time.perf_counter() - began < seconds):
            shuffle(order)
            for name in order:
                times[name].append(_seconds(calls[name], repeats[name], clock))
    finally:
        gc.enable()
    return times


def _repeats(call: Callable[[], Any], clock: str) -> int:
    """How often a call takes `LEAST` together."""
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
    """Each form's times over the yardstick's, and each of ours over each other's, round by round."""
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
    """Run a benchmark as the command line says: once for each number of threads, each in a process of its own."""
    options = _options(name)
    if machine.is_apart():
        path = Path(options.output)
        for results in _run(cases(options.backend), options):
            path.write_text(json.dumps({"versions": machine.versions(), "cases": results}), encoding="utf-8")
        return
    found: dict[str, Any] = {
        "benchmark": name,
        "backend": _room(options.backend),
        "machine": machine.machine(),
        "versions": {},
        "cases": [],
    }
    for threads in options.threads:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "result.json")
            ended = machine.run_apart([*sys.argv, "-o", str(path)], threads)
            part = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cases": []}
        found["versions"] |= part.get("versions", {})
        found["cases"] += [{"threads": threads} | case for case in part["cases"]]
        if options.output:
            Path(options.output).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if not ended:
            sys.exit(f"The benchmark ended early with {threads} threads; what it had measured is kept.")
    if not options.output:
        print(json.dumps(found, indent=1))


def _room(name: str) -> str:
    """Keras is measured on one of its backends at a time."""
    return f"keras on {os.environ.get('KERAS_BACKEND', 'tensorflow')}" if name == "keras" else name


def _run(cases: Iterable[Case], options: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """The results so far, after each case."""
    results = []
    for case in cases:
        if all(word in case.name for word in options.only):
            results.append(measured(case, options.rounds, options.seconds, options.clock))
            print(_line(results[-1]), file=sys.stderr, flush=True)
            yield results
            gc.collect()


def _line(result: dict[str, Any]) -> str:
    told = [f"{name} {three[1]:.3g}" for name, three in result.get("ratios", {}).items()]
    told += [f"{name} fails" for name in result["failed"]]
    return f"threads {machine.threads()}, {result['name']}: {'; '.join(told) or 'checked'}"


def _options(name: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Benchmark: {name}. Ratios of time, as JSON.")
    parser.add_argument("--backend", default="numpy", help="the framework that is measured; numpy by default")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="1 and 2, one after the other")
    parser.add_argument("--rounds", type=int, default=25, help="at most so many; 0 only checks")
    parser.add_argument("--seconds", type=float, default=20, help="past so many, no more rounds of a case than five")
    parser.add_argument("--only", nargs="+", default=[], help="cases with all these words in their names")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="processor time: on a busy machine, 1 thread")
    parser.add_argument("-o", "--output", help="a file for the result; else it is printed")
    options = parser.parse_args()
    if options.clock == "processor" and options.threads != [1]:
        parser.error("`--clock processor` adds up the time of all threads; it goes with `--threads 1`.")
    return options
