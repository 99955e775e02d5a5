"""PyTorch: our layer and function, eager and compiled; the peers that are installed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from posenc_backends.torch import RotaryEmbedding, apply_rotary
from posenc_core import Rotary, rotate

from . import Rotation, by_hand, each, floor, into_existing
from .imports import import_without_init, installed

DTYPES = ("float32", "bfloat16", "float16")


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, dynamic=False)


COMPILERS = {"compiled": _compiled}


class AdditionModule(torch.nn.Module):
    """The least module that adds the first rows of a table, as texts print it."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.register_buffer("table", table)
        self.dropout = torch.nn.Dropout(0.0)

    def forward(self, x: Any) -> Any:
        return self.dropout(x + self.table[: x.shape[-2]])


def array(numbers: Any, dtype: str) -> Any:
    return torch.tensor(numbers).to(getattr(torch, dtype))


def to_numpy(x: Any) -> Any:
    return x.detach().float().numpy()


def copy(x: Any) -> Any:
    return x.clone()


def ready(result: Any) -> Any:
    return result


def gradients(function: Callable[..., Any], q: Any, k: Any, to_q: Any, to_k: Any) -> Callable[[], Any]:
    """Return a call of forward and backward: the gradients with respect to both."""
    leaves = q.detach().requires_grad_(), k.detach().requires_grad_()
    return lambda: torch.autograd.grad(function(*leaves), leaves, (to_q, to_k))


def rotations(rotary: Rotary, start: int, length: int, dtype: str) -> dict[str, Rotation]:
    """Return ours, and each peer that has this layout."""
    layer = RotaryEmbedding(rotary, max_len=start + length)
    cos, sin = (torch.tensor(table) for table in rotary.cos_sin(np.arange(start, start + length)))

    at = torch.arange(start, start + length)
    rows = layer.cos_sin(at)
    form = next(iter(FORMS[rotary.layout].values()))
    tables = tuple(map(torch.tensor, rotary.cos_sin(np.arange(start + length))))
    of_rows = (at + torch.arange(8)[:, None]) % (start + length)  # no two rows have the same positions

    def looked_up(x: Any, positions: Any) -> Any:
        return form(x, *[table[positions][:, None] for table in tables])

    def ours(x: Any, out: Any = None) -> Any:
        return rotate(x, cos, sin, layout=rotary.layout, out=out)

    found = {
        "posenc": Rotation(lambda q, k: layer(q, k, start=start), compilers=("compiled",)),
        "posenc.rotate": Rotation(each(ours), compilers=("compiled",)),
        "posenc.positions": Rotation(lambda q, k: layer(q, k, positions=at)),
        "posenc.cos_sin": Rotation(lambda q, k: layer(q, k, cos_sin=rows)),
        "posenc.positions, each row": Rotation(lambda q, k: layer(q, k, positions=of_rows[: len(q)]), within=math.inf),
        "looked up": Rotation(each(lambda x: form(x, *[table[at] for table in tables]))),
        "looked up, each row": Rotation(each(lambda x: looked_up(x, of_rows[: len(x)])), within=math.inf),
        "posenc.apply_rotary": Rotation(lambda q, k: apply_rotary(q, k, cos, sin, layout=rotary.layout)),
        **into_existing(ours, copy),
        **floor("compiled"),
        **by_hand(FORMS[rotary.layout], cos, sin, "compiled"),
    }
    for module, peers in PEERS[rotary.layout].items():
        if installed(module):
            found |= dict(peers(rotary.head_dim, start, length, getattr(torch, dtype)))
    if rotary.layout == "interleaved" and dtype == "float32":
        table = torch.complex(cos, sin)
        found["complex product"] = Rotation(each(lambda x: _as_complex(x, table)))
    return found


def _whole_rows(x: Any, cos: Any, sin: Any) -> Any:
    wide = x.float()
    others = wide.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return (wide * torch.cat([cos, cos], -1) + others * torch.cat([-sin, sin], -1)).to(x.dtype)


