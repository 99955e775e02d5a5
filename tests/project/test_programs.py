"""`posenc check --exec`: programs in C, Rust, JavaScript and Python, right ones and wrong ones."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc_backends.check import check, program
from posenc_backends.check.program import Numbers, Program, from_bytes, safetensors
from posenc_backends.cli.main import main
from posenc_core import Alibi, ReRoPE, Rotary, Sinusoidal

PROGRAMS = Path("docs/howto/programs").resolve()
ROPE = Rotary(head_dim=64, layout="half")
RE_ROPE = ReRoPE(rotary=Rotary(head_dim=8, layout="half"), window=4)
RUN = {  # how each is compiled, the tools it needs, and how it is checked
    "c": ("gcc -O2 {source} -lm -o {target}", "gcc", "{target}", "--raw", "float32"),
    "rs": ("rustc --edition 2021 -O {source} -o {target}", "rustc", "{target}", "--raw", "float32, bfloat16"),
    "js": ("", "node", "node {source}", None, "float32"),
}


@pytest.mark.parametrize(("language", "base"), [*((language, "10000") for language in RUN), ("c", "500000")])
def test_a_program_in_another_language_conforms_or_is_named_wrong(language, base, tmp_path, monkeypatch, capsys):
    build, tool, run, raw, dtypes = RUN[language]
    if shutil.which(tool) is None:
        pytest.skip(f"this machine has no {tool}")
    monkeypatch.chdir(tmp_path)
    text = (PROGRAMS / f"rope.{language}").read_text(encoding="utf-8")
    source, target = tmp_path / f"rope.{language}", tmp_path / "rope"
    source.write_text(text.replace("10000", base), encoding="utf-8")
    if build:
        subprocess.run(build.format(source=source, target=target).split(), check=True, capture_output=True)
    status = main(["check", "-v", "--exec", run.format(source=source, target=target), *([raw] if raw else [])])
    out, is_wrong = capsys.readouterr().out, base != "10000"
    assert status == is_wrong, out
    assert ("wrong base" if is_wrong else "conforms") in out
    assert f"calls in {dtypes}\n" in out
    assert "not asked: gradients of a program" in out


def python(code):
    return sys.executable, "-S", "-c", code


FILES = """
import json, math, struct, sys
file = open(sys.argv[1], "rb").read()
first = 8 + struct.unpack("<Q", file[:8])[0]
header = json.loads(file[8:first])
spec = json.loads(header.pop("__metadata__")["spec"])
def read(name):
    start, stop = header[name]["data_offsets"]
    return struct.unpack(f"<{(stop - start) // 8}q", file[first + start : first + stop])
def write(name, shape, numbers):
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    text = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, len(data)]}}).encode()
    open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data)
"""
TABLE = """
positions = read("positions")
angles = [p * 10000.0 ** (-i / 4) for p in positions for i in range(4)]
write("table", [len(positions), 8], [f(a) for a in angles for f in (math.sin, math.cos)])
"""
BIAS = """
queries, keys, heads = read("query_positions"), read("key_positions"), spec["num_heads"]
bias = [-abs(i - j) * 2.0 ** -(head + 1) for head in range(heads) for i in queries for j in keys]
write("bias", [heads, len(queries), len(keys)], bias)
"""
RAW = """
import math, struct, sys
data = sys.stdin.buffer.read()
angles = [p * 10000.0 ** (-i / 32) for p in struct.unpack(f"<{len(data) // 8}q", data) for i in range(32)]
for f in (math.cos, math.sin):
    sys.stdout.buffer.write(struct.pack(f"<{len(angles)}f", *map(f, angles)))
"""


@pytest.mark.parametrize(
    ("code", "encoding", "form", "raw"),
    [
        (FILES + TABLE, Sinusoidal(dim=8), "table", False),
        (FILES + BIAS, Alibi(num_heads=8), "bias", False),
        (RAW, ROPE, "table", True),
    ],
    ids=["table", "bias", "raw table"],
)
def test_tables_and_biases_of_programs_are_checked(code, encoding, form, raw):
    made = Program(command=python(code), encoding=encoding, form=form, raw=raw)
    assert check(made, encoding, form=form).status == 0


@pytest.mark.parametrize("form", ["scores", "products"])
def test_scores_and_products_of_programs_have_an_axis_of_queries_and_one_of_keys(form):
    made = Program(
        command=python("import os; os.write(1, bytes(range(240)) * 2)"), encoding=RE_ROPE, form=form, raw=True
    )
    at = [Numbers(np.arange(count), "int64") for count in (3, 5)]
    (returned,) = made(*(Numbers(np.ones((2, 4, len(one.values), 8)), "float32") for one in at), *at)
    assert (returned.values.shape, returned.dtype) == ((2, 4, 3, 5), "float32")


@pytest.mark.parametrize(
    ("code", "raw", "message"),
    [
        ("import sys; sys.exit(3)", False, "it ended with status 3: no message"),
        ("raise KeyError('cache')", False, "it ended with status 1: KeyError: 'cache'"),
        ("pass", False, "it must write the file that its last argument names"),
        ("import sys; open(sys.argv[2], 'wb').write(b'no')", False, "is not a file of safetensors"),
        (FILES + "write('q', [1], [0.0])", False, "'k' is missing, got ['q']"),
        ("print('done')", True, "it must write"),
    ],
)
def test_what_a_program_does_wrong_is_said_in_a_sentence(code, raw, message):
    result = check(Program(command=python(code), encoding=ROPE, form="rotation", raw=raw), ROPE, form="rotation")
    assert result.status == 2
    assert message in str(result)


def test_a_program_that_waits_is_ended(monkeypatch):
    monkeypatch.setattr(program, "SECONDS", 0.5)
    waits = Program(command=python("import time; time.sleep(60)"), encoding=ROPE, form="rotation")
    assert "it took longer than 0.5 seconds" in str(check(waits, ROPE, form="rotation"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("mine:rope", "--exec", "./mine"),
            "one of `MODULE:FUNCTION`, `--exec`, `--model` and `--cache` must be given",
        ),
        (("mine:rope", "--raw"), "`--raw` belongs to `--exec`"),
        (("--exec", "./mine", "--framework", "torch"), "`--framework` belongs to a function"),
        (("--exec", "./no such program"), "`--exec` must begin with a program that can be run"),
        (("--exec", "python", "--form", "spiral"), "`form` of a program must be one of 'rotation'"),
    ],
)
def test_wrong_options_are_rejected(arguments, message, capsys):
    assert main(["check", *arguments]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "int64"])
def test_numbers_keep_their_bits(dtype):
    numbers = Numbers(np.array([[1, -3, 96], [0, 2, -128]]), dtype)
    again = from_bytes(numbers.to_bytes(), dtype, (2, 3))
    assert np.array_equal(again.values, numbers.values)
    assert again.dtype == dtype


def test_half_precision_is_written_as_its_bits():
    assert Numbers(np.array([1.0, -2.5]), "bfloat16").to_bytes() == bytes([0x80, 0x3F, 0x20, 0xC0])
    assert Numbers(np.array([1.0, -2.5]), "float16").to_bytes() == bytes([0x00, 0x3C, 0x00, 0xC1])


def test_files_are_read_by_the_package_safetensors(tmp_path):
    load = pytest.importorskip("safetensors.numpy").load_file
    path = tmp_path / "in.safetensors"
    path.write_bytes(safetensors({"positions": Numbers(np.arange(3), "int64")}, {"form": "table"}))
    assert load(path)["positions"].tolist() == [0, 1, 2]
