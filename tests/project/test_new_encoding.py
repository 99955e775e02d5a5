"""A new encoding touches ten files at most, and all that goes over the register sees it: one is added to a copy.

The copy has the packages, the tests and the reference; `FILES` is what CONTRIBUTING names under "Add an encoding".
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = '''"""A scoring encoding of the square of the distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..._array_api.checks import check_integer
from ..._array_api.namespace import Array
from ...attention.bias import distances, linear_bias, per_head
from ..base import Tables
from .base import PositionScoring


@dataclass(frozen=True, kw_only=True, repr=False)
class SquaredDistance(PositionScoring):
    """Subtract the square of the distance, divided by a power of two for each head.

    Args:
        num_heads: number of heads.
        max_distance: the distance of one that is twice as far.
    """

    max_distance: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("max_distance", self.max_distance)

    def constants(self, max_len: int) -> Tables:
        return {"rates": 2.0 ** -np.arange(1, self.num_heads + 1, dtype=np.float32)}

    def score(self, weights: Mapping[str, Array], query_positions: Array, key_positions: Array) -> Array:
        distance = distances(query_positions, key_positions)
        return linear_bias(per_head(weights["rates"]), distance * distance)
'''
GENERATOR = '''

def squared_distance() -> Iterator[dict[str, Any]]:
    """Yield minus the squares of distances, divided by 2, 4 and 8."""
    at = list(range(6))
    bias = [[[-rounded(mp.mpf((q - k) ** 2) / 2**h) for k in at] for q in at] for h in (1, 2, 3)]
    fields = {"kind": "SquaredDistance", "num_heads": 3, "max_distance": 4}
    yield _entry("SquaredDistance, 3 heads", fields, {}, bias, at, at)
'''
MODULE_PATH = "posenc_core/encodings/scoring/squared_distance.py"
FILES = {  # by path: what an edit inserts, before which text; a text alone is a new file, or stands at its end
    MODULE_PATH: MODULE,
    "posenc_core/encodings/scoring/__init__.py": [
        ("    from .squared_distance import SquaredDistance as SquaredDistance\n", "else:\n"),
        ('            "squared_distance": "SquaredDistance",\n', '            "swin": "'),
    ],
    "posenc_core/encodings/examples.py": [('    "SquaredDistance": {"max_distance": 3},\n', '    "SwinBias": {')],
    "tests/golden/position_scoring.py": GENERATOR,
    "tests/golden/scoring_constants.json": None,  # written by the generator
    "docs/reference/encodings-scoring.md": [
        (
            "| [`SquaredDistance`](#posenc_core.SquaredDistance) | minus the square of the distance | none | tests |\n",
            "```\n\n```{include} /_drawn",
        ),
        (".. autoclass:: posenc_core.SquaredDistance\n", "```\n\n## What all of them have"),
    ],
    "CHANGELOG.md": [("- `SquaredDistance`.\n", "- ")],
}
NOT_HERE = (  # which CONTRIBUTING names too: golden numbers of a layer, and the digests of all of them
    "tests/golden/scoring_modes.py", "tests/golden/modes.json", "tests/golden/promised.txt",
)  # fmt: skip
SEES_IT = """
import json
import numpy as np
import posenc_core
from posenc_backends.check import check
from posenc_backends.cli.explorer.catalogue import KINDS
from posenc_backends.cli.explorer.links import link_to, read, texts_of, view_of
from posenc_backends.conformance.cases import cases
from posenc_core.analysis.curves import scores_by_distance
from posenc_core.analysis.plots import plot
from posenc_core.encodings import NAMES, Encoding
from posenc_core.encodings.examples import example
from posenc_core.encodings.notation import parse

assert "SquaredDistance" in NAMES and "SquaredDistance" in posenc_core.__all__
toy = example("SquaredDistance", num_heads=4)
assert toy == posenc_core.SquaredDistance(num_heads=4, max_distance=3) == parse(repr(toy))
assert Encoding.from_dict(json.loads(json.dumps(toy.to_dict()))) == toy
assert scores_by_distance(toy, 3)[0].tolist() == [0, -0.5, -2]
assert len(plot(toy, length=16).axes) >= 4
assert "SquaredDistance" in KINDS
view = view_of(read(texts_of(link_to(toy)))[0])
assert view.encoding == toy and view.biases(np.arange(2), np.arange(1)).shape == (4, 2, 1)
assert check(toy.bias, toy).status == 0
assert check(lambda queries, keys: -toy.bias(queries, keys), toy).names == ("sign flipped",)
assert [case.check for case in cases() if case.encoding == "SquaredDistance"] == ["forward", "compiled"]
"""
ITERATE = {  # tests that go over the register, and how many have the name of the encoding
    "tests/core/test_values.py": 2,
    "tests/core/test_bad_values.py": 2,
    "tests/core/test_blockwise.py": 6,
    "tests/core/test_transformer.py": 5,
    "tests/core/properties/test_value_properties.py": 1,
    "tests/core/properties/test_attention_properties.py": 8,
    "tests/backends/test_conformance.py": 1,
    "tests/backends/test_properties.py": 1,
}


def edited(text, edits):
    """Return a text with the edits of `FILES`."""
    if isinstance(edits, str):
        return text + edits
    for insertion, before in edits:
        assert before in text, before
        text = text.replace(before, insertion + before, 1)
    return text


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("posenc_core", "posenc_backends", "tests", "docs/reference"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy)
    for path in FILES:  # in their order: numbers are written by the edited generator
        if path != "docs/reference/encodings-scoring.md":
            add(copy, path)
    return copy


def add(copy, path):
    """Apply the edits of one file."""
    file = copy / path
    if FILES[path] is not None:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(edited(text, FILES[path]), encoding="utf-8")
    else:
        program = "import json, position_scoring as p; print(json.dumps(list(p.squared_distance())))"
        made = json.loads(run(copy, "-c", program, cwd=file.parent, check=True).stdout)
        file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) + made), encoding="utf-8")


def run(copy, *arguments, cwd=None, check=False):
    """Run Python with the packages of the copy."""
    environment = os.environ | {"PYTHONPATH": str(copy)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd or copy, env=environment, capture_output=True, text=True, check=check)


def test_it_touches_ten_files():
    assert len([*FILES, *NOT_HERE]) <= 10
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    steps = guide.partition("## Add an encoding")[2].partition("\n## ")[0]
    assert [path for path in (*FILES, *NOT_HERE) if Path(path).name not in steps] == [MODULE_PATH]


def test_all_that_goes_over_the_register_sees_it(copy):
    done = run(copy, "-c", SEES_IT)
    assert done.returncode == 0, done.stderr


def test_the_tests_that_go_over_the_register_try_it(copy):
    done = run(
        copy, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", "SquaredDistance", "--backend", "numpy", *ITERATE
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.findall(r"^(tests/\S+\.py)::\S.*SquaredDistance.* PASSED", done.stdout, re.MULTILINE)
    assert [path for path, least in ITERATE.items() if passed.count(path) < least] == [], done.stdout[-4000:]


def test_the_reference_is_incomplete_until_it_has_a_row(copy):
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "family", "tests/project/test_reference.py")
    missing = run(copy, *tests)
    assert re.search("^E .*SquaredDistance", missing.stdout, re.MULTILINE), missing.stdout[-2000:]
    assert "1 failed" in missing.stdout
    add(copy, "docs/reference/encodings-scoring.md")
    assert run(copy, *tests).returncode == 0
