"""The golden vectors that `posenc golden` writes for programs without Python."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from safetensors.numpy import load_file

import posenc_core
from posenc_backends.cli.golden import publish
from posenc_core.encodings import Encoding

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "docs" / "howto" / "rope.c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    publish(folder)
    return folder


@pytest.fixture(scope="module")
def golden(folder):
    return json.loads((folder / "golden.json").read_text(encoding="utf-8"))


def concrete_subclasses(cls):
    for subclass in cls.__subclasses__():
        yield from concrete_subclasses(subclass)
        if not subclass.__abstractmethods__:
            yield subclass.__name__


def test_all_encodings_are_there_and_read_back(golden):
    specs = [Encoding.from_dict(case["spec"]) for case in golden["cases"]]
    assert {type(spec).__name__ for spec in specs} == set(concrete_subclasses(Encoding)) & set(posenc_core.__all__)


def test_the_files_are_as_the_schema_says(folder, golden):
    schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(golden, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(golden | {"cases": [golden["cases"][0] | {"outputs": {}}]}, schema)


def test_safetensors_reads_the_described_tensors(folder, golden):
    for file, digest in golden["files"].items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest
    files = {file: load_file(folder / file) for file in golden["files"]}
    named = [(case["file"], each) for case in golden["cases"] for each in _tensors(case)]
    assert sum(map(len, files.values())) == len({(file, each["tensor"]) for file, each in named}) == len(named)
    for file, each in named:
        array = files[file][each["tensor"]]
        assert (str(array.dtype), list(array.shape)) == (each["dtype"], each["shape"])
        assert hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).tobytes()).hexdigest() == each["sha256"]
        assert np.isfinite(array).all()


def _tensors(case):
    yield from case["inputs"].values()
    yield from case["outputs"].values()


def test_the_same_version_writes_the_same_bytes(folder, tmp_path):
    publish(tmp_path)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_the_core_is_within_the_tolerance(folder, golden):
    case = next(case for case in golden["cases"] if case["name"] == "llama-2-7b")
    tensors = load_file(folder / case["file"])
    cos, sin = Encoding.from_dict(case["spec"]).cos_sin(tensors["llama-2-7b/positions"])
    columns, wanted = tensors["llama-2-7b/columns"], tensors["llama-2-7b/cos_sin"]
    error = np.abs(np.stack([cos, sin], axis=-1)[:, columns] - wanted)
    ulp = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(wanted), 1e-38))) - 23)
    assert (error <= case["tolerance"]["ulp"] * ulp).all()


def compiled(source, tmp_path):
    """Compile a C program and return its path; a machine without a compiler fails: the page promises that this runs."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "there is no C compiler: install one, for example with `apt-get install gcc`"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-O2", str(source), "-o", str(tmp_path / "rope"), "-lm"]
    subprocess.run(command, check=True)
    return tmp_path / "rope"


def test_the_c_program_of_the_docs_conforms(folder, tmp_path):
    assert PROGRAM.read_text().count("\n") <= 40
    program = compiled(PROGRAM, tmp_path)
    completed = subprocess.run(
        [program, folder / "rope_models.safetensors"], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0
    assert re.fullmatch(r"conforms \(worst 0\.\d\d ulp\)\n", completed.stdout)


def test_the_c_program_detects_another_base(folder, tmp_path):
    wrong = tmp_path / "wrong.c"
    wrong.write_text(PROGRAM.read_text().replace("pow(10000, ", "pow(10001, "))
    completed = subprocess.run(
        [compiled(wrong, tmp_path), folder / "rope_models.safetensors"], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stdout.startswith("does not conform")) == (1, True)
