"""Golden vectors, version 1: expected numbers, and those of known mistakes, as files for programs without Python."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_backends.check.diagnosis import LIMIT
from posenc_backends.check.program import STORED, Numbers, safetensors
from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.checks.content import CONTENT
from posenc_backends.conformance.checks.scoring import COMPUTED
from posenc_backends.conformance.errors import LEARNED, MULTIPLIED, POLAR
from posenc_core._array_api.checks import check_type, shown
from posenc_core.formats.safetensors import read_header

from ..output import replace_file, write_text
from .mistakes import mistaken
from .schema import SCHEMA

VERSION = "1.1.0"  # of the vectors; numbers are added in a minor version, and never changed
TEXTS = ("README.md", "BUGS.md", "CHANGELOG.md", "LICENSE")  # copied beside the vectors
DIGITS = {
    "float32": (24, -125),
    "bfloat16": (8, -125),
    "float16": (11, -13),
    "float8_e4m3fn": (4, -5),
}  # of a number, and its least exponent
MEANINGS = {
    "truth": "the value of the formula, computed with 50 digits and rounded once to the dtype of the tensor",
    "formula": "the bits of the formula in the dtype of the case: a float32 table, each product and sum rounded",
    "mistake": "what a program returns that makes the mistake, in float32; it must not match",
}


class GoldenSet(NamedTuple):
    """A set of golden numbers with its tolerance.

    Attributes:
        name: the name of the file in `tests/golden`.
        outputs: the keys of results; all other arrays are inputs.
        ulp: the tolerance in ulp of the dtype of the case.
        of: the number whose ulp counts: each `"entry"`, the length of its `"pair"`, or the `"largest"` entry.
        meaning: a key of `MEANINGS`.
        in_each_dtype: whether results are exact in float64, and stand beside it rounded once to each of `ROUNDED`.
    """

    name: str
    outputs: tuple[str, ...]
    ulp: float
    of: str
    meaning: str = "truth"
    in_each_dtype: bool = False


# A table that is rounded once is off by half an ulp; sums, and slopes times distances, are rounded once more. The other
# tolerances are those of the conformance suite, for rotations that of `posenc check`, beside a norm twice that.
NORMALIZED = 2 * LIMIT
SETS = (
    GoldenSet("seeds", ("table",), 0.5, "entry"),
    GoldenSet("sinusoidal", ("table",), 0.5, "entry"),
    GoldenSet("additive_tables", ("table",), 0.5, "entry"),
    GoldenSet("rope_models", ("frequencies", "cos_sin"), 0.5, "entry"),
    GoldenSet("scalings", ("frequencies", "cos_sin"), 0.5, "entry"),
    GoldenSet("query_scale", ("table",), 0.5, "entry"),
    GoldenSet("remapping", ("distances", "tables"), 0.5, "entry"),
    GoldenSet("kernels", ("rotated_q", "rotated_k"), LIMIT, "pair", in_each_dtype=True),
    GoldenSet("qk_norm", ("rotated_q",), NORMALIZED, "pair", in_each_dtype=True),
    GoldenSet("packed_qkv", ("rotated_qkv",), LIMIT, "pair", in_each_dtype=True),
    GoldenSet("addition", ("result", "gradient"), 1, "largest", "formula"),
    GoldenSet("additive_sums", ("result", "gradient"), 1, "largest", "formula"),
    GoldenSet("rotation", ("result", "gradient"), LIMIT, "pair", "formula"),
    GoldenSet("turns", ("result", "gradient"), LIMIT, "pair", "formula"),
    GoldenSet("scoring_constants", ("bias",), 2, "entry", "formula"),
    GoldenSet("position_scoring", ("bias", "gradients"), COMPUTED, "largest"),
    GoldenSet("content_scoring", ("biased", "result", "scores_gradient", "gradients"), CONTENT, "largest", "formula"),
    GoldenSet("learned", ("gradient",), 1, "largest"),
    GoldenSet("learned_sinusoidal", ("result", "gradient"), LEARNED, "largest"),
    GoldenSet("learned_rotary", ("result", "gradient"), LEARNED, "largest"),
    GoldenSet("mixed_rotary", ("result", "gradients"), LEARNED, "largest"),
    GoldenSet("fope", ("result", "gradients"), MULTIPLIED, "largest"),
    GoldenSet("pope", ("result", "gradients"), POLAR, "largest"),
    GoldenSet("learned_query_scale", ("result", "gradients"), MULTIPLIED, "largest"),
)
# Beside the exact numbers of kernels stand those of each dtype. A rotation in float32 that is rounded once to half
# precision is off by half an ulp, and by the hundredth part that float32 leaves.
ROUNDED = dict.fromkeys(("bfloat16", "float16", "float8_e4m3fn"), ("rounded once", 0.51))
METADATA = {"name", "encoding", "dtype", "printed", "config", "source", "layout", "placement"}  # keys without numbers


def publish(folder: Path, progress: Callable[[str], None] | None = None) -> int:
    """Write the golden vectors to a folder and return the number of cases.

    Each set of cases has a safetensors file; `index.txt` has a line for each tensor, for programs that read no JSON,
    `golden.json` describes each case, and `schema.json` is its JSON Schema. A version writes the same bytes, whatever
    the version of posenc.

    Args:
        folder: the folder to write to; it is created if it does not exist.
        progress: a function that is given the name of each file of cases after it was written.
    Returns:
        The number of cases.
    Raises:
        TypeError: if `folder` is not a `Path`, or `progress` no function.
        FileExistsError: if the folder has a file of one of these names, but no golden vectors, which are replaced.
        OSError: if a file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cases = publish(Path(folder))
    ...     sorted(path.name for path in Path(folder).glob("*.*") if path.suffix != ".safetensors")
    ['BUGS.md', 'CHANGELOG.md', 'README.md', 'golden.json', 'index.txt', 'schema.json']
    """
    check_type("folder", folder, Path, "a Path")
    if isinstance(progress, type) or not (progress is None or callable(progress)):
        raise TypeError(f"`progress` must be a function or None, got {shown(progress)}.")
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "golden.json").exists():
        for name in (*TEXTS, "index.txt", "schema.json", *(f"{golden_set.name}.safetensors" for golden_set in SETS)):
            if (folder / name).exists():
                raise FileExistsError(f"`folder` must be empty or new, got {folder}, which has a file {name}.")
    return write_sets(folder, progress)


def write_sets(
    folder: Path, progress: Callable[[str], None] | None = None, mistakes_of: Collection[str] | None = None
) -> int:
    """Write the files of `publish` over those of a folder and return the number of cases.

    `mistakes_of` has the names of the cases with mistakes, None for all: they are four fifths of the bytes.
    """
    cases: list[dict[str, Any]] = []
    digests: dict[str, str] = {}
    lines: list[str] = []
    for golden_set in SETS:
        tensors: dict[str, Numbers] = {}
        own = []
        for name, case in _published(golden_set):
            own.append(_described(golden_set, name, case, tensors))
            if mistakes_of is None or name in mistakes_of:
                _add_mistakes(golden_set, own[-1], case, tensors)
        file, data = f"{golden_set.name}.safetensors", safetensors(tensors, {"version": VERSION})
        _write(folder / file, data)
        if progress is not None:
            progress(file)
        digests[file] = hashlib.sha256(data).hexdigest()
        lines += _lines(folder / file, own)
        cases += own
    content = {"version": VERSION, "licence": "MIT-0", "meanings": MEANINGS, "files": digests, "cases": cases}
    for name, described in (("golden.json", content), ("schema.json", SCHEMA)):
        write_text(folder / name, json.dumps(described, indent=1, allow_nan=False) + "\n")
    write_text(folder / "index.txt", "\n".join(lines) + "\n")
    for name in TEXTS:
        _write(folder / name, files("posenc_backends.cli.golden").joinpath(name).read_bytes())
    return len(cases)


def _published(golden_set: GoldenSet) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each case after its name, which has neither spaces nor commas; repeated names get a number.

    Left out is arithmetic in float64, which version 1 of the vectors does not have.
    """
    seen: dict[str, int] = {}
    for case in golden(golden_set.name):
        if golden_set.meaning == "formula" and case.get("dtype") == "float64":
            continue
        name = re.sub(r"[^A-Za-z0-9.=_+-]+", "-", case["name"]).strip("-")
        seen[name] = seen.get(name, 0) + 1
        yield (f"{name}-{seen[name]}" if seen[name] > 1 else name), case


