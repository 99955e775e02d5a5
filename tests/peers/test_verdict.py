"""The mistakes that `posenc check` finds in installed libraries, without a hint."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import rotary_embedding_torch
import torch
from diffusers.models.embeddings import get_timestep_embedding
from keras_hub.layers import RotaryEmbedding as KerasRotary
from keras_hub.src.models.phi3.phi3_rotary_embedding import Phi3SuScaledRotaryEmbedding as KerasPhi
from transformers import LlamaConfig, Olmo3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.fsmt.modeling_fsmt import SinusoidalPositionalEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from posenc_backends.check import check
from posenc_core import DynamicNTK, LongRoPE, Rotary, Sinusoidal
from posenc_core.huggingface import load_rope

from .importing import lone
from .scoreboard.peers import first_of, keras_sine, lucidrains, tatp22, x_transformer

torchtune = lone("torchtune.modules.position_embeddings")
HALF, PAIRS = Rotary(head_dim=64, layout="half"), Rotary(head_dim=32, layout="interleaved")
ROPE = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}


class Peer(NamedTuple):
    """A peer as a callable, the encoding it promises, and the mistakes that must be found, all of them."""

    name: str
    make: Any
    spec: Any
    mistakes: set[str]
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def lucidrains_axial():
    rope = rotary_embedding_torch.RotaryEmbedding(dim=24)

    def table(positions):
        angles = rope.get_axial_freqs(len(positions), offsets=(first_of(positions),))
        return angles.cos(), angles.sin()

    return table


def llama(config=None, dtype=torch.float32):
    rope = LlamaRotaryEmbedding(config or LlamaConfig(head_dim=64)).to(dtype)

    def turn(q, k, positions):
        cos, sin = rope(q.new_ones(1), positions if positions.ndim > 1 else positions[None])
        return apply_rotary_pos_emb(q, k, cos, sin)

    return turn


def llama_cast():
    rope = LlamaRotaryEmbedding(LlamaConfig(head_dim=64)).to(torch.bfloat16)
    return lambda positions: rope(torch.ones(1), positions if positions.ndim > 1 else positions[None])


def olmo():
    each = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 32.0, "original_max_position_embeddings": 4096}
    ropes = {"full_attention": each | {"truncate": False}, "sliding_attention": {"rope_type": "default"}}
    return Olmo3Config(
        head_dim=64, max_position_embeddings=131072, num_hidden_layers=2, layer_types=list(ropes), rope_parameters=ropes
    )


def yarn():
    frequencies, factor = ROPE_INIT_FUNCTIONS["yarn"](olmo(), "cpu", layer_type="full_attention")

    def table(positions):
        angles = positions[..., None].float() * frequencies
        return angles.cos() * factor, angles.sin() * factor

    return table


def keras_dynamic():
    ropes = {
        dtype: KerasRotary(rope_type="dynamic", scaling_factor=4.0, sequence_axis=2, dtype=str(dtype)[6:])
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
    }
    return lambda x, positions: ropes[x.dtype](x, positions=positions)


def keras_phi():
    rope = KerasPhi([1.0] * 4, [1.0] * 4, sequence_axis=2)
    return lambda x, positions: rope(x, positions=positions)


def torchtune_table():
    rope = torchtune.RotaryPositionalEmbeddings(dim=32, max_seq_len=4096)
    return lambda x, positions: rope(x.transpose(1, 2), input_pos=positions).transpose(1, 2)


def torchtune_prompt():
    """Without positions: of a sequence from 0 on, the last tokens."""
    rope = torchtune.RotaryPositionalEmbeddings(dim=32, max_seq_len=4096)

    def turn(x, positions):
        first = first_of(positions)
        whole = torch.nn.functional.pad(x, (0, 0, first, 0))
        return rope(whole.transpose(1, 2)).transpose(1, 2)[..., first:, :]

    return turn


PEERS = [
    Peer("1 rotary-embedding-torch", lucidrains, PAIRS,
         {"float32 angles", "bfloat16 positions", "float16 positions", "stale cache"}),
    Peer("2 rotary-embedding-torch, axial", lucidrains_axial, Rotary(head_dim=24, layout="interleaved"),
         {"float32 angles", "offset ignored after the first call", "stale cache"}),
    Peer("5 keras-hub, dynamic", keras_dynamic,
         Rotary(head_dim=64, layout="half",
                scaling=DynamicNTK(factor=4.0, original_max_position_embeddings=2048, seq_len=8192)),
         {"wrong scaling", "float32 angles"}, {"framework": "keras"}),
    Peer("7 keras-hub, sinusoids", keras_sine, Sinusoidal(dim=8),
         {"float32 angles", "bfloat16 angles", "float16 angles"}, {"framework": "keras", "longest": 5000}),
    Peer("10 transformers, YaRN", yarn, load_rope(olmo(), layer_type="full_attention"),
         {"truncate ignored", "float32 angles"}),
    Peer("11 transformers, cast", llama_cast, HALF, {"bfloat16 frequencies"}),
    Peer("12 transformers, partial", lambda: llama(LlamaConfig(head_dim=64, rope_parameters=ROPE)),
         Rotary(head_dim=64, layout="half", rotary_dim=32), {"rotary_dim ignored", "float32 angles"}),
    Peer("18 positional-encodings", tatp22, Sinusoidal(dim=8), {"float32 angles", "stale cache"}, {"longest": 5000}),
    Peer("transformers", llama, HALF, {"float32 angles"}),
    Peer("x-transformers", x_transformer, PAIRS, {"float32 angles"}),
    Peer("torchtune", torchtune_table, PAIRS, {"float32 angles"}, {"longest": 4096}),
]  # fmt: skip


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_the_mistakes_of_a_peer_are_found(peer):
    verdict = check(peer.make(), peer.spec, **({"framework": "torch"} | peer.options))
    assert set(verdict.names) == peer.mistakes, verdict
    assert (verdict.status, verdict.failure) == (1, None)


FAILURES = [  # peers that fail, and before that have mistakes or not
    (Peer("8 keras-hub, Phi", keras_phi,
          Rotary(head_dim=8, layout="half", scaling=LongRoPE(
              short_factor=(1.0,) * 4, long_factor=(1.0,) * 4, original_max_position_embeddings=4096, factor=1.0)),
          set(), {"framework": "keras"}), "it raised RuntimeError"),
    (Peer("16 torchtune", torchtune_prompt, PAIRS, {"float32 angles"}), "it raised RuntimeError"),
    (Peer("17 diffusers", lambda: lambda positions: get_timestep_embedding(positions, 2, flip_sin_to_cos=True),
          Sinusoidal(dim=2, convention="timestep"), set()), "must be numbers, got nan"),
    (Peer("17 FSMT", lambda: lambda positions: SinusoidalPositionalEmbedding.get_embedding(2**20, 2, None)[positions],
          Sinusoidal(dim=2, convention="tensor2tensor"), set()), "it raised ZeroDivisionError"),
]  # fmt: skip


@pytest.mark.parametrize(("peer", "words"), FAILURES, ids=[peer.name for peer, _ in FAILURES])
def test_failures_of_peers_are_explained_in_a_sentence(peer, words):
    verdict = check(peer.make(), peer.spec, **({"framework": "torch"} | peer.options))
    assert words in verdict.failure
    assert (verdict.status, set(verdict.names)) == (1 if peer.mistakes else 2, peer.mistakes), verdict


def test_a_right_rotation_of_torch_conforms():
    """Beside those of peers, one with angles in float64."""
    frequencies = torch.tensor(10000.0 ** (-np.arange(32) / 32))

    def turn(x, positions):
        angles = positions[..., None].double() * frequencies
        cos, sin = (t.float() if t.ndim == 2 else t.float()[:, None] for t in (angles.cos(), angles.sin()))
        first, second = x.float().chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)

    verdict = check(turn, HALF)
    assert (verdict.status, verdict.framework) == (0, "torch"), verdict
