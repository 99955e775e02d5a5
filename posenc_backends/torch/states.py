"""What the state of a layer says of its encoding, and what is made of it when it is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from posenc_core.encodings import Encoding

from . import arrays

if TYPE_CHECKING:
    from .holder import Layer


def describe(encoding: Encoding, state: Any, prefix: str) -> None:
    """Write the encoding into the metadata of a state, where it is no key that other layers would not know."""
    metadata = getattr(state, "_metadata", None)
    if metadata is not None:
        metadata.setdefault(prefix[:-1], {})["encoding"] = encoding.to_dict()


def differences(encoding: Encoding, metadata: Any, prefix: str) -> Iterator[str]:
    """What to say if the metadata of a state name another encoding; states of other origin name none."""
    told = metadata.get("encoding")
    if told is not None and told != encoding.to_dict():
        yield f"{prefix}encoding: {Encoding.from_dict(told)!r}, but the layer has {encoding!r}; `strict=False` loads the rest"


def fill(layer: Layer, state: Any) -> None:
    """Compute constants that are still on the meta device, as what is assigned there leaves it: to where it is."""
    lost = next((table for table in layer._buffers.values() if table.is_meta), None)
    if lost is None:
        return
    there = next((tensor for tensor in state.values() if isinstance(tensor, torch.Tensor)), torch.empty(0))
    constants = layer.encoding.constants(max(map(len, layer._buffers.values())))
    layer._buffers.update({name: arrays.from_numpy(table, like=there) for name, table in constants.items()})


def checked(layer: Layer, state: Any, prefix: str, unexpected: list[str]) -> dict[str, Any]:
    """The state with the layer's own constants in place of those that were saved, which are grown to, or refused."""
    saved = {name: state[prefix + name] for name in layer._buffers if prefix + name in state}
    if not layer.persistent or not saved:
        return dict(state)
    longest = max(len(table) for table in saved.values())
    if longest > max(map(len, layer._buffers.values())):
        layer.hold(layer.encoding.constants(longest))
    for name, table in saved.items():
        if not _agree(table, layer._buffers[name]):
            unexpected.append(f"{prefix}{name}: other numbers than {layer.encoding!r} has; `strict=False` keeps those")
    return {**state, **{prefix + name: layer._buffers[name] for name in saved}}


def _agree(saved: Any, own: Any) -> bool:
    """Whether a table is the beginning of one that is held, as far as its dtype can tell."""
    if saved.shape[1:] != own.shape[1:] or len(saved) > len(own):
        return False
    return own.is_meta or saved.is_meta or torch.equal(saved.to(own.device), own[: len(saved)].to(saved.dtype))
