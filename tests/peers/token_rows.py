"""The classes of diffusers that count their tokens in a row, such as those of audio, and how they are asked."""

import numpy as np
import torch
from diffusers.models import attention_processor, embeddings

from .newer_pictures import by_halves, model_of
from .pictures import Answer, halves

LENGTH = 9


def row(config):
    return np.arange(LENGTH)


def ace_step(config):
    tables = model_of("ace_step_transformer")._ace_step_rotary_freqs(
        LENGTH, config["head_dim"], config["rope_theta"], "cpu", torch.float32
    )
    return halves(*tables)


def stable_audio(config):
    tables = embeddings.get_1d_rotary_pos_embed(
        config["attention_head_dim"] // 2, LENGTH, use_real=True, repeat_interleave_real=False
    )
    turn = attention_processor.StableAudioAttnProcessor2_0().apply_partial_rotary_emb
    return Answer(*(table[:, : table.shape[1] // 2] for table in tables), lambda x: turn(x, tables))


def by_angles(module, angles):
    """Return the answer of a table of angles, of the first channels."""
    return by_halves(angles.cos(), angles.sin(), lambda x: module._apply_rotary_partial(x, angles))


def stable_audio_3(config):
    module = model_of("transformer_stable_audio3")
    rope = module.StableAudio3RotaryEmbedding(config["embed_dim"] // config["num_heads"] // 2)
    return by_angles(module, rope(LENGTH, "cpu"))


def same(config):
    module = model_of("autoencoder_same", "autoencoders")
    return by_angles(module, module.RotaryEmbedding(config["dim_heads"] // 2)(LENGTH, "cpu"))


def longcat_audio(config):
    module = model_of("transformer_longcat_audio_dit")
    rope = module.AudioDiTRotaryEmbedding(config["dit_dim"] // config["dit_heads"], 2048, base=100000.0)
    tables = rope(torch.zeros(1, LENGTH, 8))
    return by_halves(*tables, lambda x: module._apply_rotary_emb(x, tables))


def minimax_music(config):
    module = model_of("transformer_minimax_music3")
    tables = module.MiniMaxMusic3RotaryEmbedding(config["rotary_dim"])(LENGTH, torch.device("cpu"))
    return by_halves(*tables, lambda x: module._apply_partial_rotary_emb(x, tables))


def anima(config):
    module = model_of("condition_embedder_anima", "condition_embedders")
    rope = module.AnimaRotaryEmbedding(config["model_dim"] // config["num_attention_heads"])
    cos, sin = rope(torch.zeros(1), torch.arange(LENGTH)[None])
    return by_halves(cos[0], sin[0], lambda x: module._apply_rotary_pos_emb(x, cos, sin, unsqueeze_dim=2))


def omnigen(config):
    names = ("max_position_embeddings", "original_max_position_embeddings", "rope_scaling")
    rope = model_of("transformer_omnigen").OmniGenSuScaledRotaryEmbedding(
        config["hidden_size"] // config["num_attention_heads"], base=config["rope_base"],
        **{name: config[name] for name in names},
    )  # fmt: skip
    return halves(*rope(torch.zeros(1), torch.arange(LENGTH)[None]))
