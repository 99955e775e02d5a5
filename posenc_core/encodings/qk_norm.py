"""The norm of queries and keys (QK-norm), which attention applies beside their rotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .._array_api.checks import WIDEST, check_flag, check_integer, shown
from ..normalization import Norm, Order, norm_of
from .base import Encoding, Parameter, Tables


@dataclass(frozen=True, kw_only=True, repr=False)
class QKNorm(Encoding):
    """The RMS norm of queries and keys in attention (QK-norm), before or after their rotation.

    `MultiHeadAttention(qk_norm=…)` normalizes as `normalize_and_rotate` does, in float32 with one rounding after the
    rotation, and learns `q_weight` and `k_weight`. These start at 1 - `offset`, where each channel is multiplied by 1.

    Args:
        head_dim: width of each head.
        epsilon: is added to the mean of the squares.
        weight: whether each channel is multiplied by a learned weight; without one in Llama 4 and nanochat.
        offset: is added to the weights, 1 in Gemma.
        order: `"norm_first"` normalizes, then rotates (Qwen3, Gemma 3, OLMo 2); `"rope_first"` rotates, then
            normalizes (HunYuan, Llama 4, nanochat).
        num_heads: the number of heads of queries, if one mean is of all heads of a token, and each has weights of its
            own (OLMo 2). None for one mean of each head, with the weights that all heads share.
        num_kv_heads: the same number of keys, if fewer.
    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a number is out of range, `order` is unknown, `offset` is given without weights, or
            `num_kv_heads` without `num_heads`.
    Source: Qwen3, Gemma 3, OLMo 2, HunYuan, Llama 4, nanochat: their code in transformers 5.23. Dehghani et al. 2023
        (arXiv:2302.05442).

    >>> QKNorm(head_dim=4, offset=1.0).parameters()["q_weight"]
    Parameter(shape=(4,), std=0.0, mean=0.0)
    """

    head_dim: int
    epsilon: float = 1e-6
    weight: bool = True
    offset: float = 0.0
    order: Order = "norm_first"
    num_heads: int | None = None
    num_kv_heads: int | None = None

    layer_name: ClassVar[str] = "QueryKeyNorm"

    def __post_init__(self) -> None:
        super().__post_init__()
        norm_of(self.epsilon, self.offset, self.order, None, has_weight=check_flag("weight", self.weight))
        for name in ("head_dim", "num_heads", "num_kv_heads"):
            if name == "head_dim" or getattr(self, name) is not None:
                check_integer(name, getattr(self, name), maximum=WIDEST)
        if self.num_kv_heads is not None and self.num_heads is None:
            raise ValueError(f"`num_kv_heads` must be left out without `num_heads`, got {shown(self.num_kv_heads)}.")

    @property
    def norm(self) -> Norm:
        """How tokens `(batch, heads, length, head_dim)` are normalized."""
        return Norm(self.epsilon, self.offset, self.order, None if self.num_heads is None else -3)

    def constants(self, max_len: int) -> Tables:
        return {}

    def parameters(self) -> dict[str, Parameter]:
        heads = (self.num_heads or 1, self.num_kv_heads or self.num_heads or 1)
        shapes = {"q_weight": heads[0] * self.head_dim, "k_weight": heads[1] * self.head_dim} if self.weight else {}
        return {name: Parameter(shape=(n,), std=0.0, mean=1.0 - self.offset) for name, n in shapes.items()}
