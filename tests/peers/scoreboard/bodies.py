"""The bodies of `apply_rotary_pos_emb` in transformers, each with the rotary class and a config of its model."""

import importlib
import inspect
import warnings
from dataclasses import replace

import torch
from transformers import AutoConfig

from posenc_core import Rotary
from posenc_core.huggingface import load_rope

# The config of each folder, if its default describes no rotation: the model type, other fields, the type of layers.
CONFIGS = {
    "gemma3n": ("gemma3n_text", {}, "full_attention"),
    "modernbert": ("modernbert", {}, "full_attention"),
    "deepseek_v4": ("deepseek_v4", {}, "main"),
    "esm": ("esm", {"position_embedding_type": "rotary"}, None),
    "pe_audio": ("pe_audio_encoder", {}, None),
    "blt": ("blt_global_transformer", {}, None),
    "ernie4_5_vl_moe": ("ernie4_5_vl_moe_text", {}, None),
    "glm4v": ("glm4v_text", {"mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5}, None),
    "qwen4_exp": ("qwen4_exp_text", {"mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25}, None),
    "hunyuan_vl": ("hunyuan_vl_text", {"mrope_section": [16, 16, 16, 16]}, None),
}
FOLDERS = (
    *("llama", "bamba", "gpt_neox", "olmo", "cohere", "glm", "ernie4_5", "gpt_oss", "phi3", "helium", "nanochat"),
    *("nemotron", "moonshine", "chameleon", "muse_glimmer_assistant", "openai_privacy_filter", *CONFIGS),
)
SPECS = {  # where `load_rope` refuses: the two channels of a pair take positions of different axes, the same for text
    "hunyuan_vl": Rotary(head_dim=128, layout="half")
}


def of_transformers():
    """Yield the name, a function that makes the rotation, the encoding that it promises, and options of `check`."""
    for folder in FOLDERS:
        yield folder, lambda folder=folder: by_class(folder), spec_of(folder), {}
    yield "codegen", codegen, spec_of("codegen"), {"longest": 2048}
    yield "clvp", clvp, spec_of("clvp"), {"longest": 4096}
    axial = spec_of("dinov3_vit")
    yield "dinov3_vit, given tables", lambda: dinov3(axial), axial, {}


def config_of(folder):
    """Return the config of a folder, and the type of layers whose RoPE is taken."""
    kind, fields, layer_type = CONFIGS.get(folder, (folder, {}, None))
    if "mrope_section" in fields:
        fields = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **fields}}
    return AutoConfig.for_model(kind, **fields), layer_type


def spec_of(folder):
    """Return the encoding that a config describes, of any length."""
    if folder in SPECS:
        return SPECS[folder]
    config, layer_type = config_of(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = load_rope(config, **({} if layer_type is None else {"layer_type": layer_type}))
    return replace(spec, max_len=None) if hasattr(spec, "max_len") else spec  # a length of tables, no number


def module_of(folder):
    return importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")


def by_class(folder):
    """Return a rotation by the rotary class and the function of a folder."""
    module, (config, layer_type) = module_of(folder), config_of(folder)
    cls = next(
        value
        for name, value in vars(module).items()
        if name.endswith("RotaryEmbedding") and "Vision" not in name and isinstance(value, type)
    )
    rope, axes = cls(config), getattr(spec_of(folder), "num_axes", 1)
    options = {} if layer_type is None else {"layer_type": layer_type}
    takes_one = next(iter(inspect.signature(module.apply_rotary_pos_emb).parameters)) == "x"

    def rotate(q, k, positions):
        batched = positions if positions.ndim > 1 + (axes > 1) else positions.unsqueeze(-2)
        cos, sin = rope(q, batched, **options)
        if takes_one:
            return tuple(module.apply_rotary_pos_emb(x, cos, sin) for x in (q, k))
        return module.apply_rotary_pos_emb(q, k, cos, sin)

    return rotate


def codegen():
    """Return the rotation of CodeGen's attention, whose tokens are `(batch, length, heads, head_dim)`."""
    module, config = module_of("codegen"), config_of("codegen")[0]
    table = module.create_sinusoidal_positions(2048, config.rotary_dim)

    def rotate(x, positions):
        sin, cos = table[positions if positions.ndim > 1 else positions[None]].chunk(2, dim=-1)
        x = x.transpose(1, 2)
        turned = module.apply_rotary_pos_emb(x[..., : config.rotary_dim], sin, cos)
        return torch.cat([turned, x[..., config.rotary_dim :]], dim=-1).transpose(1, 2).to(x.dtype)

    return rotate


def clvp():
    """Return the rotation of CLVP's attention, whose tables have a row for each token and are taken by position."""
    module, config = module_of("clvp"), config_of("clvp")[0]
    rope = module.ClvpRotaryPositionalEmbedding(config.text_config)

    def rotate(q, k, positions):
        table = rope(torch.zeros(1, 4096))
        width = table.shape[-1]
        cos, sin = table.cos().squeeze(0), table.sin().squeeze(0)
        rows = positions if positions.ndim > 1 else positions[None]
        parts = [x[..., :width] for x in (q, k, k)]
        turned = module.apply_rotary_pos_emb(*parts, cos, sin, rows)[:2]
        return tuple(torch.cat([part, x[..., width:]], dim=-1) for part, x in zip(turned, (q, k), strict=True))

    return rotate


def dinov3(spec):
    """Return the rotation of DINOv3 by exact tables: its class takes the pixels of an image instead of positions."""
    module = module_of("dinov3_vit")

    def rotate(q, k, positions):
        tables = (torch.from_numpy(table).to(q.dtype) for table in spec.cos_sin(positions.numpy()))
        cos, sin = (torch.cat([table, table], dim=-1) for table in tables)
        if cos.ndim > 2:
            cos, sin = cos[:, None], sin[:, None]
        return module.apply_rotary_pos_emb(q, k, cos, sin)

    return rotate
