"""Which layer has which rotation: by every key and every format that says it, and in comparisons of models."""

import json

import pytest

from posenc_core import Rotary
from posenc_core.analysis import compare_rope
from posenc_core.huggingface import load_layers, load_position, load_rope

from ..errors import rejects

SMOLLM3 = {"model_type": "smollm3", "head_dim": 128, "num_hidden_layers": 8, "max_position_embeddings": 4096}
LLAMA = {"model_type": "llama", "head_dim": 128, "num_hidden_layers": 8, "rope_theta": 2e6}
GEMMA3 = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
}
COHERE2 = {"model_type": "cohere2", "head_dim": 8, "num_hidden_layers": 3, "layer_types": GEMMA3["layer_types"]}
GRANITE = {"model_type": "granite_swa", "head_dim": 64, "num_hidden_layers": 4, "rope_theta": 1e4}
SCRIPT = "--num-layers 8 --hidden-size 512 --num-attention-heads 4 --position-embedding-type rope"
META = {"dim": 512, "n_heads": 4, "n_layers": 8, "rope_theta": 5e5}
FLUX = {"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "num_layers": 2}


def gguf(architecture, count=8):
    keys = {"block_count": count, "attention.key_length": 128, "rope.freq_base": 2e6, "context_length": 4096}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": value for key, value in keys.items()}


def without(config):
    return [index for index, rotary in enumerate(load_layers(config)) if rotary is None]


@pytest.mark.parametrize(
    ("config", "indices"),
    [
        (LLAMA, []),
        (SMOLLM3, [3, 7]),
        (SMOLLM3 | {"no_rope_layer_interval": 2}, [1, 3, 5, 7]),
        (SMOLLM3 | {"no_rope_layers": [0, 0, 0, 1] * 2}, [0, 1, 2, 4, 5, 6]),
        ({"model_type": "smollm3", "head_dim": 128, "no_rope_layers": [1, 0]}, [1]),
        (GRANITE | {"layer_rope_theta": [0, 1e4, 1e4, 0]}, [0, 3]),
        (LLAMA | {"no_rope_layers": [0, *[1] * 7, 0]}, [0]),  # the last is of a layer that drafts tokens
        ({"model_type": "muse_spark_text", "num_hidden_layers": 6}, [1, 5]),
        (LLAMA | {"use_rope": False}, [*range(8)]),
        (SCRIPT, []),
        (f"{SCRIPT} --no-rope-freq 4", [3, 7]),
        (f"{SCRIPT} --no-rope-freq ([0]*3+[1]*1)*2", [3, 7]),
        (f"{SCRIPT} --no-rope-freq [1,0,0,0,0,0,0,1]", [0, 7]),
        (f"{SCRIPT} --no-rope-freq 1", [*range(8)]),
        (META, []),
        (META | {"nope_layer_interval": 4}, [3, 7]),
        (gguf("llama"), []),
        (gguf("smollm3"), [3, 7]),
        (gguf("afmoe"), [3, 7]),
        (gguf("llama4"), [3, 7]),
        (gguf("smallthinker"), [0, 4]),
        (FLUX, []),
    ],
    ids=str,
)
def test_layers_without_rope(config, indices):
    assert without(config) == indices
    if indices and len(indices) < len(load_layers(config)):
        assert load_position(config).layers_without == tuple(indices)


def test_layers_have_the_encoding_of_their_type():
    sliding, again, full = load_layers(GEMMA3)
    assert sliding == again == load_rope(GEMMA3, layer_type="sliding_attention")
    assert full == load_rope(GEMMA3, layer_type="full_attention")
    assert full.base != sliding.base


def test_layers_have_bases_of_their_own():
    config = GRANITE | {"layer_rope_theta": [0, 1e4, 5e4, 1e6]}
    assert load_layers(config) == (
        None,
        *(Rotary(head_dim=64, layout="half", base=base) for base in (1e4, 5e4, 1e6)),
    )
    with rejects(ValueError, "layer_rope_theta", "load_layers"):
        load_rope(config)


@pytest.mark.parametrize(
    ("config", "error", "named"),
    [
        ({"model_type": "llama", "head_dim": 8}, ValueError, "num_hidden_layers"),
        ({"model_type": "smollm3", "head_dim": 8}, ValueError, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": 10**7}, ValueError, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": "8"}, TypeError, "num_hidden_layers"),
        (LLAMA | {"n_layer": 9}, ValueError, "n_layer"),
        ({**GEMMA3, "layer_types": None}, ValueError, "layer_types"),
        (GEMMA3 | {"num_hidden_layers": 4}, ValueError, "layer_types"),
        (LLAMA | {"no_rope_layers": [1, 2]}, TypeError, "no_rope_layers"),
        (LLAMA | {"no_rope_layers": [1, 0]}, ValueError, "no_rope_layers"),
        (SMOLLM3 | {"no_rope_layer_interval": 0}, ValueError, "no_rope_layer_interval"),
        (GRANITE | {"layer_rope_theta": [1e4]}, ValueError, "layer_rope_theta"),
        (GRANITE | {"layer_rope_theta": 1e4}, TypeError, "layer_rope_theta"),
        (SCRIPT.replace("--num-layers 8", "--no-rope-freq 4"), ValueError, "num_layers"),
        (SCRIPT.replace(" 8 ", " 99999 "), ValueError, "num_layers"),
        (META | {"n_layers": 10**6, "nope_layer_interval": 2}, ValueError, "n_layers"),
        (gguf("smollm3", 10**6), ValueError, "block_count"),
        (f"{SCRIPT} --no-rope-freq [0]*2", ValueError, "no_rope_freq"),
        (f"{SCRIPT} --no-rope-freq [0]*99999*99999", ValueError, "no_rope_freq"),
        (f"{SCRIPT} --no-rope-freq __import__('os')", ValueError, "no_rope_freq"),
        ({"dim": 512, "n_heads": 4, "rope_theta": 5e5, "nope_layer_interval": 4}, ValueError, "n_layers"),
    ],
    ids=str,
)
def test_what_is_missing_or_wrong_is_named(config, error, named):
    with rejects(error, named):
        load_layers(config)


