"""How the rotary module of a model writes its tables, found by asking it; and how far they are from exact ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from posenc_core._array_api.checks import shown
from posenc_core.encodings import RotaryEncoding
from posenc_core.layers.rotary_embedding import MOST, USUAL

from .tables import ALL, RotaryTables, TableColumns, forward

NEAR = (0, 1, 2, 3, 5, 8)
POSITIONS = (*NEAR, 1000, 100003)
FLOAT32, HALF = 2.0**-18, 2.0**-7  # relative errors of frequencies: as models compute them, and cast to half precision
SMALLEST = 2.0**-17  # a frequency that float16 may lose
ENTRY = 2.0**-20  # the error of an entry, beside that of its angle
BLOCK = 2**13  # positions that are compared at once
VISIBLE = 1e-3  # a difference that is reported


class UnknownModuleError(Exception):
    """A rotary module whose tables are not understood; the message is a reason."""


class TableForm(NamedTuple):
    """How a module writes its tables.

    Attributes:
        columns: as in `RotaryTables`.
        dtype: of the tables, whatever `x` is; None if that of `x`.
    """

    columns: TableColumns
    dtype: torch.dtype | None


class Difference(NamedTuple):
    """How far tables are from exact ones.

    Attributes:
        compared: the number of positions, from 0 on, that were compared.
        largest: the largest difference of a cosine or sine.
        position: where it is.
        first: the first position with a difference above 0.001; None if there is none.
    """

    compared: int
    largest: float
    position: int
    first: int | None

    def __str__(self) -> str:
        first = "" if self.first is None else f", above {VISIBLE:g} from {self.first:,}"
        return f"{self.largest:.1e} at {self.position:,}{first}"


def encodings_of(module: nn.Module) -> dict[str, dict[RotaryEncoding, str]]:
    """Return the encodings that the config of a module describes for each layer type, and the words for the layers.

    Raises:
        UnknownModuleError: if there is one that `load_layers` does not know.
    """
    found = {}
    types = getattr(module, "rope_type", None)  # by layer type where these differ; that of ESM is empty
    for layer_type in sorted(types) if types and isinstance(types, dict) else (None,):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what is assumed: here it is compared with the module
            try:
                encodings = loaded(module.config, layer_type)
            except (TypeError, ValueError) as error:
                raise UnknownModuleError(f"`load_layers` does not know it: {error}") from error
        if not encodings:
            raise UnknownModuleError(f"its config describes no RoPE for {layer_type or 'its'} layers")
        found[layer_type or ALL] = {forward(encoding): name for encoding, name in encodings.items()}
    return found


def loaded(config: Any, layer_type: str | None) -> dict[RotaryEncoding, str]:
    """Return the encodings of layers that rotate, of a type or of all, and the words for the layers of each.

    Raises:
        TypeError, ValueError: as `load_layers` does.
    """
    from posenc_core.huggingface.config import read
    from posenc_core.huggingface.load_layers import group_layers

    found: dict[RotaryEncoding, str] = {}
    for group in group_layers(read(config), layer_type=layer_type)[0]:
        rotary = getattr(group.rotary, "rotary", group.rotary)  # modules know no chunks
        if isinstance(rotary, RotaryEncoding):
            found[rotary] = ", ".join(filter(None, (found.get(rotary), group.name)))
    return found


def match(
    module: nn.Module,
    candidates: Mapping[str, Mapping[RotaryEncoding, str]],
    columns: TableColumns,
    rounding: float,
    length: int | None = None,
) -> dict[str, RotaryEncoding]:
    """Return for each layer type that encoding whose tables a module has; the other arguments are of `check_numbers`.

    Raises:
        UnknownModuleError: if it has those of none.
    """
    found, reason = dict[str, RotaryEncoding](), UnknownModuleError()
    for name, encodings in candidates.items():
        for encoding in encodings:
            try:
                check_numbers(module, name, encoding, columns, rounding, length)
            except UnknownModuleError as error:
                reason = error
            else:
                found[name] = encoding
                break
        else:
            raise reason
    return found


def rebuild(module: nn.Module) -> nn.Module:
    """Return a module of the same class and config, on the CPU.

    Raises:
        UnknownModuleError: if the class needs more than a config.
    """
    try:
        with torch.device("cpu"):
            return type(module)(module.config)
    except Exception as error:
        raise UnknownModuleError(f"its class cannot be built from its config: {error}") from error


def form_of_module(module: nn.Module, name: str, axes: int) -> TableForm:
    """Return how a module, which is on the CPU, writes its tables for the layers of a type.

    Raises:
        UnknownModuleError: if it does not return tables of positions.
    """
    positions = torch.tensor(NEAR)[None]
    positions = positions if axes == 1 else positions.expand(axes, 1, -1)
    tables = ask_module(module, name, positions)
    (narrow, *_) = ask_module(module, name, positions, torch.bfloat16)
    return TableForm(_columns(tables), None if narrow.dtype == torch.bfloat16 else narrow.dtype)


def ask_module(
    module: nn.Module, name: str, positions: Tensor, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Return the result of a module for positions: cosines and sines, or complex numbers alone.

    Raises:
        UnknownModuleError: if it returns something else.
    """
    sizes = tuple(positions.shape[-2:])
    x = torch.zeros(*sizes, 1, dtype=dtype, device=positions.device)
    try:
        result = module(x, positions) if name == ALL else module(x, positions, name)
    except Exception as error:
        axes = "(batch, length)" if positions.ndim == 2 else "(axes, batch, length)"
        raise UnknownModuleError(f"it does not take positions `{axes}`: {shown(error)}") from error
    tables = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(table, Tensor) and tuple(table.shape[:-1]) == sizes for table in tables):
        raise UnknownModuleError(f"it does not return a row for each position, but {shown(type(result).__name__)}")
    if [table.is_complex() for table in tables] not in ([True], [False, False]):
        raise UnknownModuleError(f"it does not return a cosine and a sine, but {len(tables)} tensors")
    return tables


