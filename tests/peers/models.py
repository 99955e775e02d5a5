"""The architectures that are watched: their names in transformers, and what a small config of each must say."""

from typing import Any, NamedTuple


class Model(NamedTuple):
    """A model type, fields of its config, and the functions in which it rotates queries and keys."""

    model_type: str
    fields: dict[str, Any] = {}  # noqa: RUF012  # never changed
    note: str = ""
    rotations: tuple[str, ...] = ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave", "apply_rotary_emb")

    def __str__(self):
        return f"{self.model_type}: {self.note}" if self.note else self.model_type


def rope(rope_type, base=10000.0, **more):
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": base, **more}}


FULL = {"layer_types": ["full_attention"]}
TWO_KINDS = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32768}
TIMES_4 = {"max_position_embeddings": 131072}
PHI = {
    "short_factor": [1 + i / 12 for i in range(12)],
    "long_factor": [1.0 + 3 * i for i in range(12)],
    "original_max_position_embeddings": 4096,
}
LATENT = {  # attention whose queries and keys are partly latent and partly rotary
    "num_key_value_heads": 4,
    "head_dim": 12,
    "qk_rope_head_dim": 12,
    "qk_nope_head_dim": 8,
    "qk_head_dim": 20,
    "v_head_dim": 8,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "n_routed_experts": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 24, "mamba_d_state": 8}
LONG = {"n_positions": 131072, "n_ctx": 131072, "rotary_dim": 8}

MODELS = [
    Model("afmoe"),
    Model("apertus"),
    Model("arcee"),
    Model("aria_text"),
    Model("axk1", LATENT),
    Model("bamba", MAMBA | {"attn_layer_indices": [0]}),
    Model("bitnet"),
    Model("codegen", LONG),
    Model("cohere"),
    Model("cohere2", {"layer_types": ["sliding_attention"]}),
    Model("cwm"),
    Model("deepseek_v2", LATENT),
    Model("deepseek_v2", LATENT | TIMES_4 | rope("yarn", **YARN, mscale=0.707, mscale_all_dim=0.707), "yarn"),
    Model("deepseek_v3", LATENT),
    Model("deepseek_v3", LATENT | TIMES_4 | rope("yarn", **YARN, mscale=1.0, mscale_all_dim=0.8), "yarn"),
    Model("deepseek_v3", LATENT | {"rope_interleave": False}, "not interleaved"),
    Model("deepseek_v32", LATENT, rotations=("apply_rotary_pos_emb_interleave",)),  # the other is its indexer's
    Model("deepseek_v4", {"head_dim": 48}),
    Model("diffllama"),
    Model("doge"),
    Model("dots1", {"n_routed_experts": 2, "first_k_dense_replace": 1}),
    Model("ernie4_5"),
    Model("ernie4_5_moe"),
    Model("eurobert"),
    Model("exaone4"),
    Model("falcon", {"head_dim": None}),
    Model("falcon_h1"),
    Model("flex_olmo"),
    Model("gemma"),
    Model("gemma2"),
    Model("gemma3_text", TWO_KINDS),
    Model("gemma4_text", TWO_KINDS | {"global_head_dim": 48}),
    Model("glm"),
    Model("glm4"),
    Model("glm4_moe"),
    Model("glm4_moe_lite", LATENT),
    Model("glm4v_text", rope("default", partial_rotary_factor=0.5, mrope_section=[1, 2, 3])),
    Model("gpt_neox"),
    Model("gpt_neox_japanese"),
    Model("gpt_oss"),
    Model("gptj", LONG),
    Model("granite"),
    Model("granite", rope("linear", factor=3.0), "linear"),
    Model("granitemoe"),
    Model("gte"),
    Model("helium"),
    Model("hunyuan_v1_dense"),
    Model("hunyuan_v1_dense", rope("dynamic", alpha=1000.0, factor=1.0), "alpha"),
    Model("hunyuan_v1_moe"),
    Model("hy_v3"),
    Model("hyperclovax"),
    Model("jetmoe"),
    Model("laguna", TWO_KINDS),
    Model("lfm2"),
    Model("llama"),
    Model("llama", rope("llama3", 5e5, **LLAMA3), "llama3"),
    Model("llama", rope("dynamic", factor=2.0) | {"max_position_embeddings": 4096}, "dynamic"),
    Model("llama4_text"),
    Model("llama4_text", rope("llama3", 5e5, **LLAMA3 | {"high_freq_factor": 1.0}), "llama3"),
    Model("mellum", TWO_KINDS),
    Model("mimo_v2_flash", TWO_KINDS),
    Model("minicpm3", LATENT),
    Model("minimax"),
    Model("minimax_m2"),
    Model("ministral"),
    Model("ministral3"),
    Model("mistral"),
    Model("mixtral"),
    Model("modernbert", TWO_KINDS),
    Model("modernbert-decoder", TWO_KINDS),
    Model("moshi"),
    Model("nanochat"),
    Model("nemotron"),
    Model("nomic_bert"),
    Model("olmo"),
    Model("olmo2"),
    Model("olmo3", TWO_KINDS),
    Model("olmoe"),
    Model("persimmon"),
    Model("phi"),
    Model("phi3", rope("longrope", **PHI) | {"max_position_embeddings": 131072}, "longrope"),
    Model("phi3", {"partial_rotary_factor": 0.75}, "partial"),
    Model("phimoe"),
    Model("qwen2"),
    Model("qwen2", TIMES_4 | rope("yarn", 1e6, **YARN), "yarn"),
    Model("qwen2_5_vl_text", rope("default", 1e6, mrope_section=[2, 5, 5])),
    Model("qwen2_moe"),
    Model("qwen2_vl_text", rope("default", 1e6, mrope_section=[3, 4, 5])),
    Model("qwen3"),
    Model("qwen3", TIMES_4 | rope("yarn", 1e6, **YARN), "yarn"),
    Model("qwen3_5_text", FULL | rope("default", 1e7, partial_rotary_factor=0.5, mrope_section=[2, 2, 2])),
    Model("qwen3_moe"),
    Model("qwen3_next", FULL),
    Model("qwen3_vl_text", rope("default", 5e5, mrope_section=[6, 3, 3])),
    Model("recurrent_gemma", {"num_hidden_layers": 3}),
    Model("seed_oss"),
    Model("smollm3"),
    Model("solar_open"),
    Model("stablelm"),
    Model("starcoder2"),
    Model("vaultgemma"),
    Model("youtu", LATENT),
    Model("zaya"),
]
