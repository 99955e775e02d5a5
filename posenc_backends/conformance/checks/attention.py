"""What the conformance suite measures of attention: the layer, and the function alone."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from posenc_core.attention.attend import attend
from posenc_core.attention.blockwise import attend_by_block
from posenc_core.attention.masks import causal
from posenc_core.encodings import Encoding, Placed
from posenc_core.positions.sequences import counted

from ..errors import Entry, Outcome, Subject, ulps

ATTENTION = (
    8.0  # some sixty roundings, in an order that each framework chooses, most of numbers that a mean makes smaller
)
ONCE = 0.51  # of half precision: float32 rounded once


def attention(on: Subject, entry: Entry) -> Outcome:
    """A `MultiHeadAttention` with the projections given, in units in the last place of its largest number."""
    return _near(on, _called(on, entry, _layer(on, entry)), entry["result"])


def compiled_attention(on: Subject, entry: Entry) -> Outcome:
    """The same, compiled by its framework."""
    return _near(on, _called(on, entry, on.harness.compiled(_layer(on, entry))), entry["result"])


def attention_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of the same with respect to the queries."""
    _, keys, values = _tokens(on, entry)
    layer, options = _layer(on, entry), _options(on, entry)
    queries, weights = (_native(on, entry[name]) for name in ("queries", "weights"))
    got = on.harness.gradient(lambda x: layer(x, keys, values, **options), queries, weights)
    return _near(on, got, entry["gradient"])


def cut(on: Subject, entry: Entry) -> Outcome:
    """The same, piece by piece, with what came before in a cache."""
    layer, options, cache, results = _layer(on, entry), _options(on, entry), (), []
    whole = np.array(entry["queries"], np.float32)
    for begin, end in zip([0, *entry["cuts"]], [*entry["cuts"], whole.shape[1]], strict=True):
        piece = on.room.from_numpy(whole[:, begin:end])
        result, _, cache = layer(piece, piece, piece, start=begin, cache=cache, **options)
        results.append(on.room.to_numpy(result))
    return _near(on, np.concatenate(results, axis=1), entry["result"])


def alone(on: Subject, entry: Entry) -> Outcome:
    """`attend` with a causal mask, in any dtype; where the entry has a `block`, block by block."""
    return _near_in_dtype(on, _attended(on, entry, _in_dtype(on, entry, "q")), entry, "result")


def alone_gradient(on: Subject, entry: Entry) -> Outcome:
    """Its gradient with respect to the queries."""
    q, weights = _in_dtype(on, entry, "q"), _in_dtype(on, entry, "weights")
    return _near_in_dtype(on, on.harness.gradient(partial(_attended, on, entry), q, weights), entry, "gradient")


def _layer(on: Subject, entry: Entry) -> Any:
    position = Encoding.from_dict(entry["position"]) if entry["position"] else None
    layer = on.room.MultiHeadAttention(8, 2, position=position, num_kv_heads=entry["kv_heads"])
    matrices = {name: np.array(matrix, np.float32) for name, matrix in entry["matrices"].items()}
    layer = on.harness.filled(on.harness.evaluated(layer), matrices)
    parameters = {name: np.array(array, np.float32) for name, array in entry["parameters"].items()}
    if parameters and on.harness.with_parameters(layer.scoring, parameters) is not layer.scoring:
        return on.harness.with_parameters(layer, parameters)  # layers that do not change are made anew, as a whole
    return layer


def _tokens(on: Subject, entry: Entry) -> list[Any]:
    return [_native(on, entry[name]) for name in ("queries", "keys", "values")]


def _called(on: Subject, entry: Entry, layer: Any) -> Any:
    return layer(*_tokens(on, entry), **_options(on, entry))


def _options(on: Subject, entry: Entry) -> dict[str, Any]:
    """What a call says beside its tokens; arrays are those of the framework."""
    kinds = {"valid_lens": np.int32, "positions": np.int32, "key_positions": np.int32, "mask": np.bool_}
    return {
        name: on.room.from_numpy(np.array(given, kinds[name])) if name in kinds else given
        for name, given in entry["options"].items()
    }


def _attended(on: Subject, entry: Entry, q: Any) -> Any:
    k, v = (_in_dtype(on, entry, name) for name in ("k", "v"))
    queries, keys = q.shape[2], k.shape[2]
    start, encoding = entry["start"], entry["position"]
    at = range(start, start + queries), range(keys)
    position = Placed(cast("Any", Encoding.from_dict(encoding)), *at) if encoding else None
    mask = causal(counted(queries, like=q) + start, counted(keys, like=q))
    if "block" not in entry:
        return attend(q, k, v, position=position, mask=mask)
    asked = mask if position is None else causal
    return attend_by_block(q, k, v, position=position, mask=asked, block=entry["block"])


def _native(on: Subject, array: Any) -> Any:
    return on.room.from_numpy(np.array(array, np.float32))


def _in_dtype(on: Subject, entry: Entry, name: str) -> Any:
    wide = np.array(entry[name], np.float64 if entry["dtype"] == "float64" else np.float32)
    return on.harness.cast(on.room.from_numpy(wide), entry["dtype"])


def _near(on: Subject, got: Any, golden: Any) -> Outcome:
    """How far a result is off, in units in the last place of its largest number."""
    array = got if isinstance(got, np.ndarray) else on.room.to_numpy(got)
    return Outcome(ulps(array, golden, scale=np.full(np.shape(golden), np.max(np.abs(golden)))), ATTENTION)


def _near_in_dtype(on: Subject, got: Any, entry: Entry, name: str) -> Outcome:
    dtype, golden = entry["dtype"], np.array(entry[name])
    off = ulps(on.room.to_numpy(got), golden, dtype=dtype, scale=np.full(golden.shape, np.abs(golden).max()))
    return Outcome(off, ONCE if "16" in dtype else ATTENTION)
