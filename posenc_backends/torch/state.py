"""What the state of a layer says of its encoding, and what is made of it when it is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from posenc_core.encodings import Encoding

if TYPE_CHECKING:
    from .base import Layer

Said = Mapping[str, Encoding | str | None]


def describe(said: Said, state: Any, prefix: str) -> None:
    """Write what is said of a layer into the metadata of a state, where it is no key that others would not know."""
    metadata = getattr(state, "_metadata", None)
    if metadata is not None:
        metadata.setdefault(prefix[:-1], {}).update({name: _plain(told) for name, told in said.items()})


def differences(said: Said, metadata: Any, prefix: str) -> Iterator[str]:
    """What to say if the metadata of a state say something else; states of other origin say nothing."""
    for name, own in said.items():
        if name in metadata and metadata[name] != _plain(own):
            told = revived(metadata[name])
            yield f"{prefix}{name}: {told!r}, but the layer has {own!r}; `strict=False` loads the rest"


def revived(told: Any) -> Any:
    """The encoding that metadata tell of; what they say as it is, where that is none that is known here."""
    try:
        return Encoding.from_dict(told) if isinstance(told, dict) else told
    except ValueError:
        return told


def fill(layer: Layer, state: Any) -> None:
    """Compute constants that are still on the meta device, as what is assigned there leaves it: to where it is."""
    if any(table.is_meta for table in layer.constants.values()):
        there = next((tensor for tensor in state.values() if isinstance(tensor, torch.Tensor)), torch.empty(0))
        layer._move(dict.fromkeys(layer.constants, there.device))


def checked(layer: Layer, state: Any, prefix: str, unexpected: list[str]) -> dict[str, Any]:
    """The state with the layer's own constants in place of those that were saved, which are grown to, or refused."""
    saved = {name: state[prefix + name] for name in layer._buffers if prefix + name in state}
    if not saved:
        return dict(state)
    longest = max(len(table) for table in saved.values())
    if longest > max(map(len, layer.constants.values())):
        layer.set_tables(layer.encoding.constants(longest))
    for name, table in saved.items():
        if not _agree(table, layer.constants[name]):
            unexpected.append(f"{prefix}{name}: other numbers than {layer.encoding!r} has; `strict=False` keeps those")
    layer._buffers.update({name: layer.constants[name][: len(table)] for name, table in saved.items()})
    return {**state, **{prefix + name: layer._buffers[name] for name in saved}}


def _agree(saved: Any, own: Any) -> bool:
    """Whether a table is the beginning of one that is held, as far as its dtype can tell."""
    if saved.shape[1:] != own.shape[1:] or len(saved) > len(own):
        return False
    return own.is_meta or saved.is_meta or torch.equal(saved.to(own.device), own[: len(saved)].to(saved.dtype))


def _plain(told: Encoding | str | None) -> Any:
    return told.to_dict() if isinstance(told, Encoding) else told
