"""Modes of saving and moving: a new layer with what another one had."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from posenc_backends.conformance.tooling import Run, Specimen

NAMES = ("PositionalEncoding", "RotaryEmbedding", "AttentionBias", "MultiHeadAttention")


def saved(specimen: Specimen, folder: Path) -> Run:
    """The state in a file, loaded into a new layer."""
    torch.save(specimen.layer().state_dict(), folder / "layer.pt")
    fresh = specimen.make()
    fresh.load_state_dict(torch.load(folder / "layer.pt"))
    return partial(specimen.call, fresh)


def saved_persistent(specimen: Specimen, folder: Path) -> Run:
    """The same of layers whose tables are part of their state."""
    room = specimen.on.room
    kept = {name: partial(getattr(room, name), persistent=True) for name in NAMES}
    persistent = ModuleType(room.__name__)
    vars(persistent).update({**vars(room), **kept})
    return saved(replace(specimen, on=specimen.on._replace(room=persistent)), folder)


def moved(specimen: Specimen, folder: Path) -> Run:
    """A layer made on the meta device, given memory, and then the state of another."""
    fresh = _on_meta(specimen).to_empty(device="cpu")
    fresh.load_state_dict(specimen.layer().state_dict())
    return partial(specimen.call, fresh)


def moved_assigned(specimen: Specimen, folder: Path) -> Run:
    """A layer made on the meta device that takes over the tensors of another's state."""
    fresh = _on_meta(specimen)
    fresh.load_state_dict(specimen.layer().state_dict(), assign=True)
    return partial(specimen.call, fresh)


def _on_meta(specimen: Specimen) -> Any:
    with torch.device("meta"):
        return specimen.make()
