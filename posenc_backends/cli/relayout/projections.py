"""Which modules of a model are projections of queries and keys, and where their channels go in another layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Rotary
from posenc_core.huggingface import layer_types, load_rope
from posenc_core.huggingface.config import read
from posenc_core.huggingface.heads import SIZES
from posenc_core.huggingface.models import MODELS, model_type
from posenc_core.rotation import Layout
from posenc_core.weights.rotary import relayout

Order: TypeAlias = npt.NDArray[np.int64]
Shapes: TypeAlias = dict[tuple["int | None", ...], Order]

QUERIES, KEYS = ("q_proj", "wq"), ("k_proj", "wk")
LATENT = ("q_b_proj", "kv_a_proj_with_mqa")  # of queries and of keys
QUERY_NORMS, KEY_NORMS = ("q_norm", "q_layernorm", "query_layernorm"), ("k_norm", "k_layernorm", "key_layernorm")
STACKED = {"phi3": "qkv_proj", "modernbert": "Wqkv"}  # all queries, all keys, all values
BY_HEAD = {"gpt_neox": "query_key_value"}  # the queries, keys and values of each head in turn
UNTOUCHED = {
    "v_proj", "o_proj", "out_proj", "dense", "wv", "wo", "Wo", "q_a_proj", "q_a_layernorm", "kv_a_layernorm", "kv_b_proj",
}  # fmt: skip
BUFFERS = {"sinks", "bias", "masked_bias", "rotary_emb.inv_freq"}

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")


class Projection(NamedTuple):
    """A linear map: the row that each of its rows comes from, and how wide its input is, if the config says so."""

    order: Order
    inputs: int | None

    def shapes(self, parameter: str) -> Shapes:
        """The shapes that one of its parameters may have, None standing for any size; to each the order of its rows."""
        if parameter.endswith("bias") or parameter.startswith("lora_magnitude_vector"):
            return {(len(self.order),): self.order}
        return {(len(self.order), self.inputs if parameter == "weight" else None): self.order}


class Norm(NamedTuple):
    """A norm of one head, which all may share: the channel that each of its channels comes from."""

    head: Order
    heads: int

    def shapes(self, parameter: str) -> Shapes:
        """As those of a projection: for one head, for all of them, or for all in rows."""
        every, width = _repeated(self.head, self.heads), len(self.head)
        return {(width,): self.head, (width * self.heads,): every, (self.heads, width): every}


Projections: TypeAlias = dict[str, "Projection | Norm"]


def trained_layout(config: Any) -> tuple[str, Layout | None]:
    """The `model_type` of a config, and the layout that such a model is trained in; None if it is not known.

    >>> trained_layout({"model_type": "llama", "head_dim": 8, "rope_theta": 10000})
    ('llama', 'half')
    """
    name = model_type(read(config))
    return name, _ropes(config)[0].layout if name in MODELS else None


def shares_keys(config: Any) -> bool:
    """Whether layers of the model may use the keys of others."""
    text = read(config)
    return bool(text.get("num_kv_shared_layers") or text.get("use_cla"))


def projections(config: Any, *, source: Layout, target: Layout) -> Projections:
    """By its name each projection of queries or keys, and each norm of them, with the order that its rows are to have.

    Args:
        config: what describes the model, as in `load_rope`.
        source, target: layouts, as in `relayout`.
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
    return _by_name(text, head)


def _by_name(text: dict[str, Any], head: Order) -> Projections:
    heads, inputs, model = _size(text, HEADS), _inputs(text), text.get("model_type")
    key_heads = _size(text, KEY_HEADS, default=heads)
    queries, keys = _repeated(head, heads), _repeated(head, key_heads)
    found: Projections = {
        **dict.fromkeys(QUERIES, Projection(queries, inputs)),
        **dict.fromkeys(KEYS, Projection(keys, inputs)),
        **dict.fromkeys(QUERY_NORMS, Norm(head, heads)),
        **dict.fromkeys(KEY_NORMS, Norm(head, key_heads)),
    }
    if model in STACKED:
        found[STACKED[model]] = Projection(_joined(queries, keys, np.arange(len(keys))), inputs)
    if model in BY_HEAD:
        found[BY_HEAD[model]] = Projection(_repeated(_joined(head, head, np.arange(len(head))), heads), inputs)
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
    queries, inputs = _repeated(head, _size(text, HEADS)), _inputs(text)
    return {
        "q_proj": Projection(queries, inputs),
        LATENT[0]: Projection(queries, text.get("q_lora_rank")),
        LATENT[1]: Projection(latent, inputs),
    }


def _width(config: Any) -> tuple[int, int, Any]:
    """The width of a head, how many of its channels turn, and which: the same in all layers."""
    widths = {(rope.head_dim, rope.rotary_channels, rope.pairing.placement) for rope in _ropes(config)}
    if len(widths) > 1:
        raise ValueError(f"`config` must have heads of one width in all layers to be re-laid, got {sorted(widths)}.")
    return widths.pop()


def _ropes(config: Any) -> list[Rotary]:
    """The encodings of the layers that turn."""
    each = [load_rope(config, layer_type=layer_type) for layer_type in layer_types(config) or (None,)]
    turning = [rope for rope in each if rope is not None]
    if not turning:
        raise ValueError("`config` describes a model that does not rotate: its weights have no layout.")
    return turning


def _inputs(text: dict[str, Any]) -> int | None:
    """How wide the inputs of projections are, if the config says so."""
    return next((text[name] for name in SIZES if text.get(name) is not None), None)


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
