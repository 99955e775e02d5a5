"""Small models of transformers, built at random and watched at work: what they turn, by which tables."""

import sys
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModel

SMALL = {
    "vocab_size": 64,
    "hidden_size": 96,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "num_local_experts": 2,
    "pad_token_id": 0,
}


class Table(NamedTuple):
    """The result of the rotary module of a model, one column per pair, and its arguments."""

    layer_type: str | None
    cos: np.ndarray
    sin: np.ndarray
    frequencies: np.ndarray
    factor: float


class Turn(NamedTuple):
    """Queries or keys before and after the rotation, `(..., length, width)`, in the layers of a type.

    DeepSeek-V4 also rotates its values `back`, by a sine that is not a table but minus one.
    """

    layer_type: str | None
    back: bool
    before: np.ndarray
    after: np.ndarray


class Watched(NamedTuple):
    tables: list[Table]
    turns: list[Turn]


def small(model_type, fields):
    """The config of a small model; a field of None is left out."""
    fields = SMALL | fields
    return CONFIG_MAPPING[model_type](**{key: value for key, value in fields.items() if value is not None})


def watch(config, positions, rotations, monkeypatch):
    """Run a random model of a config once, on positions `(length,)` or `(axes, length)`; watch these rotations."""
    torch.manual_seed(0)
    model = AutoModel.from_config(config, attn_implementation="eager").eval()
    seen, made = Watched([], []), Made({}, [])
    for part in model.modules():
        if "RotaryEmbedding" in type(part).__name__:
            part.register_forward_hook(_note_table(seen.tables, made), with_kwargs=True)
    module = sys.modules[type(model).__module__]
    for name in rotations:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, _noting_turns(getattr(module, name), seen.turns, made))
    positions = torch.tensor(positions)[..., None, :]
    tokens = torch.arange(3, 3 + positions.shape[-1])[None]
    with torch.no_grad():
        model(tokens, position_ids=positions)
    return seen


class Made(NamedTuple):
    """The layer type of each table that was made, by its `id`; and the tables, so that no other gets the same."""

    types: dict[int, str | None]
    tables: list[Any]


def _note_table(tables: list[Table], made: Made) -> Any:
    def note(part, args, kwargs, out):
        layer_type = kwargs.get("layer_type", args[2] if len(args) > 2 else None)
        made.tables.append(out)
        made.types.update({id(table): layer_type for table in (out if isinstance(out, tuple) else (out,))})
        prefix = f"{layer_type}_" if layer_type else ""
        cos, sin = (out.real, out.imag) if torch.is_tensor(out) else out
        frequencies = getattr(part, f"{prefix}inv_freq").numpy().copy()
        factor = getattr(part, f"{prefix}attention_scaling")
        columns = (_columns(table[0].numpy(), len(frequencies)) for table in (cos, sin))
        tables.append(Table(layer_type, *columns, frequencies, factor))

    return note


def _noting_turns(rotation: Any, turns: list[Turn], made: Made) -> Any:
    def noting(*args, **kwargs):
        before = [arg.clone() for arg in args if torch.is_tensor(arg) and arg.ndim == 4]
        out = rotation(*args, **kwargs)
        after = out if isinstance(out, tuple) else (out,)
        first, *others = args[len(before) :]
        of = made.types.get(id(first)), bool(made.types) and any(id(other) not in made.types for other in others)
        turns.extend(Turn(*of, *pair) for pair in zip(map(_rows, before), map(_rows, after), strict=True))
        return out

    return noting


def _columns(table, pairs):
    """One column per pair of a table that may have two, in either layout."""
    if table.shape[-1] == pairs:
        return table.copy()
    for first, second in ((table[:, :pairs], table[:, pairs:]), (table[:, 0::2], table[:, 1::2])):
        if np.array_equal(first, second):
            return first.copy()
    raise AssertionError(f"a table of shape {table.shape} is not a table of {pairs} pairs twice")


def _rows(x):
    """`(..., length, width)` of what may have the length before the heads; heads are never ten."""
    return (x.transpose(1, 2) if x.shape[1] == 10 else x).numpy().copy()
