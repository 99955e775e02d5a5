"""Other libraries' rotary layers beside ours, on one axis: their tables, and rotated queries."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from keras_hub.layers import RotaryEmbedding
from keras_hub.src.models.llama.llama_rotary_embedding import LlamaRotaryEmbedding
from keras_hub.src.models.phi3.phi3_rotary_embedding import Phi3SuScaledRotaryEmbedding
from positional_encodings.torch_encodings import PositionalEncoding1D

from posenc_core import Rotary, Sinusoidal
from posenc_core.scaling import NTK, Linear, Llama3, LongRoPE, YaRN

from .importing import lone
from .libraries import diffuser, keras, lucidrains, torchtune, x_transformer
from .rounding import ENTRY, UNIT, angle_slack, entry_ulps, pair_slack, rotated, ulps, with_frequencies

LLAMA2 = lone("torchtune.modules.position_embeddings").RotaryPositionalEmbeddings
LLAMA3 = lone("torchtune.models.llama3_1._position_embeddings").Llama3ScaledRoPE
PHI3 = lone("torchtune.models.phi3._position_embeddings").Phi3RotaryPositionalEmbeddings
QWEN2 = lone("torchtune.models.qwen2._positional_embeddings").Qwen2RotaryPositionalEmbeddings

POSITIONS = np.array([0, 1, 2, 3, 4, 5, 6, 7, 4097, 131071])
X = np.random.default_rng(0).standard_normal((2, 3, len(POSITIONS), 48)).astype(np.float32)

BANDS = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
RAMP = YaRN(factor=40.0, original_max_position_embeddings=4096)
PHI = LongRoPE(  # ten positions are longer than eight
    short_factor=[1 + i / 24 for i in range(24)],
    long_factor=[1.0 + 3 * i for i in range(24)],
    original_max_position_embeddings=8,
    factor=32.0,
    seq_len=10,
)
PHI_ARGUMENTS = {
    "inverese_freq_short_factor": list(PHI.short_factor),
    "inverese_freq_long_factor": list(PHI.long_factor),
    "pretraining_sequence_length": 8,
    "max_sequence_length": 256,
}
LLAMA_ARGUMENTS = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "frequency_adjustment_factor": 8.0,
    "pretraining_sequence_length": 8192,
}
YARN_ARGUMENTS = {"rope_type": "yarn", "scaling_factor": 40.0, "original_max_position_embeddings": 4096}


class Case(NamedTuple):
    name: str
    ask: Callable[[Any, Any], Any]
    layout: str = "half"
    fields: dict[str, Any] = {}  # noqa: RUF012  # never changed

    @property
    def encoding(self):
        return Rotary(head_dim=48, layout=self.layout, **self.fields)


ANGLES_OF_THEIR_FREQUENCIES = [
    Case("rotary-embedding-torch", lucidrains(dim=48), "interleaved"),
    Case("rotary-embedding-torch: the first", lucidrains(dim=16), "interleaved", {"rotary_dim": 16}),
    Case(
        "rotary-embedding-torch: the last",
        lucidrains(dim=16, start=32),
        "interleaved",
        {"rotary_dim": 16, "placement": "trail"},
    ),
    Case(
        "rotary-embedding-torch: theta_rescale_factor",
        lucidrains(dim=48, theta_rescale_factor=4.0),
        "interleaved",
        {"scaling": NTK(factor=4.0)},
    ),
    Case("x-transformers", x_transformer(dim=48), "interleaved"),
    Case("x-transformers: half the head", x_transformer(dim=24), "interleaved", {"rotary_dim": 24}),
    Case(
        "x-transformers: base_rescale_factor",
        x_transformer(dim=48, base_rescale_factor=4.0),
        "interleaved",
        {"scaling": NTK(factor=4.0)},
    ),
    Case("torchtune: Llama 2", torchtune(LLAMA2), "interleaved"),
    Case("torchtune: Llama 3.1", torchtune(LLAMA3, base=500_000), "interleaved", {"base": 5e5, "scaling": BANDS}),
    Case("torchtune: Phi 3", torchtune(PHI3)),
    Case("torchtune: Qwen 2", torchtune(QWEN2, base=1_000_000), fields={"base": 1e6}),
    Case("keras-hub", keras(RotaryEmbedding)),
    Case("keras-hub: linear", keras(RotaryEmbedding, scaling_factor=3.0), fields={"scaling": Linear(factor=3.0)}),
    Case("keras-hub: yarn", keras(RotaryEmbedding, **YARN_ARGUMENTS), fields={"scaling": RAMP}),
    Case(
        "keras-hub: yarn, not truncated",
        keras(RotaryEmbedding, truncate=False, **YARN_ARGUMENTS),
        fields={"scaling": replace(RAMP, truncate=False)},
    ),
    Case(
        "keras-hub: Llama 3.1",
        keras(LlamaRotaryEmbedding, max_wavelength=500_000, **LLAMA_ARGUMENTS),
        fields={"base": 5e5, "scaling": BANDS},
    ),
    Case("keras-hub: Phi 3", keras(Phi3SuScaledRotaryEmbedding, **PHI_ARGUMENTS), fields={"scaling": PHI}),
]
OTHERS = [  # that divide positions or angles by a factor, or keep their frequencies to themselves
    Case(
        "rotary-embedding-torch: interpolate_factor",
        lucidrains(dim=48, interpolate_factor=3.0),
        "interleaved",
        {"scaling": Linear(factor=3.0)},
    ),
    Case(
        "x-transformers: interpolation_factor",
        x_transformer(dim=48, interpolation_factor=3.0),
        "interleaved",
        {"scaling": Linear(factor=3.0)},
    ),
    Case("diffusers: Flux's layout", diffuser("interleaved"), "interleaved"),
    Case("diffusers: Cosmos's layout", diffuser("half")),
    Case("diffusers: linear_factor", diffuser("half", linear_factor=3.0), fields={"scaling": Linear(factor=3.0)}),
    Case("diffusers: ntk_factor, of the base alone", diffuser("half", ntk_factor=4.0), fields={"base": 4e4}),
]


@pytest.mark.parametrize("case", ANGLES_OF_THEIR_FREQUENCIES + OTHERS, ids=lambda case: case.name)
def test_as_near_as_float32_angles_allow(case):
    answer = case.ask(torch.from_numpy(X), torch.from_numpy(POSITIONS))
    encoding = case.encoding
    cos, sin = encoding.cos_sin(POSITIONS)
    angles = angle_slack(encoding, POSITIONS)
    slack = encoding.attention_factor * (angles + ENTRY * UNIT)
    np.testing.assert_array_less(np.abs(answer.cos.numpy() - cos), slack)
    np.testing.assert_array_less(np.abs(answer.sin.numpy() - sin), slack)
    off = np.abs(answer.rotated.numpy() - rotated(X, (cos, sin), encoding))
    assert np.all(off <= pair_slack(X, encoding, angles))


@pytest.mark.parametrize("case", ANGLES_OF_THEIR_FREQUENCIES, ids=lambda case: case.name)
def test_with_its_own_frequencies(case):
    answer = case.ask(torch.from_numpy(X), torch.from_numpy(POSITIONS))
    factor = answer.cos[0, 0].item()  # the cosine of 0 is the factor
    encoding = with_frequencies(case.encoding, answer.frequencies.detach().numpy(), factor)
    cos, sin = encoding.cos_sin(POSITIONS)
    assert max(ulps(answer.cos.numpy(), cos), ulps(answer.sin.numpy(), sin)) <= entry_ulps(factor)


def test_exact_where_a_library_has_float64_angles():
    """diffusers, as it makes the tables of Flux: with the float64 of the host it rounds once, as we do."""
    answer = diffuser("interleaved", freqs_dtype=torch.float64)(torch.from_numpy(X), torch.from_numpy(POSITIONS))
    cos, sin = Rotary(head_dim=48, layout="interleaved").cos_sin(POSITIONS)
    assert max(ulps(answer.cos.numpy(), cos), ulps(answer.sin.numpy(), sin)) <= 1


def test_sinusoids_of_positional_encodings():
    """tatp22's: the angles of `Rotary`, as columns to be added."""
    table = PositionalEncoding1D(48)(torch.zeros(1, 5000, 48))[0].numpy()
    angles = angle_slack(Rotary(head_dim=48, layout="interleaved"), range(5000)) + ENTRY * UNIT
    np.testing.assert_array_less(np.abs(table - Sinusoidal(dim=48).table(range(5000))), angles.repeat(2, axis=-1))
