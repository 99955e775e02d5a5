"""Properties beside the numbers of one call: dtypes, unchanged arguments, threads, compiled code, how far it holds."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_backends.conformance.errors import ulp_of

from .candidates import Float64s
from .diagnosis import LIMIT, SMALL_POSITION, FoundMistake, found_in, measure
from .frameworks import CallError, CheckedFunction, Framework, Returned
from .sample_calls import TestCall
from .signatures import Signature

OFF_BY = 1e-3
BLOCK = 2048  # positions of one call in the search for the first that is off
MOST_BLOCKS = 40
ROUNDS = 6  # of calls from each thread
# First positions and lengths of calls of one compiled program: lengths differ, tables do not grow, and may end soon.
COMPILED = ((3, 17), (100, 11), (4090, 13), (65531, 13), (1048563, 13))
LAST_NEAR = 100  # after this, compiled code may return NaN, because it cannot raise for a value
NOT_COMPILED = {"mxnet": "not asked: compiled code, as Gluon compiles blocks and no functions"}
NO_THREADS = {"mxnet": "not asked: calls from two threads, as MXNet's NumPy semantics are those of one thread"}


def mistakes_of_call(call: TestCall, returned: Returned, outputs: tuple[str, ...]) -> Iterator[FoundMistake]:
    """Yield the mistakes that are not in the numbers of a call: another dtype, changed arguments."""
    wrong = tuple(name for name, dtype in zip(outputs, returned.dtypes, strict=True) if dtype != call.dtype)
    if call.tokens and wrong:
        got = returned.dtypes[outputs.index(wrong[0])]
        yield found_in(call, "wrong dtype", f"tokens in {call.dtype} come back in {got}", outputs=wrong)
    if returned.changed:
        names = " and ".join(returned.changed)
        yield found_in(call, "arguments changed", f"the call writes into the array of {names}")


def mistakes_of_threads(checked: CheckedFunction, end: int) -> tuple[list[FoundMistake], str | None]:
    """Return the mistake of calls from two threads at once, and why they were not made, if they were not.

    Each call must return what it returns alone: so functions of every class of precision are asked.
    """
    if checked.framework.name in NO_THREADS:
        return [], NO_THREADS[checked.framework.name]
    first = min(13, end)
    second = max(min(17, end - 13), 1)  # lengths of earlier calls, for which some frameworks have compiled operators
    places = ((min(3, end - first), first), (min(200, end - second), second))
    calls = [checked.caller.consecutive("two threads", first, length) for first, length in places]
    failures: list[TestCall] = []
    together = threading.Barrier(len(calls))  # on a busy machine one thread might end before the other begins

    def run(test_call: TestCall, alone: Returned) -> None:
        try:
            for _ in range(ROUNDS):
                together.wait()
                if not _returns(checked, test_call, alone):
                    failures.append(test_call)
        except BaseException:  # noqa: BLE001 - the function may raise an interrupt, which ends this thread alone
            failures.append(test_call)
            together.abort()

    alone: list[Returned] = []
    try:
        alone.extend(map(checked.call, calls))
    except CallError as error:
        return [found_in(calls[len(alone)], "fails at some sizes", str(error), error=np.inf)], None
    threads = [threading.Thread(target=run, args=arguments) for arguments in zip(calls, alone, strict=True)]
    with warnings.catch_warnings():  # each call restores the filters that it found, which may be those of the other
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures and all(_returns(checked, *one) for one in zip(calls, alone, strict=True)):
        description = "called from two threads at once, it gives other numbers"
        return [found_in(failures[0], "not thread-safe", description)], None
    return [], None


def _returns(checked: CheckedFunction, test_call: TestCall, wanted: Returned) -> bool:
    """Return whether a call returns these numbers, up to a few ulp of the largest."""
    try:
        results = checked.call(test_call).results
    except CallError:
        return False
    return all(
        got.shape == want.shape
        and bool(np.all(np.abs(got - want) <= LIMIT * ulp_of(np.abs(want).max(initial=0), "float32")))
        for got, want in zip(results, wanted.results, strict=True)
    )


def _worst(checked: CheckedFunction, test_call: TestCall) -> float:
    """Return the worst error of a call in ulp; infinity if it fails."""
    try:
        return measure(checked.caller.signature, test_call, checked.call(test_call).results).worst
    except CallError:
        return float("inf")


def compiled(function: Callable[..., Any], framework: Framework) -> Callable[..., Any] | None:
    """Return the function compiled by its framework, for any length; None if the framework does not compile."""
    name = framework.name
    if name == "keras":
        import keras

        name = keras.backend.backend()
    if name == "torch":
        import torch

        # The graph is run as it was captured: to generate code takes longer than all other calls.
        return torch.compile(function, backend=lambda graph, _: graph.forward, fullgraph=True)
    if name == "paddle":
        import paddle

        def named(x: Any, y: Any = None, z: Any = None, t: Any = None) -> Any:  # Paddle wants code and names
            return function(*[one for one in (x, y, z, t) if one is not None])

        return paddle.jit.to_static(named, full_graph=False)  # a full graph needs the source of each function
    return framework.testing.compiled(function) if name in ("jax", "mlx", "tensorflow") else None


def mistakes_of_compiling(checked: CheckedFunction, end: int) -> tuple[list[FoundMistake], str | None]:
    """Return the mistake of the compiled function before position `end`, and why it was not asked, if it was not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = compiled(checked.function, checked.framework)
        if program is None:
            return [], NOT_COMPILED.get(checked.framework.name)
        few = (0, end)  # of a small window
        for first, length in (few,) if end < sum(COMPILED[0]) else COMPILED:
            if first + length > end:
                break
            test_call = checked.caller.consecutive("compiled", first, length)
            near = first + length if first + length <= SMALL_POSITION else 0
            error = _worst(checked, test_call)
            if not error <= max(LIMIT, near):
                return [], f"not asked: compiled code from position {first} on, where the function is off by itself"
            try:
                results = checked._replace(function=program).call(test_call).results
            except CallError as failure:
                return [], f"not checked, compiled: {failure}"
            measured = measure(checked.caller.signature, test_call, results)
            if measured.worst <= (LIMIT if error <= LIMIT else LIMIT + 2 * near):  # float32 angles, in another order
                continue
            lost = _rows_without_numbers(results)
            if first > LAST_NEAR and lost and (measured.row_errors[:-lost] <= LIMIT).all():
                last = first + length - 1
                return [], f"compiled, it returns NaN at positions {last - lost + 1} … {last}, as past a table's end"
            return [found_in(test_call, "wrong when compiled", "compiled, it gives other numbers")], None
    return [], None


