"""Which tensors of a checkpoint hold queries and keys, and the order of their rows in another layout.

Tensors are recognized by name. An unknown tensor of an attention module is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core._array_api.checks import WIDEST, shown
from posenc_core.encodings import RotaryEncoding
from posenc_core.encodings.remapping import inner_rotary
from posenc_core.formats.safetensors import ITEM_SIZES
from posenc_core.huggingface import layer_types, load_rope
from posenc_core.huggingface.config import SIZES, read
from posenc_core.huggingface.facts.models import MODELS, model_type
from posenc_core.rotation import Layout
from posenc_core.weights.rotary import relayout

Order: TypeAlias = npt.NDArray[np.int64]
Shapes: TypeAlias = dict[tuple["int | None", ...], Order]

QUERIES, KEYS = ("q_proj", "wq"), ("k_proj", "wk")
LATENT = ("q_b_proj", "kv_a_proj_with_mqa")  # queries and keys of multi-head latent attention
QUERY_NORMS, KEY_NORMS = ("q_norm", "q_layernorm", "query_layernorm"), ("k_norm", "k_layernorm", "key_layernorm")
STACKED = {"phi3": "qkv_proj", "modernbert": "Wqkv"}  # all queries, all keys, all values
FUSED = "wqkv"
BY_HEAD = {"gpt_neox": "query_key_value"}  # the queries, keys and values of each head in turn
UNTOUCHED = {
    "v_proj", "o_proj", "out_proj", "dense", "wv", "wo", "Wo", "q_a_proj", "q_a_layernorm", "kv_a_layernorm",
    "kv_b_proj",
}  # fmt: skip
BUFFERS = {"sinks", "bias", "masked_bias", "rotary_emb.inv_freq"}
SELF_ATTENTION = {"self_attn", "attention", "attn", "self_attention"}
TEXT = {
    "model", "layers", "transformer", "h", "blocks", "gpt_neox", "backbone", "language_model", "text_model", "llm",
    "thinker", "mtp", "mtp_layers", "base_model", "module", "_orig_mod", *SELF_ATTENTION,
}  # fmt: skip
# Encoders of images and sound are copied: their layout is not that of the text model.
_ENCODER = re.compile(
    r"((vision|visual|image|audio)(_(tower|model|encoder|transformer|backbone))?|vpm|apm|vit|img_processor|resampler)$"
)
_ATTENTION = re.compile(r"att(n|ention)\d*$")
_QUERIES_OR_KEYS = re.compile(r"(^|_)w?(q|k|qk|kv|qkv|query|key)(_|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"(\w+)\.(?:base_layer\.)?(weight|bias|lora_(?:A|B|magnitude_vector)(?:\.\w+)*)")
_QUANTIZED = re.compile(r"\.(qweight|qzeros|scales|g_idx|absmax|quant_\w+|weight_scale\w*|weight_packed)(\.|$)")
_WEIGHT = re.compile(r"(?:(.*)\.)?(?!base_layer\.)(\w+)\.(?:base_layer\.)?weight")

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
MOST_ROWS = 2**22  # of a projection, before the shapes of the file are compared: some hundred times the widest
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")


class Projection(NamedTuple):
    """A linear map.

    Attributes:
        order: the row that each new row comes from.
        inputs: the width of its input; None if the config does not give it.
    """

    order: Order
    inputs: int | None

    def shapes(self, parameter: str) -> Shapes:
        """Return the shapes that a parameter may have, with the order of the rows of each; None means any size."""
        if parameter.endswith("bias") or parameter.startswith("lora_magnitude_vector"):
            return {(len(self.order),): self.order}
        return {(len(self.order), self.inputs if parameter == "weight" else None): self.order}


class Norm(NamedTuple):
    """A norm of heads.

    Attributes:
        head: the channel that each new channel of one head comes from.
        heads: number of heads.
    """

    head: Order
    heads: int

    def shapes(self, parameter: str) -> Shapes:
        """Return the shapes of a norm shared by the heads, of all heads in one row, and of one row for each head."""
        every, width = _repeated(self.head, self.heads), len(self.head)
        return {(width,): self.head, (width * self.heads,): every, (self.heads, width): every}


Projections: TypeAlias = dict[str, "Projection | Norm"]


def trained_layout(config: Any) -> tuple[str, Layout | None]:
    """Return the `model_type` of a config and the layout of its weights; None if neither it nor the format says it.

    >>> trained_layout({"model_type": "llama", "head_dim": 8, "rope_theta": 10000})
    ('llama', 'half')
    """
    name = model_type(read(config))
    return name, _ropes(config)[0].layout if name in MODELS or is_params(config) else None


def is_params(config: Any) -> bool:
    """Return whether a config is a `params.json`, which comes with weights of its own names and layout."""
    return bool(read(config).get("layout_from") == "params.json")


def shares_keys(config: Any) -> bool:
    """Return whether some layers use the keys of other layers."""
    text = read(config)
    return bool(text.get("num_kv_shared_layers") or text.get("use_cla"))


def projections(config: Any, *, source: Layout, target: Layout) -> Projections:
    """Return each projection and norm of queries or keys by its name, with the new order of its rows.

    Args:
        config: the config of the model, as in `load_rope`.
        source, target: layouts, as in `relayout`.
    Raises:
        ValueError: if the config lacks a size, or if one order does not fit all heads.
    """
    text = read(config)
    layouts: dict[str, Any] = {"source": source, "target": target}
    if text.get("qk_rope_head_dim"):
        return _latent(text, layouts)
    if text.get("attention_k_eq_v"):
        raise ValueError(
            "`config` must not have `attention_k_eq_v`: keys are values too, and `o_proj` relies on their order."
        )
    head_dim, rotary_dim, placement = _width(config)
    head = relayout(np.arange(head_dim), head_dim=head_dim, rotary_dim=rotary_dim, placement=placement, **layouts)
    return _by_name(text, head)


def order_of(name: str, dtype: str, shape: tuple[int, ...], known: Projections) -> Order | None:
    """Return the row that each new row of a tensor comes from; None for a tensor that does not change.

    Args:
        name, dtype, shape: the tensor, as described by safetensors.
        known: the result of `projections`.
    Raises:
        ValueError: if the tensor belongs to an attention module and is unknown, quantized, or of the wrong shape.

    >>> config = {"head_dim": 4, "num_attention_heads": 1, "hidden_size": 8}
    >>> known = projections(config, source="interleaved", target="half")
    >>> order_of("layers.0.self_attn.q_proj.weight", "BF16", (4, 8), known)
    array([0, 2, 1, 3])
    >>> order_of("layers.0.mlp.up_proj.weight", "BF16", (4, 8), known)
    """
    parts = name.split(".")
    modules = [at for at, part in enumerate(parts) if _ATTENTION.search(part)]
    scalar = all(size == 1 for size in shape) and parts[-1] not in ("weight", "bias")
    if scalar or any(map(_ENCODER.match, parts)) or not (modules or any(map(_QUERIES_OR_KEYS.search, parts))):
        return None
    inner = ".".join(parts[modules[-1] + 1 :]) if modules and parts[modules[-1]] in SELF_ATTENTION else ""
    found = _PARAMETER.fullmatch(inner)
    module, parameter = found.groups() if found else ("", "")
    if inner in BUFFERS or module in UNTOUCHED or (module in known and parameter.startswith("lora_A")):
        return None
    if _QUANTIZED.search(name) or (module in known and dtype not in ITEM_SIZES):
        raise ValueError(f"`{name}` is quantized ({dtype}); convert the checkpoint before quantizing it.")
    if module not in known:
        raise ValueError(f"`{name}` may hold queries or keys, but their order is unknown for this model.")
    _check_text(name, parts[: modules[-1]])
    return _order_for_shape(name, shape, known[module].shapes(parameter), empty=parameter != "weight")


def _check_text(name: str, modules: list[str]) -> None:
    """Raise `ValueError` unless these modules belong to the text model."""
    for module in modules:
        if module not in TEXT and not module.isdigit():
            raise ValueError(
                f"`{name}` is part of `{module}`, which the config of the text model may not describe: "
                "convert it separately."
            )


def _order_for_shape(
    name: str, shape: tuple[int, ...], orders: dict[tuple[int | None, ...], Order], *, empty: bool
) -> Order:
    """Return the order that belongs to this shape; None in a shape means any size."""
    for wanted, order in orders.items():
        fits = [one in (size, None) for size, one in zip(shape, wanted, strict=False)]
        if len(shape) == len(wanted) and all(fits) and (empty or 0 not in shape):
            return order
    shapes = " or ".join(str(wanted).replace("None", "*") for wanted in orders)
    raise ValueError(f"`{name}` must have shape {shapes} by the config, got {shown(shape)}.")


def check_partners(relaid: Iterable[str], *, shared: bool) -> None:
    """Raise `ValueError` if an attention module has the weights of queries without keys, or of keys without queries.

    Args:
        relaid: the names of all tensors whose rows move; those of adapters need no partner.
        shared: whether layers may use the keys of other layers.
    Raises:
        ValueError: naming the module.

    >>> check_partners(["layers.0.attn.q_proj.weight"], shared=False)
    Traceback (most recent call last):
        ...
    ValueError: `source` must have queries and keys, but `layers.0.attn` lacks keys: give the index of all its files.
    """
    weights = [found.groups() for found in map(_WEIGHT.fullmatch, relaid) if found]
    queries = {at for at, module in weights if module in (*QUERIES, LATENT[0])}
    keys = {at for at, module in weights if module in (*KEYS, LATENT[1])}
    for missing, modules in (("queries", keys - queries), ("keys", set() if shared and keys else queries - keys)):
        for module in sorted(modules):
            raise ValueError(
                f"`source` must have queries and keys, but `{module}` lacks {missing}: give the index of all its files."
            )


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
        found[STACKED[model]] = Projection(_concatenated(queries, keys, np.arange(len(keys))), inputs)
    if model == "internlm2":  # the queries of each group of heads, its keys and its values
        group = _concatenated(*[head] * (heads // key_heads + 1), np.arange(len(head)))
        found[FUSED] = Projection(_repeated(group, key_heads), inputs)
    elif model in (*MODELS, None):  # gpt-fast
        found[FUSED] = Projection(_concatenated(queries, keys, np.arange(len(keys))), inputs)
    if model in BY_HEAD:
        found[BY_HEAD[model]] = Projection(_repeated(_concatenated(head, head, np.arange(len(head))), heads), inputs)
    return found


def _latent(text: dict[str, Any], layouts: dict[str, Any]) -> Projections:
    """Return the projections of multi-head latent attention, where the last channels of queries and latents rotate."""
    rotary_dim = _size(text, ("qk_rope_head_dim",))
    head_dim = _size(text, ("qk_nope_head_dim",)) + rotary_dim
    shared = _size(text, ("kv_lora_rank",)) + rotary_dim
    head, latent = (
        relayout(np.arange(width), head_dim=width, rotary_dim=rotary_dim, placement="trail", **layouts)
        for width in (head_dim, shared)
    )
    queries, inputs = _repeated(head, _size(text, HEADS)), _inputs(text)
    return {
        "q_proj": Projection(queries, inputs),
        LATENT[0]: Projection(queries, text.get("q_lora_rank")),
        LATENT[1]: Projection(latent, inputs),
    }


def _width(config: Any) -> tuple[int, int, Any]:
    """Return the width of a head, the number of its channels that rotate, and their placement."""
    widths = {(rope.head_dim, rope.rotary_channels, rope.pairing.placement) for rope in _ropes(config)}
    if len(widths) > 1:
        raise ValueError(f"`config` must have heads of one width in all layers, got {sorted(widths)}.")
    return widths.pop()


def _ropes(config: Any) -> list[RotaryEncoding]:
    """Return the encodings of the layers that rotate."""
    ropes = [load_rope(config, layer_type=layer_type) for layer_type in layer_types(config) or (None,)]
    found = [inner_rotary(rope) for rope in ropes if rope is not None]
    if not found:
        raise ValueError("`config` must describe a model with RoPE; without it, weights have no layout.")
    return found


def _inputs(text: dict[str, Any]) -> int | None:
    """Return the width of the inputs of projections, if the config gives it."""
    return next((text[name] for name in SIZES if text.get(name) is not None), None)


def _size(text: dict[str, Any], names: Sequence[str], default: int | None = None) -> int:
    size = next((text[name] for name in names if text.get(name) is not None), default)
    if type(size) is not int or not 1 <= size <= WIDEST:
        raise ValueError(f"`{names[0]}` must be an integer from 1 to {WIDEST} in the config, got {shown(size)}.")
    return size


def _repeated(order: Order, count: int) -> Order:
    if len(order) * count > MOST_ROWS:
        raise ValueError(f"`{HEADS[0]}` of {count} with {len(order)} channels each must have at most {MOST_ROWS} rows.")
    return _concatenated(*[order] * count)


def _concatenated(*orders: Order) -> Order:
    starts = np.cumsum([0, *(len(order) for order in orders)])
    return np.concatenate([order + start for order, start in zip(orders, starts, strict=False)])
