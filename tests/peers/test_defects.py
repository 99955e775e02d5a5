"""The 18 defects of peers in the survey: mpmath decides who is right.

A peer that has mended its defect fails its case, which can then go. Peers that cannot be installed beside the others
have their formula restated here.
"""

import mpmath
import numpy as np
import pytest
import torch
from positional_encodings.torch_encodings import PositionalEncoding1D

from posenc_backends.torch import PositionalEncoding
from posenc_core import DynamicNTK, Linear, Llama3, MultimodalRotary, Rotary, YaRN
from posenc_core.huggingface import load_rope

from .defects import DEFECTS, Numbers, defect, failing
from .oracle import cosine, frequency, yarn


@defect(9, "LitGPT", "YaRN's ramp is inverted: fast pairs are slowed")
def _():
    scaling = YaRN(factor=40.0, original_max_position_embeddings=4096)
    ours = Rotary(head_dim=64, layout="half", scaling=scaling).frequencies()
    return Numbers(yarn(0, 64, 40, 4096, inverted=True), ours[0], yarn(0, 64, 40, 4096))


@defect(9, "LitGPT", "YaRN without an attention factor")
def _():
    scaling = YaRN(factor=40.0, original_max_position_embeddings=4096)
    ours = Rotary(head_dim=64, layout="half", scaling=scaling).attention_factor
    return Numbers(1, ours, 1 + mpmath.log(40) / 10)


@defect(13, "PaddleFormers", "YaRN's factor is replaced by L / L0")
def _():
    length, original = 40960, 32768  # as Qwen3 publishes them, with a factor of 4
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": original}
    with pytest.warns(UserWarning, match="`factor` 4.0 is used"):
        ours = load_rope({"head_dim": 64, "max_position_embeddings": length, "rope_parameters": rope}).frequencies()
    return Numbers(yarn(24, 64, length / original, original), ours[24], yarn(24, 64, 4, original))


@defect(14, "vLLM", "a linear factor that is an int is taken for a list")
def _():
    factor = 8
    theirs = failing(lambda: frequency(1, 64) / max([factor] if isinstance(factor, float) else factor), TypeError)
    ours = Rotary(head_dim=64, layout="half", scaling=Linear(factor=factor)).frequencies()
    return Numbers(theirs, ours[1], frequency(1, 64) / factor)


@defect(14, "vLLM", "a dynamic table is no longer than the original length")
def _():
    theirs = failing(lambda: np.cos(np.arange(2048))[4095], IndexError)
    scaling = DynamicNTK(factor=2.0, original_max_position_embeddings=2048)
    ours, _ = Rotary(head_dim=64, layout="half", scaling=scaling).cos_sin([4095], seq_len=4096)
    return Numbers(theirs, ours[0, 0], cosine(4095, 0, 64))


@defect(15, "MaxText", "the constants of Llama 3.1 for every Llama 3")
def _():
    bands = Llama3(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    ours = Rotary(head_dim=64, layout="half", base=5e5, scaling=bands).frequencies()
    slowest = frequency(31, 64, base=500_000)
    return Numbers(slowest / 8 * 1e6, ours[31] * 1e6, slowest / 32 * 1e6)


@defect(15, "MaxText", "a partial rotation of several axes has the frequencies of the whole head")
def _():
    ours = MultimodalRotary(head_dim=64, layout="half", rotary_dim=32, sections=(4, 6, 6)).frequencies()
    return Numbers(frequency(1, 64), ours[1], frequency(1, 32))


@pytest.mark.filterwarnings("ignore:`partial_rotary_factor` 0.5 is used:UserWarning")  # which is a defect of theirs
@pytest.mark.parametrize("case", DEFECTS)
def test_which_of_the_two_is_right(case, record_property):
    theirs, ours, truth, within = map(float, case())
    record_property("numbers", (theirs, truth, ours))
    assert abs(ours - truth) <= within
    assert not abs(theirs - truth) <= 4 * within, "they have mended it: the case can go"


def test_of_integers_tatp22_makes_a_table_of_noughts_and_ones():
    """Number 18: what it should do is refuse, as we do."""
    x = torch.zeros(1, 4, 8, dtype=torch.int32)
    assert set(PositionalEncoding1D(8)(x).unique().tolist()) == {0, 1}
    with pytest.raises(TypeError, match="must be floating-point"):
        PositionalEncoding(8)(x)


def test_tatp22_takes_channels_that_it_was_not_made_for():
    """Number 18, again."""
    x = torch.zeros(1, 4, 6)
    assert PositionalEncoding1D(8)(x).shape == (1, 4, 6)
    with pytest.raises(ValueError, match="must be 8 wide"):
        PositionalEncoding(8)(x)


def test_all_18_are_here():
    assert {int(case.id[:2]) for case in DEFECTS} == set(range(1, 19))
