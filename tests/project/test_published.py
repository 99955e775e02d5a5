"""The golden vectors that `posenc golden` writes for programs without Python."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from safetensors.numpy import load_file

import posenc_core
from posenc_backends.check.diagnosis import LIMIT
from posenc_backends.check.program import Numbers, from_bytes
from posenc_backends.cli.golden.publish import SETS, VERSION, publish, rounded_once
from posenc_backends.cli.main import main
from posenc_backends.conformance.errors import pair_lengths, ulp_of
from posenc_core.encodings import NAMES, Encoding
from posenc_core.normalization import normalize_and_rotate
from posenc_core.positions import multimodal
from posenc_core.rotation import rotate_checked

HALVES = ("kernels.safetensors", "qk_norm.safetensors", "packed_qkv.safetensors")
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "docs" / "howto" / "rope.c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The golden vectors as another version of posenc writes them, over those of a version before."""
    folder, names = tmp_path_factory.mktemp("golden"), []
    for name in ("golden.json", "README.md"):
        (folder / name).write_text("{}", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posenc_core, "__version__", "9.9.9")
        publish(folder, names.append)
    assert names == [f"{one.name}.safetensors" for one in SETS]
    return folder


@pytest.fixture(scope="module")
def golden(folder):
    return json.loads((folder / "golden.json").read_text(encoding="utf-8"))


def test_all_encodings_are_there_and_read_back(golden):
    specs = [Encoding.from_dict(case["spec"]) for case in golden["cases"]]
    assert {type(spec).__name__ for spec in specs} == {*NAMES}


def test_the_files_are_as_the_schema_says(folder, golden):
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(golden, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(golden | {"cases": [golden["cases"][0] | {"outputs": {}}]}, schema)


def test_safetensors_reads_the_described_tensors(folder, golden):
    """Kernels have tensors in bfloat16 and FP8, which NumPy lacks; the test of the index reads them."""
    for file, digest in golden["files"].items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest
    files = {file: load_file(folder / file) for file in golden["files"] if file not in HALVES}
    named = [(case["file"], each) for case in golden["cases"] if case["file"] in files for each in _tensors(case)]
    assert sum(map(len, files.values())) == len({(file, each["tensor"]) for file, each in named}) == len(named)
    for file, each in named:
        array = files[file][each["tensor"]]
        assert (str(array.dtype), list(array.shape)) == (each["dtype"], each["shape"])
        assert hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).tobytes()).hexdigest() == each["sha256"]
        assert np.isfinite(array).all()


def _tensors(case):
    for part in ("inputs", "outputs", "mistakes"):
        yield from case[part].values()


def test_the_same_version_writes_the_same_bytes(folder, golden, tmp_path, monkeypatch):
    """One set again, by this version of posenc; the numbers of the others are those of `promised.txt`."""
    monkeypatch.setattr(sys.modules[publish.__module__], "SETS", SETS[:1])
    publish(tmp_path)
    again = json.loads((tmp_path / "golden.json").read_text(encoding="utf-8"))
    count = len(again["cases"])
    assert golden | {key: again[key] for key in ("cases", "files")} == again
    assert golden["cases"][:count] == again["cases"]
    assert again["files"].items() <= golden["files"].items()
    for path in tmp_path.iterdir():
        written, of_all = path.read_bytes(), (folder / path.name).read_bytes()
        if path.name != "golden.json":
            assert written == (of_all[: len(written)] if path.name == "index.txt" else of_all)


def test_files_of_others_are_not_overwritten(tmp_path, capsys):
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    assert main(["golden", "-o", str(tmp_path)]) == 2
    assert "README.md" in capsys.readouterr().err
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["mine"]


