"""Which tensors of a checkpoint are projections of queries and keys, and where their channels go in another layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core.huggingface import layer_types, load_rope
from posenc_core.huggingface.config import read
from posenc_core.rotation import Layout
from posenc_core.weights import relayout

Order: TypeAlias = npt.NDArray[np.int64]
Projections: TypeAlias = dict[str, tuple[Order, ...]]

QUERIES, KEYS = ("q_proj", "wq"), ("k_proj", "wk")
QUERY_NORMS, KEY_NORMS = ("q_norm", "q_layernorm", "query_layernorm"), ("k_norm", "k_layernorm", "key_layernorm")
STACKED = {"phi3": "qkv_proj", "modernbert": "Wqkv"}  # all queries, all keys, all values
BY_HEAD = {"gpt_neox": "query_key_value"}  # the queries, keys and values of each head in turn
UNTOUCHED = {
    "v_proj", "o_proj", "out_proj", "dense", "wv", "wo", "Wo", "q_a_proj", "q_a_layernorm", "kv_a_layernorm", "kv_b_proj",
}  # fmt: skip
BUFFERS = {"sinks", "bias", "masked_bias", "rotary_emb.inv_freq"}

ITEM_SIZES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1}
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")

_TOWER = re.compile(r"(vision|visual|image|audio)(_(tower|model|encoder|transformer|backbone))?$")  # not the text
_ATTENTION = re.compile(r"att(n|ention)\d*$")
_SELF_ATTENTION = {"self_attn", "attention", "attn", "self_attention"}
_QUERIES_OR_KEYS = re.compile(r"(^|_)w?(q|k|qk|kv|qkv|query|key)(_|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"(\w+)\.(?:base_layer\.)?(weight|bias|lora_(?:A|B|magnitude_vector)(?:\.\w+)*)")
_QUANTISED = re.compile(r"\.(qweight|qzeros|scales|g_idx|absmax|quant_\w+|weight_scale\w*|weight_packed)(\.|$)")


def projections(config: Any, *, source: Layout, target: Layout) -> Projections:
    """By the name of each projection of queries or keys the row that each of its rows comes from.

    Args:
        config: what describes the model, as in `load_rope`.
        source, target: layouts, as in `relayout`.
    Returns:
        One or more orders for each name: norms are as wide as one head or as all of them.
    Raises:
        ValueError: if the config lacks a size, or describes heads that cannot be re-laid all alike.
    """
    text = read(config)
    words: dict[str, Any] = {"source": source, "target": target}
    if text.get("qk_rope_head_dim"):
        return _latent(text, words)
    if text.get("attention_k_eq_v"):
        raise ValueError(
            "`attention_k_eq_v` makes values of keys, whose channels `o_proj` counts on: it cannot be re-laid."
        )
    head_dim, turning, placement = _width(config)
    head = relayout(np.arange(head_dim), head_dim=head_dim, rotary_dim=turning, placement=placement, **words)
    heads = _size(text, HEADS)
    return _by_name(text.get("model_type"), head, heads, _size(text, KEY_HEADS, default=heads))


def _by_name(model: Any, head: Order, heads: int, key_heads: int) -> Projections:
    queries, keys = _repeated(head, heads), _repeated(head, key_heads)
    found: Projections = {
        **dict.fromkeys(QUERIES, (queries,)),
        **dict.fromkeys(KEYS, (keys,)),
        **dict.fromkeys(QUERY_NORMS, (head, queries)),
        **dict.fromkeys(KEY_NORMS, (head, keys)),
    }
    if model in STACKED:
        found[STACKED[model]] = (_joined(queries, keys, np.arange(len(keys))),)
    if model in BY_HEAD:
        found[BY_HEAD[model]] = (_repeated(_joined(head, head, np.arange(len(head))), heads),)
    return found


def _latent(text: dict[str, Any], words: dict[str, Any]) -> Projections:
    """Multi-head latent attention: the last channels of each query turn, and the last of what keys are made of."""
    turning = _size(text, ("qk_rope_head_dim",))
    head_dim = _size(text, ("qk_nope_head_dim",)) + turning
    shared = _size(text, ("kv_lora_rank",)) + turning
    head, latent = (
        relayout(np.arange(width), head_dim=width, rotary_dim=turning, placement="trail", **words)
        for width in (head_dim, shared)
    )
    queries = (_repeated(head, _size(text, HEADS)),)
    return {"q_proj": queries, "q_b_proj": queries, "kv_a_proj_with_mqa": (latent,)}


def _width(config: Any) -> tuple[int, int, Any]:
    """The width of a head, how many of its channels turn, and which: the same in all layers."""
    types = layer_types(config) or (None,)
    each = [load_rope(config, layer_type=layer_type) for layer_type in types]
    widths = {(rope.head_dim, rope.turning, rope.pairing.placement) for rope in each if rope is not None}
    if not widths:
        raise ValueError("`config` describes a model that does not rotate: its weights have no layout.")
    if len(widths) > 1:
        raise ValueError(f"`config` must have heads of one width in all layers to be re-laid, got {sorted(widths)}.")
    return widths.pop()


def _size(text: dict[str, Any], names: Sequence[str], default: int | None = None) -> int:
    size = next((text[name] for name in names if text.get(name) is not None), default)
    if type(size) is not int or size < 1:
        raise ValueError(f"`{names[0]}` must be a positive integer in the config, got {size!r}.")
    return size


def _repeated(order: Order, count: int) -> Order:
    return _joined(*[order] * count)


def _joined(*orders: Order) -> Order:
    starts = np.cumsum([0, *(len(order) for order in orders)])
    return np.concatenate([order + start for order, start in zip(orders, starts, strict=False)])


def order_of(name: str, dtype: str, shape: tuple[int, ...], known: Projections) -> Order | None:
    """The row that each row of a tensor comes from; None for a tensor that stays as it is.

    Args:
        name, dtype, shape: of the tensor, as safetensors has them.
        known: what `projections` found.
    Raises:
        ValueError: if it is a tensor of an attention module that is not known, is quantised, or has another shape.

    >>> known = {"q_proj": (np.array([0, 2, 1, 3]),)}
    >>> order_of("layers.0.self_attn.q_proj.weight", "BF16", (4, 8), known)
    array([0, 2, 1, 3])
    >>> order_of("layers.0.mlp.up_proj.weight", "BF16", (4, 8), known)
    """
    parts = name.split(".")
    modules = [at for at, part in enumerate(parts) if _ATTENTION.search(part)]
    if prod(shape) == 1 or any(map(_TOWER.match, parts)) or not (modules or any(map(_QUERIES_OR_KEYS.search, parts))):
        return None
    inner = ".".join(parts[modules[-1] + 1 :]) if modules and parts[modules[-1]] in _SELF_ATTENTION else ""
    found = _PARAMETER.fullmatch(inner)
    module, parameter = found.groups() if found else ("", "")
    if inner in BUFFERS or module in UNTOUCHED or (module in known and parameter.startswith("lora_A")):
        return None
    if _QUANTISED.search(name) or (module in known and dtype not in ITEM_SIZES):
        raise ValueError(f"`{name}` is quantised ({dtype}); re-lay the checkpoint before it is quantised.")
    if module not in known:
        raise ValueError(f"`{name}` may hold queries or keys, but in which order is not known for this model.")
    rows = prod(shape) if module in (*QUERY_NORMS, *KEY_NORMS) else shape[0]
    for order in known[module]:
        if len(order) == rows:
            return order
    sizes = " or ".join(str(len(order)) for order in known[module])
    raise ValueError(f"`{name}` must have {sizes} rows by the config, got shape {shape}.")
