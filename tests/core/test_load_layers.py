"""Which layer has which rotation: by every key and every format that says it, and in comparisons of models."""

import json
import sys

import pytest

from posenc_backends.cli.main import main
from posenc_core import Rotary
from posenc_core.analysis import compare_rope
from posenc_core.analysis.explain import explain
from posenc_core.huggingface import layer_types, load_layers, load_position, load_rope

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
GATED = f"{SCRIPT} --experimental-attention-variant gdn --linear-attention-freq"
DSA = "--num-layers 8 --multi-latent-attention --rope-type rope --experimental-attention-variant dsa"
DSA += " --dsa-indexer-head-dim 128 --qk-pos-emb-head-dim 64"
HYBRID = "--hidden-size 512 --num-attention-heads 4 --position-embedding-type rope --hybrid-layer-pattern"
HYBRID_DSA = "--rope-type rope --dsa-indexer-head-dim 128 --hybrid-layer-pattern M+D-|DD/D"
META = {"dim": 512, "n_heads": 4, "n_layers": 8, "rope_theta": 5e5}
DEEPSEEK = {"model_type": "deepseek_v32", "qk_rope_head_dim": 64, "num_hidden_layers": 6, "index_head_dim": 128}
GLM = DEEPSEEK | {"model_type": "glm_moe_dsa"}
MINIMAX = {"model_type": "minimax_m3_vl", "num_hidden_layers": 3, "partial_rotary_factor": 0.5}
MIMO = {"model_type": "mimo_v2", "num_hidden_layers": 4}
MINIMAX_01 = {"model_type": "minimax_text_01", "head_dim": 128, "num_hidden_layers": 3, "attn_type_list": [0, 0, 1]}
DEEPSEEK_V4 = {"model_type": "deepseek_v4", "num_hidden_layers": 5, "compress_ratios": [0, 128, 4, 128, 4, 0]}
TOWER = {"model_type": "qwen2_5_vl", "hidden_size": 1280, "num_heads": 16, "depth": 3, "patch_size": 14}
VISION = {"model_type": "qwen2_5_vl", "vision_config": TOWER}
TOWER_ALONE = TOWER | {"model_type": "qwen2_5_vl_vision"}
LFM3 = {"model_type": "lfm3", "rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {}}}
FLUX = {"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "num_layers": 2}


def gguf(architecture, count=8, **more):
    keys = {"block_count": count, "attention.key_length": 128, "rope.freq_base": 2e6, "context_length": 4096}
    keys |= {key.replace("__", "."): value for key, value in more.items()}
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
        (f"{GATED} 4", [0, 1, 2, 4, 5, 6]),
        (f"{GATED} ([0]*1+[1]*3)*2 --no-rope-freq 4", [1, 2, 3, 5, 6, 7]),
        (f"{HYBRID} M-M*|M[M*]E", [0, 1, 2, 4, 5, 7]),
        (f"{HYBRID} M*M*/*M/*M --no-rope-freq 4", [0, 2, 3]),
        (f"{HYBRID.replace('layer', 'override')} *-", [1]),
        (f"{HYBRID} MM", [0, 1]),
        (HYBRID_DSA, [0, 3]),
        ("--multi-latent-attention --rope-type rope --num-layers 2", []),
        (META, []),
        (META | {"nope_layer_interval": 4}, [3, 7]),
        (gguf("llama"), []),
        (gguf("smollm3"), [3, 7]),
        (gguf("afmoe"), [3, 7]),
        (gguf("llama4"), [3, 7]),
        (gguf("smallthinker"), [0, 4]),
        (gguf("qwen3next"), [0, 1, 2, 4, 5, 6]),
        (gguf("qwen3next", full_attention_interval=2), [0, 2, 4, 6]),
        (gguf("lfm2", 4, attention__head_count_kv=[0, 8, 0, 8]), [0, 2]),
        (gguf("smollm3", 9, nextn_predict_layers=1), [3, 7]),
        (gguf("cohere2", attention__sliding_window=64), [3, 7]),
        (gguf("cohere2", attention__sliding_window=64, attention__sliding_window_pattern=2), [1, 3, 5, 7]),
        (FLUX, []),
        (FLUX | {"num_single_layers": 3}, []),
        (LFM3 | {"num_hidden_layers": 9}, [0, 1, 3, 5, 7]),
        ({"model_type": "qwen3_next", "num_hidden_layers": 8}, [0, 1, 2, 4, 5, 6]),
        (
            {"model_type": "lfm2", "hidden_size": 64, "num_attention_heads": 2, "n_layer": 3, "full_attn_idxs": [2]},
            [0, 1],
        ),
        (COHERE2 | {"layer_types": None, "num_hidden_layers": 9}, [3, 7]),
        (COHERE2 | {"layer_types": None, "sliding_window_pattern": 2}, [1]),
        ({"model_type": "llama4_text", "num_hidden_layers": 5}, [3]),
        (SMOLLM3 | {"no_rope_layers": [0] * 8}, [*range(8)]),
        (GRANITE | {"layer_rope_theta": [0] * 4}, [*range(4)]),
    ],
    ids=str,
)
def test_layers_without_rope(config, indices):
    assert without(config) == indices
    assert layer_types(config) or {*load_layers(config)} - {None} <= {load_rope(config)}
    if len(indices) == len(load_layers(config)):
        assert load_rope(config) is None
    elif indices:
        assert load_position(config).layers_without == tuple(indices)