def test_no_number_that_was_published_is_changed_or_removed(golden):
    lines = (ROOT / "tests" / "golden" / "promised.txt").read_text(encoding="utf-8").splitlines()
    now = {
        f"{case['file']}/{one['tensor']}": one["sha256"][:16]
        for case in golden["cases"]
        for part in ("inputs", "outputs")
        for one in case[part].values()
    }
    promised = {name: digest for name, digest, _ in (line.split("\t") for line in lines)}
    assert {name: now.get(name) for name in promised} == promised
    assert set(now) == set(promised), "run tests/golden/promised.py and write into CHANGELOG.md what is new"


def test_the_version_is_that_of_the_texts(folder, golden):
    assert golden["version"] == VERSION
    assert f"## {VERSION} (" in (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"a version of their own, {VERSION}," in (ROOT / "docs" / "howto" / "golden.md").read_text(encoding="utf-8")
    assert "MIT No Attribution" in (folder / "LICENSE").read_text(encoding="utf-8")


def test_the_index_says_where_each_tensor_lies(folder, golden):
    lines = [line.split("\t") for line in (folder / "index.txt").read_text(encoding="utf-8").splitlines()]
    files = {file: (folder / file).read_bytes() for file in golden["files"]}
    sizes = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "F8_E4M3": 1}
    described = {(case["file"], case["name"], key): one for case in golden["cases"] for key, one in _by_key(case)}
    for file, first, dtype, shape, _, case, key, ulp, of_dtype, of in lines:
        one = described.pop((file, case, key))
        assert [int(n) for n in shape.split(",")] == one["shape"]
        data = files[file][int(first) : int(first) + sizes[dtype] * int(np.prod(one["shape"]))]
        assert hashlib.sha256(data).hexdigest() == one["sha256"]
        tolerance = one.get("tolerance", {"ulp": "-", "dtype": "-", "of": "-"})
        assert (ulp, of_dtype, of) == (str(tolerance["ulp"]), tolerance["dtype"], tolerance["of"])
    assert not described


def _by_key(case):
    for part in ("inputs", "outputs", "mistakes"):
        yield from case[part].items()


def test_names_can_be_written_without_quotes(golden):
    names = [case["name"] for case in golden["cases"]]
    assert all(re.fullmatch(r"[A-Za-z0-9.=_+-]+", name) for name in names)
    by_file = [(case["file"], case["name"]) for case in golden["cases"]]
    assert len(set(by_file)) == len(by_file)


def test_no_published_number_is_float64_arithmetic_with_a_float32_table(golden):
    formulas = {f"{one.name}.safetensors" for one in SETS if one.meaning == "formula"}
    tolerances = {
        (case["file"] in formulas, one["tolerance"]["dtype"])
        for case in golden["cases"]
        for one in case["outputs"].values()
    }
    assert (True, "float64") not in tolerances
    assert (False, "float64") in tolerances


def test_the_core_is_within_the_tolerance(folder, golden):
    case = next(case for case in golden["cases"] if case["name"] == "llama-2-7b")
    tensors = load_file(folder / case["file"])
    cos, sin = Encoding.from_dict(case["spec"]).cos_sin(tensors["llama-2-7b/positions"])
    columns, wanted = tensors["llama-2-7b/columns"], tensors["llama-2-7b/cos_sin"]
    error = np.abs(np.stack([cos, sin], axis=-1)[:, columns] - wanted)
    ulp = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(wanted), 1e-38))) - 23)
    tolerance = case["outputs"]["cos_sin"]["tolerance"]
    assert (tolerance["dtype"], tolerance["of"]) == ("float32", "entry")
    assert (error <= tolerance["ulp"] * ulp).all()


def kernels(golden):
    return [case for case in golden["cases"] if case["file"] == "kernels.safetensors"]


def test_the_core_rotates_kernels_within_the_tolerance_of_each_dtype(golden):
    for case, (encoding, arrays) in zip(kernels(golden), map(_rotated, golden_kernels()), strict=True):
        for name, wanted in (("rotated_q", arrays["rotated_q"]), ("rotated_k", arrays["rotated_k"])):
            for dtype in ("float32", "bfloat16", "float16"):
                tolerance = case["outputs"][f"{name}.{dtype}"]["tolerance"]
                got = rounded_once(arrays[name[-1]], dtype)
                ulp = ulp_of(pair_lengths(encoding, wanted), dtype)
                assert (np.abs(got - rounded_once(wanted, dtype)) <= (tolerance["ulp"] + 0.5) * ulp).all()
                assert (np.abs(got - wanted) <= tolerance["ulp"] * ulp).all(), (case["name"], dtype)


