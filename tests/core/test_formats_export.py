"""What is written in another format is read as the same encoding, or refused by name."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from posenc_core import MultimodalRotary, Rotary
from posenc_core.formats import to_gguf, to_megatron, to_params
from posenc_core.huggingface import load_rope
from posenc_core.scaling import NTK, DynamicNTK, Linear, Llama3, LongRoPE, NTKAlpha, Proportional, YaRN

from ..errors import rejects
from .format_writers import ERRORS, WRITERS, assert_same, gguf, written_or_refused
from .gguf_writer import write_gguf

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "rope_models.json").read_text(encoding="utf-8"))
MODELS = {f"{index} {case['name']}": case for index, case in enumerate(GOLDEN)}
L0 = {"original_max_position_embeddings": 1024}
YARN = YaRN(factor=4, **L0)
LLAMA3 = Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)


def rotary(layout="half", **fields):
    return Rotary(**{"head_dim": 64, "layout": layout} | fields)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", WRITERS)
def test_golden_models_return_the_same_or_are_refused_by_name(target, name):
    layout = "interleaved" if target == "params" else MODELS[name]["layout"]
    encoding = load_rope(MODELS[name]["config"], layout=layout)
    written = written_or_refused(target, encoding)
    assert (written is None) == lacks(target, encoding)
    if written is not None:
        assert_same(load_rope(written), encoding, error=ERRORS[target])


def lacks(target, encoding):
    """Return whether a format has no key for an encoding, found apart from the code that writes it."""
    scaling, share = encoding.scaling, encoding.rotary_channels != encoding.head_dim
    if target == "gguf":
        long = isinstance(scaling, LongRoPE) and scaling.is_long
        whole = isinstance(scaling, YaRN) and not scaling.truncate
        split = encoding.layout == "interleaved_to_half"
        return isinstance(scaling, DynamicNTK | NTKAlpha) or long or whole or split
    high = 4 if target == "megatron" else getattr(scaling, "high_freq_factor", None)
    in_code = {"low_freq_factor": 1, "high_freq_factor": high, "original_max_position_embeddings": 8192}
    llama3 = isinstance(scaling, Llama3) and any(getattr(scaling, name) != in_code[name] for name in in_code)
    if isinstance(scaling, DynamicNTK | NTKAlpha | LongRoPE | Proportional) or llama3:
        return True
    if target == "megatron":
        given = isinstance(scaling, YaRN) and scaling.attention_factor not in (None, 1)
        return given or (isinstance(scaling, YaRN) and (share or encoding.layout == "interleaved"))
    usual = isinstance(scaling, YaRN) and encoding.attention_factor not in (1, float(scaling.growth(1)))
    axes = isinstance(encoding, MultimodalRotary) or isinstance(scaling, Linear)
    return share or axes or usual or (isinstance(scaling, YaRN) and not scaling.truncate)


SPOKEN = {  # that come back exactly; the second field says in which formats
    "plain": (rotary(base=1e6), "gguf megatron"),
    "interleaved": (rotary("interleaved", base=500000), "gguf megatron params"),
    "partial": (rotary(rotary_dim=16, base=10000), "gguf megatron"),
    "a share that must be rounded up": (Rotary(head_dim=192, layout="half", rotary_dim=64), "gguf megatron"),
    "Linear": (rotary(scaling=Linear(factor=8)), "gguf megatron"),
    "YaRN": (rotary(scaling=YARN), "gguf megatron"),
    "YaRN, its ramp": (rotary(scaling=replace(YARN, beta_fast=64, beta_slow=2)), "gguf megatron"),
    "YaRN, adjacent": (rotary("interleaved", scaling=replace(YARN, beta_fast=64)), "gguf params"),
    "YaRN, sizes kept": (rotary("interleaved", scaling=replace(YARN, attention_factor=1)), "gguf params"),
    "YaRN, whole indices": (rotary(scaling=replace(YARN, truncate=False)), "megatron"),
    "YaRN, two mscales": (rotary(scaling=replace(YARN, mscale=0.7, mscale_all_dim=1.0, truncate=False)), "megatron"),
    "Llama 3": (rotary("interleaved", scaling=LLAMA3), "gguf megatron params"),
    "Llama 4": (rotary("interleaved", scaling=replace(LLAMA3, factor=16, high_freq_factor=1)), "gguf params"),
    "latent attention": (rotary("interleaved_to_half"), "megatron"),
    "latent attention, YaRN": (
        rotary("interleaved_to_half", scaling=YaRN(
            factor=40, original_max_position_embeddings=4096, mscale=1.0, mscale_all_dim=1.0)), "megatron",
    ),
    "three axes": (MultimodalRotary(head_dim=128, layout="half", sections=(16, 24, 24)), "gguf megatron"),
    "three axes, interleaved": (
        MultimodalRotary(head_dim=128, layout="half", sections=(24, 20, 20), arrangement="interleaved"), "gguf"),
    "Gemma 4": (
        rotary(placement="spread", scaling=Proportional(partial_rotary_factor=0.25)), "gguf"),
    "LongRoPE": (
        rotary(scaling=LongRoPE(short_factor=[1.0] * 32, long_factor=[2.0] * 32, factor=4, **L0)), "gguf"),
    "LongRoPE, attention factor": (
        rotary(scaling=LongRoPE(short_factor=[1.0] * 32, long_factor=[2.0] * 32, attention_factor=1.25, **L0)), "gguf"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize("target", WRITERS)
def test_what_a_format_can_say_returns_exactly(target, name):
    encoding, targets = SPOKEN[name]
    written = written_or_refused(target, encoding)
    assert (written is not None) == (target in targets)
    if written is not None:
        assert load_rope(written) == encoding


@pytest.mark.parametrize("name", [name for name in SPOKEN if "gguf" in SPOKEN[name][1]])
def test_a_file_of_gguf_says_the_same_as_its_metadata(name, tmp_path):
    encoding, _ = SPOKEN[name]
    assert load_rope(write_gguf(tmp_path / "model.gguf", gguf(encoding))) == encoding


def test_words_of_megatron_are_read_as_text_and_from_a_script(tmp_path):
    encoding = rotary(scaling=LLAMA3, base=500000)
    words = to_megatron(encoding)
    assert load_rope(" ".join(words)) == encoding
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n# pretrain\ntorchrun pretrain_gpt.py --bf16 \\\n" + " \\\n".join(words) + "\n")
    assert load_rope(script) == encoding


def test_megatron_keeps_the_size_of_tokens_by_two_equal_numbers():
    read = load_rope(" ".join(to_megatron(rotary(scaling=replace(YARN, attention_factor=1)))))
    assert (read.attention_factor, read.scaling.mscale, read.scaling.mscale_all_dim) == (1, 1, 1)


REFUSALS = {
    "no encoding": (to_megatron, "rotary", TypeError, "rotary"),
    "own frequencies": (
        to_megatron, Rotary(head_dim=4, layout="half", frequencies=[1.0, 0.1]), ValueError, "frequencies"),
    "inverse": (to_megatron, rotary(direction="inverse"), ValueError, "direction"),
    "trailing": (to_params, rotary("interleaved", rotary_dim=16, placement="trail"), ValueError, "placement"),
    "base": (to_megatron, rotary(base=10000.5), ValueError, "base"),
    "digits": (gguf, rotary(base=1234567.891), ValueError, "base"),
    "factor": (to_megatron, rotary(scaling=Linear(factor=2.5)), ValueError, "factor"),
    "Llama 3 low": (to_megatron, rotary(scaling=replace(LLAMA3, low_freq_factor=2)), ValueError, "low_freq_factor"),
    "Llama 3 high": (to_megatron, rotary(scaling=replace(LLAMA3, high_freq_factor=8)), ValueError, "high_freq_factor"),
    "NTK": (gguf, rotary(scaling=NTK(factor=2)), ValueError, "scaling"),
    "attention factor": (
        to_megatron, rotary(scaling=replace(YARN, attention_factor=1.25)), ValueError, "attention_factor"),
    "an integral attention factor": (
        to_megatron, rotary(scaling=replace(YARN, attention_factor=2)), ValueError, "attention_factor"),
    "latent ramp": (
        to_megatron, rotary("interleaved_to_half", scaling=replace(YARN, original_max_position_embeddings=4096,
                                                                   beta_fast=64)), ValueError, "beta_fast"),
    "the other layout": (lambda one: to_gguf(one, architecture="llama"), rotary(), ValueError, "layout"),
    "one axis": (
        lambda one: to_gguf(one, architecture="qwen2"), SPOKEN["three axes"][0], ValueError, "architecture"),
    "no such architecture": (lambda one: to_gguf(one, architecture="gpt2"), rotary(), ValueError, "architecture"),
    "no divisors": (
        lambda one: to_gguf(one, architecture="qwen2"), rotary(scaling=LLAMA3), ValueError, "architecture"),
    "a ramp that is not read": (
        lambda one: to_gguf(one, architecture="qwen2"), rotary(scaling=replace(YARN, beta_fast=64)), ValueError,
        "beta_fast"),
    "a part of the head": (
        lambda one: to_gguf(one, architecture="falcon"), rotary(rotary_dim=16), ValueError, "rotary_dim"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_the_target_cannot_say_is_named(name):
    write, encoding, error, argument = REFUSALS[name]
    with rejects(error, argument):
        write(encoding)


def test_the_ramp_of_the_paper_needs_no_key_of_gguf():
    """From 1 to 32 turns: llama.cpp's default, in architectures that read no other."""
    keys = to_gguf(rotary(scaling=replace(YARN, beta_fast=32, beta_slow=1)), architecture="qwen2")
    assert not [key for key in keys if "beta" in key]


def test_six_architectures_that_read_a_scaling_are_named():
    with pytest.raises(ValueError, match=r"reads Llama3 for \((\S+, ){6}…\), got 'qwen2'"):
        to_gguf(rotary(scaling=LLAMA3), architecture="qwen2")
