"""Check content-based encodings, which use queries and keys as well as positions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_core.attention.attend import attend
from posenc_core.attention.blockwise import attend_by_block
from posenc_core.attention.masks import causal
from posenc_core.encodings import ContentScoring, Placed
from posenc_core.positions.sequences import arange_like

from ..errors import (
    BackendUnderTest,
    GoldenCase,
    Measurement,
    array_of,
    float32_arrays,
    layer_of,
    measure,
    positions_in,
    traced_positions_in,
    ulps,
)

CONTENT = 8.0  # about a hundred roundings on the way to a gradient, each of half a unit or less, of either sign
TOKENS = ("q", "k", "values")


def biased(on: BackendUnderTest, case: GoldenCase, *, is_compiled: bool = False) -> Measurement:
    """Check an `AttentionBias` with the parameters of the case, on scores that are -inf at masked keys.

    If it is compiled, positions of the case are traced.
    """
    layer, arguments = _layer(on, case), _arguments(on, case)
    if is_compiled:
        layer, arguments = on.testing.compiled(layer), arguments | traced_positions_in(on, case)
    return _measure_visible(on, case, layer(_scores(on, case), **arguments), "biased")


def biased_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of an `AttentionBias` with respect to its scores."""
    call = partial(_layer(on, case), **_arguments(on, case))
    got = on.testing.gradient(call, _scores(on, case), array_of(on, case["score_weights"]))
    return _measure_visible(on, case, got, "scores_gradient")


def attended(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the function `attend` with the encoding and its parameters, without a layer."""
    return measure(on, _attend(on, case, _arrays(on, case)), case["result"], CONTENT)


def attended_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradients of `attend` with respect to queries, keys, values and every parameter; return the worst.

    They are measured in ulp of the largest gradient, or of the `scales` of the case if terms nearly cancel.
    """
    arrays, weights = _arrays(on, case), array_of(on, case["result_weights"])

    def of(name: str) -> Measurement:
        got = on.testing.gradient(lambda x: _attend(on, case, arrays | {name: x}), arrays[name], weights)
        wanted = case["gradients"][name]
        scale = np.full(np.shape(wanted), np.abs(case.get("scales", {}).get(name, wanted)).max())
        return Measurement(ulps(on.backend.to_numpy(got), wanted, scale=scale), CONTENT)

    return max(of(name) for name in arrays)


def _layer(on: BackendUnderTest, case: GoldenCase) -> Any:
    return on.testing.with_parameters(on.testing.eval_mode(layer_of(on, case)), float32_arrays(case["weights"]))


def _scores(on: BackendUnderTest, case: GoldenCase) -> Any:
    return array_of(on, np.where(_visible(case), np.array(case["scores"]), -np.inf))


def _visible(case: GoldenCase) -> Any:
    """Return the mask of a case, True where a query sees a key, `(queries, keys)`."""
    if not case["causal"]:
        return np.ones((1, 1), bool)
    queries, keys = np.shape(case["scores"])[-2:]
    return causal(np.arange(queries) + case["start"], np.arange(keys))


def _arguments(on: BackendUnderTest, case: GoldenCase) -> dict[str, Any]:
    """Return the arguments of a layer besides scores."""
    start = {"start": case["start"]} if "start" in case else {}
    return start | positions_in(case) | {name: array_of(on, case[name]) for name in ("q", "k")}


def _arrays(on: BackendUnderTest, case: GoldenCase) -> dict[str, Any]:
    """Return queries, keys, values and parameters by name."""
    numbers = {name: case[name] for name in TOKENS} | case["weights"]
    return {name: array_of(on, array) for name, array in numbers.items()}


def _attend(on: BackendUnderTest, case: GoldenCase, arrays: dict[str, Any]) -> Any:
    q, k, v = (arrays[name] for name in TOKENS)
    weights = {name: array for name, array in arrays.items() if name not in TOKENS}
    queries, keys = np.shape(case["scores"])[-2:]
    start, positions = case.get("start", 0), positions_in(case)
    position = Placed(
        ContentScoring.from_dict(case["encoding"]),
        positions.get("query_positions", range(start, start + queries)),
        positions.get("key_positions", range(keys)),
        weights,
    )
    mask = causal(arange_like(queries, like=q) + start, arange_like(keys, like=q)) if case["causal"] else None
    if "block" in case:
        return attend_by_block(q, k, v, position=position, mask=mask, block=case["block"])
    return attend(q, k, v, position=position, mask=mask)


def _measure_visible(on: BackendUnderTest, case: GoldenCase, got: Any, name: str) -> Measurement:
    """Measure the numbers of the keys that are not masked."""
    return measure(on, np.where(_visible(case), on.backend.to_numpy(got), 0), case[name], CONTENT)