def _halves(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.float().chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


def _neighbours(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2).to(x.dtype)


def _swapped_neighbours(x: Any, cos: Any, sin: Any) -> Any:
    wide, first, second = x.float(), x[..., ::2], x[..., 1::2]
    others = torch.stack([second, first], -1).flatten(-2).float()
    joined = torch.stack([cos, cos], -1).flatten(-2), torch.stack([-sin, sin], -1).flatten(-2)
    return (wide * joined[0] + others * joined[1]).to(x.dtype)


FORMS: dict[str, dict[str, Callable[..., Any]]] = {
    "half": {"whole rows": _whole_rows, "halves": _halves},
    "interleaved": {"pairs": _neighbours, "whole rows": _swapped_neighbours},
}


def _as_complex(x: Any, table: Any) -> Any:
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * table).flatten(-2)


Peers = Iterator[tuple[str, Rotation]]


def _transformers_half(width: int, start: int, length: int, dtype: Any) -> Peers:
    llama = importlib.import_module("transformers.models.llama.modeling_llama")
    config = importlib.import_module("transformers").LlamaConfig(head_dim=width, max_position_embeddings=start + length)
    positions = torch.arange(start, start + length)[None]
    cos, sin = llama.LlamaRotaryEmbedding(config)(
        torch.ones(1, dtype=dtype), positions
    )  # once for all layers of a model
    yield "transformers", Rotation(lambda q, k: llama.apply_rotary_pos_emb(q, k, cos, sin), compilers=("compiled",))


def _transformers_interleaved(width: int, start: int, length: int, dtype: Any) -> Peers:
    cohere = importlib.import_module("transformers.models.cohere.modeling_cohere")
    sizes = {"hidden_size": width, "num_attention_heads": 1, "num_key_value_heads": 1}
    base = {"rope_type": "default", "rope_theta": 10000.0}
    config = importlib.import_module("transformers").CohereConfig(**sizes, rope_parameters=base)
    positions = torch.arange(start, start + length)[None]
    cos, sin = cohere.CohereRotaryEmbedding(config)(torch.ones(1, dtype=dtype), positions)
    yield "transformers", Rotation(lambda q, k: cohere.apply_rotary_pos_emb(q, k, cos, sin), compilers=("compiled",))


def _torchtune(width: int, start: int, length: int, dtype: Any) -> Peers:
    module = import_without_init("torchtune.modules.position_embeddings")
    rope = module.RotaryPositionalEmbeddings(dim=width, max_seq_len=start + length)
    positions = None if start == 0 else torch.arange(start, start + length)[None]
    yield "torchtune", Rotation(each(lambda x: rope(x, input_pos=positions)), seq_axis=-3)


def _lucidrains(width: int, start: int, length: int, dtype: Any) -> Peers:
    rope = importlib.import_module("rotary_embedding_torch").RotaryEmbedding(dim=width)
    wrong = None if dtype == torch.float32 else math.inf  # positions in half precision
    rope.requires_grad_(requires_grad=False)  # its frequencies are a parameter
    yield "rotary-embedding-torch", Rotation(each(lambda x: rope.rotate_queries_or_keys(x, offset=start)), within=wrong)


def _x_transformers(width: int, start: int, length: int, dtype: Any) -> Peers:
    module = importlib.import_module("x_transformers.x_transformers")
    angles, _ = module.RotaryEmbedding(dim=width)(torch.arange(start, start + length))
    yield "x-transformers", Rotation(each(lambda x: module.apply_rotary_pos_emb(x, angles)))


def _diffusers(width: int, start: int, length: int, dtype: Any) -> Peers:
    yield from _diffusers_in(True, width, start, length)


def _diffusers_half(width: int, start: int, length: int, dtype: Any) -> Peers:
    yield from _diffusers_in(False, width, start, length)


def _diffusers_in(interleaved: bool, width: int, start: int, length: int) -> Peers:
    module = importlib.import_module("diffusers.models.embeddings")
    positions = torch.arange(start, start + length).float()
    table = module.get_1d_rotary_pos_embed(width, positions, use_real=True, repeat_interleave_real=interleaved)
    axis = -1 if interleaved else -2
    yield "diffusers", Rotation(each(lambda x: module.apply_rotary_emb(x, table, use_real_unbind_dim=axis)))


PEERS: dict[str, dict[str, Callable[[int, int, int, Any], Peers]]] = {
    "half": {"transformers": _transformers_half, "diffusers": _diffusers_half},
    "interleaved": {
        "transformers": _transformers_interleaved,
        "torchtune": _torchtune,
        "rotary_embedding_torch": _lucidrains,
        "x_transformers": _x_transformers,
        "diffusers": _diffusers,
    },
}
