"""Layers by their index: indexers of sparse attention, and layer types that only the code of a model knows."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING

from posenc_core import rotate
from posenc_core.huggingface import load_layers, load_rope
from posenc_core.huggingface.facts.models import MODELS, model_type

from .coverage import of_transformers

POSITIONS = torch.tensor([[0, 1, 5, 1000]])
SMALL = {"hidden_size": 16, "q_lora_rank": 8, "index_n_heads": 2}
QWEN4 = {"head_dim": 256, "indexer_head_dim": 128, "indexer_n_heads": 2, "indexer_kv_heads": 1}
QWEN4 |= {"indexer_budget": 8, "indexer_compress_ratio": 2}
INDEXERS = {  # of each text model: the beginning of the names of its classes, and the layer type of its RoPE
    "axk2": ("AXK2", None),
    "deepseek_v32": ("DeepseekV32", None),
    "dots3_note_text": ("Dots3NoteText", "indexed_attention"),
    "glm_moe_dsa": ("GlmMoeDsa", None),
    "hy_v4": ("HYV4", None),
    "minimax_m3_vl_text": ("MiniMaxM3VL", None),
    "mistral_large4_text": ("MistralLarge4Text", None),
}
POOLED = {  # likewise; these pool keys before they are rotated: the function is called as the indexer calls it
    "deepseek_v4": ("DeepseekV4", "compress", {}, {}),
    "qwen4_exp_text": ("Qwen4ExpText", None, QWEN4, {"unsqueeze_dim": 1}),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Keys(Exception):  # noqa: N818  # what a cache is given, which ends the forward pass there
    """The rotated keys of an indexer."""


def given(keys, *_):
    raise Keys(keys)


def classes(name, prefix, fields=SMALL):
    folder = name.removesuffix("_text")
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    config = CONFIG_MAPPING[name](**fields | of_transformers.FIELDS.get(name, {}))
    config.allow_global_per_layer_attribute_access = True  # of Dots 3
    return config, module, lambda suffix: getattr(module, prefix + suffix)


def tables(config, cls, layer_type):
    kind = () if layer_type is None else (layer_type,)
    return cls("RotaryEmbedding")(config)(torch.zeros(1), POSITIONS, *kind)


def assert_rotated(before, after, config):
    indexer = load_rope(config, part="indexer")
    positions = np.broadcast_to(POSITIONS.numpy(), (indexer.num_axes, 4)) if indexer.num_axes > 1 else POSITIONS[0]
    kinds = {"layout": indexer.layout, "placement": indexer.placement}
    ours = rotate(before.detach().numpy(), *indexer.cos_sin(np.asarray(positions)), **kinds)
    assert np.abs(ours - after.detach().numpy()).max() < 2e-4  # angles in float32
    assert np.abs(ours - before.detach().numpy()).max() > 0.1


@pytest.mark.parametrize("name", INDEXERS)
def test_keys_of_an_indexer_are_rotated_alike(name):
    prefix, layer_type = INDEXERS[name]
    config, _, cls = classes(name, prefix)
    torch.manual_seed(0)
    indexer, raw = cls("Indexer")(config, 0), []
    indexer.k_norm.register_forward_hook(lambda module, args, result: raw.append(result))
    cache = SimpleNamespace(update_indexer=given, layers=[SimpleNamespace(update_index=given)])
    options = {"hidden_states": torch.randn(1, 4, 16), "position_embeddings": tables(config, cls, layer_type)}
    options |= {"position_ids": POSITIONS, "past_key_values": cache}
    if not name.startswith("minimax"):
        options["attention_mask"] = None
        options |= {} if name.startswith("mistral") else {"q_resid": torch.randn(1, 4, 8)}
    with pytest.raises(Keys) as caught:
        indexer(**options)
    (keys,) = caught.value.args
    assert_rotated(raw[0].reshape(1, 4, -1), keys.reshape(1, 4, -1), config)


@pytest.mark.parametrize("name", POOLED)
def test_pooled_keys_of_an_indexer_are_rotated_alike(name):
    prefix, layer_type, fields, options = POOLED[name]
    config, module, cls = classes(name, prefix, fields)
    cos, sin = tables(config, cls, layer_type)
    x = torch.randn(1, 1, 4, 128, generator=torch.Generator().manual_seed(0))
    assert_rotated(x[0], module.apply_rotary_pos_emb(x, cos=cos, sin=sin, **options)[0], config)


def test_an_indexer_without_rope():
    config = CONFIG_MAPPING["glm5_next_text"]().to_dict()
    assert load_rope(config, part="indexer") is None


def listing():
    """Return the configs of one part that fill `layer_types`, by their types, as far as `load_rope` knows them."""
    found = {cls.model_type: cls() for cls in of_transformers.configs() if not cls.sub_configs_defaults}
    known = {name: config for name, config in found.items() if model_type({"model_type": name}) in MODELS}
    return {name: config.to_dict() for name, config in known.items() if getattr(config, "layer_types", None)}


@pytest.fixture(scope="module")
def filled():
    return listing()


def test_layer_types_that_a_config_leaves_out(filled):
    assert len(filled) > 60
    for name, config in filled.items():
        sparse = {key: value for key, value in config.items() if key != "layer_types"}
        if name != "qwen4_exp_text":  # whose default sections do not fit its default head
            assert load_layers(sparse) == load_layers(config), name
