"""`load_position`: published configs of each kind of encoding, and configs that are wrong."""

import json

import pytest

import posenc_core as p
from posenc_core.huggingface import PositionEncodings, load_position, load_rope
from posenc_core.huggingface.facts.kinds import Note
from posenc_core.huggingface.facts.records import by_model_type

from ..catalogue import VALUES
from ..errors import is_one_sentence, rejects
from .load_cases import load_cases

ALL = load_cases("load_position")
(
    BERT, ROBERTA, OPT, BART, WHISPER, M2M, T5, CLIP, LLAVA, LLAMA4, SMOLLM3, BLOOM, MPT,
    FALCON, SWIN, BEIT, W2V, PARAKEET, DEBERTA, DETR, LLAMA,
) = ALL.values()  # fmt: skip


def parts(config):
    return dict(load_position(config).parts)


def only(config, field="additive"):
    ((_, encoding),) = getattr(load_position(config), field)
    return encoding


def test_intern_s1_pro():
    """The config beside its weights (2026); its code has the vision tower of Qwen3-VL."""
    text = {
        "model_type": "interns1_pro_text", "head_dim": 128, "hidden_size": 4096, "num_attention_heads": 64,
        "num_key_value_heads": 4, "max_position_embeddings": 262144, "rope_theta": 5000000,
        "rope_scaling": {
            "rope_type": "default", "fope_init_factor": 0.5, "fope_sep_head": True, "num_inv_freq": None,
        },
    }  # fmt: skip
    vision = {"hidden_size": 1024, "num_heads": 16, "num_position_embeddings": 2304, "patch_size": 16}
    vision |= {"model_type": "interns1_pro_vision", "spatial_merge_size": 2, "depth": 24}
    config = {"model_type": "interns1_pro", "text_config": text, "vision_config": vision}
    found = dict(load_position(config).parts)
    ((_, fope),) = found["text"].rotary
    assert isinstance(fope, p.FoPE)
    assert (fope.head_dim, fope.base, fope.length, fope.num_heads, fope.terms) == (128, 5e6, 262144, 4, 45)
    assert found["vision"].rotary == ((None, p.AxialRotary(head_dim=64, layout="half", axes_dims=(32, 32))),)
    assert found["vision"].additive == (("patches", p.Learned(dim=1024, length=2304)),)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BERT, p.Learned(dim=768, length=512)),
        (ROBERTA, p.Learned(dim=768, length=512, offset=2)),
        (OPT, p.Learned(dim=768, length=2048, offset=2)),
        ({**BERT, "model_type": "gpt2", "n_embd": 6, "n_positions": 5}, p.Learned(dim=6, length=5)),
        ({**BERT, "model_type": "albert", "embedding_size": 128}, p.Learned(dim=128, length=512)),
    ],
)
def test_learned_rows(config, expected):
    assert only(config) == expected


def test_padding_is_told():
    assert "from_mask" in load_position(ROBERTA).notes[0]
    assert load_position(BERT).notes == ()


def test_an_encoder_and_a_decoder():
    rows = (("tokens", p.Learned(dim=1024, length=1024, offset=2)),)
    assert {name: part.additive for name, part in parts(BART).items()} == {"encoder": rows, "decoder": rows}
    whisper = parts(WHISPER)
    assert whisper["encoder"].additive == (("tokens", p.Sinusoidal(dim=384, convention="tensor2tensor")),)
    assert whisper["decoder"].additive == (("tokens", p.Learned(dim=384, length=448)),)


def test_the_position_of_the_first_token():
    assert [part.start for part in parts(M2M).values()] == [2, 2]
    assert [part.start for part in parts({**M2M, "pad_token_id": 0}).values()] == [1, 1]
    assert load_position(BERT).start == 0


def test_buckets():
    both, past = (part.scoring for part in parts(T5).values())
    assert both == (("self-attention", p.T5Bias(num_heads=8)),)
    assert past == (("self-attention", p.T5Bias(num_heads=8, sides="past")),)
    other = parts({**T5, "relative_attention_num_buckets": 16, "relative_attention_max_distance": 20})
    assert dict(other["decoder"].scoring)["self-attention"].max_distance == 20


def test_other_scores():
    assert only(BLOOM, "scoring") == p.Alibi(num_heads=12)
    assert only(MPT, "scoring") == p.Alibi(num_heads=32)
    assert only({**MPT, "attn_config": {"alibi_bias_max": 4}}, "scoring").max_bias == 4
    assert only({**FALCON, "alibi": True}, "scoring") == p.Alibi(num_heads=71)
    assert only(FALCON, "rotary") == p.Rotary(head_dim=64, layout="half")
    assert only(W2V, "scoring") == p.ShawBias(num_heads=16, head_dim=64, max_distance=64, applies_to="keys")
    assert only(PARAKEET, "scoring") == p.TransformerXLBias(num_heads=8, head_dim=128, max_distance=5000)
    assert only({**W2V, "position_embeddings_type": "relative"}, "scoring").max_distance == 8192