def _rotated(case):
    """Return the encoding and the tokens of a case after our rotation in float32."""
    encoding = Encoding.from_dict(case["encoding"])
    positions = np.array(case["positions"])
    cos, sin = encoding.cos_sin(positions)
    if positions.ndim == 2 and encoding.num_axes == 1:
        cos, sin = cos[:, None], sin[:, None]
    found = {name: np.array(case[name]) for name in ("rotated_q", "rotated_k")}
    for name in "qk":
        x = np.array(case[name], np.float32)
        found[name] = rotate_checked(x, cos, sin, encoding.pairing).astype(np.float64)
    return encoding, found


def golden_kernels(name="kernels"):
    return json.loads((ROOT / "tests" / "golden" / f"{name}.json").read_text(encoding="utf-8"))


def test_the_core_normalizes_and_rotates_within_the_tolerance_of_each_dtype(golden):
    cases = [case for case in golden["cases"] if case["file"] == "qk_norm.safetensors"]
    for case, given in zip(cases, golden_kernels("qk_norm"), strict=True):
        encoding, wanted = Encoding.from_dict(given["encoding"]), np.array(given["rotated_q"])
        options = {name: given[name] for name in ("epsilon", "offset", "order", "head_axis")}
        weight = np.array(given["weight"], np.float32) if "weight" in given else None
        got = normalize_and_rotate(
            np.array(given["q"], np.float32), *encoding.cos_sin(given["positions"]), layout=encoding.layout,
            weight=weight, **options,
        ).astype(np.float64)  # fmt: skip
        for dtype, scale in (("float32", 1), ("bfloat16", 1), ("float16", 1), ("float8_e4m3fn", given["scale"])):
            ulp = case["outputs"][f"rotated_q.{dtype}"]["tolerance"]["ulp"] * ulp_of(
                pair_lengths(encoding, wanted / scale), dtype
            )
            error = np.abs(rounded_once(got / scale, dtype) - wanted / scale)
            assert (error <= ulp).all(), (case["name"], dtype)


def test_the_core_rotates_packed_queries_and_keys_in_place():
    for case in golden_kernels("packed_qkv"):
        encoding, wanted = Encoding.from_dict(case["encoding"]), np.array(case["rotated_qkv"])
        cos, sin = (
            np.expand_dims(table, (*range(1, wanted.ndim - 2),)) for table in encoding.cos_sin(case["positions"])
        )
        qkv = np.array(case["qkv"], np.float32)
        part = {"three-half-64": np.s_[..., :2, :, :], "heads-half-64": np.s_[..., :5, :]}.get(
            case["name"], np.s_[..., :3, :]
        )
        qkv[part] = rotate_checked(qkv[part], cos, sin, encoding.pairing)
        tolerance = LIMIT * ulp_of(pair_lengths(encoding, wanted), "float32")
        assert (np.abs(qkv - wanted) <= tolerance).all(), case["name"]
        assert np.abs(np.array(case["qkv"]) - wanted).max() > 0.1


def test_positions_of_the_video_are_those_of_its_time_stamps():
    (case,) = (case for case in golden_kernels() if case["name"].startswith("video"))
    (interval,) = {case["positions_per_second"] * float(step) for step in np.diff(case["seconds"])}
    positions, _ = multimodal([1, (3, 1, 2, interval), 1])
    assert positions.tolist() == case["positions"]


