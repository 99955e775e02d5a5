"""The committed coverage is that of the installed versions, nothing disagrees, and a disagreement would be seen."""

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from .coverage import of_transformers

COVERAGE = json.loads((Path(of_transformers.__file__).with_name("transformers.json")).read_text(encoding="utf-8"))
ROWS = {(row["folder"], row["name"]): row for row in COVERAGE["rows"]}
CLASSES = of_transformers.classes_by_name()
LLAMA = ("llama", "LlamaRotaryEmbedding")


def test_the_coverage_is_that_of_the_installed_version():
    assert COVERAGE["versions"]["transformers"] == version("transformers")
    assert ROWS.keys() == CLASSES.keys()


def test_nothing_disagrees_and_every_type_is_known():
    assert [row for row in ROWS.values() if row["verdict"] not in ("agrees", "refused")] == []
    assert [row for row in ROWS.values() if not row["known"]] == []
    assert [row for row in ROWS.values() if row["verdict"] == "refused" and not row["note"]] == []


@pytest.mark.parametrize("key", [*sorted(CLASSES)[::16], LLAMA], ids="-".join)
def test_a_row_is_measured_again(key):
    row = of_transformers.row(CLASSES[key], key[1])
    assert json.loads(json.dumps(row._asdict())) == ROWS[key]


MISTAKES = {
    "layout": {"layout": "interleaved"},
    "layout of the output": {"layout": "interleaved_to_half"},
    "base": {"base": 10001},
    "channels": {"rotary_dim": 64},
    "direction": {"direction": "inverse"},
}


@pytest.mark.parametrize("fields", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_would_be_seen(fields, monkeypatch):
    honest = of_transformers.load_rope
    monkeypatch.setattr(of_transformers, "load_rope", lambda config, **options: replace(honest(config), **fields))
    row = of_transformers.row(CLASSES[LLAMA], LLAMA[1])
    assert row.verdict == "disagrees"
    assert row.note in ("frequencies", "rotated queries")