def test_windows():
    stages = dict(load_position(SWIN).scoring)
    assert list(stages) == ["stage 1", "stage 2", "stage 3", "stage 4"]
    assert stages["stage 3"] == p.SwinBias(num_heads=12, window=(7, 7))
    assert only(BEIT, "scoring") == p.SwinBias(num_heads=12, window=(14, 14), prefix_tokens=1)
    assert not load_position({**BEIT, "use_relative_position_bias": False}).scoring


def test_parts_of_several_models():
    clip = parts(CLIP)
    assert clip["text"].additive == (("tokens", p.Learned(dim=512, length=77)),)
    assert clip["vision"].additive == (("patches", p.Learned(dim=768, length=50)),)
    llava = parts(LLAVA)
    assert llava["vision"].additive == (("patches", p.Learned(dim=1024, length=577)),)
    assert llava["text"].rotary == ((None, load_rope(LLAVA)),)


def test_sines_of_cells():
    assert only(DETR) == p.GridSinusoidal(dim=256, convention="tatp22")
    assert "multiplied by 2π" in load_position(DETR).notes[0]


def test_layers_without_rope():
    position = load_position(LLAMA4)
    assert position.layers_without == (3, 7)
    assert position.query_scale == p.QueryScale(length=8192, scale=0.1)
    assert position.notes == ("queries are multiplied by `query_scale` in layers without RoPE alone",)
    assert dict(position.rotary)["full_attention"] is None
    assert load_position(SMOLLM3).layers_without == (3, 7)
    assert load_position({**SMOLLM3, "no_rope_layer_interval": 2}).layers_without == (1, 3, 5, 7)
    assert load_position({**SMOLLM3, "no_rope_layers": [1, 0, 1, 1, 1, 1, 1, 0]}).layers_without == (1, 7)
    assert load_position(LLAMA).layers_without == ()


@pytest.mark.filterwarnings("ignore:`llama_4_scaling_beta` is not a rotation:UserWarning")
def test_the_scale_of_queries():
    rope = {"rope_theta": 1e6, "rope_type": "default", "llama_4_scaling_beta": 0.1}
    config = {"model_type": "ministral3", "head_dim": 128, "max_position_embeddings": 16384}
    rope["original_max_position_embeddings"] = 16384
    try:
        position = load_position({**config, "rope_parameters": rope})
    except ValueError:
        yarn = {**rope, "rope_type": "yarn", "factor": 16.0}
        position = load_position({**config, "max_position_embeddings": 262144, "rope_parameters": yarn})
    assert position.query_scale == p.QueryScale(length=16384, scale=0.1, start=0)
    assert f"multiplies queries: {position.query_scale!r}" in str(position)


def test_deberta_has_the_terms_that_its_config_names():
    bias = {"num_heads": 12, "head_dim": 64, "max_distance": 512}
    for more, scoring in (
        ({"position_buckets": 256}, (p.DebertaBias(**bias, num_buckets=256),)),
        (
            {"pos_att_type": ["p2c"], "max_relative_positions": 100},
            (p.DebertaBias(**bias | {"max_distance": 100}, terms="p2c"),),
        ),
        ({"pos_att_type": "c2p|p2c", "model_type": "deberta", "position_buckets": 256}, (p.DebertaBias(**bias),)),
        ({"pos_att_type": []}, ()),
    ):
        position = load_position(DEBERTA | more)
        assert (position.additive, position.lacks) == ((), ())
        assert position.scoring == tuple(("self-attention", one) for one in scoring)


def test_windows_of_swin_v2_are_at_most_the_map_of_their_stage():
    sizes = {"image_size": 256, "patch_size": 4, "num_heads": [3, 6, 12, 24], "window_size": 16, "embed_dim": 96}
    position = load_position({"model_type": "swinv2", **sizes, "pretrained_window_sizes": [12, 12, 12, 6]})
    last = p.SwinV2Bias(num_heads=24, window=(8, 8), trained_window=(6, 6))
    assert position.scoring[0][1] == p.SwinV2Bias(num_heads=3, window=(16, 16), trained_window=(12, 12))
    assert position.scoring[3] == ("stage 4", last)


def test_what_is_lacking_has_a_name():
    position = load_position({"model_type": "hubert"})
    assert (position.additive, position.scoring) == ((), ())
    assert "convolution" in position.lacks[0]


def test_a_config_without_a_type_is_that_of_rope():
    config = {"head_dim": 64, "rope_theta": 1e6}
    assert only(config, "rotary") == load_rope(config)