def _described(
    golden_set: GoldenSet, name: str, golden_case: dict[str, Any], tensors: dict[str, Numbers]
) -> dict[str, Any]:
    """Return the description of a case without mistakes for `golden.json`, and add its arrays to `tensors`."""
    case: dict[str, Any] = {"name": name, "spec": golden_case["encoding"], "file": f"{golden_set.name}.safetensors"}
    case |= {"inputs": {}, "outputs": {}, "mistakes": {}, "options": {}}
    dtype = "float64" if golden_set.in_each_dtype else golden_case.get("dtype", "float32")

    def add(part: str, key: str, numbers: Numbers, **more: Any) -> None:
        case[part][key] = _stored(tensors, f"{name}/{key}", numbers) | more

    for key, value in _flat(golden_case):
        if not isinstance(value, list):
            case["options"][key] = value
            continue
        numbers = _numbers(value)
        if key.partition(".")[0] not in golden_set.outputs:
            add("inputs", key, numbers)
            continue
        tolerance = {"class": "exact", "ulp": golden_set.ulp, "dtype": dtype, "of": golden_set.of}
        add("outputs", key, numbers, meaning=golden_set.meaning, tolerance=tolerance)
        classes = {"float32": ("exact", golden_set.ulp)} | ROUNDED if golden_set.in_each_dtype else {}
        for kind, (name_of_class, ulp) in classes.items():
            if kind.startswith("float8") and "scale" not in golden_case:
                continue
            exact = numbers.values / golden_case["scale"] if kind.startswith("float8") else numbers.values
            rounded = Numbers(rounded_once(exact, kind), kind)
            own = tolerance | {"class": name_of_class, "ulp": ulp, "dtype": kind}
            add("outputs", f"{key}.{kind}", rounded, meaning="truth", tolerance=own)
    return case


