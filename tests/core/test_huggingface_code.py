"""What the code of models does and their configs do not say: answered, warned of, or refused by name."""

import warnings

import numpy as np
import pytest

from posenc_core import AxialRotary, MultimodalRotary, NTKAlpha, Rotary
from posenc_core.huggingface import layer_types, load_position, load_rope
from posenc_core.huggingface.sections import spread

from ..errors import rejects
from .load_cases import load_cases

CASES = load_cases("huggingface_code")
ROPE = {"rope_theta": 10000.0, "rope_type": "default"}
SMALL = {"head_dim": 64, "rope_theta": 10000.0}
TWO_BASES = {
    "full_attention": {"rope_theta": 1e6, "partial_rotary_factor": 0.25},
    "sliding_attention": {"rope_theta": 1e4, "partial_rotary_factor": 1.0},
}


def warned(config, **options):
    """Return the encoding and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoding = load_rope(config, **options)
    return encoding, [str(one.message) for one in caught]


def test_an_unknown_type_is_warned_of_unless_the_layout_is_given():
    encoding, messages = warned({"model_type": "new_model", **SMALL})
    assert encoding == Rotary(head_dim=64, layout="half")
    (message,) = messages
    assert all(word in message for word in ("'new_model'", "one axis", "`layout` 'half'"))
    for config in ({"model_type": "llama", **SMALL}, SMALL, {"model_type": "", **SMALL}, {"model_type": None, **SMALL}):
        assert warned(config) == (encoding, [])
    assert warned({"model_type": "new_model", **SMALL}, layout="half") == (encoding, [])
    assert warned({"model_type": "new_model", "rope_interleave": True, **SMALL})[1] == [
        message.replace("'half'", "'interleaved_to_half'")
    ]
    assert warned({"model_type": "new_model", "use_rope": False, **SMALL}) == (None, [])


def test_what_is_assumed_for_an_unknown_type_is_warned_of_each():
    _, messages = warned({"model_type": "new_model", "head_dim": 64, "partial_rotary_factor": 0.5})
    assert len(messages) == 2
    assert "`rope_theta` is missing" in messages[0]


INTERLEAVED = [
    *("pe_audio_encoder", "pe_audio_video_encoder", "pe_video_encoder"),
    *("blt_global_transformer", "blt_local_decoder", "blt_local_encoder", "blt_patcher"),
]


@pytest.mark.parametrize("name", INTERLEAVED)
def test_parts_whose_pairs_are_adjacent(name):
    assert warned({"model_type": name, **SMALL}) == (Rotary(head_dim=64, layout="interleaved"), [])


def test_a_table_that_is_no_rotation_is_refused():
    sections = {"rope_parameters": {**ROPE, "mrope_section": [16, 16, 16, 16]}}
    for name in ("hunyuan_vl", "hunyuan_vl_text"):
        for rope in ({}, sections):
            with rejects(ValueError, "model_type", "'hunyuan_vl'"):
                load_rope({"model_type": name, "head_dim": 128, **rope})


def test_the_four_axes_of_hunyuan_are_read_from_the_keys_of_its_authors():
    rope = {"type": "xdrope", "alpha": 1000.0, "beta_fast": 32, "factor": 1.0, "xdrope_section": [16, 16, 16, 16]}
    config = {"model_type": "hunyuan_vl", "head_dim": 128, "rope_theta": 10000.0, "rope_scaling": rope}
    encoding, (message,) = warned(config)
    axes = [axis for axis in range(4) for _ in range(16)]
    fields = {"head_dim": 128, "layout": "half", "scaling": NTKAlpha(alpha=1000)}
    assert encoding == MultimodalRotary(**fields, arrangement=axes)
    assert "`xdrope_section`" in message
    assert "transformers 5.23" in message
    text = Rotary(**fields)
    np.testing.assert_array_equal(encoding.cos_sin([5, 7]), text.cos_sin([5, 7]))
    assert warned(config | {"rope_scaling": {**rope, "xdrope_section": [63, 1, 0, 0]}})[0].num_axes == 4
    with pytest.warns(UserWarning, match="xdrope_section"):
        assert load_position(config | {"model_type": "hunyuan_vl_text"}).rotary == ((None, encoding),)


def test_pairs_are_spread_over_the_axes_as_in_openpangu():
    # `get_mrope_interleaved_id_list(a, b, c, force_last=True)` of vLLM 0.33, and of two sections, without it.
    assert "".join(map(str, spread((16, 24, 24)))) == "0121201212012012120120121201212012012120120121201212012012120120"
    assert spread((3, 5)) == (0, 1, 0, 1, 0, 1, 1, 1)
    assert spread((1, 3, 2)) == (1, 2, 1, 2, 1, 0)
    assert spread((3, 2, 2)) == (0, 1, 2, 0, 1, 2, 0)


@pytest.mark.parametrize("name", ["diffusion_gemma", "embedding_gemma2", "gemma4_text", "laguna", "mellum"])
def test_a_layer_without_base_is_refused_where_the_model_has_no_default(name):
    layers = {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_theta": 1e4}}
    config = {"model_type": name, "head_dim": 64, "global_head_dim": 64, "rope_parameters": layers}
    with rejects(ValueError, "rope_parameters.full_attention.rope_theta", name.removesuffix("_text")):
        load_rope(config, layer_type="full_attention")
    assert load_rope(config, layer_type="sliding_attention").base == 1e4
    assert load_rope(config | {"rope_theta": 5e5}, layer_type="full_attention").base == 5e5


def test_a_layer_of_neomme_has_the_defaults_of_its_type():
    layers = {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}
    config = {"model_type": "neomme", "head_dim": 64, "rope_parameters": layers}
    assert [load_rope(config, layer_type=name) for name in layers] == [
        load_rope(config | {"rope_parameters": TWO_BASES}, layer_type=name) for name in layers
    ]


@pytest.mark.parametrize("name", ["codegen", "gptj"])
def test_64_channels_rotate_unless_the_config_has_another_number(name):
    config = {"model_type": name, "n_embd": 1024, "n_head": 8}
    assert load_rope(config).rotary_channels == 64
    assert load_rope(config | {"rotary_dim": 32}).rotary_channels == 32
    with rejects(ValueError, "rotary_dim", "None"):
        load_rope(config | {"rotary_dim": None})


@pytest.mark.parametrize(
    "name", ["diffusion_gemma_text", "embedding_gemma2_text", "gemma4_text", "gemma4_unified_text"]
)
def test_equal_widths_of_heads_are_what_transformers_writes_as_no_override(name):
    types = ["sliding_attention", "full_attention"]
    bases = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    config = {"model_type": name, "head_dim": 64, "layer_types": types, "rope_parameters": bases}
    assert [load_rope(config, layer_type=each).head_dim for each in types] == [64, 512]
    for overrides in ({}, {"1": {"num_key_value_heads": 1}}):
        assert load_rope(config | {"per_layer_config": overrides}, layer_type="full_attention").head_dim == 64
    wider = config | {"per_layer_config": {"1": {"head_dim": 96}}}
    assert load_rope(wider, layer_type="full_attention").head_dim == 96


@pytest.mark.parametrize("name", ["wav2vec2-bert", "wav2vec2-conformer"])
def test_speech_models_rotate_only_if_told_to(name):
    config = {"model_type": name, "hidden_size": 1024, "num_attention_heads": 16, "rotary_embedding_base": 10000}
    for other in ({}, {"position_embeddings_type": "relative_key"}, {"position_embeddings_type": None}):
        assert load_rope(config | other) is None
    encoding, (message,) = warned(config | {"position_embeddings_type": "rotary"})
    assert encoding == Rotary(head_dim=64, layout="half")
    assert "hidden states" in message
    with rejects(TypeError, "position_embeddings_type", "1"):
        load_rope(config | {"position_embeddings_type": 1})


def test_rows_and_columns_take_the_pairs_in_turn():
    config = {"model_type": "neomme", "head_dim": 64, "rope_parameters": TWO_BASES}
    assert layer_types(config) == ("full_attention", "sliding_attention")
    encoding = load_rope(config, layer_type="full_attention")
    fields = {"layout": "half", "arrangement": "alternating", "series": "dealt"}
    assert encoding == AxialRotary(head_dim=64, axes_dims=(8, 8), base=1e6, **fields)
    text = Rotary(head_dim=64, layout="half", base=1e6, rotary_dim=16)
    np.testing.assert_array_equal(encoding.frequencies(), text.frequencies())
    np.testing.assert_array_equal(encoding.cos_sin([[5, 7], [5, 7]]), text.cos_sin([5, 7]))  # text: on both axes
    assert load_rope(config, layer_type="sliding_attention").axes_dims == (32, 32)
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    with rejects(ValueError, "rope_type", "Linear"):
        load_rope({"model_type": "neomme", "rope_parameters": scaled})
    with rejects(ValueError, "partial_rotary_factor", "18"):
        load_rope({"model_type": "neomme", "head_dim": 72, "rope_parameters": {"partial_rotary_factor": 0.25}})
    with rejects(ValueError, "rope_parameters", "'neomme'"):
        load_rope({"model_type": "neomme"})


@pytest.mark.parametrize(("config", "layer_type", "words", "rotates"), CASES["noted"].values(), ids=CASES["noted"])
def test_more_than_a_rotation_is_warned_of(config, layer_type, words, rotates):
    encoding, (message,) = warned(config, layer_type=layer_type)
    assert words in message
    assert (encoding is not None) is rotates


def test_layers_that_rotate_are_not_warned_of():
    for name, layer_type in (("beam", "sliding_attention"), ("llama4_text", "chunked_attention")):
        assert warned({"model_type": name, **SMALL}, layer_type=layer_type)[1] == []
    untuned = {"model_type": "llama4_text", "attn_temperature_tuning": False, **SMALL}
    assert warned(untuned, layer_type="full_attention") == (None, [])


@pytest.mark.parametrize(("size", "heads", "channels"), [(768, 12, 32), (1024, 8, 64), (64, 4, 32)])
def test_clvp_takes_its_channels_from_the_projection(size, heads, channels):
    config = {"model_type": "clvp_encoder", "head_dim": 64, "num_attention_heads": heads, "projection_dim": size}
    rotary, _ = warned({**config, "use_rotary_embedding": True})
    assert 2 * rotary.pairs == channels
    assert load_rope({**config, "use_rotary_embedding": False}) is None
    with rejects(TypeError, "projection_dim", "'768'"):
        load_rope({**config, "use_rotary_embedding": True, "projection_dim": "768"})


@pytest.mark.parametrize(("config", "layer_type", "words", "base"), CASES["different"].values(), ids=CASES["different"])
def test_what_transformers_reads_otherwise_is_warned_of(config, layer_type, words, base):
    encoding, (message,) = warned({"head_dim": 64, **config}, layer_type=layer_type)
    assert words in message
    assert encoding.base == base


def test_the_original_length_of_phi3_is_warned_of_inside_the_dict():
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32, "original_max_position_embeddings": 1024}
    rope = {"rope_type": "longrope", **lists}
    config = {"model_type": "phi3", "head_dim": 64, "max_position_embeddings": 8192, "rope_parameters": rope}
    encoding, (message,) = warned(config)
    assert "`original_max_position_embeddings` 1024 is used; transformers takes 4096" in message
    assert encoding.scaling.original_max_position_embeddings == 1024
    assert warned(config | {"original_max_position_embeddings": 1024}) == (encoding, [])


def test_the_same_in_both_dicts_is_not_warned_of():
    rope = {"factor": 2.0, "rope_theta": 10000.0}
    config = {"rope_scaling": {"type": "linear", **rope}, "rope_parameters": {"rope_type": "linear", **rope}}
    assert warned({"head_dim": 64, **config})[1] == []
    nested = {"model_type": "olmo3", "head_dim": 64, "rope_parameters": {"sliding_attention": {"rope_theta": 1e6}}}
    assert warned(nested, layer_type="sliding_attention")[1] == []


@pytest.mark.parametrize("name", ["qwen2_5_omni_talker", "qwen3_omni_moe_talker_text", "cohere_compass_text"])
def test_parts_with_three_axes(name):
    rope = {"full_attention": ROPE} if name.startswith("cohere") else ROPE
    config = {"model_type": name, "head_dim": 128, "rope_parameters": rope}
    layer_type = next(iter(layer_types(config)), None)
    assert isinstance(load_rope(config, layer_type=layer_type), MultimodalRotary)


@pytest.mark.parametrize(("config", "words"), CASES["unread"].values(), ids=CASES["unread"])
def test_a_key_that_the_code_of_the_model_does_not_read_is_warned_of(config, words):
    _, (message,) = warned({"head_dim": 64, **config})
    assert words in message


def test_flat_parameters_of_models_by_layer_are_warned_of():
    config = {"model_type": "gemma3", "rope_parameters": {"rope_type": "linear", "factor": 8.0}}
    assert "only by layer type" in warned(config, layer_type="full_attention")[1][0]
