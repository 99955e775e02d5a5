"""What the packages of the formats say: files that gguf writes, and the frequencies that megatron-core computes."""

import warnings

import gguf
import numpy as np
import pytest
import torch

from posenc_core import MultimodalRotary, Rotary
from posenc_core.formats import gguf_architectures as facts
from posenc_core.formats import to_gguf, to_megatron
from posenc_core.formats.gguf_file import read_gguf
from posenc_core.huggingface import load_rope
from posenc_core.scaling import Linear, Llama3, LongRoPE, YaRN

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # megatron-core's, of what torch deprecates
    from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding
    from megatron.core.models.common.embeddings.yarn_rotary_pos_embedding import YarnRotaryEmbedding

L0 = {"original_max_position_embeddings": 4096}
LLAMA3 = Llama3(factor=32, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=8192)
IN_GGUF = {
    "llama": Rotary(head_dim=64, layout="interleaved", base=500000.0, scaling=LLAMA3),
    "qwen2": Rotary(head_dim=64, layout="half", base=1e6, scaling=YaRN(factor=4, **L0)),
    "stablelm": Rotary(head_dim=64, layout="half", rotary_dim=16),
    "phi3": Rotary(
        head_dim=8, layout="half", scaling=LongRoPE(short_factor=[1.0] * 4, long_factor=[2.0] * 4, factor=8, **L0)
    ),
    "qwen2vl": MultimodalRotary(head_dim=64, layout="half", sections=(8, 12, 12)),
}


def write(path, metadata, order):
    """Write what `to_gguf` returns by the package's own writer, in the types that llama.cpp's converters choose."""
    writer = gguf.GGUFWriter(path, metadata["general.architecture"], endianess=order)
    writer.add_token_list(["one", "two"])
    adders = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
    for key, value in metadata.items():
        if key.endswith(".weight"):
            writer.add_tensor(key, np.asarray(value, np.float32))
        elif key != "general.architecture":
            adders[type(value)](key, value)
    writer.add_tensor("token_embd.weight", np.zeros((3, 5), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("order", list(gguf.GGUFEndian), ids=str)
@pytest.mark.parametrize("architecture", IN_GGUF)
def test_a_file_of_the_package_is_read_as_the_package_reads_it(architecture, order, tmp_path):
    metadata, path = to_gguf(IN_GGUF[architecture], architecture=architecture), tmp_path / "model.gguf"
    write(path, metadata, order)
    assert load_rope(path) == IN_GGUF[architecture]
    reader, ours = gguf.GGUFReader(path), read_gguf(path)
    assert ours.keys() == metadata.keys()
    for tensor in reader.tensors:
        if tensor.name in ours:
            np.testing.assert_array_equal(np.float32(ours[tensor.name]), tensor.data)
    for key, field in reader.fields.items():
        if key in ours:
            np.testing.assert_array_equal(np.array(ours[key], field_dtype(field)), field.contents())


def field_dtype(field):
    return np.float32 if gguf.GGUFValueType.FLOAT32 in field.types else None


def test_every_architecture_of_the_package_is_known():
    # `mmproj` is the package's name of what files call `clip`
    names = {name for name in gguf.MODEL_ARCH_NAMES.values() if name != gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.MMPROJ]}
    assert sorted(names - facts.KINDS.keys() - facts.REFUSED.keys()) == []


@pytest.fixture
def on_the_processor(monkeypatch):
    """Let megatron-core, which asks for the current GPU, compute on the processor."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")


IN_MEGATRON = {
    "plain": (Rotary(head_dim=64, layout="half", base=500000), {"rotary_base": 500000}),
    "a part": (
        Rotary(head_dim=192, layout="half", rotary_dim=64),
        {"rotary_percent": 1 / 3 + 1e-9, "kv_channels": 192},
    ),
    "linear": (Rotary(head_dim=64, layout="half", scaling=Linear(factor=8)), {"seq_len_interpolation_factor": 8}),
    "Llama 3": (
        Rotary(head_dim=64, layout="half", base=500000, scaling=LLAMA3),
        {"rotary_base": 500000, "rope_scaling": True, "rope_scaling_factor": 32},
    ),
}


@pytest.mark.parametrize("name", IN_MEGATRON)
@pytest.mark.usefixtures("on_the_processor")
def test_megatron_computes_the_frequencies_of_its_arguments(name):
    rotary, options = IN_MEGATRON[name]
    assert load_rope(to_megatron(rotary)) == rotary
    theirs = RotaryEmbedding(**{"kv_channels": 64, "rotary_percent": 1.0} | options)
    angles = theirs.get_freqs_non_repeated(2)[1].numpy()  # of position 1
    np.testing.assert_allclose(rotary.frequencies(), angles, rtol=1e-5)


YARNS = {
    "as in the paper": YaRN(factor=32, **L0),
    "its ramp": YaRN(factor=4, original_max_position_embeddings=8192, beta_fast=16, beta_slow=2),
    "no whole indices": YaRN(factor=32, truncate=False, **L0),
    "two mscales": YaRN(factor=40, mscale=0.7, mscale_all_dim=1.0, **L0),
    "no growth": YaRN(factor=40, attention_factor=1, **L0),
}


@pytest.mark.parametrize("name", YARNS)
@pytest.mark.usefixtures("on_the_processor")
def test_megatron_computes_the_yarn_of_its_arguments(name):
    rotary = Rotary(head_dim=64, layout="half", base=150000, scaling=YARNS[name])
    scaling, words = rotary.scaling, to_megatron(rotary)
    read = load_rope(words)
    np.testing.assert_array_equal(read.frequencies(), rotary.frequencies())
    mscales = {"mscale": 1.0, "mscale_all_dim": 0.0}
    options = {f"--{key.replace('_', '-')}": key for key in mscales}
    mscales |= {options[word]: float(words[i + 1]) for i, word in enumerate(words) if word in options}
    theirs = YarnRotaryEmbedding(
        64, rotary_base=150000, scaling_factor=scaling.factor, beta_fast=scaling.beta_fast,
        beta_slow=scaling.beta_slow, correction_range_round_to_int=scaling.truncate, **mscales,
        original_max_position_embeddings=scaling.original_max_position_embeddings,
    )  # fmt: skip
    angles, factor = theirs.get_emb(2)
    np.testing.assert_allclose(rotary.frequencies(), angles[1, 0, 0, :32].numpy(), rtol=1e-5)
    assert factor == pytest.approx(rotary.attention_factor, rel=1e-12)
