"""Factors of queries against those that the models of transformers compute, from the same configs."""

import numpy as np
import pytest
import torch
from transformers import (
    BeamConfig,
    Inkling2TextConfig,
    Llama4TextConfig,
    Ministral3Config,
    Mistral4Config,
    MistralLarge4TextConfig,
)
from transformers.models.beam.modeling_beam import compute_attention_scaling
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale as of_ministral
from transformers.models.mistral4.modeling_mistral4 import get_llama_4_attn_scale as of_mistral
from transformers.models.mistral_large4.modeling_mistral_large4 import MistralLarge4TextSoftmaxScaling

from posenc_backends.torch import QueryScaling
from posenc_core.huggingface import load_query_scale

POSITIONS = np.array([0, 1, 2047, 8190, 8191, 8192, 16383, 16384, 65535, 127999, 128000, 2**20, 2**23 + 1])
FLOAT32 = 4 * 2.0**-23  # of a logarithm, a product and a sum, each rounded


def by_config(function):
    def factors(config):
        rope = config.rope_parameters
        return function(
            torch.tensor(POSITIONS)[None], rope["llama_4_scaling_beta"], rope["original_max_position_embeddings"]
        )

    return factors


@pytest.mark.parametrize(
    ("config", "factors"),
    [
        (Ministral3Config(), by_config(of_ministral)),
        (Mistral4Config(), by_config(of_mistral)),
        (BeamConfig(), lambda _: compute_attention_scaling(torch.tensor(POSITIONS)[None])),
    ],
    ids=["ministral3", "mistral4", "beam"],
)
def test_factors_are_those_of_the_model(config, factors):
    ours, theirs = load_query_scale(config).factors(POSITIONS), factors(config).ravel().numpy()
    assert ours[-1] > 1.5
    np.testing.assert_allclose(theirs, ours, rtol=FLOAT32)


def test_inkling_2_grows_with_the_logarithm():
    config = Inkling2TextConfig()
    floor = torch.tensor(POSITIONS + 1).float() / config.log_scaling_n_floor  # as in Inkling2FullAttention.forward
    theirs = 1.0 + config.log_scaling_alpha * torch.log(floor.clamp(min=1.0))
    np.testing.assert_allclose(theirs, load_query_scale(config).factors(POSITIONS), rtol=FLOAT32)


@pytest.mark.parametrize("tuned", [True, False])
def test_attention_of_llama_4_multiplies_queries_of_layers_without_rope(tuned):
    """Queries that reach the attention, relative to those of a model without temperature tuning."""
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 8}
    numbers = {"floor_scale": 4, "attn_scale": 0.3, "no_rope_layers": [1, 0], "num_hidden_layers": 2}
    config = Llama4TextConfig(**sizes, **numbers, attn_temperature_tuning=tuned)
    config._attn_implementation = "eager"
    attention = Llama4TextAttention(config, layer_idx=1).eval()
    torch.manual_seed(0)
    tokens = torch.randn(1, 11, 16)
    attention.k_proj.register_forward_hook(lambda *_: torch.eye(16)[:11][None].expand(1, 11, 16))
    with torch.no_grad():
        queries = attention.q_proj(tokens)
        _, weights = attention(tokens, position_embeddings=None, attention_mask=None)
        scale = load_query_scale(config)
        factors = np.ones(11) if scale is None else scale.factors(range(11))
        scaled = queries * torch.tensor(factors, dtype=torch.float32)[None, :, None]
        keys = torch.eye(16)[:11][None]
        q, k = (x.view(1, 11, 2, 8).transpose(1, 2) for x in (scaled, keys))
        wanted = torch.softmax(q @ k.transpose(-1, -2) * attention.scaling, dim=-1)
    np.testing.assert_allclose(weights, wanted, rtol=1e-5)
    assert (scale is not None) is tuned


def test_learned_factors_of_mistral_large_4():
    """With the parameters of its checkpoint; at positions to 2**24, where the model's float32 counts every token."""
    config = MistralLarge4TextConfig(num_attention_heads=4)
    theirs, ours = MistralLarge4TextSoftmaxScaling(4), QueryScaling(load_query_scale(config))
    torch.manual_seed(0)
    positions = torch.tensor(POSITIONS)
    queries = torch.randn(1, 4, len(POSITIONS), 8)
    with torch.no_grad():
        for numbers in (theirs.scale, theirs.bias):
            numbers.normal_()
        ours.slope.copy_(theirs.scale)
        ours.intercept.copy_(theirs.bias)
        wanted = theirs(queries, positions[None], head_dim_first=True)
        np.testing.assert_allclose(ours(queries, positions=positions), wanted, rtol=1e-6, atol=1e-5)
