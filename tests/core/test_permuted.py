"""Whose weights the layout of `load_rope` is for, and what it says that it guesses."""

import warnings

import pytest

from posenc_core.huggingface import load_rope

TOWER = {"model_type": "kimi_k25_vision", "hidden_size": 64, "num_attention_heads": 4, "patch_size": 14}
IN_THE_FILE = "in the file, neighbouring channels form a pair"


def test_a_tower_whose_file_has_another_layout_is_warned_of():
    with pytest.warns(UserWarning, match=IN_THE_FILE):
        assert load_rope(TOWER).layout == "half"


def test_a_text_model_whose_file_has_another_layout_is_warned_of():
    config = {"model_type": "gradium_phonon_tts", "head_dim": 64, "rope_theta": 1e4}
    with pytest.warns(UserWarning, match=IN_THE_FILE):
        assert load_rope(config).layout == "half"


def test_a_layout_that_is_given_is_taken_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_rope(TOWER, layout="interleaved").layout == "interleaved"


def test_a_tower_of_a_kind_that_other_models_have_is_warned_of_in_its_model():
    vision = {"model_type": "pixtral", "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "rope_theta": 1e4}
    whole = {"model_type": "mistral_large4", "vision_config": vision}
    with pytest.warns(UserWarning, match=IN_THE_FILE):
        assert load_rope(whole, part="vision").layout == "half"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_rope(vision).layout == "half"


def test_the_text_of_a_model_whose_tower_is_permuted_has_no_warning():
    config = {"model_type": "step3p7", "text_config": {"model_type": "llama", "head_dim": 64, "rope_theta": 1e4}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_rope(config).layout == "half"


def test_each_guess_of_an_unknown_model_is_named():
    config = {
        "model_type": "unheard_of",
        "head_dim": 64,
        "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
    }
    with pytest.warns(UserWarning, match="unheard_of") as caught:
        load_rope(config)
    said = " ".join(str(one.message) for one in caught)
    for guess in ("3 axes", "arrangement 'chunked'", "`layout` 'half'", "10000"):
        assert guess in said