@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_results_are_values(config):
    position = load_position(config)
    names = VALUES | {"PositionEncodings": PositionEncodings}
    assert eval(repr(position), names) == position
    assert PositionEncodings.from_dict(json.loads(json.dumps(position.to_dict()))) == position
    assert hash(position) == hash(load_position(config))


def test_results_are_readable():
    assert str(load_position(M2M)).splitlines()[:3] == [
        "encoder:",
        "  added to tokens: Sinusoidal(dim=1024, convention='tensor2tensor')",
        "  position of the first token: 2",
    ]
    assert "layers without rotation: 3, 7" in str(load_position(LLAMA4))


@pytest.mark.parametrize("name", ["no_such_model", None])
def test_unknown_types_are_rejected(name):
    with rejects(ValueError, "model_type", name):
        load_position({"model_type": name, "hidden_size": 768, "max_position_embeddings": 512})
    with rejects(ValueError, "model_type", name):
        load_position({"model_type": name, "vision_config": CLIP["vision_config"]})
    with rejects(TypeError, "model_type"):
        load_position({"model_type": ["bert"]})
    with rejects(ValueError, "model_type", "no_such_model"):
        load_position({**CLIP, "vision_config": {"model_type": "no_such_model"}})


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (BERT, "hidden_size", None),
        (BERT, "hidden_size", 0),
        (BERT, "max_position_embeddings", "512"),
        (ROBERTA, "pad_token_id", None),
        (ROBERTA, "max_position_embeddings", 2),
        (SWIN, "num_heads", []),
        (BEIT, "image_size", 8),
        (PARAKEET, "num_attention_heads", 3),
        (SMOLLM3, "no_rope_layers", "all"),
        (LLAMA4, "attn_scale", None),
    ],
)
def test_wrong_sizes_are_rejected(config, key, value):
    with rejects((TypeError, ValueError), key):
        load_position({**config, key: value})


WRONG = [None, True, -1, 0, 1.5, 1e300, 2**70, "x", [], [1, 2], {}, {"a": 1}, [[]]]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ALL)
def test_keys_that_are_wrong_are_used_or_rejected_in_a_sentence(name):
    config = ALL[name]
    changed = [{k: v for k, v in config.items() if k != key} for key in config]
    changed += [{**config, key: value} for key in config for value in WRONG]
    for part in ("text_config", "vision_config"):
        inner = config.get(part, {})
        changed += [{**config, part: {**inner, key: value}} for key in inner for value in WRONG]
    for one in changed:
        message = complaint(one)
        assert message is None or ("`" in message and len(message) <= 300 and is_one_sentence(message)), (one, message)


def complaint(config):
    """The message of the error; None if there is an answer."""
    try:
        load_position(config)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def test_tables_have_each_type_once():
    with pytest.raises(ValueError, match="once"):
        by_model_type({"bert gpt2": (Note("one"),), "gpt2": (Note("two"),)})


def test_a_tower_that_has_the_name_of_the_whole_model_is_a_tower():
    tower = {"model_type": "qwen2_5_vl", "hidden_size": 1280, "num_heads": 16, "depth": 32}
    sizes = {"hidden_size": 3584, "num_attention_heads": 28, "num_hidden_layers": 28}
    rope = {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
    position = load_position({"model_type": "qwen2_5_vl", "vision_config": tower} | sizes | rope)
    ((name, part),) = position.parts
    assert name == "vision"
    assert part.rotary == ((None, p.AxialRotary(head_dim=80, layout="half", axes_dims=(40, 40))),)


@pytest.mark.parametrize(("clamp", "distance"), [(-1, 8192), (0, 8192), (None, 8192), (1, 1), (-2, ValueError), (7, 7)])
def test_xlnet_clamps_at_positive_lengths_alone(clamp, distance):
    config = {"model_type": "xlnet", "n_head": 2, "d_model": 8, "clamp_len": clamp}
    if distance is ValueError:
        with rejects(ValueError, "clamp_len", clamp):
            load_position(config)
    else:
        assert only(config, "scoring").max_distance == distance


def test_a_part_that_is_left_out_is_noted_unless_it_is_the_text():
    assert [note for note in load_position(LLAVA | {"vision_config": None}).notes if "vision_config" in note] == []
    without = {key: value for key, value in LLAVA.items() if key != "vision_config"}
    assert load_position(without).notes == ("the config leaves `vision_config` out, and so the encodings of that part",)
    assert load_position({key: value for key, value in CLIP.items() if key != "text_config"}).notes == ()


@pytest.mark.parametrize("more", [{}, {"longest_edge": 9}])
def test_the_size_of_an_image_may_be_a_dict(more):
    size = {"height": 64, "width": 32} | more
    found = load_position({"model_type": "vit", "hidden_size": 8, "patch_size": 16, "image_size": size})
    assert found.notes == ("the rows are 1 other token, then a grid of 4 x 2 patches, row by row",)
