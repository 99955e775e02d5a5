"""What the conformance suite measures of encodings that look at queries and keys."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_core.attention.attend import attend
from posenc_core.attention.blockwise import attend_by_block
from posenc_core.attention.masks import causal
from posenc_core.encodings import ContentScoring, Placed
from posenc_core.positions.sequences import arange_like

from ..errors import BackendUnderTest, GoldenCase, Measurement, layer_of, ulps

CONTENT = 8.0  # some hundred roundings on the way to a gradient, each of half a unit or less, of either sign
TOKENS = ("q", "k", "values")


def biased(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """An `AttentionBias` with the parameters given, on scores that are -inf where a mask hides the key."""
    return _near_visible(
        on, golden_case, _layer(on, golden_case)(_scores(on, golden_case), **_told(on, golden_case)), "biased"
    )


def compiled_biased(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The same, compiled by its framework; positions that are given are known to the running program only."""
    layer = on.testing.compiled(_layer(on, golden_case))
    positions = {name: _native(on, array, np.int32) for name, array in _positions(golden_case).items()}
    return _near_visible(
        on, golden_case, layer(_scores(on, golden_case), **_told(on, golden_case) | positions), "biased"
    )


def biased_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of an `AttentionBias` with respect to the scores that it is given."""
    call = partial(_layer(on, golden_case), **_told(on, golden_case))
    got = on.testing.gradient(call, _scores(on, golden_case), _native(on, golden_case["score_weights"]))
    return _near_visible(on, golden_case, got, "scores_gradient")


def attended(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """Attention with the encoding inside, and parameters that are no layer's."""
    arrays = _arrays(on, golden_case)
    return _near(on, _attended(on, golden_case, arrays), golden_case["result"])


def attended_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradients of that with respect to queries, keys, values and every parameter; the worst of them."""
    arrays, weights = _arrays(on, golden_case), _native(on, golden_case["result_weights"])

    def of(name: str) -> Measurement:
        got = on.testing.gradient(lambda x: _attended(on, golden_case, arrays | {name: x}), arrays[name], weights)
        return _near(on, got, golden_case["gradients"][name])

    return max(of(name) for name in arrays)


def _layer(on: BackendUnderTest, golden_case: GoldenCase) -> Any:
    numbers = {name: np.array(array, np.float32) for name, array in golden_case["weights"].items()}
    return on.testing.with_parameters(on.testing.eval_mode(layer_of(on, golden_case)), numbers)


def _scores(on: BackendUnderTest, golden_case: GoldenCase) -> Any:
    return _native(on, np.where(_visible(golden_case), np.array(golden_case["scores"]), -np.inf))


def _visible(golden_case: GoldenCase) -> Any:
    """The mask of an entry, `(queries, keys)`."""
    queries, keys = np.shape(golden_case["scores"])[-2:]
    return (
        causal(np.arange(queries) + golden_case["start"], np.arange(keys))
        if golden_case["causal"]
        else np.ones((1, 1), bool)
    )


def _told(on: BackendUnderTest, golden_case: GoldenCase) -> dict[str, Any]:
    """What a layer is called with besides scores."""
    start = {"start": golden_case["start"]} if "start" in golden_case else {}
    return start | _positions(golden_case) | {name: _native(on, golden_case[name]) for name in ("q", "k")}


def _positions(golden_case: GoldenCase) -> dict[str, Any]:
    return {name: np.array(golden_case[name]) for name in ("query_positions", "key_positions") if name in golden_case}


def _arrays(on: BackendUnderTest, golden_case: GoldenCase) -> dict[str, Any]:
    tokens = {name: golden_case[name] for name in TOKENS}
    return {name: _native(on, array) for name, array in (tokens | golden_case["weights"]).items()}


def _native(on: BackendUnderTest, array: Any, dtype: Any = np.float32) -> Any:
    return on.backend.from_numpy(np.asarray(array, dtype))


def _attended(on: BackendUnderTest, golden_case: GoldenCase, arrays: dict[str, Any]) -> Any:
    q, k, v = (arrays[name] for name in TOKENS)
    queries, keys = np.shape(golden_case["scores"])[-2:]
    start, given = golden_case.get("start", 0), _positions(golden_case)
    at_queries = given.get("query_positions", range(start, start + queries))
    weights = {name: array for name, array in arrays.items() if name not in TOKENS}
    position = Placed(
        ContentScoring.from_dict(golden_case["encoding"]), at_queries, given.get("key_positions", range(keys)), weights
    )
    mask = causal(arange_like(queries, like=q) + start, arange_like(keys, like=q)) if golden_case["causal"] else None
    if "block" in golden_case:
        return attend_by_block(q, k, v, position=position, mask=mask, block=golden_case["block"])
    return attend(q, k, v, position=position, mask=mask)


def _near_visible(on: BackendUnderTest, golden_case: GoldenCase, got: Any, name: str) -> Measurement:
    """How far numbers are off that belong to keys that no mask hides."""
    return _near(on, np.where(_visible(golden_case), on.backend.to_numpy(got), 0), golden_case[name])


def _near(on: BackendUnderTest, got: Any, golden: Any) -> Measurement:
    """How far numbers are off, in units in the last place of the largest one."""
    array = got if isinstance(got, np.ndarray) else on.backend.to_numpy(got)
    return Measurement(ulps(array, golden, scale=np.full(np.shape(golden), np.max(np.abs(golden)))), CONTENT)