def test_layers_have_the_encoding_of_their_type():
    sliding, again, full = load_layers(GEMMA3)
    assert sliding == again == load_rope(GEMMA3, layer_type="sliding_attention")
    assert full == load_rope(GEMMA3, layer_type="full_attention")
    assert full.base != sliding.base


@pytest.mark.parametrize(
    ("config", "full"),
    [
        (gguf("gemma3", 7, attention__sliding_window=64), [5]),
        (gguf("gemma3", 4, attention__sliding_window=64, attention__sliding_window_pattern=[1, 0, 1, 1]), [1]),
        (gguf("modern-bert", 7, attention__sliding_window=64), [0, 3, 6]),
        (gguf("laguna", 5, attention__sliding_window=64, rope__freq_base_swa=1e4), [0, 4]),
    ],
    ids=str,
)
def test_layers_with_a_sliding_window_are_those_of_llama_cpp(config, full):
    bases = [rotary.base for rotary in load_layers(config)]
    assert [index for index, base in enumerate(bases) if base == 2e6] == full
    assert {*bases} == {1e4, 2e6}


def test_layers_have_the_type_of_their_number():
    bases = [rotary.base for rotary in load_layers(MIMO | {"hybrid_layer_pattern": [0, 1, 1, 0]})]
    assert bases == [5_000_000, 10000, 10000, 5_000_000]
    assert without(MINIMAX_01) == [0, 1]


def test_layers_have_bases_of_their_own():
    config = GRANITE | {"layer_rope_theta": [0, 1e4, 5e4, 1e6]}
    assert load_layers(config) == (None, *(Rotary(head_dim=64, layout="half", base=base) for base in (1e4, 5e4, 1e6)))
    with rejects(ValueError, "layer_rope_theta", "load_layers"):
        load_rope(config)
    assert [group.name for group in explain(config)] == ["layer 1", "layer 2", "layer 3"]
    assert [name for name, _ in load_position(config).rotary] == ["layer 1", "layer 2", "layer 3"]
    with pytest.warns(UserWarning, match=r"`rope_theta` 3.0 has no effect"):
        load_layers(config | {"rope_theta": 3.0})


