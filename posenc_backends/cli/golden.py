"""The command `posenc golden`: write the numbers of the conformance suite for programs without Python."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_backends.check.diagnosis import LIMIT
from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.checks.content import CONTENT
from posenc_backends.conformance.checks.scoring import COMPUTED
from posenc_backends.conformance.errors import LEARNED
from posenc_core import __version__

if TYPE_CHECKING:
    from .parser import Parser, Subparsers

FORMAT = 1  # raise it with every change that breaks a reader of the files
Array = npt.NDArray[Any]
_DTYPES = {"float64": "F64", "int64": "I64"}


class GoldenSet(NamedTuple):
    """A set of golden numbers with its tolerance.

    Attributes:
        name: the name of the file in `tests/golden`.
        outputs: the keys of results; all other arrays are inputs.
        ulp: the tolerance in ulp of the dtype of the case.
        of: the number whose ulp counts: each `"entry"`, the length of its `"pair"`, or the `"largest"` entry.
    """

    name: str
    outputs: tuple[str, ...]
    ulp: float
    of: str


# A table that is rounded once is off by half an ulp; sums, and slopes times distances, are rounded once more. The other
# tolerances are those of the conformance suite, for rotations that of `posenc check`.
SETS = (
    GoldenSet("seeds", ("table",), 0.5, "entry"),
    GoldenSet("sinusoidal", ("table",), 0.5, "entry"),
    GoldenSet("additive_tables", ("table",), 0.5, "entry"),
    GoldenSet("rope_models", ("frequencies", "cos_sin"), 0.5, "entry"),
    GoldenSet("scalings", ("frequencies", "cos_sin"), 0.5, "entry"),
    GoldenSet("addition", ("result", "gradient"), 1, "largest"),
    GoldenSet("additive_sums", ("result", "gradient"), 1, "largest"),
    GoldenSet("rotation", ("result", "gradient"), LIMIT, "pair"),
    GoldenSet("turns", ("result", "gradient"), LIMIT, "pair"),
    GoldenSet("scoring_constants", ("bias",), 2, "entry"),
    GoldenSet("position_scoring", ("bias", "gradients"), COMPUTED, "largest"),
    GoldenSet("content_scoring", ("biased", "result", "scores_gradient", "gradients"), CONTENT, "largest"),
    GoldenSet("learned", ("gradient",), 1, "largest"),
    GoldenSet("learned_sinusoidal", ("result", "gradient"), LEARNED, "largest"),
    GoldenSet("learned_rotary", ("result", "gradient"), LEARNED, "largest"),
)
_METADATA = {"name", "encoding", "dtype", "printed", "config", "source", "layout", "placement"}  # keys without numbers


def add_parser(subparsers: Subparsers) -> Parser:
    """Add the subcommand and return its parser."""
    parser = subparsers.add_parser("golden", help="write golden numbers for programs without Python")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write to")
    return parser


def run(options: argparse.Namespace) -> int:
    """Write the files and print the number of cases; return the exit status 0."""
    count = publish(options.output)
    print(f"{options.output} holds {count} cases; golden.json describes them.")  # noqa: T201
    return 0


def publish(folder: Path) -> int:
    """Write the golden numbers to a folder and return the number of cases.

    `golden.json` describes each case, `schema.json` is its JSON schema, and each set of cases has a safetensors file
    with its arrays in float64 or int64. The same version writes the same bytes.

    Args:
        folder: the folder to write to; it is created if it does not exist.
    Returns:
        The number of cases.
    Raises:
        OSError: if a file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cases = publish(Path(folder))
    ...     sorted(path.name for path in Path(folder).glob("sc*"))
    ['scalings.safetensors', 'schema.json', 'scoring_constants.safetensors']
    """
    folder.mkdir(parents=True, exist_ok=True)
    cases: list[dict[str, Any]] = []
    digests = {}
    for golden_set in SETS:
        tensors: dict[str, Array] = {}
        for name, golden_case in _with_unique_names(golden(golden_set.name)):
            cases.append(_describe_case(golden_set, name, golden_case, tensors))
        file, data = f"{golden_set.name}.safetensors", _safetensors(tensors)
        (folder / file).write_bytes(data)
        digests[file] = hashlib.sha256(data).hexdigest()
    _write_json(folder / "golden.json", {"format": FORMAT, "posenc": __version__, "files": digests, "cases": cases})
    _write_json(folder / "schema.json", SCHEMA)
    return len(cases)


def _with_unique_names(golden_cases: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each case after its name; repeated names get a number."""
    seen: dict[str, int] = {}
    for golden_case in golden_cases:
        name = golden_case["name"]
        seen[name] = seen.get(name, 0) + 1
        yield (f"{name} ({seen[name]})" if seen[name] > 1 else name), golden_case


def _describe_case(
    golden_set: GoldenSet, name: str, golden_case: dict[str, Any], tensors: dict[str, Array]
) -> dict[str, Any]:
    """Return the description of a case for `golden.json`, and add its arrays to `tensors`."""
    case: dict[str, Any] = {"name": name, "spec": golden_case["encoding"], "file": f"{golden_set.name}.safetensors"}
    case |= {"inputs": {}, "outputs": {}, "options": {}}
    for key, value in _flatten(golden_case):
        if isinstance(value, list):
            array = tensors[f"{name}/{key}"] = _array(value)
            role = "outputs" if key.partition(".")[0] in golden_set.outputs else "inputs"
            digest = hashlib.sha256(_bytes(array)).hexdigest()
            description = {"tensor": f"{name}/{key}", "dtype": str(array.dtype), "shape": list(array.shape)}
            case[role][key] = description | {"sha256": digest}
        else:
            case["options"][key] = value
    dtype = golden_case.get("dtype", "float32")
    return case | {"tolerance": {"ulp": golden_set.ulp, "dtype": dtype, "of": golden_set.of}}


def _flatten(golden_case: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of a case; keys of inner dictionaries are joined by a dot."""
    for key, value in golden_case.items():
        if key in _METADATA:
            continue
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", item) for inner, item in value.items())
        else:
            yield key, value


def _array(numbers: list[Any]) -> Array:
    array = np.array(numbers)
    return array.astype(np.int64 if array.dtype.kind in "biu" else np.float64)


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


def _safetensors(tensors: dict[str, Array]) -> bytes:
    """Return a safetensors file with these tensors; its header is padded to a multiple of 8 bytes."""
    header, first = {}, 0
    for name, array in tensors.items():
        last = first + array.nbytes
        header[name] = {"dtype": _DTYPES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [first, last]}
        first = last
    text = json.dumps({"__metadata__": {"posenc": __version__, "format": str(FORMAT)}} | header, separators=(",", ":"))
    head = text.encode() + b" " * (-len(text.encode()) % 8)
    return len(head).to_bytes(8, "little") + head + b"".join(map(_bytes, tensors.values()))


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


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
