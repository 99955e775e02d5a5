"""Each entry of transformers' `ROPE_INIT_FUNCTIONS` beside our scalings: same frequencies, same attention factor."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from posenc_core import Rotary
from posenc_core.scaling import DynamicNTK, Linear, Llama3, LongRoPE, Proportional, YaRN

from .rounding import frequency_slack

SCALINGS = {
    "dynamic": DynamicNTK,
    "linear": Linear,
    "llama3": Llama3,
    "longrope": LongRoPE,
    "proportional": Proportional,
    "yarn": YaRN,
}


class Case(NamedTuple):
    name: str
    rope: dict[str, Any]
    head_dim: int = 128
    base: float = 10000.0
    share: float = 1.0
    max_len: int = 131072
    seq_len: int | None = None


def llama3(factor, low, high, original=8192):
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }


def yarn(factor, original, **more):
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original, **more}


PHI = {
    "rope_type": "longrope",
    "short_factor": [1 + i / 48 for i in range(48)],
    "long_factor": [1.0 + 64 * (i / 47) ** 2 for i in range(48)],
    "original_max_position_embeddings": 4096,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
GEMMA4 = {"rope_type": "proportional"}
CASES = [
    Case("linear: Llama-2-7B-32K", {"rope_type": "linear", "factor": 8.0}),
    Case("linear: Gemma 3, full attention", {"rope_type": "linear", "factor": 8.0}, head_dim=256, base=1e6),
    Case("linear: no power of two", {"rope_type": "linear", "factor": 3}, head_dim=80, base=1000042.0),
    Case("linear: a third of 192 channels", {"rope_type": "linear", "factor": 1.0}, head_dim=192, share=0.334),
    Case("dynamic: at the start", DYNAMIC, head_dim=64, base=1e6, max_len=65536),
    Case("dynamic: shorter than L", DYNAMIC, head_dim=64, base=1e6, max_len=65536, seq_len=7),
    Case("dynamic: L", DYNAMIC, head_dim=64, base=1e6, max_len=65536, seq_len=65536),
    Case("dynamic: L + 1", DYNAMIC, head_dim=64, base=1e6, max_len=65536, seq_len=65537),
    Case("dynamic: 2 L", DYNAMIC, head_dim=64, base=1e6, max_len=65536, seq_len=131072),
    Case("dynamic: half of 96 channels", DYNAMIC, head_dim=96, share=0.5, max_len=2048, seq_len=30000),
    Case("dynamic: two frequencies", DYNAMIC, head_dim=4, max_len=2048, seq_len=30000),
    Case("yarn: Qwen3", yarn(4.0, 32768), base=1e6),
    Case("yarn: DeepSeek-V3", yarn(40, 4096, mscale=1.0, mscale_all_dim=1.0), head_dim=64),
    Case("yarn: DeepSeek-V2-Lite", yarn(40, 4096, mscale=0.707, mscale_all_dim=0.707), head_dim=64),
    Case("yarn: Kimi K2, equal betas", yarn(32.0, 4096, beta_fast=1.0, beta_slow=1.0), head_dim=64, base=50000.0),
    Case("yarn: equal betas, not truncated", yarn(32.0, 4096, beta_fast=4, beta_slow=4, truncate=False), head_dim=64),
    Case("yarn: gpt-oss, not truncated", yarn(32.0, 4096, truncate=False), head_dim=64, base=150000.0),
    Case("yarn: OLMo 3, a factor of its own", yarn(8.0, 8192, attention_factor=1.2079441541679836), base=5e5),
    Case("yarn: two mscales", yarn(40.0, 4096, mscale=1.0, mscale_all_dim=0.8), head_dim=64),
    Case("yarn: mscale alone", yarn(40.0, 4096, mscale=0.707), head_dim=64),
    Case("yarn: mscale_all_dim alone", yarn(40.0, 4096, mscale_all_dim=0.707), head_dim=64),
    Case("yarn: mscale of 0", yarn(40.0, 4096, mscale=1.0, mscale_all_dim=0.0), head_dim=64),
    Case("yarn: a factor over mscales", yarn(40.0, 4096, attention_factor=0.9, mscale=1.0, mscale_all_dim=0.8)),
    Case("yarn: factor 1", yarn(1.0, 4096)),
    Case("yarn: a ramp past half the channels", yarn(8.0, 1 << 20), head_dim=16, base=100.0),
    Case("yarn: a ramp below 0", yarn(8.0, 32, beta_fast=32, beta_slow=8), head_dim=32),
    Case("yarn: half of 128 channels", yarn(16.0, 16384, beta_fast=64, beta_slow=2), base=1e6, share=0.5),
    Case("llama3: Llama 3.1", llama3(8.0, 1.0, 4.0), base=5e5),
    Case("llama3: Llama 3.2", llama3(32.0, 1.0, 4.0), head_dim=64, base=5e5),
    Case("llama3: Llama 4 Scout, low = high", llama3(16.0, 1.0, 1.0), base=5e5),
    Case("llama3: Apertus", llama3(8.0, 1.0, 4.0), base=12e6),
    Case("llama3: three quarters of 80 channels", llama3(3.0, 1.0, 4.0, 2048), head_dim=80, share=0.75),
    Case("longrope: Phi-3.5-mini, at the start", PHI | {"factor": 32.0}, head_dim=96),
    Case("longrope: L0", PHI | {"factor": 32.0}, head_dim=96, seq_len=4096),
    Case("longrope: L0 + 1", PHI | {"factor": 32.0}, head_dim=96, seq_len=4097),
    Case("longrope: Phi-4-mini, three quarters of 128", PHI | {"factor": 32.0}, share=0.75, seq_len=5000),
    Case("longrope: a factor of its own", PHI | {"attention_factor": 1.19, "factor": 32.0}, head_dim=96),
    Case("longrope: factor 1", PHI | {"factor": 1.0}, head_dim=96, seq_len=131072),
    Case("proportional: Gemma 4, full attention", GEMMA4, head_dim=512, base=1e6, share=0.25),
    Case("proportional: all of the head", GEMMA4, head_dim=64),
    Case("proportional: 9.6 of 24 pairs", GEMMA4 | {"factor": 8.0}, head_dim=48, share=0.4),
]


def theirs(case, seq_len):
    rope = case.rope | {"rope_theta": case.base, "partial_rotary_factor": case.share}
    config = LlamaConfig(head_dim=case.head_dim, max_position_embeddings=case.max_len, rope_parameters=rope)
    frequencies, factor = ROPE_INIT_FUNCTIONS[case.rope["rope_type"]](config, "cpu", seq_len=seq_len)
    return frequencies.numpy(), factor


def ours(case):
    cls = SCALINGS[case.rope["rope_type"]]
    fields = {key: value for key, value in case.rope.items() if key != "rope_type"}
    fields |= {"original_max_position_embeddings": case.max_len} if cls is DynamicNTK else {}
    fields |= {"partial_rotary_factor": case.share} if cls is Proportional else {}
    rotary_dim = None if cls is Proportional or case.share == 1 else int(case.head_dim * case.share)
    return Rotary(head_dim=case.head_dim, layout="half", base=case.base, rotary_dim=rotary_dim, scaling=cls(**fields))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_frequencies_and_factor(case):
    frequencies, factor = theirs(case, case.seq_len)
    encoding = ours(case)
    off = np.abs(encoding.frequencies(case.seq_len) - frequencies)
    np.testing.assert_array_less(off, frequency_slack(encoding, case.seq_len) + 1e-300)
    assert encoding.at(case.seq_len).attention_factor == pytest.approx(factor, rel=2**-51)


@pytest.mark.parametrize("case", [case for case in CASES if case.seq_len], ids=lambda case: case.name)
def test_a_length_may_be_given_to_the_scaling(case):
    encoding = ours(case)
    long = replace(encoding, scaling=replace(encoding.scaling, seq_len=case.seq_len))
    np.testing.assert_array_equal(long.frequencies(), encoding.frequencies(case.seq_len))


@pytest.mark.parametrize("seq_len", [65536, 65537, 131072])
def test_dynamic_as_the_forward_pass_calls_it(seq_len):
    """There the length is a tensor, and the base a float32 from then on."""
    case = next(case for case in CASES if case.rope is DYNAMIC)
    frequencies, _ = theirs(case, torch.tensor(seq_len))
    encoding = ours(case)
    off = np.abs(encoding.frequencies(seq_len) - frequencies)
    np.testing.assert_array_less(off, frequency_slack(encoding, seq_len) + 1e-300)


def test_every_type_is_here():
    theirs = ROPE_INIT_FUNCTIONS.keys() - {"posenc"}  # which `register` adds
    assert {case.rope["rope_type"] for case in CASES} == SCALINGS.keys() == theirs