def _add_mistakes(
    golden_set: GoldenSet, case: dict[str, Any], golden_case: dict[str, Any], tensors: dict[str, Numbers]
) -> None:
    for mistake, key, values in mistaken(golden_set.name, golden_case):
        label = re.sub(r"[^A-Za-z0-9]+", "-", mistake.name)
        number = sum(known.startswith(f"{key}.mistake.{label}.") for known in case["mistakes"]) + 1
        more = {"meaning": "mistake", "mistake": mistake.name, "description": mistake.description, "of": key}
        full = f"{key}.mistake.{label}.{number}"
        case["mistakes"][full] = _stored(tensors, f"{case['name']}/{full}", Numbers(values, "float32")) | more


def _stored(tensors: dict[str, Numbers], name: str, numbers: Numbers) -> dict[str, Any]:
    """Add an array to `tensors` and return its description."""
    tensors[name] = numbers
    shape, digest = list(numbers.values.shape), hashlib.sha256(numbers.to_bytes()).hexdigest()
    return {"tensor": name, "dtype": numbers.dtype, "shape": shape, "sha256": digest}


def _flat(golden_case: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of a case; keys of inner dictionaries are joined by a dot."""
    for key, value in golden_case.items():
        if key in METADATA:
            continue
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", item) for inner, item in value.items())
        else:
            yield key, value


def _numbers(given: list[Any]) -> Numbers:
    array = np.array(given)
    is_whole = array.dtype.kind in "biu"
    return Numbers(array.astype(np.int64 if is_whole else np.float64), "int64" if is_whole else "float64")


def rounded_once(values: npt.NDArray[np.float64], dtype: str) -> npt.NDArray[np.float64]:
    """Return the nearest numbers of a dtype, ties to even, in float64.

    >>> rounded_once(np.array([1 / 3]), "bfloat16")
    array([0.33398438])
    """
    digits, least = DIGITS[dtype]
    _, exponent = np.frexp(values)
    shift = digits - np.maximum(exponent, least)
    return np.asarray(np.ldexp(np.rint(np.ldexp(values, shift)), -shift))


def _lines(file: Path, cases: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each tensor: its place in the file first, so that a program needs no parser of JSON."""
    where = {tensor.name: tensor.start for tensor in read_header(file)}
    for case in cases:
        for part in ("inputs", "outputs", "mistakes"):
            for key, one in case[part].items():
                tolerance = one.get("tolerance", {})
                shape = ",".join(map(str, one["shape"])) or "-"
                kind = [tolerance.get(name, "-") for name in ("ulp", "dtype", "of")]
                stored = STORED[one["dtype"]][0]
                row = (file.name, where[one["tensor"]], stored, shape, part[:-1], case["name"], key, *kind)
                yield "\t".join(map(str, row))


def _write(path: Path, data: bytes) -> None:
    with replace_file(path) as written:
        written.write_bytes(data)