def _columns(tables: tuple[Tensor, ...]) -> TableColumns:
    """Return how tables are written: by which columns are the same."""
    if len(tables) == 1:
        return "complex"
    if tables[0].shape[-1] % 2 == 0:
        if all(torch.equal(*table.chunk(2, dim=-1)) for table in tables):
            return "half"
        if all(torch.equal(table[..., ::2], table[..., 1::2]) for table in tables):
            return "interleaved"
    return "pairs"


def by_pair(tables: tuple[Tensor, ...], columns: TableColumns) -> Tensor:
    """Return cosines and sines, one column per pair, float64, `(2, ..., length, pairs)`, on the CPU."""
    if columns == "complex":
        both = [tables[0].real, tables[0].imag]
    elif columns == "half":
        both = [table.chunk(2, dim=-1)[0] for table in tables]
    else:
        both = [table[..., :: 2 if columns == "interleaved" else 1] for table in tables]
    return torch.stack(both).cpu().double()


def check_numbers(
    module: nn.Module,
    name: str,
    encoding: RotaryEncoding,
    columns: TableColumns,
    rounding: float,
    length: int | None = None,
) -> None:
    """Raise unless the tables of a module are those of an encoding, but for the rounding of its frequencies.

    Args:
        module: the module.
        name: the layer type.
        encoding: the encoding.
        columns: how the module writes its tables.
        rounding: the relative error that its frequencies may have.
        length: the number of positions that it has; None if all.
    Raises:
        UnknownModuleError: with the first position that differs.
    """
    known = [position for position in POSITIONS if position < (encoding.max_seq_len or length or math.inf)]
    by_axis = torch.tensor([known[axis:] + known[:axis] for axis in range(encoding.num_axes)])
    positions = by_axis if encoding.num_axes == 1 else by_axis[:, None]
    theirs = by_pair(ask_module(module, name, positions.to(_device_of(module))), columns)[:, 0]
    exact = torch.from_numpy(np.stack(encoding.cos_sin(by_axis if encoding.num_axes > 1 else known))).double()
    if theirs.shape != exact.shape:
        raise UnknownModuleError(f"it has {theirs.shape[-1]} pairs, the encoding {exact.shape[-1]}")
    frequencies = torch.from_numpy(encoding.frequencies())
    axes = [*encoding.axes] + [0] * (len(frequencies) - len(encoding.axes))
    angles = by_axis.double()[axes].T * (frequencies + SMALLEST)
    differences = (theirs - exact).abs()
    off = (differences > encoding.attention_factor * (angles * rounding + ENTRY)).any(dim=-1).any(dim=0)
    if off.any():
        at = known[int(off.nonzero()[0])]
        raise UnknownModuleError(
            f"its tables are not those of the encoding: they differ by {differences.max():.2g}, first at {at}"
        )


def difference(old: nn.Module, new: RotaryTables, name: str, length: int | None = None) -> Difference:
    """Return how far the tables of a module are from exact ones, at the positions that it is for."""
    encoding, device = new.encodings[name], _device_of(old)
    length = min(encoding.max_seq_len or length or encoding.longest or USUAL, MOST)
    largest, position, first = 0.0, 0, None
    for start in range(0, length, BLOCK):
        positions = torch.arange(start, min(start + BLOCK, length), device=device)[None]
        by_axis = positions if encoding.num_axes == 1 else positions.expand(encoding.num_axes, 1, -1)
        both = zip(ask_module(old, name, by_axis), ask_module(new, name, by_axis), strict=True)
        rows = torch.stack([(theirs - ours).abs().amax(dim=-1)[0] for theirs, ours in both]).amax(dim=0)
        visible = rows.gt(VISIBLE).nonzero()
        if first is None and len(visible):
            first = start + int(visible[0])
        if rows.max() > largest:
            largest, position = float(rows.max()), start + int(rows.argmax())
    return Difference(length, largest, position, first)


def _device_of(module: nn.Module) -> torch.device:
    return next((buffer.device for buffer in module.buffers()), torch.device("cpu"))