def test_float8_has_the_bits_of_the_standard():
    """As IEEE numbers have them: 1 is 0x38, 448 the largest, 2**-9 the smallest."""
    numbers = Numbers(np.array([0, 2.0**-9, -(2.0**-6), 1, -1.125, 448]), "float8_e4m3fn")
    data = numbers.to_bytes()
    assert data == bytes([0x00, 0x01, 0x88, 0x38, 0xB9, 0x7E])
    np.testing.assert_array_equal(from_bytes(data, "float8_e4m3fn", (6,)).values, numbers.values)


def test_mistakes_are_named_and_lie_apart_from_the_truth(folder, golden):
    tensors = load_file(folder / "rope_models.safetensors")
    for case in golden["cases"]:
        for key, one in case["mistakes"].items():
            assert key.startswith(f"{one['of']}.mistake.")
            assert one["shape"] == case["outputs"][one["of"]]["shape"]
            if case["file"] == "rope_models.safetensors":
                right = tensors[f"{case['name']}/{one['of']}"]
                assert np.abs(tensors[one["tensor"]] - right).max() > 1e-7
    names = {one["mistake"] for case in kernels(golden) for one in case["mistakes"].values()}
    assert {"layout swapped", "sign flipped", "float32 angles", "scaling ignored", "rotary_dim ignored"} <= names


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_truth_is_rounded_once(dtype):
    numbers = np.random.default_rng(0).standard_normal(1000) * 2.0 ** np.arange(-30, 10).repeat(25)
    kind = {"float32": np.float32, "float16": np.float16}.get(dtype)
    if kind is None:  # half of a unit above a number goes to the even one, however little float32 would add
        assert rounded_once(np.array([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40]), dtype).tolist() == [1, 1 + 2.0**-7]
    else:
        assert np.array_equal(rounded_once(numbers, dtype), numbers.astype(kind).astype(np.float64))


def compiled(source, tmp_path):
    """Compile a C program and return its path; a machine without a compiler fails: the page promises that this runs."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "there is no C compiler: install one, for example with `apt-get install gcc`"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-O2", str(source), "-o", str(tmp_path / "rope"), "-lm"]
    subprocess.run(command, check=True)
    return tmp_path / "rope"


WRONG = {  # what is exchanged in the program, and what it then prints
    "wrong-base": ("pow(10000, ", "pow(500000, "),
    "sign-flipped": ("double angle = ", "double angle = -1.0 * "),
    "layout-swapped": ("long pair = i % WIDTH % (WIDTH / 2), start = i - i % WIDTH;", "/* */"),
    "float32-angles": (
        "pow(10000, -2.0 * pair / WIDTH);",
        "(double)(float)pow(10000, -2.0 * pair / WIDTH); angle = (float)angle;",
    ),
}
NEIGHBOURS = """long pair = i % WIDTH / 2, start = i - i % WIDTH;
                double turn = positions[i / WIDTH % length] * pow(10000, -2.0 * pair / WIDTH);
                double a = q[start + 2 * pair], b = q[start + 2 * pair + 1];
                mine[i] = i % 2 ? b * cos(turn) + a * sin(turn) : a * cos(turn) - b * sin(turn);
                continue;
"""


def run_program(text, folder, tmp_path):
    source = tmp_path / "rope.c"
    source.write_text(text, encoding="utf-8")
    done = subprocess.run([compiled(source, tmp_path), folder], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_c_program_of_the_docs_conforms(folder, tmp_path):
    status, out = run_program(PROGRAM.read_text(encoding="utf-8"), folder, tmp_path)
    assert (status, re.fullmatch(r"conforms \(worst \d\.\d\d ulp\)\n", out) is not None) == (0, True), out


@pytest.mark.parametrize("mistake", WRONG)
def test_the_c_program_prints_the_name_of_its_mistake(mistake, folder, tmp_path):
    before, after = WRONG[mistake]
    text = PROGRAM.read_text(encoding="utf-8")
    assert before in text
    status, out = run_program(text.replace(before, NEIGHBOURS if after == "/* */" else after), folder, tmp_path)
    assert (status, out.endswith(f": {mistake}\n")) == (1, True), out
