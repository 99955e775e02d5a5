"""Replace the rotary modules of a loaded model of transformers by ones with exact tables."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc_core._array_api.checks import shown
from posenc_core.encodings import RotaryEncoding

from ..base import Layer
from . import buffers, table_forms
from .tables import ALL, RotaryTables

if TYPE_CHECKING:
    from typing import Self

NAMED = re.compile("Rotary|Rope|RoPE")


class Replaced(NamedTuple):
    """One rotary module, for the layers of one type.

    Attributes:
        name: of the module in the model.
        class_name: of the module before.
        layer_type: `"all"` if all layers that rotate are alike, and the words for the layers if they have no type.
        layers: the layers in words, such as "layers 0–2, 4–6".
        encoding: of the module now.
        difference: how far the tables of the module before are from the ones now; None on the meta device.
    """

    name: str
    class_name: str
    layer_type: str
    layers: str
    encoding: RotaryEncoding
    difference: table_forms.Difference | None


class Kept(NamedTuple):
    """A module that was not replaced: its name in the model, its class, and why."""

    name: str
    class_name: str
    reason: str


class Replacement:
    """The result of `replace_rotary`. Its text lists what changed; as a context manager, it ends with `undo`.

    Attributes:
        replaced: what was replaced, one entry for each module and layer type.
        kept: the modules that look as if they were rotary, and that were not replaced.
    """

    def __init__(self) -> None:
        self.replaced: list[Replaced] = []
        self.kept: list[Kept] = []
        self._before: list[tuple[nn.Module, str, Any]] = []

    def put(self, parent: nn.Module, attribute: str, before: Any, exact: Any) -> None:
        """Set a part of a module, and remember what to come back to."""
        self._before.append((parent, attribute, before))
        setattr(parent, attribute, exact)

    def undo(self) -> None:
        """Put the modules of before in their places again."""
        while self._before:
            parent, attribute, module = self._before.pop()
            setattr(parent, attribute, module)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [] if self.replaced else ["No module was replaced."]
        for row in self.replaced:
            lines += _wrapped(f"{row.name} ({row.class_name}), {row.layers}:")
            lines += _wrapped(f"largest difference {row.difference or 'unknown: on the meta device'}", indent=2)
            lines += _wrapped(repr(row.encoding), indent=2)[:3]  # a list of factors goes on
        if self.kept:
            lines += ["not replaced:"]
        for module in self.kept:
            lines += _wrapped(f"{module.name} ({module.class_name}): {module.reason}", indent=2)
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(text: str, indent: int = 0) -> list[str]:
    """Return the lines of a text in 80 columns."""
    return wrap(text, 80, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2))


def replace_rotary(
    model: nn.Module,
    encoding: RotaryEncoding | Mapping[str, RotaryEncoding] | None = None,
    *,
    max_len: int | None = None,
) -> Replacement:
    """Replace the rotary modules of a model of transformers by `RotaryTables`, and return what changed.

    A module is replaced if its tables, as its class computes them, are those of its config but for float32 rounding.
    All others are listed with a reason, and left as they are. The state of the model stays the same.

    Args:
        model: the model, also wrapped (PEFT), on any device, or on the meta device before its weights are loaded.
        encoding: another encoding in place of that of the config, such as one with a scaling; a dict of encodings if
            the layers of several types have different ones. Layout, placement and number of pairs must be the same.
        max_len: as in `RotaryEmbedding`; by default the length that the config is for.
    Returns:
        The modules that were replaced, how far their tables were from exact ones, and the modules that were not.
    Raises:
        TypeError: if `model` is not a module, or an encoding is not rotary.
        ValueError: if the model has no rotary module, or an encoding does not fit it.

    >>> replace_rotary(nn.Linear(2, 2))
    Traceback (most recent call last):
    ValueError: `model` must have a rotary module, got Linear, which has none; `load_position` reads what it has.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}.")
    result, made, tables = Replacement(), dict[int, tuple[nn.Module, nn.Module]](), list[tuple[nn.Module, Tensor]]()
    for name, module in model.named_modules():
        try:
            if _looks_rotary(module):
                with torch.device("cpu"):  # also where models are made on the meta device
                    made[id(module)] = _exact(module, name, encoding, max_len, result)
            elif buffers.has_tables(module):
                tables.append((module, _exact_table(module, name, _config_of(model, name), encoding, result)))
        except table_forms.UnknownModuleError as error:
            result.kept.append(Kept(name, type(module).__name__, str(error)))
    _check_found(model, encoding, result)
    for module, table in tables:
        result.put(module, buffers.BUFFER, getattr(module, buffers.BUFFER), table)
    for parent in list(model.modules()):
        for attribute, child in list(parent._modules.items()):  # which may be shared by several parents
            if id(child) in made:
                result.put(parent, attribute, *made[id(child)])
    return result


def _looks_rotary(module: nn.Module) -> bool:
    """Return whether the name of a class is that of a rotary module; attention that is given its tables is none."""
    if isinstance(module, Layer) or not NAMED.search(type(module).__name__):
        return False
    return "position_embeddings" not in inspect.signature(module.forward).parameters


