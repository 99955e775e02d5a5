"""Tiny random models of transformers, run with a cache near position 0 and far from it, in float32 and in float64."""

from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, AutoModel, AutoModelForCausalLM

from .models import LATENT, LLAMA3, TWO_KINDS, rope

LONGEST, NEAR, FAR = 131072, 0, 100_003
PREFILL, LENGTH = 7, 9
TINY = {
    "vocab_size": 29,
    "hidden_size": 32,
    "intermediate_size": 24,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "num_local_experts": 2,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
}
WIDE_HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}  # for those that rotate a part
HEADS_OF_8 = {"head_dim": 8, "qk_rope_head_dim": 8, "qk_head_dim": 16, "n_routed_experts": 2}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32768}
PHI = {"short_factor": [1.0, 1.5, 2, 2.5], "long_factor": [1.0, 4, 7, 10], "original_max_position_embeddings": 4096}
SECTIONS = {"mrope_section": [2, 1, 1]}
GEMMA4 = {"global_head_dim": 16, "vocab_size_per_layer_input": 29, "hidden_size_per_layer_input": 8}


class Family(NamedTuple):
    """A model type, and fields of its config."""

    model_type: str
    fields: dict[str, Any] = {}  # noqa: RUF012  # never changed
    note: str = ""

    def __str__(self):
        return f"{self.model_type}: {self.note}" if self.note else self.model_type


FAMILIES = [
    Family("codegen", {"n_positions": LONGEST, "rotary_dim": 4}, "tables in its attention"),
    Family("cohere", {}, "columns twice each"),
    Family("cohere2", TWO_KINDS, "layers without RoPE"),
    Family("deepseek_v2", LATENT | HEADS_OF_8, "complex"),
    Family("deepseek_v3", LATENT | HEADS_OF_8 | rope("yarn", **YARN, mscale=1.0, mscale_all_dim=0.8)),
    Family("deepseek_v4", {"head_dim": 16, "partial_rotary_factor": 0.5}, "two modules and those of compressed keys"),
    Family("ernie4_5", {}, "tables in float32"),
    Family("esm", {"position_embedding_type": "rotary"}, "encoder, frequencies in its state"),
    Family("eurobert", {}, "encoder"),
    Family("exaone4", TWO_KINDS, "layers without RoPE"),
    Family("falcon", {"head_dim": None}),
    Family("gemma2"),
    Family("gemma3_text", TWO_KINDS, "two layer types"),
    Family("gemma4_text", TWO_KINDS | GEMMA4, "pairs that stand still"),
    Family("glm", WIDE_HEADS, "partial, interleaved"),
    Family("gpt_neox", WIDE_HEADS, "partial"),
    Family("gpt_oss", {}, "a column per pair, experts"),
    Family("gptj", {"n_positions": LONGEST, "rotary_dim": 4}, "tables in its attention"),
    Family("granite"),
    Family("granite_swa", {"num_hidden_layers": 4, "layer_rope_theta": [0, 1e4, 5e5, 1e4]}, "a base for each layer"),
    Family("llama"),
    Family("llama", rope("llama3", 5e5, **LLAMA3), "llama3"),
    Family("llama", rope("dynamic", factor=2.0) | {"max_position_embeddings": 64}, "dynamic"),
    Family("llama4_text", {"no_rope_layers": [1, 0], "intermediate_size_mlp": 24}, "complex, layers without RoPE"),
    Family("mistral_large4_text", LATENT | HEADS_OF_8, "a factor of frequencies in its state"),
    Family("mixtral", {}, "experts"),
    Family("modernbert", TWO_KINDS, "encoder, two layer types"),
    Family("nanochat", {}, "inverse"),
    Family("olmo2", {}, "tables in float32"),
    Family("persimmon", WIDE_HEADS, "partial"),
    Family("phi3", rope("longrope", **PHI), "longrope"),
    Family("qwen2", rope("yarn", 1e6, **YARN), "yarn"),
    Family("qwen2_vl_text", rope("default", 1e6, **SECTIONS), "three axes"),
    Family("qwen3_moe", {}, "experts"),
    Family("qwen3_vl_text", rope("default", 5e5, **SECTIONS), "three axes, interleaved"),
    Family("smollm3", {"no_rope_layers": [1, 0]}, "layers without RoPE"),
]


def config_of(family):
    fields = TINY | family.fields
    return CONFIG_MAPPING[family.model_type](**{key: value for key, value in fields.items() if value is not None})


def model_of(config, *, seed=0, kind=None, **options):
    """Return a model with large random weights, so that attention depends on positions."""
    kind = kind or (AutoModelForCausalLM if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING else AutoModel)
    options = {"attn_implementation": "eager", "experts_implementation": "eager"} | options
    model = kind.from_config(config, **options).eval()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    return model


@torch.no_grad()
def outputs(model, start=NEAR):
    """Return logits, or hidden states, of a prefill and of single tokens after it, from a position on; float64."""
    ids, cache, found = torch.arange(3, 3 + LENGTH)[None], None, []
    for part in [slice(0, PREFILL), *(slice(t, t + 1) for t in range(PREFILL, LENGTH))]:
        positions = start + torch.arange(part.start, part.stop)[None]
        result = model(input_ids=ids[:, part], position_ids=positions, past_key_values=cache, use_cache=True)
        cache = getattr(result, "past_key_values", None)  # encoders have none
        found.append(result.logits if hasattr(result, "logits") else result.last_hidden_state)
    return torch.cat(found, dim=1).double()


def wide_outputs(config, state, starts):
    """Return the outputs of a model with these weights when it computes in float64 where it asks for float32."""
    with in_float64():
        model = model_of(config)
        model.load_state_dict(state)
        return [outputs(model, start) for start in starts]


@contextmanager
def in_float64():
    """Compute in float64 what asks for float32."""
    torch.set_default_dtype(torch.float64)
    try:
        with InFloat64():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


class InFloat64(TorchFunctionMode):
    """Gives float64 to each function that is asked for float32."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()
        return func(*map(_wide, args), **{name: _wide(value) for name, value in (kwargs or {}).items()})


def _wide(value):
    return torch.float64 if value is torch.float32 else value


def off(one, other):
    return float((one - other).abs().max())