def names(a, b):
    return [(layers.name, layers.same) for layers in compare_rope(a, b, any_layout=True).layers]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (SMOLLM3, SMOLLM3 | {"no_rope_layers": [1, 1, 1, 0] * 2}, [("layers 0–2, 4–6", True), ("layers 3, 7", True)]),
        (
            SMOLLM3 | {"no_rope_layers": [1, 1, 1, 0] * 2},
            SMOLLM3 | {"no_rope_layers": [0, 0, 0, 1] * 2},
            [("layers 0–2, 4–6", False), ("layers 3, 7", False)],
        ),
        (SMOLLM3, LLAMA, [("layers 0–2, 4–6", True), ("layers 3, 7", False)]),
        (SMOLLM3, gguf("smollm3"), [("layers 0–2, 4–6", True), ("layers 3, 7", True)]),
        (SMOLLM3, gguf("llama"), [("layers 0–2, 4–6", True), ("layers 3, 7", False)]),
        (SCRIPT, f"{SCRIPT} --no-rope-freq 4", [("layers 0–2, 4–6", True), ("layers 3, 7", False)]),
        (META, META | {"nope_layer_interval": 8}, [("layers 0–6", True), ("layer 7", False)]),
        (LLAMA, LLAMA | {"num_hidden_layers": 1}, [("all layers", True)]),  # a draft model
        (GEMMA3, GEMMA3, [("sliding_attention", True), ("full_attention", True)]),
        (
            GEMMA3,
            GEMMA3 | {"layer_types": GEMMA3["layer_types"][::-1]},
            [("layer 0", False), ("layer 1 (sliding_attention)", True), ("layer 2", False)],
        ),
    ],
    ids=["given", "inverted", "llama", "GGUF", "GGUF of llama", "Megatron", "Meta", "draft", "types", "order"],
)
def test_models_are_compared_layer_by_layer(a, b, expected):
    assert names(a, b) == expected
    assert compare_rope(a, b, any_layout=True).same == all(same for _, same in expected)


def test_models_of_fewer_layers_that_differ_are_not_compared():
    with rejects(ValueError, "a", "8 and 5"):
        compare_rope(SMOLLM3, SMOLLM3 | {"num_hidden_layers": 5})


def test_the_key_of_layers_without_rope_is_named():
    layers = compare_rope(SMOLLM3, SMOLLM3 | {"no_rope_layers": [1] * 8}).layers[1]
    assert [cause.key for cause in layers.causes] == ["no_rope_layers"]


@pytest.mark.parametrize(("given", "layout"), [(None, "interleaved"), (True, "interleaved"), (False, "half")])
def test_the_layout_of_chatglm(given, layout):
    config = {"model_type": "chatglm", "hidden_size": 64, "num_attention_heads": 2, "original_rope": given}
    assert load_rope(config).layout == layout


@pytest.mark.parametrize("given", [True, False])
def test_a_key_of_chatglm_is_refused_elsewhere(given):
    with rejects(ValueError, "original_rope"):
        load_rope(LLAMA | {"original_rope": given})


def test_json_with_a_key_twice_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA)[:-1] + ', "head_dim": 64}', encoding="utf-8")
    with rejects(ValueError, "head_dim", "twice"):
        load_rope(path)


@pytest.mark.parametrize("config", [FLUX, {"architecture": "eva02_base_patch14_224"}], ids=str)
def test_configs_of_diffusers_and_timm_have_one_answer(config):
    assert dict(load_position(config).rotary) == {None: load_rope(config)}


def test_the_words_for_layers_say_which_do_not_rotate():
    assert str(load_position(SMOLLM3)).startswith("rotates queries and keys of all layers but 3, 7: Rotary(")
    assert "layers without rotation: 2" in str(load_position(COHERE2))