def _exact(
    module: nn.Module, name: str, encoding: Any, max_len: int | None, result: Replacement
) -> tuple[nn.Module, nn.Module]:
    """Return the module to come back to, and the one that replaces it; add what is known of it to the result."""
    if isinstance(module, RotaryTables):
        own, names, current = module.encodings, module.names, module
        form = table_forms.TableForm(module.columns, module.dtype)
    else:
        own, names, form, current = _understood(module)
    chosen = {layer_type: _chosen(one, names[layer_type][0], encoding, name) for layer_type, one in own.items()}
    exact = RotaryTables(chosen, columns=form.columns, dtype=form.dtype, max_len=max_len)
    before, state = list(module.buffers()), module.state_dict()
    saved = {name: buffer for name, buffer in module.named_buffers(recurse=False) if name in state}
    is_meta = any(buffer.is_meta for buffer in before)
    if is_meta and saved:
        raise table_forms.UnknownModuleError(f"the weights have its {', '.join(saved)}; load them before")
    exact.keep_state(saved)
    for layer_type in own:
        off = None if is_meta else table_forms.difference(current, exact, layer_type)
        row = Replaced(name, type(module).__name__, *names[layer_type], exact.encodings[layer_type], off)
        result.replaced.append(row)
    exact.names = names
    exact.config = getattr(module, "config", None)  # which some models read there
    exact.train(module.training)
    device = next((buffer.device for buffer in before), None)
    return (current if is_meta else module), (exact if device is None else exact.to(device))


def _config_of(model: nn.Module, name: str) -> Any:
    """Return the config of a part of a model: that of the smallest part around it that has one."""
    names = name.split(".")
    around = (model.get_submodule(".".join(names[:depth])) for depth in range(len(names), -1, -1))
    return next((part.config for part in around if hasattr(part, "config")), None)


def _exact_table(module: nn.Module, name: str, config: Any, encoding: Any, result: Replacement) -> Tensor:
    """Return the table for a module of attention; add what is known of it to the result."""
    chosen, off, table = buffers.exact_table(module, config, partial(_chosen, encoding=encoding, name=name))
    words = "all layers"  # of the models that have such tables
    result.replaced.append(Replaced(f"{name}.{buffers.BUFFER}", type(module).__name__, ALL, words, chosen, off))
    return table


def _understood(
    module: nn.Module,
) -> tuple[dict[str, RotaryEncoding], dict[str, tuple[str, str]], table_forms.TableForm, nn.Module]:
    """Return the encodings of a module, their names, how it writes its tables, and one like it that may be called.

    The names are as in `Replaced`: the layer type, or the words for the layers if others of this type differ.

    Raises:
        UnknownModuleError: if its tables are not those of its config.
    """
    names = inspect.signature(module.forward).parameters
    if not hasattr(module, "config") or "position_ids" not in names:
        lacks = (
            "it has no config"
            if "position_ids" in names
            else f"its `forward` takes no positions, but {', '.join(names)}"
        )
        raise table_forms.UnknownModuleError(lacks)
    candidates, current = table_forms.encodings_of(module), table_forms.rebuild(module)
    found = {
        table_forms.form_of_module(current, layer_type, one.num_axes)
        for layer_type, encodings in candidates.items()
        for one in encodings
    }
    if len(found) > 1:
        raise table_forms.UnknownModuleError(f"it writes its tables in several ways: {found}")
    (form,) = found
    own = table_forms.match(current, candidates, form.columns, table_forms.FLOAT32)
    words = {layer_type: candidates[layer_type][one] for layer_type, one in own.items()}
    labels = {name: (name if len(candidates[name]) == 1 else words[name], words[name]) for name in own}
    if not any(buffer.is_meta for buffer in module.buffers()):
        current._buffers.update({name: _unscaled(module, name).clone() for name in module._buffers})
        for layer_type, one in own.items():
            table_forms.check_numbers(current, layer_type, one, form.columns, table_forms.HALF)
    return own, labels, form, current


def _unscaled(module: nn.Module, name: str) -> Tensor:
    """Return a buffer of a module; for one that calls may change (dynamic NTK), the copy that the module keeps."""
    rope_type, kept = getattr(module, "rope_type", None), name.replace("inv_freq", "original_inv_freq")
    return module._buffers[kept if rope_type == "dynamic" and kept in module._buffers else name]


def _chosen(own: RotaryEncoding, layer_type: str, encoding: Any, name: str) -> RotaryEncoding:
    """Return the encoding to use in place of a module's own, which must rotate the same channels."""
    chosen = encoding.get(layer_type, own) if isinstance(encoding, Mapping) else encoding
    if chosen is None or chosen is own:
        return own
    if not isinstance(chosen, RotaryEncoding):
        raise TypeError(f"`encoding` must be rotary, or a dict of rotary encodings, got {shown(chosen)}.")
    for field in ("head_dim", "layout", "rotary_channels", "axes"):
        wanted, found = getattr(own, field), getattr(chosen, field)
        if found != wanted:
            raise ValueError(
                f"`encoding` must have {field} {shown(wanted)} in `{name}`, got {shown(found)}; "
                "give the part of the model that it is for."
            )
    return chosen


def _check_found(model: nn.Module, encoding: Any, result: Replacement) -> None:
    """Raise if there is no rotary module, or none for an encoding that is given, or if layers differ beside one."""
    if not (result.replaced or result.kept):
        raise ValueError(
            f"`model` must have a rotary module, got {type(model).__name__}, which has none; "
            "`load_position` reads what it has."
        )
    if encoding is None:
        return
    names = {row.layer_type for row in result.replaced}
    if not names:
        kept = result.kept[0]
        raise ValueError(f"`encoding` fits no module of the model; `{kept.name}`: {kept.reason}.")
    if isinstance(encoding, Mapping):
        if unknown := sorted(set(encoding) - names):
            raise ValueError(f"`encoding` must be for layers of the model, {sorted(names)}, got {shown(unknown)}.")
    elif len(names) > 1:
        raise ValueError(f"`encoding` must be a dict with one for each of {sorted(names)}, got {shown(encoding)}.")