@pytest.mark.parametrize(
    ("config", "error", "named"),
    [
        ({"model_type": "llama", "head_dim": 8}, ValueError, "num_hidden_layers"),
        ({"model_type": "smollm3", "head_dim": 8}, ValueError, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": 10**7}, ValueError, "num_hidden_layers"),
        (LLAMA | {"num_hidden_layers": "8"}, TypeError, "num_hidden_layers"),
        (LLAMA | {"n_layer": 9}, ValueError, "n_layer"),
        (MIMO, ValueError, "layer_types"),
        (MIMO | {"hybrid_layer_pattern": [0, 2]}, TypeError, "hybrid_layer_pattern"),
        (GEMMA3 | {"num_hidden_layers": 4}, ValueError, "layer_types"),
        (DEEPSEEK | {"index_head_dim": 32}, ValueError, "index_head_dim"),
        (GLM | {"indexer_types": ["full"]}, ValueError, "indexer_types"),
        (GLM | {"indexer_types": "half"}, TypeError, "indexer_types"),
        (LLAMA | {"indexer_rope_interleave": True}, ValueError, "indexer_rope_interleave"),
        (COHERE2 | {"layer_types": None, "sliding_window_pattern": 0}, ValueError, "sliding_window_pattern"),
        (DEEPSEEK_V4 | {"compress_ratios": [3]}, TypeError, "compress_ratios"),
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
        (f"{HYBRID} M*X", ValueError, "hybrid_layer_pattern"),
        (f"{HYBRID} /*", ValueError, "hybrid_layer_pattern"),
        (f"{HYBRID} *+", ValueError, "hybrid_layer_pattern"),
        (f"{HYBRID} */*/M", ValueError, "hybrid_layer_pattern"),
        (f"{HYBRID} M* --hybrid-override-pattern M*", ValueError, "hybrid_override_pattern"),
        ({"rotary_base": 10000, "hybrid_layer_pattern": ["M"]}, TypeError, "hybrid_layer_pattern"),
        ({"rotary_base": 10000, "hybrid_attention_ratio": 0.1}, ValueError, "hybrid_attention_ratio"),
        (f"{GATED} x", ValueError, "linear_attention_freq"),
        (f"{GATED} [1,0]", ValueError, "linear_attention_freq"),
        ({"dim": 512, "n_heads": 4, "rope_theta": 5e5, "nope_layer_interval": 4}, ValueError, "n_layers"),
    ],
    ids=str,
)
def test_what_is_missing_or_wrong_is_named(config, error, named):
    with rejects(error, named):
        load_layers(config, part="indexer")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (DEEPSEEK, 0),
        (DEEPSEEK | {"num_nextn_predict_layers": 2}, 2),
        (LLAMA | {"mtp_num_hidden_layers": 1, "no_rope_layers": [1] * 8 + [0]}, None),
        (f"{DSA} --mtp-num-layers 1", 1),
        (f"{HYBRID} M*/*M/*M", [1, 0, 1, 0]),
        (f"{HYBRID} M* --mtp-hybrid-override-pattern **M --mtp-num-layers 1 --no-rope-freq [1,0]", [0, 1, 0]),
        (f"{SCRIPT} --no-rope-freq 2 --mtp-num-layers 2", [1, 0]),
        (SMOLLM3 | {"num_nextn_predict_layers": 1}, ValueError),
    ],
    ids=["none", "alike", "listed", "Megatron", "by turns", "by turns, apart", "numbered anew", "differ"],
)
def test_layers_that_predict_more_tokens(config, expected):
    if expected is ValueError:
        with rejects(ValueError, "layer_types", 1):
            load_layers(config, part="mtp")
    else:
        rotated = [0] if expected is None else expected if isinstance(expected, list) else [1] * expected
        wanted = tuple(load_rope(config) if one else None for one in rotated)
        assert load_layers(config, part="mtp") == wanted
        with rejects(ValueError, "part", "mtp", "`load_layers`"):
            load_rope(config, part="mtp")


def test_layers_of_a_tower():
    assert load_layers(VISION, part="vision") == (load_rope(VISION, part="vision"),) * 3 == load_layers(TOWER_ALONE)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (SMOLLM3, ["layers 0–2, 4–6"]),
        (gguf("smollm3"), ["layers 0–2, 4–6"]),
        (f"{SCRIPT} --no-rope-freq 4", ["layers 0–2, 4–6"]),
        (GEMMA3, ["full_attention", "sliding_attention"]),
        (DEEPSEEK, ["all layers", "indexer: all layers"]),
        (GLM | {"index_topk_freq": 4}, ["all layers", "indexer: layers 0–1, 5"]),
        (DEEPSEEK_V4, ["main", "compress", "indexer: layers 2, 4 (compress)"]),
    ],
    ids=str,
)
def test_an_explanation_names_the_layers(config, names):
    assert [group.name for group in explain(config)] == names


