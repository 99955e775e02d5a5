"""What peers get wrong today, as cases: the right numbers, asked for in the way in which a peer gives others.

Each peer and its defect is in `docs/explanation/defects.md`, under the number of the case.
"""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from typing import Any

import numpy as np

from posenc_core.encodings import Encoding
from posenc_core.huggingface import load_rope

from ..errors import EXACT, BackendUnderTest, GoldenCase, Measurement, layer_of, off, ulps
from .tables import additive_table, rotary_table


def defect(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """What the entry asks for, bit for bit."""
    return _CHECKS[golden_case["check"]](on, golden_case)


def _table(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """The table of a config, where there is one, or of an encoding."""
    if "config" not in golden_case:
        return rotary_table(on, golden_case)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`factor` .* is used")  # which is the point of one of the cases
        encoding = load_rope(
            golden_case["config"], layer_type=golden_case["layer_type"], layout=golden_case["encoding"]["layout"]
        )
    return rotary_table(on, golden_case, on.backend.RotaryEmbedding(encoding))


def _after_half_precision(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    layer = layer_of(on, golden_case)
    tokens = on.backend.from_numpy(np.ones((1, 1, 2048, layer.encoding.head_dim), np.float32))
    layer(on.testing.cast(tokens, golden_case["dtype"]))
    return rotary_table(on, golden_case, layer)


def _cast(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """Pairs (1, 0) of half precision, turned by a layer that was cast to it."""
    layer, ends = (
        on.testing.eval_mode(layer_of(on, golden_case), golden_case["dtype"]),
        np.array(golden_case["channels"]),
    )
    x = np.zeros((1, 1, len(golden_case["positions"]), layer.encoding.head_dim), np.float32)
    x[..., ends[:, 0]] = 1
    tokens = on.testing.cast(on.backend.from_numpy(x), golden_case["dtype"])
    turned = on.backend.to_numpy(layer(tokens, positions=np.array(golden_case["positions"])))[0, 0]
    return Measurement(ulps(turned[:, ends[:, 2:]], golden_case["rounded"], dtype=golden_case["dtype"]), EXACT)


def _after_another_grid(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    layer, positions = layer_of(on, golden_case), np.array(golden_case["positions"])
    tokens = np.ones((1, 1, positions.shape[-1], layer.encoding.head_dim), np.float32)
    layer(on.backend.from_numpy(tokens), positions=positions + np.array([[5], [9]]))
    return rotary_table(on, golden_case, layer)


def _one_by_one(on: BackendUnderTest, golden_case: GoldenCase, layer: Any = None) -> Measurement:
    """Each token in a call of its own, as with a cache of keys: pairs (1, 0) become cosine and sine."""
    layer = layer_of(on, golden_case) if layer is None else layer
    tokens = np.zeros((1, 1, 1, layer.encoding.head_dim), np.float32)
    tokens[..., 0::2] = 1
    worst = 0.0
    for i, position in enumerate(golden_case["positions"]):
        turned = layer(*[on.backend.from_numpy(tokens)] * 2, start=position)
        for got, name in zip(turned, ("queries", "keys"), strict=True):
            wanted = np.array(golden_case[name][i], np.float32).reshape(1, 1, 1, -1)
            worst = max(worst, ulps(on.backend.to_numpy(got), wanted))
    return Measurement(worst, EXACT)


def _copied(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    encoding = copy.deepcopy(pickle.loads(pickle.dumps(Encoding.from_dict(golden_case["encoding"]))))
    return _one_by_one(on, golden_case, on.backend.RotaryEmbedding(encoding))


def _read_back(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    written = json.dumps(layer_of(on, golden_case).encoding.to_dict())
    return rotary_table(on, golden_case, on.backend.RotaryEmbedding(Encoding.from_dict(json.loads(written))))


def _by_rows(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """Positions `(batch, length)`: those of the entry, and as many others."""
    layer, positions = layer_of(on, golden_case), np.array(golden_case["positions"])
    ends = np.array(golden_case["channels"])
    x = np.zeros((2, 1, len(positions), layer.encoding.head_dim), np.float32)
    x[..., ends[:, 0]] = 1
    both = np.stack([positions[::-1], positions])
    turned = on.backend.to_numpy(layer(on.backend.from_numpy(x), positions=both, seq_len=golden_case["seq_len"]))
    wanted = np.array(golden_case["cos_sin"]).astype(np.float32)
    return Measurement(ulps(turned[:, 0][:, :, ends[:, 2:]], np.stack([wanted[::-1], wanted])), EXACT)


def _past_the_table(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    return rotary_table(
        on, golden_case, on.backend.RotaryEmbedding(Encoding.from_dict(golden_case["encoding"]), max_len=2)
    )


def _half_sum(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """Rows added to zeros of half precision."""
    layer = on.testing.eval_mode(layer_of(on, golden_case), golden_case["dtype"])
    zeros = np.zeros((1, len(golden_case["positions"]), layer.encoding.dim), np.float32)
    tokens = on.testing.cast(on.backend.from_numpy(zeros), golden_case["dtype"])
    return Measurement(
        off(on, layer(tokens, positions=np.array(golden_case["positions"])), golden_case, "result"), EXACT
    )


def _other_tokens(on: BackendUnderTest, golden_case: GoldenCase) -> Measurement:
    """Integers and other widths are refused, and the dtype of a result is that of this call's tokens."""
    layer = layer_of(on, golden_case)
    width = layer.encoding.dim
    for tokens, error in ((np.zeros((1, 2, width), np.int64), TypeError), (np.zeros((1, 2, width + 1)), ValueError)):
        try:
            layer(on.backend.from_numpy(tokens.astype(tokens.dtype if error is TypeError else np.float32)))
        except error:
            continue
        raise AssertionError(f"{tokens.dtype} tokens of width {tokens.shape[-1]} were taken.")
    layer(on.backend.from_numpy(np.zeros((1, 2, width), np.float32)))
    return _half_sum(on, golden_case)


_CHECKS = {
    "table": _table,
    "after_half_precision": _after_half_precision,
    "cast": _cast,
    "after_another_grid": _after_another_grid,
    "one_by_one": _one_by_one,
    "copied": _copied,
    "read_back": _read_back,
    "by_rows": _by_rows,
    "past_the_table": _past_the_table,
    "half_sum": _half_sum,
    "rows": additive_table,
    "other_tokens": _other_tokens,
}
