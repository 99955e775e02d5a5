"""The names and import paths that users rely on stay."""

import importlib

import pytest

import posenc_core

PATHS = {
    "posenc_core.encodings": "Rotary Sinusoidal Alibi Placed Encoding Additive Scoring",
    "posenc_core.scaling": "YaRN Linear NTK DynamicNTK Llama3 LongRoPE Proportional AttentionFactor NTKAlpha Scaling",
    "posenc_core.layers": "Backend PositionalEncoding RotaryEmbedding AttentionBias MultiHeadAttention",
    "posenc_core.formats": "to_gguf to_megatron to_params",
    "posenc_core.huggingface": "load_rope to_config layer_types",
    "posenc_core.positions": "sequence from_mask from_cu_seqlens sequence_ids shard counted_from grid multimodal",
    "posenc_core.tables": "cos_sin write_cos_sin",
    "posenc_core.attention": "attend attention_weights",
    "posenc_core.rotation": "rotate unrotate",
    "posenc_core.weights": "fope_mixing relayout rerotate",
    "posenc_core.transformer": "Transformer encode decode loss",
    "posenc_backends": "load NAMES HOST_NAMES",
    "posenc_backends.check": "check CheckResult",
    "posenc_backends.check.pytest_plugin": "conforms",
    "posenc_backends.__main__": "main",
}


@pytest.mark.parametrize("path", PATHS)
def test_import_paths_have_their_names(path):
    module = importlib.import_module(path)
    assert [name for name in PATHS[path].split() if not hasattr(module, name)] == []


def test_all_names_of_the_core_are_there():
    assert {"Backend", "Encoding", "Placed"} < set(posenc_core.__all__)
    assert all(hasattr(posenc_core, name) for name in posenc_core.__all__)
