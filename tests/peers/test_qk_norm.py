"""Tiny models of transformers with QK-norm whose attention is replaced whole by `MultiHeadAttention(qk_norm=…)`."""

import pytest
import torch
from torch import nn

from posenc_backends.torch import MultiHeadAttention
from posenc_core import QKNorm
from posenc_core.huggingface import load_rope

from .models import TWO_KINDS
from .replaced import TINY, Family, config_of, model_of

LENGTH = 9
EPSILON = 0.25  # so large that it shows in tiny models
ROW = {"num_heads": TINY["num_attention_heads"], "num_kv_heads": TINY["num_key_value_heads"]}
AFTER = {"order": "rope_first"}
CASES = [
    (Family("qwen3"), {}),
    (Family("gemma3_text", TWO_KINDS | {"query_pre_attn_scalar": TINY["head_dim"]}), {"offset": 1.0}),
    (Family("olmo2"), ROW),
    (Family("nanochat"), AFTER | {"weight": False}),
    (Family("hunyuan_v1_dense"), AFTER),
]


class Replaced(nn.Module):
    """Our attention where that of a model was, with its weights; it counts positions itself."""

    def __init__(self, before, rotary, norm):
        super().__init__()
        hidden, heads, kv_heads = TINY["hidden_size"], TINY["num_attention_heads"], TINY["num_key_value_heads"]
        self.attention = MultiHeadAttention(hidden, heads, num_kv_heads=kv_heads, position=rotary, qk_norm=norm)
        names = {"q_norm": "norm.q_weight", "k_norm": "norm.k_weight"}
        names |= {"query_layernorm": "norm.q_weight", "key_layernorm": "norm.k_weight"}
        state = {}
        for name, weight in before.state_dict().items():
            part, _, rest = name.partition(".")
            state[names.get(part) or f"W_{part[0]}.{rest}"] = weight
        self.attention.load_state_dict(state)

    def forward(self, hidden_states, *_, **__):
        return self.attention(hidden_states, hidden_states, hidden_states, causal=True), None


@torch.no_grad()
@pytest.mark.parametrize(("family", "fields"), CASES, ids=str)
def test_a_model_with_our_attention_gives_the_same_outputs(family, fields):
    config = config_of(family._replace(fields=family.fields | {"rms_norm_eps": EPSILON}))
    model, ids = model_of(config), torch.arange(3, 3 + LENGTH)[None]
    for name, parameter in model.named_parameters():
        if "norm" in name:
            nn.init.normal_(parameter, std=0.5)
    wanted, before = model(input_ids=ids, use_cache=False).logits, [layer.self_attn for layer in model.model.layers]
    kinds = config.layer_types if family.model_type == "gemma3_text" else [None] * len(before)

    def error(epsilon):
        norm = QKNorm(head_dim=TINY["head_dim"], epsilon=epsilon, **fields)
        for layer, own, kind in zip(model.model.layers, before, kinds, strict=True):
            layer.self_attn = Replaced(own, load_rope(config, layer_type=kind), norm)
        return (model(input_ids=ids, use_cache=False).logits - wanted).abs().max() / wanted.abs().max()

    assert error(EPSILON) < 1e-5 < error(2 * EPSILON)
