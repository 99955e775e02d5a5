"""Which tensors of a checkpoint are to be re-laid, by their names; what is not known is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from .projections import BUFFERS, KEYS, LATENT, QUERIES, UNTOUCHED, Order, Projections
from .safetensors import ITEM_SIZES

SELF_ATTENTION = {"self_attn", "attention", "attn", "self_attention"}
TEXT = {
    "model", "layers", "transformer", "h", "blocks", "gpt_neox", "backbone", "language_model", "text_model", "llm",
    "thinker", "mtp", "mtp_layers", "base_model", "module", "_orig_mod", *SELF_ATTENTION,
}  # fmt: skip

# Towers for pictures and sound, which are copied: their layout is not the text model's.
_TOWER = re.compile(
    r"((vision|visual|image|audio)(_(tower|model|encoder|transformer|backbone))?|vpm|apm|vit|img_processor|resampler)$"
)
_ATTENTION = re.compile(r"att(n|ention)\d*$")
_QUERIES_OR_KEYS = re.compile(r"(^|_)w?(q|k|qk|kv|qkv|query|key)(_|$)", re.IGNORECASE)
_PARAMETER = re.compile(r"(\w+)\.(?:base_layer\.)?(weight|bias|lora_(?:A|B|magnitude_vector)(?:\.\w+)*)")
_QUANTISED = re.compile(r"\.(qweight|qzeros|scales|g_idx|absmax|quant_\w+|weight_scale\w*|weight_packed)(\.|$)")
_WEIGHT = re.compile(r"(?:(.*)\.)?(?!base_layer\.)(\w+)\.(?:base_layer\.)?weight")


def order_of(name: str, dtype: str, shape: tuple[int, ...], known: Projections) -> Order | None:
    """The row that each row of a tensor comes from; None for a tensor that stays as it is.

    Args:
        name, dtype, shape: of the tensor, as safetensors has them.
        known: what `projections` found.
    Raises:
        ValueError: if it is a tensor of an attention module that is not known, is quantised, or has another shape.

    >>> from posenc_backends.cli.relayout.projections import projections
    >>> config = {"head_dim": 4, "num_attention_heads": 1, "hidden_size": 8}
    >>> known = projections(config, source="interleaved", target="half")
    >>> order_of("layers.0.self_attn.q_proj.weight", "BF16", (4, 8), known)
    array([0, 2, 1, 3])
    >>> order_of("layers.0.mlp.up_proj.weight", "BF16", (4, 8), known)
    """
    parts = name.split(".")
    modules = [at for at, part in enumerate(parts) if _ATTENTION.search(part)]
    scalar = prod(shape) == 1 and parts[-1] not in ("weight", "bias")
    if scalar or any(map(_TOWER.match, parts)) or not (modules or any(map(_QUERIES_OR_KEYS.search, parts))):
        return None
    inner = ".".join(parts[modules[-1] + 1 :]) if modules and parts[modules[-1]] in SELF_ATTENTION else ""
    found = _PARAMETER.fullmatch(inner)
    module, parameter = found.groups() if found else ("", "")
    if inner in BUFFERS or module in UNTOUCHED or (module in known and parameter.startswith("lora_A")):
        return None
    if _QUANTISED.search(name) or (module in known and dtype not in ITEM_SIZES):
        raise ValueError(f"`{name}` is quantised ({dtype}); re-lay the checkpoint before it is quantised.")
    if module not in known:
        raise ValueError(f"`{name}` may hold queries or keys, but in which order is not known for this model.")
    _check_text(name, parts[: modules[-1]])
    return _fitting(name, shape, known[module].shapes(parameter), empty=parameter != "weight")


def _check_text(name: str, modules: list[str]) -> None:
    """Raise if it is not sure that these modules are those of the text model."""
    for module in modules:
        if module not in TEXT and not module.isdigit():
            raise ValueError(
                f"`{name}` is part of `{module}`, of which the config of the text model may not tell: re-lay it apart."
            )


def _fitting(name: str, shape: tuple[int, ...], orders: dict[tuple[int | None, ...], Order], *, empty: bool) -> Order:
    """The order that belongs to the shape; None in a shape stands for any size."""
    for wanted, order in orders.items():
        fits = [one in (size, None) for size, one in zip(shape, wanted, strict=False)]
        if len(shape) == len(wanted) and all(fits) and (empty or 0 not in shape):
            return order
    shapes = " or ".join(str(wanted).replace("None", "*") for wanted in orders)
    raise ValueError(f"`{name}` must have shape {shapes} by the config, got {shape}.")


def check_partners(relaid: Iterable[str], *, shared: bool) -> None:
    """Raise if an attention module has the weights of queries but not of keys, or the other way round.

    Args:
        relaid: the names of all tensors of a checkpoint that are re-laid; those of adapters need no partner.
        shared: whether layers may use the keys of others.
    Raises:
        ValueError: if there is one.

    >>> check_partners(["layers.0.attn.q_proj.weight"], shared=False)
    Traceback (most recent call last):
        ...
    ValueError: `source` must have queries and keys, but `layers.0.attn` lacks keys: give the index of all its files.
    """
    weights = [found.groups() for found in map(_WEIGHT.fullmatch, relaid) if found]
    queries = {at for at, module in weights if module in (*QUERIES, LATENT[0])}
    keys = {at for at, module in weights if module in (*KEYS, LATENT[1])}
    for kind, lacking in (("queries", keys - queries), ("keys", set() if shared and keys else queries - keys)):
        for at in sorted(lacking):
            raise ValueError(
                f"`source` must have queries and keys, but `{at}` lacks {kind}: give the index of all its files."
            )
