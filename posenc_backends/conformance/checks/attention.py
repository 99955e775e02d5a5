"""What the conformance suite measures of attention: the layer, and the function alone."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from posenc_core.attention.attend import attend
from posenc_core.attention.blockwise import attend_by_block
from posenc_core.attention.masks import causal
from posenc_core.encodings import Encoding, Placed
from posenc_core.positions.sequences import arange_like

from ..errors import BackendUnderTest, GoldenCase, Measurement, ulps

ATTENTION = (
    8.0  # some sixty roundings, in an order that each framework chooses, most of numbers that a mean makes smaller
)
ONCE = 0.51  # of half precision: float32 rounded once


def attention(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """A `MultiHeadAttention` with the projections given, in units in the last place of its largest number."""
    return _near(on, _called(on, golden_case, _layer(on, golden_case)), golden_case["result"])


def compiled_attention(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The same, compiled by its framework."""
    return _near(on, _called(on, golden_case, on.testing.compiled(_layer(on, golden_case))), golden_case["result"])


def attention_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The gradient of the same with respect to the queries."""
    _, keys, values = _tokens(on, golden_case)
    layer, options = _layer(on, golden_case), _options(on, golden_case)
    queries, weights = (_native(on, golden_case[name]) for name in ("queries", "weights"))
    got = on.testing.gradient(lambda x: layer(x, keys, values, **options), queries, weights)
    return _near(on, got, golden_case["gradient"])


def cut(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The same, piece by piece, with what came before in a cache."""
    layer, options, cache, results = _layer(on, golden_case), _options(on, golden_case), (), []
    whole = np.array(golden_case["queries"], np.float32)
    for begin, end in zip([0, *golden_case["cuts"]], [*golden_case["cuts"], whole.shape[1]], strict=True):
        piece = on.backend.from_numpy(whole[:, begin:end])
        result, _, cache = layer(piece, piece, piece, start=begin, cache=cache, **options)
        results.append(on.backend.to_numpy(result))
    return _near(on, np.concatenate(results, axis=1), golden_case["result"])


def alone(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """`attend` with a causal mask, in any dtype; where the entry has a `block`, block by block."""
    return _near_in_dtype(on, _attended(on, golden_case, _in_dtype(on, golden_case, "q")), golden_case, "result")


def alone_gradient(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """Its gradient with respect to the queries."""
    q, weights = _in_dtype(on, golden_case, "q"), _in_dtype(on, golden_case, "weights")
    return _near_in_dtype(
        on, on.testing.gradient(partial(_attended, on, golden_case), q, weights), golden_case, "gradient"
    )


def _layer(on: BackendUnderTest, golden_case: GoldenCase) -> Any:
    position = Encoding.from_dict(golden_case["position"]) if golden_case["position"] else None
    layer = on.backend.MultiHeadAttention(8, 2, position=position, num_kv_heads=golden_case["kv_heads"])
    matrices = {name: np.array(matrix, np.float32) for name, matrix in golden_case["matrices"].items()}
    layer = on.testing.with_projections(on.testing.eval_mode(layer), matrices)
    parameters = {name: np.array(array, np.float32) for name, array in golden_case["parameters"].items()}
    if parameters and on.testing.with_parameters(layer.scoring, parameters) is not layer.scoring:
        return on.testing.with_parameters(layer, parameters)  # layers that do not change are made anew, as a whole
    return layer


def _tokens(on: BackendUnderTest, golden_case: GoldenCase) -> list[Any]:
    return [_native(on, golden_case[name]) for name in ("queries", "keys", "values")]


def _called(on: BackendUnderTest, golden_case: GoldenCase, layer: Any) -> Any:
    return layer(*_tokens(on, golden_case), **_options(on, golden_case))


def _options(on: BackendUnderTest, golden_case: GoldenCase) -> dict[str, Any]:
    """What a call says beside its tokens; arrays are those of the framework."""
    kinds = {"valid_lens": np.int32, "positions": np.int32, "key_positions": np.int32, "mask": np.bool_}
    return {
        name: on.backend.from_numpy(np.array(given, kinds[name])) if name in kinds else given
        for name, given in golden_case["options"].items()
    }


def _attended(on: BackendUnderTest, golden_case: GoldenCase, q: Any) -> Any:
    k, v = (_in_dtype(on, golden_case, name) for name in ("k", "v"))
    queries, keys = q.shape[2], k.shape[2]
    start, encoding = golden_case["start"], golden_case["position"]
    at = range(start, start + queries), range(keys)
    position = Placed(cast("Any", Encoding.from_dict(encoding)), *at) if encoding else None
    mask = causal(arange_like(queries, like=q) + start, arange_like(keys, like=q))
    if "block" not in golden_case:
        return attend(q, k, v, position=position, mask=mask)
    asked = mask if position is None else causal
    return attend_by_block(q, k, v, position=position, mask=asked, block=golden_case["block"])


def _native(on: BackendUnderTest, array: Any) -> Any:
    return on.backend.from_numpy(np.array(array, np.float32))


def _in_dtype(on: BackendUnderTest, golden_case: GoldenCase, name: str) -> Any:
    wide = np.array(golden_case[name], np.float64 if golden_case["dtype"] == "float64" else np.float32)
    return on.testing.cast(on.backend.from_numpy(wide), golden_case["dtype"])


def _near(on: BackendUnderTest, got: Any, golden: Any) -> Measurement:
    """How far a result is off, in units in the last place of its largest number."""
    array = got if isinstance(got, np.ndarray) else on.backend.to_numpy(got)
    return Measurement(ulps(array, golden, scale=np.full(np.shape(golden), np.max(np.abs(golden)))), ATTENTION)


def _near_in_dtype(on: BackendUnderTest, got: Any, golden_case: GoldenCase, name: str) -> Measurement:
    dtype, golden = golden_case["dtype"], np.array(golden_case[name])
    off = ulps(on.backend.to_numpy(got), golden, dtype=dtype, scale=np.full(golden.shape, np.abs(golden).max()))
    return Measurement(off, ONCE if "16" in dtype else ATTENTION)
