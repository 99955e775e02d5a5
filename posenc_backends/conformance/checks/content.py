"""What the conformance suite measures of encodings that look at queries and keys."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_core.attention.attend import attend
from posenc_core.attention.blockwise import attend_by_block
from posenc_core.attention.masks import causal
from posenc_core.encodings import ContentScoring, Placed
from posenc_core.positions.sequences import counted

from ..errors import Entry, Outcome, Subject, layer_of, ulps

CONTENT = 8.0  # some hundred roundings on the way to a gradient, each of half a unit or less, of either sign
TOKENS = ("q", "k", "values")


def biased(on: Subject, entry: Entry) -> Outcome:
    """An `AttentionBias` with the parameters given, on scores that are -inf where a mask hides the key."""
    return _near_visible(on, entry, _layer(on, entry)(_scores(on, entry), **_told(on, entry)), "biased")


def compiled_biased(on: Subject, entry: Entry) -> Outcome:
    """The same, compiled by its framework; positions that are given are known to the running program only."""
    layer = on.harness.compiled(_layer(on, entry))
    positions = {name: _native(on, array, np.int32) for name, array in _positions(entry).items()}
    return _near_visible(on, entry, layer(_scores(on, entry), **_told(on, entry) | positions), "biased")


def biased_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradient of an `AttentionBias` with respect to the scores that it is given."""
    call = partial(_layer(on, entry), **_told(on, entry))
    got = on.harness.gradient(call, _scores(on, entry), _native(on, entry["score_weights"]))
    return _near_visible(on, entry, got, "scores_gradient")


def attended(on: Subject, entry: Entry) -> Outcome:
    """Attention with the encoding inside, and parameters that are no layer's."""
    arrays = _arrays(on, entry)
    return _near(on, _attended(on, entry, arrays), entry["result"])


def attended_gradient(on: Subject, entry: Entry) -> Outcome:
    """The gradients of that with respect to queries, keys, values and every parameter; the worst of them."""
    arrays, weights = _arrays(on, entry), _native(on, entry["result_weights"])

    def of(name: str) -> Outcome:
        got = on.harness.gradient(lambda x: _attended(on, entry, arrays | {name: x}), arrays[name], weights)
        return _near(on, got, entry["gradients"][name])

    return max(of(name) for name in arrays)


def _layer(on: Subject, entry: Entry) -> Any:
    numbers = {name: np.array(array, np.float32) for name, array in entry["weights"].items()}
    return on.harness.with_parameters(on.harness.evaluated(layer_of(on, entry)), numbers)


def _scores(on: Subject, entry: Entry) -> Any:
    return _native(on, np.where(_visible(entry), np.array(entry["scores"]), -np.inf))


def _visible(entry: Entry) -> Any:
    """The mask of an entry, `(queries, keys)`."""
    queries, keys = np.shape(entry["scores"])[-2:]
    return causal(np.arange(queries) + entry["start"], np.arange(keys)) if entry["causal"] else np.ones((1, 1), bool)


def _told(on: Subject, entry: Entry) -> dict[str, Any]:
    """What a layer is called with besides scores."""
    start = {"start": entry["start"]} if "start" in entry else {}
    return start | _positions(entry) | {name: _native(on, entry[name]) for name in ("q", "k")}


def _positions(entry: Entry) -> dict[str, Any]:
    return {name: np.array(entry[name]) for name in ("query_positions", "key_positions") if name in entry}


def _arrays(on: Subject, entry: Entry) -> dict[str, Any]:
    tokens = {name: entry[name] for name in TOKENS}
    return {name: _native(on, array) for name, array in (tokens | entry["weights"]).items()}


def _native(on: Subject, array: Any, dtype: Any = np.float32) -> Any:
    return on.room.from_numpy(np.asarray(array, dtype))


def _attended(on: Subject, entry: Entry, arrays: dict[str, Any]) -> Any:
    q, k, v = (arrays[name] for name in TOKENS)
    queries, keys = np.shape(entry["scores"])[-2:]
    start, given = entry.get("start", 0), _positions(entry)
    at_queries = given.get("query_positions", range(start, start + queries))
    weights = {name: array for name, array in arrays.items() if name not in TOKENS}
    position = Placed(
        ContentScoring.from_dict(entry["encoding"]), at_queries, given.get("key_positions", range(keys)), weights
    )
    mask = causal(counted(queries, like=q) + start, counted(keys, like=q)) if entry["causal"] else None
    if "block" in entry:
        return attend_by_block(q, k, v, position=position, mask=mask, block=entry["block"])
    return attend(q, k, v, position=position, mask=mask)


def _near_visible(on: Subject, entry: Entry, got: Any, name: str) -> Outcome:
    """How far numbers are off that belong to keys that no mask hides."""
    return _near(on, np.where(_visible(entry), on.room.to_numpy(got), 0), entry[name])


def _near(on: Subject, got: Any, golden: Any) -> Outcome:
    """How far numbers are off, in units in the last place of the largest one."""
    array = got if isinstance(got, np.ndarray) else on.room.to_numpy(got)
    return Outcome(ulps(array, golden, scale=np.full(np.shape(golden), np.max(np.abs(golden)))), CONTENT)
