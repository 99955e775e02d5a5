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

from ..errors import EXACT, Entry, Outcome, Subject, layer_of, off, ulps
from .tables import additive_table, rotary_table


def defect(on: Subject, entry: Entry) -> Outcome:
    """What the entry asks for, bit for bit."""
    return _CHECKS[entry["check"]](on, entry)


def _table(on: Subject, entry: Entry) -> Outcome:
    """The table of a config, where there is one, or of an encoding."""
    if "config" not in entry:
        return rotary_table(on, entry)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`factor` .* is used")  # which is the point of one of the cases
        encoding = load_rope(entry["config"], layer_type=entry["layer_type"], layout=entry["encoding"]["layout"])
    return rotary_table(on, entry, on.room.RotaryEmbedding(encoding))


def _after_half_precision(on: Subject, entry: Entry) -> Outcome:
    layer = layer_of(on, entry)
    tokens = on.room.from_numpy(np.ones((1, 1, 2048, layer.encoding.head_dim), np.float32))
    layer(on.harness.cast(tokens, entry["dtype"]))
    return rotary_table(on, entry, layer)


def _cast(on: Subject, entry: Entry) -> Outcome:
    """Pairs (1, 0) of half precision, turned by a layer that was cast to it."""
    layer, ends = on.harness.evaluated(layer_of(on, entry), entry["dtype"]), np.array(entry["channels"])
    x = np.zeros((1, 1, len(entry["positions"]), layer.encoding.head_dim), np.float32)
    x[..., ends[:, 0]] = 1
    tokens = on.harness.cast(on.room.from_numpy(x), entry["dtype"])
    turned = on.room.to_numpy(layer(tokens, positions=np.array(entry["positions"])))[0, 0]
    return Outcome(ulps(turned[:, ends[:, 2:]], entry["rounded"], dtype=entry["dtype"]), EXACT)


def _after_another_grid(on: Subject, entry: Entry) -> Outcome:
    layer, positions = layer_of(on, entry), np.array(entry["positions"])
    tokens = np.ones((1, 1, positions.shape[-1], layer.encoding.head_dim), np.float32)
    layer(on.room.from_numpy(tokens), positions=positions + np.array([[5], [9]]))
    return rotary_table(on, entry, layer)


def _one_by_one(on: Subject, entry: Entry, layer: Any = None) -> Outcome:
    """Each token in a call of its own, as with a cache of keys: pairs (1, 0) become cosine and sine."""
    layer = layer_of(on, entry) if layer is None else layer
    tokens = np.zeros((1, 1, 1, layer.encoding.head_dim), np.float32)
    tokens[..., 0::2] = 1
    worst = 0.0
    for i, position in enumerate(entry["positions"]):
        turned = layer(*[on.room.from_numpy(tokens)] * 2, start=position)
        for got, name in zip(turned, ("queries", "keys"), strict=True):
            wanted = np.array(entry[name][i], np.float32).reshape(1, 1, 1, -1)
            worst = max(worst, ulps(on.room.to_numpy(got), wanted))
    return Outcome(worst, EXACT)


def _copied(on: Subject, entry: Entry) -> Outcome:
    encoding = copy.deepcopy(pickle.loads(pickle.dumps(Encoding.from_dict(entry["encoding"]))))
    return _one_by_one(on, entry, on.room.RotaryEmbedding(encoding))


def _read_back(on: Subject, entry: Entry) -> Outcome:
    written = json.dumps(layer_of(on, entry).encoding.to_dict())
    return rotary_table(on, entry, on.room.RotaryEmbedding(Encoding.from_dict(json.loads(written))))


def _by_rows(on: Subject, entry: Entry) -> Outcome:
    """Positions `(batch, length)`: those of the entry, and as many others."""
    layer, positions = layer_of(on, entry), np.array(entry["positions"])
    ends = np.array(entry["channels"])
    x = np.zeros((2, 1, len(positions), layer.encoding.head_dim), np.float32)
    x[..., ends[:, 0]] = 1
    both = np.stack([positions[::-1], positions])
    turned = on.room.to_numpy(layer(on.room.from_numpy(x), positions=both, seq_len=entry["seq_len"]))
    wanted = np.array(entry["cos_sin"]).astype(np.float32)
    return Outcome(ulps(turned[:, 0][:, :, ends[:, 2:]], np.stack([wanted[::-1], wanted])), EXACT)


def _past_the_table(on: Subject, entry: Entry) -> Outcome:
    return rotary_table(on, entry, on.room.RotaryEmbedding(Encoding.from_dict(entry["encoding"]), max_len=2))


def _half_sum(on: Subject, entry: Entry) -> Outcome:
    """Rows added to zeros of half precision."""
    layer = on.harness.evaluated(layer_of(on, entry), entry["dtype"])
    zeros = np.zeros((1, len(entry["positions"]), layer.encoding.dim), np.float32)
    tokens = on.harness.cast(on.room.from_numpy(zeros), entry["dtype"])
    return Outcome(off(on, layer(tokens, positions=np.array(entry["positions"])), entry, "result"), EXACT)


def _other_tokens(on: Subject, entry: Entry) -> Outcome:
    """Integers and other widths are refused, and the dtype of a result is that of this call's tokens."""
    layer = layer_of(on, entry)
    width = layer.encoding.dim
    for tokens, error in ((np.zeros((1, 2, width), np.int64), TypeError), (np.zeros((1, 2, width + 1)), ValueError)):
        try:
            layer(on.room.from_numpy(tokens.astype(tokens.dtype if error is TypeError else np.float32)))
        except error:
            continue
        raise AssertionError(f"{tokens.dtype} tokens of width {tokens.shape[-1]} were taken.")
    layer(on.room.from_numpy(np.zeros((1, 2, width), np.float32)))
    return _half_sum(on, entry)


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