def _rows_without_numbers(results: tuple[Float64s, ...]) -> int:
    """Return how many of the last rows have NaN in all outputs, heads and sequences."""
    without = [np.isnan(result.reshape(-1, *result.shape[-2:])).any(axis=-1) for result in results]
    lost = np.logical_and.reduce(np.concatenate(without))
    return int(np.argmin([*lost[::-1], False]))


def first_position_off(checked: CheckedFunction, end: int) -> int | None:
    """Return the first position at which a result is off by 1e-3 of the length of its pair, or of a number of 1.

    The first 80,000 positions are all tried; after these, 2,048 each time that the position doubles.
    """
    first, block = 0, min(BLOCK, end)
    for number in range(2 * MOST_BLOCKS):
        if first + block > end:
            return None
        positions = np.arange(first, first + block)
        test_call = checked.caller.call("first off", "float32", positions, batch=1, heads=(1, 1))
        try:
            rows = _rows_off(checked.caller.signature, test_call, checked.call(test_call).results)
        except CallError:
            return None
        if rows.size:
            return int(first + rows[0])
        first = first + block if number < MOST_BLOCKS else 2 * first
    return None


def _rows_off(signature: Signature, test_call: TestCall, results: Any) -> Any:
    found, expected = [], signature.results(test_call.expected, test_call.tokens, results[0].shape[-1])
    for got, right in zip(results, expected, strict=True):
        off = np.abs(got.reshape(right.shape) - right) >= OFF_BY * signature.magnitudes(test_call.expected, right)
        found.append(off.any(axis=-1).reshape(-1, off.shape[-2]).any(axis=0))
    return np.flatnonzero(np.any(found, axis=0))
