"""The committed coverage is that of the installed versions, nothing disagrees, and a disagreement would be seen."""

import json
from dataclasses import replace
from importlib.metadata import version

import pytest

from .coverage import of_diffusers, of_timm, of_transformers
from .coverage.__main__ import FOLDER, SOURCES

COVERAGE = {name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in SOURCES}
ROWS = {name: {(row["folder"], row["name"]): row for row in one["rows"]} for name, one in COVERAGE.items()}
CLASSES = {name: source.classes_by_name() for name, source in SOURCES.items()}
LLAMA = ("llama", "LlamaRotaryEmbedding")
FLUX = ("transformer_flux", "FluxTransformer2DModel")
DINO = ("eva", "vit_small_patch16_dinov3")
SAMPLE = [(name, key) for name, one in CLASSES.items() for key in sorted(one)[::16]]


def measured(source, library, key):
    return source.row(CLASSES[library][key], key[1])


@pytest.mark.parametrize("library", SOURCES)
def test_the_coverage_is_that_of_the_installed_version(library):
    package = SOURCES[library].PACKAGES[0]
    assert COVERAGE[library]["versions"][package] == version(package)
    assert ROWS[library].keys() == CLASSES[library].keys()
    assert len(ROWS[library]) == len(COVERAGE[library]["rows"])


@pytest.mark.parametrize("library", SOURCES)
def test_nothing_disagrees_and_a_refusal_has_a_reason(library):
    rows = ROWS[library].values()
    others = {"timm": {"no rotation"}, "published": {"no rotation", "cannot be built"}}  # whose files mix both
    allowed = {"agrees", "refused"} | others.get(library, set())
    assert [row for row in rows if row["verdict"] not in allowed] == []
    assert [row for row in rows if row["verdict"] != "agrees" and not row["note"]] == []
    assert [row for row in rows if row["verdict"] != "refused" and not row["known"]] == []


def test_every_type_of_transformers_is_known():
    assert [row for row in ROWS["transformers"].values() if not row["known"]] == []


@pytest.mark.parametrize(
    ("library", "key"),
    [*SAMPLE, ("transformers", LLAMA), ("diffusers", FLUX), ("timm", DINO)],
    ids=lambda one: one if isinstance(one, str) else "-".join(one),
)
def test_a_row_is_measured_again(library, key):
    row = measured(SOURCES[library], library, key)
    assert json.loads(json.dumps(row._asdict())) == ROWS[library][key]


MISTAKES = {
    "layout": {"layout": "interleaved"},
    "layout of the output": {"layout": "interleaved_to_half"},
    "base": {"base": 10001},
    "channels": {"rotary_dim": 64},
    "direction": {"direction": "inverse"},
}


@pytest.mark.parametrize("fields", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_would_be_seen(fields, monkeypatch):
    assert mistaken(monkeypatch, of_transformers, "transformers", LLAMA, fields) in ("frequencies", "rotated queries")


AXIAL_MISTAKES = {
    "layout": ({"layout": "interleaved_to_half"}, "rotated queries"),
    "base": ({"base": 101}, "table"),
    "direction": ({"direction": "inverse"}, "table"),
}


@pytest.mark.parametrize(("fields", "where"), AXIAL_MISTAKES.values(), ids=AXIAL_MISTAKES)
@pytest.mark.parametrize("library", ["diffusers", "timm"])
def test_a_mistake_of_images_would_be_seen(library, fields, where, monkeypatch):
    source, key = (of_diffusers, FLUX) if library == "diffusers" else (of_timm, DINO)
    if library == "timm" and "layout" in fields:
        fields = {"layout": "interleaved"}
    assert mistaken(monkeypatch, source, library, key, fields).startswith(where)


def test_a_module_that_the_model_does_not_make_would_be_seen(monkeypatch):
    case = of_diffusers.WAYS[FLUX[1]]
    other = case._replace(ask=lambda config: case.ask(config | {"rope_theta": 9999}))
    monkeypatch.setitem(of_diffusers.WAYS, FLUX[1], other)
    row = measured(of_diffusers, "diffusers", FLUX)
    assert row.verdict == "disagrees"
    assert row.note.startswith("it makes [('FluxPosEmbed'")


@pytest.mark.parametrize(("library", "key"), [("diffusers", FLUX), ("timm", DINO)])
def test_a_rotation_that_is_denied_would_be_seen(library, key, monkeypatch):
    monkeypatch.setattr(SOURCES[library], "load_rope", lambda config: None)
    row = measured(SOURCES[library], library, key)
    assert row.verdict == "disagrees"
    assert row.note.startswith("it makes [(")


def mistaken(monkeypatch, source, library, key, fields):
    """Return where a row sees that an encoding has other fields than the right ones."""
    honest = source.load_rope
    monkeypatch.setattr(source, "load_rope", lambda config, **options: replace(honest(config), **fields))
    row = measured(source, library, key)
    assert row.verdict == "disagrees"
    return row.note
