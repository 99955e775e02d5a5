"""Check attention: the layer `MultiHeadAttention`, and the functions `attend` and `attend_by_block`."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from posenc_core.attention.attend import attend
from posenc_core.attention.blockwise import attend_by_block
from posenc_core.attention.masks import causal
from posenc_core.encodings import Encoding, Placed
from posenc_core.positions.sequences import arange_like

from ..errors import (
    ONCE,
    BackendUnderTest,
    GoldenCase,
    Measurement,
    array_of,
    beside,
    float32_arrays,
    measure,
    with_parameters_of_parts,
)

ATTENTION = 8.0  # about sixty roundings, in an order that each framework chooses, most of terms that a mean makes small
OPTION_DTYPES = {"valid_lens": np.int32, "positions": np.int32, "key_positions": np.int32, "mask": np.bool_}


def attention(on: BackendUnderTest, case: GoldenCase, *, is_compiled: bool = False) -> Measurement:
    """Check a `MultiHeadAttention` with the projections of the case, compiled or not."""
    layer = on.testing.compiled(_layer(on, case)) if is_compiled else _layer(on, case)
    return measure(on, layer(*_tokens(on, case), **_options(on, case)), case["result"], ATTENTION)


def attention_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of a `MultiHeadAttention` with respect to the queries."""
    queries, keys, values = _tokens(on, case)
    layer, options = _layer(on, case), _options(on, case)
    weights = array_of(on, case["weights"])
    got = on.testing.gradient(lambda x: layer(x, keys, values, **options), queries, weights)
    return measure(on, got, case["gradient"], ATTENTION)


def cached_attention(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check a `MultiHeadAttention` that is called piece by piece, with a cache of earlier keys and values."""
    layer, options, cache, results = _layer(on, case), _options(on, case), (), []
    queries = np.array(case["queries"], np.float32)
    for begin, end in zip([0, *case["cuts"]], [*case["cuts"], queries.shape[1]], strict=True):
        piece = on.backend.from_numpy(queries[:, begin:end])
        result, _, cache = layer(piece, piece, piece, start=begin, cache=cache, **options)
        results.append(on.backend.to_numpy(result))
    return measure(on, np.concatenate(results, axis=1), case["result"], ATTENTION)


def attend_alone(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check `attend` with a causal mask, or `attend_by_block` if the case has a `block`."""
    return _measure(on, _attend(on, case, array_of(on, case["q"], case["dtype"])), case, "result")


def attend_gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradient of `attend`, or of `attend_by_block`, with respect to the queries."""
    q, weights = (array_of(on, case[name], case["dtype"]) for name in ("q", "weights"))
    return _measure(on, on.testing.gradient(partial(_attend, on, case), q, weights), case, "gradient")


def _layer(on: BackendUnderTest, case: GoldenCase) -> Any:
    position = Encoding.from_dict(case["position"]) if case["position"] else None
    layer = on.backend.MultiHeadAttention(8, 2, position=position, num_kv_heads=case["kv_heads"], **beside(case))
    layer = on.testing.with_projections(on.testing.eval_mode(layer), float32_arrays(case["matrices"]))
    return with_parameters_of_parts(on, layer, float32_arrays(case["parameters"]))


def _tokens(on: BackendUnderTest, case: GoldenCase) -> list[Any]:
    return [array_of(on, case[name]) for name in ("queries", "keys", "values")]


def _options(on: BackendUnderTest, case: GoldenCase) -> dict[str, Any]:
    """Return the other arguments of a call; arrays are those of the framework."""
    return {
        name: on.backend.from_numpy(np.array(option, OPTION_DTYPES[name])) if name in OPTION_DTYPES else option
        for name, option in case["options"].items()
    }


def _attend(on: BackendUnderTest, case: GoldenCase, q: Any) -> Any:
    k, v = (array_of(on, case[name], case["dtype"]) for name in ("k", "v"))
    queries, keys, start = q.shape[2], k.shape[2], case["start"]
    position = None
    if case["position"]:
        encoding = cast("Any", Encoding.from_dict(case["position"]))
        position = Placed(encoding, range(start, start + queries), range(keys))
    mask = causal(arange_like(queries, like=q) + start, arange_like(keys, like=q))
    if "block" not in case:
        return attend(q, k, v, position=position, mask=mask)
    block_mask = mask if position is None else causal
    return attend_by_block(q, k, v, position=position, mask=block_mask, block=case["block"])


def _measure(on: BackendUnderTest, got: Any, case: GoldenCase, name: str) -> Measurement:
    return measure(on, got, case[name], ONCE if "16" in case["dtype"] else ATTENTION, case["dtype"])
