"""Negative vectors: the numbers of known mistakes for the inputs of a golden case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_backends.check.candidates import Candidate
from posenc_backends.check.mistakes import mistakes_of_encoding
from posenc_backends.check.mistakes.base import IMPOSSIBLE, Mistake
from posenc_backends.check.mistakes.rotary import OF_ATTENTION, SWAPPED
from posenc_backends.check.mistakes.rounding import mistakes_of_rounding
from posenc_backends.check.signatures import RotateQueriesAndKeys, Table
from posenc_core.encodings import Encoding

Float64s = npt.NDArray[np.float64]
APART = 1e-6  # numbers that are nearer to the right ones show nothing


def mistaken(name: str, golden_case: dict[str, Any]) -> Iterator[tuple[Mistake, str, Float64s]]:
    """Yield each mistake that the inputs of a case show, the key of the output, and its numbers.

    Args:
        name: the set of the case; for `"kernels"`, `"rope_models"`, `"scalings"` and `"sinusoidal"` mistakes are known.
        golden_case: the case as in `tests/golden`.
    """
    encoding: Any = Encoding.from_dict(golden_case["encoding"])
    if name not in RESULTS or encoding.plain_rope() is None:
        return
    if golden_case.get("seq_len"):
        encoding = encoding.at(golden_case["seq_len"])
    key, results = RESULTS[name]
    right = Candidate(encoding=encoding, positions=np.array(golden_case["positions"]))
    wanted = results(right, golden_case)
    seen = {wanted.tobytes()}
    for mistake in (*mistakes_of_encoding(encoding), *mistakes_of_rounding(encoding)):
        for candidate in mistake.candidates(right):
            try:
                found = results(candidate, golden_case)
            except IMPOSSIBLE:  # such as a table of fewer pairs, which lacks columns of the case
                continue
            differs = found.shape == wanted.shape and np.abs(found - wanted).max() > APART
            if differs and found.tobytes() not in seen:
                seen.add(found.tobytes())
                is_indexer = mistake.name == SWAPPED and golden_case["name"].startswith("indexer")
                yield mistake._replace(name=OF_ATTENTION) if is_indexer else mistake, key, found
            break


def _rotated(candidate: Candidate, golden_case: dict[str, Any]) -> Float64s:
    q = np.array(golden_case["q"], np.float64)
    (result, *_) = RotateQueriesAndKeys(candidate.encoding).results(candidate, (q,), q.shape[-1])
    return np.asarray(result, np.float64)


def _cos_sin(candidate: Candidate, golden_case: dict[str, Any]) -> Float64s:
    return np.stack(candidate.tables(), axis=-1)[:, golden_case["columns"]]


def _table(candidate: Candidate, golden_case: dict[str, Any]) -> Float64s:
    return np.asarray(Table(candidate.encoding).results(candidate, (), 0)[0], np.float64)


RESULTS = {
    "kernels": ("rotated_q", _rotated),
    "rope_models": ("cos_sin", _cos_sin),
    "scalings": ("cos_sin", _cos_sin),
    "sinusoidal": ("table", _table),
}
