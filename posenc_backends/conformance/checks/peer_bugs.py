"""Check what other libraries get wrong today: each case asks for the right numbers in the way that fails elsewhere.

Each library and its defect is in `docs/explanation/defects.md`, under the number of the case.
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

from ..errors import EXACT, BackendUnderTest, GoldenCase, Measurement, array_of, error_of, layer_of, pair_inputs, ulps
from .tables import additive_table, rotary_table


def defect(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Run the check that the case names, bit for bit."""
    return _CHECKS[case["check"]](on, case)


def _table(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the table of a model's config, or of an encoding if there is no config."""
    if "config" not in case:
        return rotary_table(on, case)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`factor` .* is used")  # one of the cases is about this
        encoding = load_rope(case["config"], layer_type=case["layer_type"], layout=case["encoding"]["layout"])
    return rotary_table(on, case, on.backend.RotaryEmbedding(encoding))


def _after_half_precision(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the table after a longer call in half precision."""
    layer = layer_of(on, case)
    layer(array_of(on, np.ones((1, 1, 2048, layer.encoding.head_dim)), case["dtype"]))
    return rotary_table(on, case, layer)


def _cast(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the rotation of pairs (1, 0) in half precision by a layer that was cast to it."""
    layer = on.testing.eval_mode(layer_of(on, case), case["dtype"])
    x = array_of(on, pair_inputs(case, 1, 1, len(case["positions"])), case["dtype"])
    rotated = on.backend.to_numpy(layer(x, positions=np.array(case["positions"])))[0, 0]
    cos_sin = rotated[:, np.array(case["channels"])[:, 2:]]
    return Measurement(ulps(cos_sin, case["rounded"], dtype=case["dtype"]), EXACT)


def _after_another_grid(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the table after a call with the positions of another grid."""
    layer, positions = layer_of(on, case), np.array(case["positions"])
    tokens = array_of(on, np.ones((1, 1, positions.shape[-1], layer.encoding.head_dim)))
    layer(tokens, positions=positions + np.array([[5], [9]]))
    return rotary_table(on, case, layer)


def _one_by_one(on: BackendUnderTest, case: GoldenCase, layer: Any = None) -> Measurement:
    """Check calls with one token each, as with a KV cache: pairs (1, 0) become cosine and sine."""
    layer = layer_of(on, case) if layer is None else layer
    tokens = np.zeros((1, 1, 1, layer.encoding.head_dim), np.float32)
    tokens[..., 0::2] = 1
    worst = 0.0
    for i, position in enumerate(case["positions"]):
        rotated = layer(*[on.backend.from_numpy(tokens)] * 2, start=position)
        for got, name in zip(rotated, ("queries", "keys"), strict=True):
            wanted = np.array(case[name][i], np.float32).reshape(1, 1, 1, -1)
            worst = max(worst, ulps(on.backend.to_numpy(got), wanted))
    return Measurement(worst, EXACT)


def _copied(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check an encoding that was pickled and copied."""
    encoding = copy.deepcopy(pickle.loads(pickle.dumps(Encoding.from_dict(case["encoding"]))))
    return _one_by_one(on, case, on.backend.RotaryEmbedding(encoding))


def _read_back(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check an encoding that was written to JSON and read back."""
    written = json.dumps(layer_of(on, case).encoding.to_dict())
    return rotary_table(on, case, on.backend.RotaryEmbedding(Encoding.from_dict(json.loads(written))))


def _by_rows(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check positions `(batch, length)`: a row with those of the case reversed, and a row with those of the case."""
    layer, positions = layer_of(on, case), np.array(case["positions"])
    x = on.backend.from_numpy(pair_inputs(case, 2, 1, len(positions)))
    rotated = layer(x, positions=np.stack([positions[::-1], positions]), seq_len=case["seq_len"])
    cos_sin = on.backend.to_numpy(rotated)[:, 0][:, :, np.array(case["channels"])[:, 2:]]
    wanted = np.array(case["cos_sin"]).astype(np.float32)
    return Measurement(ulps(cos_sin, np.stack([wanted[::-1], wanted])), EXACT)


def _past_the_table(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check positions past the `max_len` of the layer."""
    return rotary_table(on, case, on.backend.RotaryEmbedding(Encoding.from_dict(case["encoding"]), max_len=2))


def _half_sum(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check rows added to zeros of half precision."""
    layer = on.testing.eval_mode(layer_of(on, case), case["dtype"])
    zeros = array_of(on, np.zeros((1, len(case["positions"]), layer.encoding.dim)), case["dtype"])
    return Measurement(error_of(on, layer(zeros, positions=np.array(case["positions"])), case, "result"), EXACT)


def _other_tokens(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check that integers and other widths are rejected, and that a result has the dtype of the tokens of its call."""
    layer = layer_of(on, case)
    width = layer.encoding.dim
    for shape, dtype, error in (((1, 2, width), np.int64, TypeError), ((1, 2, width + 1), np.float32, ValueError)):
        try:
            layer(on.backend.from_numpy(np.zeros(shape, dtype)))
        except error:
            continue
        raise AssertionError(f"The layer accepted {dtype.__name__} tokens of width {shape[-1]}.")
    layer(array_of(on, np.zeros((1, 2, width))))
    return _half_sum(on, case)


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