@pytest.mark.parametrize(
    ("config", "indices", "fields"),
    [
        (DEEPSEEK, [*range(6)], {"layout": "half", "rotary_dim": 64}),
        (GLM, [*range(6)], {"layout": "interleaved_to_half", "rotary_dim": 64}),
        (GLM | {"indexer_rope_interleave": False}, [*range(6)], {"layout": "half"}),
        (DEEPSEEK | {"indexer_rope_interleave": True}, [*range(6)], {"layout": "interleaved_to_half"}),
        (DEEPSEEK | {"index_head_dim": 64}, [*range(6)], {"rotary_dim": None}),
        (GLM | {"index_topk_pattern": "FSSFSS"}, [0, 3], {}),
        (GLM | {"indexer_types": ["full", *["shared"] * 4, "full", "full"]}, [0, 5], {}),
        (GLM | {"index_topk_freq": 4}, [0, 1, 5], {}),
        (GLM | {"model_type": "hy_v4"}, [0, 1, 5], {"layout": "half", "placement": "trail"}),
        (MINIMAX, [], None),
        (MINIMAX | {"sparse_attention_config": {"sparse_attention_freq": [0, 1, 1]}}, [1, 2], {"rotary_dim": 64}),
        (DEEPSEEK_V4, [2, 4], {"layout": "interleaved", "placement": "trail", "base": 160000}),
        ({"model_type": "mistral_large4", "num_hidden_layers": 8, "qk_rope_head_dim": 64}, [0, 1, 2, 4, 5, 6], {}),
        (DSA, [*range(8)], {"layout": "half", "head_dim": 128, "rotary_dim": 64}),
        (
            f"{DSA} --dsa-indexer-rope-interleaved --dsa-indexer-topk-freq 4",
            [0, 4],
            {"layout": "interleaved_to_half"},
        ),
        (f"{DSA} --dsa-indexer-topk-freq 4 --dsa-indexer-skip-topk-offset 3", [0, 1, 2, 6], {}),
        (HYBRID_DSA, [2, 4, 5], {"layout": "half"}),
        (gguf("deepseek32", 2, rope__dimension_count=64, attention__kv_lora_rank=512), [0, 1], {"layout": "half"}),
        (
            gguf("glm-dsa", 7, rope__dimension_count=64, attention__kv_lora_rank=512, context_length=2**20),
            [0, 1, 2, 6],
            {"layout": "interleaved", "rotary_dim": 64},
        ),
        (f"{HYBRID_DSA} --dsa-indexer-topk-freq 2", [2, 4], {}),
        (LLAMA, [], None),
        ({"model_type": "glm5_next_text", "num_hidden_layers": 2}, [], None),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*does more than this encoding says")
def test_indexers_of_sparse_attention(config, indices, fields):
    if "mistral" in str(config):
        config = config | {"rope_parameters": {"rope_theta": 1e4}}
    layers = load_layers(config, part="indexer")
    assert [index for index, rotary in enumerate(layers) if rotary] == indices
    indexer = load_rope(config, part="indexer")
    if indices:
        assert {layers[index] for index in indices} == {indexer}
        assert {name: getattr(indexer, name) for name in fields} == fields
        (found,) = [dict(part.rotary) for name, part in load_position(config).parts if name == "indexer"]
        assert [*found.values()] == [indexer]
        described = [group for group in explain(config) if group.part]
        assert [group.layout for group in described] == [indexer.layout]
    else:
        assert "indexer" not in dict(load_position(config).parts)


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
        (SMOLLM3, gguf("smollm3", 9, nextn_predict_layers=1), [("layers 0–2, 4–6", True), ("layers 3, 7", True)]),
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
    ids=[
        "given",
        "inverted",
        "llama",
        "GGUF",
        "GGUF with a draft",
        "GGUF of llama",
        "Megatron",
        "Meta",
        "draft",
        "types",
        "order",
    ],
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


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (LLAMA, f"{HYBRID} M*M* --rotary-base 2000000", [("no_rope_layers", None, "hybrid_layer_pattern")]),
        (SCRIPT, f"{SCRIPT} --no-rope-freq 4", [("no_rope_layers", None, "no_rope_freq")]),
        (LLAMA, gguf("smollm3"), [("no_rope_layers", None, "general.architecture")]),
        (
            GEMMA3,
            GEMMA3 | {"layer_types": GEMMA3["layer_types"][::-1]},
            [("layer_types", "layer_types", "layer_types")],
        ),
        (
            GEMMA3 | {"layer_types": None, "num_hidden_layers": 6},
            GEMMA3 | {"layer_types": ["full_attention"] * 6, "num_hidden_layers": 6},
            [("layer_types", None, "layer_types")],
        ),
        (
            GRANITE | {"layer_rope_theta": [5e4] * 4, "rope_theta": None},
            GRANITE,
            [("rope_theta", "layer_rope_theta", "rope_theta")],
        ),
    ],
    ids=["pattern", "Megatron", "GGUF", "order", "types", "bases"],
)
def test_keys_are_named_as_the_files_have_them(a, b, expected):
    a = a | {"num_hidden_layers": 4} if a is LLAMA and "pattern" in str(b) else a
    layers = next(one for one in compare_rope(a, b, any_layout=True).layers if not one.same)
    assert [(cause.key, cause.a_from, cause.b_from) for cause in layers.causes] == expected


