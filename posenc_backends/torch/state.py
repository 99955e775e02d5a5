"""The encoding of a layer, as recorded in its state, and its check when a state is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from posenc_core.encodings import Encoding
from posenc_core.layers.saved_encodings import changed_fields, may_change, why_refused

Metadata = Mapping[str, Any]  # encodings, pairs of them, words or None
OF_TABLES = "name the fields that may differ in `with posenc_core.allow_change(…):` if that is meant"


def describe(metadata: Metadata, state: Any, prefix: str) -> None:
    """Write the metadata of a layer into those of a state, so that the state has no key that others do not know."""
    of_state = getattr(state, "_metadata", None)
    if of_state is not None:
        of_state.setdefault(prefix[:-1], {}).update({name: _plain(value) for name, value in metadata.items()})


def check_metadata(metadata: Metadata, saved: Any, prefix: str, unexpected: list[str]) -> None:
    """Refuse each entry that a state has otherwise; states of other origin have none."""
    for name, own in metadata.items():
        found = revived(saved.get(name, own))
        changed = {name} - {found == own and name} if isinstance(own, str) else changed_fields(found, own)
        if why := why_refused(changed):
            refuse(unexpected, prefix + name, f"{found!r}, but the layer has {own!r}; {why}")


def refuse(unexpected: list[str], name: str, why: str) -> None:
    """Count an entry as an unexpected key; all that are refused for one reason are one."""
    for place, entry in enumerate(unexpected):
        if found := re.fullmatch(rf"(\S+)(?: and (\d+) more)?: {re.escape(why)}", entry):
            unexpected[place] = f"{found[1]} and {int(found[2] or 0) + 1} more: {why}"
            return
    unexpected.append(f"{name}: {why}")


def revived(saved: Any) -> Any:
    """Return the encoding that metadata describe; the metadata as they are if it is not known here."""
    if isinstance(saved, list):
        return tuple(map(revived, saved))
    try:
        return Encoding.from_dict(saved) if isinstance(saved, dict) else saved
    except (TypeError, ValueError):
        return saved


def fill(layer: Any, state: Any) -> None:
    """Compute constants that are still on the meta device, on the device of the tensors that are assigned."""
    if any(table.is_meta for table in layer.constants.values()):
        there = next((tensor for tensor in state.values() if isinstance(tensor, torch.Tensor)), torch.empty(0))
        layer._move(dict.fromkeys(layer.constants, there.device))


def checked(layer: Any, state: Any, prefix: str, unexpected: list[str]) -> dict[str, Any]:
    """Return the state with the layer's constants in place of saved ones, which are compared and grown to."""
    saved = {name: state[prefix + name] for name in layer.saved_tables if prefix + name in state}
    if not saved:
        return dict(state)
    rows = max(len(table) for table in saved.values())
    if rows > max(map(len, layer.constants.values())):
        layer.set_tables(layer.encoding.constants(rows))
    for name, table in saved.items():
        if not _agree(table, layer.constants[name]) and not may_change(layer.encoding):
            refuse(unexpected, prefix + name, f"other numbers than {layer.encoding!r} has; {OF_TABLES}")
    layer.copy_rows({name: len(table) for name, table in saved.items()})
    return {**state, **{prefix + name: layer._buffers[name] for name in saved}}


def _agree(saved: Any, own: Any) -> bool:
    """Return whether a saved table is the beginning of the layer's own, as far as its dtype can show."""
    if saved.shape[1:] != own.shape[1:] or len(saved) > len(own):
        return False
    if own.is_meta or saved.is_meta:
        return True
    first = own[: len(saved)].to(saved.dtype)  # which may have NaN, where nothing is defined
    return torch.allclose(saved.to(own.device), first, rtol=0, atol=0, equal_nan=True)


def found_parameters(layer: Any, names: tuple[Any, ...]) -> dict[str, Any]:
    """Return parameters that another tool holds elsewhere, as FSDP1, `parametrize`, `weight_norm` and `prune` do.

    The last two compute the attribute in a hook before `forward`, which attention does not call for its parts.
    """
    for hook in layer._forward_pre_hooks.values():
        if getattr(hook, "name", getattr(hook, "_tensor_name", None)) in names:
            hook(layer, ())
    return {name: getattr(layer, name) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value.to_dict() if isinstance(value, Encoding) else value
