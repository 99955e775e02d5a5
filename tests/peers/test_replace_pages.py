"""The pages that replace the encoding in models of keras-hub, timm and diffusers, and what they say of other models."""

import diffusers
import keras
import keras_hub
import numpy as np
import pytest
import torch

from posenc_backends.keras import RotaryEmbedding
from posenc_core import Rotary

from ..pages import FOLDER, run
from .importing import whole

HOWTO = FOLDER.with_name("howto")
SIZES = {"vocabulary_size": 50, "num_layers": 2, "hidden_dim": 64, "intermediate_dim": 64}
GROUPED = SIZES | {"num_query_heads": 4, "num_key_value_heads": 2}
MODELS = {  # of keras-hub: arguments, the name of the rotary layer, and how many channels it rotates
    "Mistral": (GROUPED, "rotary_embedding_layer", 16),
    "Mixtral": (GROUPED | {"num_experts": 2, "top_k": 1}, "rotary_embedding_layer", 16),
    "Qwen": (GROUPED, "rotary_embedding_layer", 16),
    "Qwen3": (GROUPED | {"head_dim": 16}, "rotary_embedding_layer", 16),
    "Phi3": (GROUPED, "rotary_embedding_layer", 16),
    "GPTNeoX": (SIZES | {"num_heads": 4}, "rotary_embedding_layer", 4),
    "Gemma": (GROUPED | {"head_dim": 16}, "rope_layer", 16),
}

IN_KERAS = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


@IN_KERAS
def test_the_page_on_keras_hub_prints_what_it_shows():
    run(HOWTO / "replace_keras_hub.md")


@IN_KERAS
@pytest.mark.parametrize("name", MODELS)
def test_one_function_fits_the_other_models_of_keras_hub(name):
    arguments, attribute, width = MODELS[name]
    keras.utils.set_random_seed(0)
    backbone = getattr(keras_hub.models, f"{name}Backbone")(**arguments)
    text = {"token_ids": np.arange(12)[None], "padding_mask": np.ones((1, 12))}
    before = keras.ops.convert_to_numpy(backbone(text))
    calls = []

    def rotate(x, start_index=0):
        calls.append(x.shape)
        return rope(x, start=start_index, seq_axis=1)

    for layer in backbone._flatten_layers():
        if rotary := getattr(layer, attribute, None):
            rope = RotaryEmbedding(Rotary(head_dim=width, layout="half", base=rotary.max_wavelength))
            rotary.call = rotate
    np.testing.assert_allclose(keras.ops.convert_to_numpy(backbone(text)), before, rtol=0, atol=1e-5)
    assert len(calls) == 4  # queries and keys of two blocks


def test_the_page_on_timm_prints_what_it_shows():
    whole("timm", without="torchvision")
    run(HOWTO / "replace_timm.md")


def test_the_page_on_diffusers_prints_what_it_shows():
    """Its module for Qwen-Image, which the page compares alone, gives the same outputs in a model."""
    module = run(HOWTO / "replace_diffusers.md")["QwenRope"]()
    torch.manual_seed(0)
    sizes = {"patch_size": 1, "in_channels": 4, "out_channels": 4, "joint_attention_dim": 16}
    model = diffusers.QwenImageTransformer2DModel(num_layers=2, num_attention_heads=1, **sizes).eval()
    inputs = {
        "hidden_states": torch.randn(2, 12, 4),
        "encoder_hidden_states": torch.randn(2, 5, 16),
        "encoder_hidden_states_mask": torch.ones(2, 5),
        "timestep": torch.tensor([1, 1]),
        "img_shapes": [[(1, 3, 4)]] * 2,
    }
    with torch.no_grad():
        before = model(**inputs).sample
        model.pos_embed = module
        torch.testing.assert_close(model(**inputs).sample, before, rtol=0, atol=1e-5)
