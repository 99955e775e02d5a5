"""Defects of installed peers, in the order of the survey: each with their number, ours and the true one."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from diffusers.models.embeddings import get_timestep_embedding
from keras_hub.layers import RotaryEmbedding as KerasRotary
from keras_hub.layers import SinePositionEncoding
from keras_hub.src.models.llama.llama_rotary_embedding import LlamaRotaryEmbedding as KerasLlama
from keras_hub.src.models.phi3.phi3_rotary_embedding import Phi3SuScaledRotaryEmbedding as KerasPhi
from positional_encodings.torch_encodings import PositionalEncoding1D
from rotary_embedding_torch import RotaryEmbedding as Lucidrains
from transformers import LlamaConfig, Olmo3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.fsmt.modeling_fsmt import SinusoidalPositionalEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from x_transformers import x_transformers

from posenc_backends.torch import PositionalEncoding, RotaryEmbedding
from posenc_core import AxialRotary, DynamicNTK, Llama3, LongRoPE, Rotary, Sinusoidal, XPos
from posenc_core.huggingface import load_rope

from .importing import lone
from .oracle import cosine, frequency, rotated_ones, sine, xpos_score, yarn

torchtune = lone("torchtune.modules.position_embeddings")

BFLOAT16, FLOAT16, FLOAT32 = 2.0**-8, 2.0**-11, 2.0**-23  # one rounding of a number between 1 and 2
PAIRS = Rotary(head_dim=32, layout="interleaved")
HALVES = Rotary(head_dim=64, layout="half")


class Numbers(NamedTuple):
    theirs: Any
    ours: Any
    truth: Any
    within: float = FLOAT32


DEFECTS: list[Any] = []


def defect(number: int, peer: str, what: str) -> Callable[[Callable[[], Numbers]], None]:
    """Add a case to the table; the number is that of the survey."""

    def add(case):
        DEFECTS.append(pytest.param(case, id=f"{number:02} {peer}: {what}"))

    return add


def failing(call, error):
    """Not a number, if the call fails with this error; else what it returns."""
    try:
        return call()
    except error:
        return math.nan


@defect(1, "rotary-embedding-torch", "positions in the dtype of queries")
def _():
    x = torch.ones(1, 2048, 32, dtype=torch.bfloat16)
    theirs, ours = Lucidrains(dim=32).rotate_queries_or_keys(x), RotaryEmbedding(PAIRS)(x)
    return Numbers(theirs[0, 2047, 0], ours[0, 2047, 0], rotated_ones(2047, 0, 32), BFLOAT16)


@defect(1, "rotary-embedding-torch", "bfloat16 queries leave a wrong table to float32 ones")
def _():
    x = torch.ones(1, 2048, 32)
    theirs, ours = Lucidrains(dim=32).rotate_queries_or_keys, RotaryEmbedding(PAIRS)
    theirs(x.bfloat16()), ours(x.bfloat16())
    return Numbers(theirs(x)[0, 2047, 0], ours(x)[0, 2047, 0], rotated_ones(2047, 0, 32))


@defect(2, "rotary-embedding-torch", "axial offsets are ignored after a call without")
def _():
    rope = Lucidrains(dim=24)
    rope.get_axial_freqs(4)
    theirs = rope.get_axial_freqs(4, offsets=(100,)).cos()
    ours, _ = AxialRotary(head_dim=24, layout="interleaved", axes_dims=(24,)).cos_sin([100, 101, 102, 103])
    return Numbers(theirs[0, 0], ours[0, 0], cosine(100, 0, 24))


@defect(3, "rotary-embedding-torch", "xPos has its centre in the middle of each call")
def _():
    x, last = torch.ones(1, 256, 32), torch.ones(1, 1, 32)
    query, keys = Lucidrains(dim=32, use_xpos=True).rotate_queries_with_cached_keys(last, x)
    layer = RotaryEmbedding(XPos(head_dim=32, layout="interleaved"))
    our_query, (_, our_keys) = layer(last, start=255), layer(x, x)
    return Numbers((query @ keys.mT)[0, 0, 0], (our_query @ our_keys.mT)[0, 0, 0], xpos_score(255, 0, 32), 1e-6)


@defect(3, "x-transformers", "xPos has its centre in the middle of what there is by then")
def _():
    x, rope = torch.ones(1, 256, 32), x_transformers.RotaryEmbedding(dim=32, use_xpos=True)
    (late, grown), (early, shrunk) = (rope(torch.arange(length)) for length in (256, 1))
    query = x_transformers.apply_rotary_pos_emb(x, late, grown)
    key = x_transformers.apply_rotary_pos_emb(x[:, :1], early, 1 / shrunk)
    layer = RotaryEmbedding(XPos(head_dim=32, layout="interleaved"))
    ours = layer(x[:, :1], start=255) @ layer(x, x)[1].mT
    return Numbers((query @ key.mT)[0, 255, 0], ours[0, 0, 0], xpos_score(255, 0, 32), 1e-6)


@defect(4, "rotary-embedding-torch", "xPos cannot be copied")
def _():
    x = torch.ones(1, 256, 32)
    theirs, ours = Lucidrains(dim=32, use_xpos=True), RotaryEmbedding(XPos(head_dim=32, layout="interleaved"))
    q, k = failing(lambda: copy.deepcopy(theirs).rotate_queries_and_keys(x, x), TypeError), copy.deepcopy(ours)(x, x)
    return Numbers(q, (k[0] @ k[1].mT)[0, 255, 0], xpos_score(255, 0, 32), 1e-6)


@defect(5, "keras-hub", "dynamic divides every frequency")
def _():
    theirs = KerasRotary(rope_type="dynamic", scaling_factor=4.0)._get_inverse_freq(64)
    scaling = DynamicNTK(factor=4.0, original_max_position_embeddings=2048)
    ours = Rotary(head_dim=64, layout="half", scaling=scaling).frequencies(8192)
    return Numbers(theirs[0], ours[0], frequency(0, 64))


@defect(6, "keras-hub", "a Llama layer is not made again from its config")
def _():
    layer = KerasLlama()
    theirs = failing(lambda: KerasLlama.from_config(layer.get_config())._get_inverse_freq(64)[1], TypeError)
    bands = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    ours = Rotary.from_dict(Rotary(head_dim=64, layout="half", scaling=bands).to_dict())
    return Numbers(theirs, ours.frequencies()[1], frequency(1, 64))


@defect(7, "keras-hub", "sinusoids of bfloat16 angles")
def _():
    x = torch.zeros(1, 4096, 8, dtype=torch.bfloat16)
    theirs, ours = SinePositionEncoding(dtype="bfloat16")(x), PositionalEncoding(8, max_len=4096)(x)
    return Numbers(theirs[0, 4095, 0], ours[0, 4095, 0], sine(4095, 0, 8), BFLOAT16)


@defect(7, "keras-hub", "sinusoids of float16 angles under a mixed policy")
def _():
    x = torch.zeros(1, 4096, 8, dtype=torch.float16)
    theirs, ours = SinePositionEncoding(dtype="mixed_float16")(x), PositionalEncoding(8, max_len=4096)(x)
    return Numbers(theirs[0, 4095, 0], ours[0, 4095, 0], sine(4095, 0, 8), FLOAT16)


@defect(8, "keras-hub", "LongRoPE takes no positions of each row")
def _():
    x, positions, ones = torch.ones(2, 3, 8), torch.tensor([[0, 1, 2], [7, 8, 9]]), [1.0] * 4
    theirs = failing(lambda: KerasPhi(ones, ones)(x, positions=positions)[1, 2, 0], RuntimeError)
    scaling = LongRoPE(short_factor=ones, long_factor=ones, original_max_position_embeddings=16, factor=1.0)
    ours = RotaryEmbedding(Rotary(head_dim=8, layout="half", scaling=scaling))(x, positions=positions)
    return Numbers(theirs, ours[1, 2, 0], rotated_ones(9, 0, 8))


@defect(10, "transformers", "YaRN of one layer type ignores `truncate`")
def _():
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 32.0, "original_max_position_embeddings": 4096}
    each = {"full_attention": rope | {"truncate": False}, "sliding_attention": {"rope_type": "default"}}
    kinds = {"num_hidden_layers": 2, "layer_types": list(each), "rope_parameters": each}
    config = Olmo3Config(head_dim=64, max_position_embeddings=131072, **kinds)
    theirs, _ = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu", layer_type="full_attention")
    ours = load_rope(config, layer_type="full_attention").frequencies()
    return Numbers(theirs[14], ours[14], yarn(14, 64, 32, 4096, truncate=False))


@defect(11, "transformers", "`model.to(bfloat16)` rounds the frequencies")
def _():
    theirs, _ = LlamaRotaryEmbedding(LlamaConfig(head_dim=64)).to(torch.bfloat16)(
        torch.ones(1), torch.tensor([[131071]])
    )
    second = torch.eye(64)[None, 1:2]  # of whose pair the first channel is 1: it becomes the cosine
    ours = RotaryEmbedding(HALVES).to(torch.bfloat16)(second, start=131071)
    return Numbers(theirs[0, 0, 1], ours[0, 0, 1], cosine(131071, 1, 64))


@defect(12, "transformers", "`partial_rotary_factor` is ignored without a scaling")
def _():
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    config = LlamaConfig(head_dim=64, rope_parameters=rope)
    return Numbers(LlamaRotaryEmbedding(config).inv_freq[1], load_rope(config).frequencies()[1], frequency(1, 32))


@defect(16, "torchtune", "no more than `max_seq_len` positions, whatever its documentation says")
def _():
    x = torch.ones(1, 9, 1, 32)
    rope = torchtune.RotaryPositionalEmbeddings(dim=32, max_seq_len=8)
    theirs = failing(lambda: rope(x)[0, 8, 0, 0], RuntimeError)
    ours = RotaryEmbedding(PAIRS, max_len=8)(x, seq_axis=1)
    return Numbers(theirs, ours[0, 8, 0, 0], rotated_ones(8, 0, 32))


@defect(17, "diffusers", "two channels of a time step are 0 / 0")
def _():
    theirs = get_timestep_embedding(torch.tensor([1.0]), 2, flip_sin_to_cos=True)
    ours = Sinusoidal(dim=2, convention="timestep").table([1])
    return Numbers(theirs[0, 0], ours[0, 0], cosine(1, 0, 2))


@defect(17, "transformers", "two channels of FSMT are 0 / 0")
def _():
    theirs = failing(lambda: SinusoidalPositionalEmbedding.get_embedding(5, 2, None)[1, 0], ZeroDivisionError)
    ours = Sinusoidal(dim=2, convention="tensor2tensor").table([1])
    return Numbers(theirs, ours[0, 0], sine(1, 0, 2))


@defect(18, "positional-encodings", "the table of float16 angles, after `half()`")
def _():
    x = torch.zeros(1, 4096, 8, dtype=torch.float16)
    theirs, ours = PositionalEncoding1D(8).half()(x), PositionalEncoding(8, max_len=4096).half()(x)
    return Numbers(theirs[0, 4095, 0], ours[0, 4095, 0], sine(4095, 0, 8), FLOAT16)


@defect(18, "positional-encodings", "a float16 table left to float32 input")
def _():
    x = torch.zeros(1, 4096, 8)
    theirs, ours = PositionalEncoding1D(8), PositionalEncoding(8, max_len=4096)
    theirs(x.half()), ours(x.half())
    return Numbers(theirs(x)[0, 4095, 0], ours(x)[0, 4095, 0], sine(4095, 0, 8))
