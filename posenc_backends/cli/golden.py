"""Golden vectors for programs without Python: the numbers of the conformance suite as safetensors, and what they are as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_backends.check.diagnosis import LIMIT
from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.checks.content import CONTENT
from posenc_backends.conformance.checks.scoring import COMPUTED
from posenc_backends.conformance.errors import LEARNED
from posenc_core import __version__

FORMAT = 1  # grows with every change that a reader of the files would notice
Array = npt.NDArray[Any]
_DTYPES = {"float64": "F64", "int64": "I64"}


class Numbers(NamedTuple):
    """A set of golden numbers: what in it is asked and what answered, and how near an answer has to be.

    Attributes:
        name: of the set.
        outputs: the keys of answers; other arrays are what is asked.
        ulp: what is allowed, in units in the last place of the dtype of the case.
        of: of which number: each `"entry"`, the length of the `"pair"` of channels it is in, or the `"largest"` entry.
    """

    name: str
    outputs: tuple[str, ...]
    ulp: float
    of: str


# A table that is rounded once is off by half a unit; sums by one rounding more, and so are slopes times distances. Others
# as in the suite; rotations as in `verdict`.
SETS = (
    Numbers("seeds", ("table",), 0.5, "entry"),
    Numbers("sinusoidal", ("table",), 0.5, "entry"),
    Numbers("additive_tables", ("table",), 0.5, "entry"),
    Numbers("rope_models", ("frequencies", "cos_sin"), 0.5, "entry"),
    Numbers("scalings", ("frequencies", "cos_sin"), 0.5, "entry"),
    Numbers("addition", ("result", "gradient"), 1, "largest"),
    Numbers("additive_sums", ("result", "gradient"), 1, "largest"),
    Numbers("rotation", ("result", "gradient"), LIMIT, "pair"),
    Numbers("turns", ("result", "gradient"), LIMIT, "pair"),
    Numbers("scoring_constants", ("bias",), 2, "entry"),
    Numbers("position_scoring", ("bias", "gradients"), COMPUTED, "largest"),
    Numbers("content_scoring", ("biased", "result", "scores_gradient", "gradients"), CONTENT, "largest"),
    Numbers("learned", ("gradient",), 1, "largest"),
    Numbers("learned_sinusoidal", ("result", "gradient"), LEARNED, "largest"),
    Numbers("learned_rotary", ("result", "gradient"), LEARNED, "largest"),
)
_APART = {"name", "encoding", "dtype", "printed", "config", "source", "layout", "placement"}  # no numbers of a case


def publish(folder: Path) -> int:
    """Write the golden vectors to a folder, and return the number of cases.

    `golden.json` says of each case what it is, `schema.json` what may stand there, and a file of safetensors for each set
    holds its arrays, float64 or int64. The same version writes the same bytes.

    Args:
        folder: where to; it is made if there is none.
    Raises:
        OSError: if it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cases = publish(Path(folder))
    ...     sorted(path.name for path in Path(folder).glob("s*"))
    ['scalings.safetensors', 'schema.json', 'scoring_constants.safetensors', 'seeds.safetensors', 'sinusoidal.safetensors']
    """
    folder.mkdir(parents=True, exist_ok=True)
    cases, files = [], {}
    for each in SETS:
        tensors: dict[str, Array] = {}
        cases += [_case(each, name, golden_case, tensors) for name, golden_case in _named(golden(each.name))]
        file, data = f"{each.name}.safetensors", _safetensors(tensors)
        (folder / file).write_bytes(data)
        files[file] = hashlib.sha256(data).hexdigest()
    told = {"format": FORMAT, "posenc": __version__, "files": files, "cases": cases}
    _write(folder / "golden.json", told)
    _write(folder / "schema.json", SCHEMA)
    return len(cases)


def _named(golden_cases: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries, with names that differ."""
    seen: dict[str, int] = {}
    for golden_case in golden_cases:
        name = golden_case["name"]
        seen[name] = seen.get(name, 0) + 1
        yield (f"{name} ({seen[name]})" if seen[name] > 1 else name), golden_case


def _case(numbers: Numbers, name: str, golden_case: dict[str, Any], tensors: dict[str, Array]) -> dict[str, Any]:
    """What is told of a case; its arrays are added to the tensors."""
    dtype = golden_case.get("dtype", "float32")
    case: dict[str, Any] = {"name": name, "spec": golden_case["encoding"], "file": f"{numbers.name}.safetensors"}
    case |= {"inputs": {}, "outputs": {}, "options": {}}
    for key, value in _flat(golden_case):
        if isinstance(value, list):
            array = tensors[f"{name}/{key}"] = _array(value)
            role = "outputs" if key.partition(".")[0] in numbers.outputs else "inputs"
            case[role][key] = _told(f"{name}/{key}", array)
        else:
            case["options"][key] = value
    return case | {"tolerance": {"ulp": numbers.ulp, "dtype": dtype, "of": numbers.of}}


def _flat(golden_case: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What an entry holds, arrays in dictionaries by names with a dot."""
    for key, value in golden_case.items():
        if key in _APART:
            continue
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", each) for inner, each in value.items())
        else:
            yield key, value


def _array(numbers: list[Any]) -> Array:
    array = np.array(numbers)
    return array.astype(np.int64 if array.dtype.kind in "biu" else np.float64)


def _told(name: str, array: Array) -> dict[str, Any]:
    digest = hashlib.sha256(_bytes(array)).hexdigest()
    return {"tensor": name, "dtype": str(array.dtype), "shape": list(array.shape), "sha256": digest}


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


def _safetensors(tensors: dict[str, Array]) -> bytes:
    """A file of these tensors, one after the other; its header is padded to whole words."""
    header, first = {}, 0
    for name, array in tensors.items():
        last = first + array.nbytes
        header[name] = {"dtype": _DTYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [first, last]}
        first = last
    text = json.dumps({"__metadata__": {"posenc": __version__, "format": str(FORMAT)}} | header, separators=(",", ":"))
    head = text.encode() + b" " * (-len(text.encode()) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(map(_bytes, tensors.values()))


def _write(path: Path, told: Any) -> None:
    path.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _object(required: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "additionalProperties": False, "properties": required}


_TEXT, _DIGEST = {"type": "string"}, {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TENSOR = _object(
    {
        "tensor": _TEXT,
        "dtype": {"enum": list(_DTYPES)},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "sha256": _DIGEST,
    }
)
_TENSORS = {"type": "object", "additionalProperties": _TENSOR}
_TOLERANCE = _object(
    {
        "ulp": {"type": "number", "exclusiveMinimum": 0},
        "dtype": {"enum": ["float64", "float32", "float16", "bfloat16"]},
        "of": {"enum": ["entry", "pair", "largest"]},
    }
)
_CASE = _object(
    {
        "name": _TEXT,
        "spec": {"type": "object", "required": ["kind"], "properties": {"kind": _TEXT}},
        "file": _TEXT,
        "inputs": _TENSORS,
        "outputs": _TENSORS | {"minProperties": 1},
        "options": {"type": "object"},
        "tolerance": _TOLERANCE,
    }
)
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Golden vectors of posenc",
    **_object(
        {
            "format": {"const": FORMAT},
            "posenc": _TEXT,
            "files": {"type": "object", "additionalProperties": _DIGEST},
            "cases": {"type": "array", "items": _CASE, "minItems": 1},
        }
    ),
}