@pytest.mark.parametrize("load", [load_rope, load_layers, lambda config, part: compare_rope(config, config, part=part)])
def test_a_part_of_an_unknown_model_is_refused_at_each_door(load):
    config = {"text_config": LLAMA, "audio_config": LLAMA | {"model_type": "no_such_model"}}
    with rejects(ValueError, "part", "no_such_model"):
        load(config, part="audio")


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


TIMM = {"architecture": "eva02_base_patch14_224"}


@pytest.mark.parametrize("config", [FLUX, TIMM, TIMM | {"model_type": "timm_wrapper"}], ids=str)
def test_configs_of_diffusers_and_timm_have_one_answer(config):
    assert dict(load_position(config).rotary) == {None: load_rope(config)}


def test_the_words_for_layers_say_which_do_not_rotate():
    assert str(load_position(SMOLLM3)).startswith("rotates queries and keys of all layers but 3, 7: Rotary(")
    assert "layers without rotation: 2" in str(load_position(COHERE2))


SPECULATOR = {"speculators_model_type": "eagle3", "transformer_layer_config": LLAMA | {"num_hidden_layers": 1}}


@pytest.mark.parametrize(
    ("a", "b", "part", "expected"),
    [
        (LLAMA, SPECULATOR, None, [("all layers", True)]),
        (LLAMA | {"rope_theta": 1e4}, SPECULATOR, None, [("all layers", False)]),
        (SMOLLM3, SPECULATOR, None, [("layers 0–2, 4–6", True), ("layers 3, 7", False)]),
        (DEEPSEEK, GLM, None, [("all layers", True), ("indexer: all layers", False)]),
        (GLM, GLM | {"indexer_rope_interleave": True}, None, [("all layers", True), ("indexer: all layers", True)]),
        (
            GLM,
            GLM | {"index_topk_freq": 4},
            "indexer",
            [("indexer: layers 0–1, 5", True), ("indexer: layers 2–4", False)],
        ),
        (DEEPSEEK, DEEPSEEK | {"model_type": "deepseek_v3"}, None, [("all layers", True)]),
        (
            DEEPSEEK | {"num_nextn_predict_layers": 1},
            GLM | {"num_nextn_predict_layers": 1},
            "mtp",
            [("mtp: all layers", True)],
        ),
        (VISION, VISION | {"text_config": LLAMA}, "vision", [("all layers", True)]),
        (VISION, VISION | {"vision_config": TOWER | {"num_heads": 8}}, "vision", [("all layers", False)]),
    ],
    ids=str,
)
def test_parts_are_compared(a, b, part, expected):
    found = compare_rope(a, b, part=part)
    assert [(layers.name, layers.same) for layers in found.layers] == expected


def test_a_model_that_drafts_tokens_is_read():
    assert load_position(SPECULATOR).parts == (("transformer_layer", load_position(LLAMA)),)
    assert [group.name for group in explain(SPECULATOR)] == ["all layers"]


def test_of_a_model_of_an_unknown_type_the_text_model_is_described():
    """InternVL 2.5 has its text model below `llm_config`, and a vision tower of its own."""
    config = {"model_type": "internvl_chat", "llm_config": LLAMA, "vision_config": {"model_type": "intern_vit_6b"}}
    position = load_position(config)
    assert position.parts == (("llm", load_position(LLAMA)),)
    assert "internvl_chat" in position.notes[0]


@pytest.mark.parametrize(("other", "status"), [(LLAMA, 0), (LLAMA | {"rope_theta": 1e4}, 1)])
def test_configs_are_compared_without_rich(other, status, tmp_path, monkeypatch, capsys):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, config in zip(paths, (LLAMA, other), strict=True):
        path.write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "rich", None)
    for name in [name for name in sys.modules if name.startswith(("rich.", "posenc_backends.cli.same.tables"))]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["same", *map(str, paths)]) == status
    assert capsys.readouterr().out.startswith("different" if status else "the same")
