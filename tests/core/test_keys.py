"""Each key of a config about positions changes the answer, or a word says that it does not."""

import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from posenc_core import AxialRotary, Rotary, rotate
from posenc_core.huggingface import load_position, load_rope, vision_positions
from posenc_core.huggingface.config import KNOWN, ROPES, is_rotary_key
from posenc_core.huggingface.diffusers import diffusers_positions
from posenc_core.huggingface.timm import timm_positions
from posenc_core.rotation import rotate_pairs
from posenc_core.scaling import DynamicNTK, NTKAlpha

from .load_cases import load_cases
from .test_published_configs import MODELS

CASES = load_cases("keys")
FOLDER = Path(__file__).parent / "published"
SILENT = {  # keys that change nothing, by their name or that of their model
    "qk_nope_head_dim": "the channels beside the rotated ones, which are a tensor of their own",
    "no_rope_layer_interval": "`no_rope_layers` says the same of each layer",
}

SILENT_IN_PICTURES = {  # likewise, of towers, diffusers and timm
    "model_type": "the name", "_class_name": "the name", "architecture": "the name",
    "patch_size": "sizes are given in patches",
    "rope_max_seq_len": "a limit", "axes_lens": "limits",
    "rope_double_precision": "tables are exact", "rope_rescale_coords": "changes training alone",
    "attn_type": "names the class of the attention",
    "gemma4_vision: hidden_size": "it has `head_dim`", "gemma4_vision: num_attention_heads": "it has `head_dim`",
    "paddleocr_vl_vision: spatial_merge_size": "patches are in row-major order",
    "Ideogram4Transformer2DModel: mrope_section": "of three, the first is what the others leave",
    "JoyImageEditTransformer3DModel: rope_type": "all but 'mrope' are as 'rope'",
    "JoyImageEditPlusTransformer3DModel: rope_type": "likewise",
}  # fmt: skip
PUBLISHED = {
    name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("towers", "diffusers", "timm")
}


def answer(config):
    """Return the encodings of a config in words, and the warnings; the error if there is one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = str(load_position(config))
        except (TypeError, ValueError) as error:
            found = f"{type(error).__name__}: {error}"
    return found, [str(one.message) for one in caught]


def changed(value):
    """Return another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value * 2 + 2
        case list():
            return [changed(value[0]), *value[1:]] if value else [0]
    return f"{value}x"


def changes(config, inside=False):
    """Yield the name of each key of RoPE and the config with another value of it."""
    for key, value in config.items():
        if isinstance(value, dict) and (inside or key in ROPES):
            yield from ((name, config | {key: other}) for name, other in changes(value, inside=True))
        elif inside or is_rotary_key(key) or key in KNOWN:
            yield key, config | {key: changed(value)}


def test_each_key_of_the_defaults_of_each_model_type_changes_the_answer_or_is_named():
    silent, count = set(), 0
    for name, one in MODELS.items():
        whole = answer(one["config"])
        inner = [value for value in one["config"].values() if isinstance(value, dict) and "model_type" in value]
        if inner or "rotates" not in whole[0]:  # whose keys nothing reads
            continue
        for key, other in changes(one["config"]):
            count += 1
            if answer(other) == whole and key not in SILENT:
                silent.add(f"{name}: {key}")
    assert silent == set()
    assert count > 400


def picture(config):
    """Return the encoding of a tower or of a model of images in words, its positions, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [of_picture(load_rope, config)]
        if "model_type" in config:
            options = PUBLISHED["towers"][config["model_type"]]["options"]
            found.append(of_picture(vision_positions, config, [(4, 40)], part=None, **options))
        elif "architecture" in config:
            found.append(of_picture(timm_positions, config, height=4, width=6))
        else:
            found += [of_picture(diffusers_positions, config, height=4, width=6, **one) for one in COUNTS]
    return found, {str(one.message) for one in caught}


def of_picture(function, config, *arguments, **options):
    try:
        found = function(config, *arguments, **options)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return repr(found if found is None else getattr(found, "tolist", lambda: found)())


COUNTS = {}, {"text": 2}, {"frames": 2}
PICTURES = {
    "towers": {name: {"model_type": name} | one["defaults"] for name, one in PUBLISHED["towers"].items()},
    "diffusers": {name: one["config"] for name, one in PUBLISHED["diffusers"].items()},
    "timm": {name: {"architecture": name} | one for name, one in PUBLISHED["timm"].items() if isinstance(one, dict)},
}


@pytest.mark.parametrize("library", PICTURES)
def test_each_key_of_a_model_of_images_changes_the_answer_or_is_named(library):
    silent, count, about = set(), 0, re.compile(r"rope_\w+|use_rot_pos_emb|\w*feat_shape|embed_dim|num_heads")
    for name, config in PICTURES[library].items():
        whole = picture(config)
        if "None" in whole[0]:
            continue
        for key in config:
            if key in SILENT_IN_PICTURES or config[key] is None or (library == "timm" and not about.fullmatch(key)):
                continue
            count += 1
            if picture(config | {key: changed(config[key])}) == whole and f"{name}: {key}" not in SILENT_IN_PICTURES:
                silent.add(f"{name}: {key}")
    assert silent == set()
    assert count > 80


@pytest.mark.parametrize(("config", "word", "encoding"), CASES["unread"].values(), ids=CASES["unread"])
def test_a_key_that_nothing_reads_is_named(config, word, encoding):
    """In every format: keys that have an effect beside others, or for other models."""
    with pytest.warns(UserWarning, match=word) as warned:
        assert load_rope(config) == encoding
    assert len(warned) == 1


@pytest.mark.parametrize(("config", "key", "encoding"), CASES["left out"].values(), ids=CASES["left out"])
def test_what_is_to_be_left_out_changes_nothing(config, key, encoding):
    """The encodings are those of the code that the format belongs to, which does not read the key."""
    with pytest.raises(ValueError, match=rf"`{key}`.*leave it out( and pass `layout`)?\.$"):
        load_rope(config)
    assert load_rope({name: value for name, value in config.items() if not name.endswith(key)}) == encoding


def test_qwens_use_of_dynamic_ntk_is_the_alpha_that_the_message_says():
    """`modeling_qwen.py` of Qwen's checkpoints: `get_ntk_alpha`, and the base times alpha ** (128 / 126)."""
    with pytest.raises(ValueError, match=r"`NTKAlpha`.* 2 \*\* ceil\(log2\(length / seq_length\) \+ 1\) - 1\.$"):
        load_rope({"model_type": "qwen", "hidden_size": 4096, "num_attention_heads": 32, "use_dynamic_ntk": True})
    length, seq_length = 16384, 8192
    alpha = 2 ** math.ceil(math.log2(length / seq_length) + 1) - 1
    rotary = Rotary(head_dim=128, layout="half", scaling=NTKAlpha(alpha=alpha))
    base = 10000 * 3 ** (128 / 126)
    np.testing.assert_allclose(rotary.frequencies(), base ** (-np.arange(0, 128, 2) / 128), rtol=1e-12)


def test_the_scaling_factor_of_nomic_bert_is_the_one_that_the_message_says():
    """`modeling_hf_nomic_bert.py` of Nomic's checkpoints: `NomicBertDynamicNTKRotaryEmbedding`."""
    with pytest.raises(ValueError, match="make a `DynamicNTK` with this factor and that length"):
        load_rope({"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "rotary_scaling_factor": 2})
    rotary = Rotary(head_dim=64, layout="half", scaling=DynamicNTK(factor=2, original_max_position_embeddings=2048))
    base = 10000 * (2 * 8192 / 2048 - 1) ** (64 / 62)
    np.testing.assert_allclose(rotary.frequencies(8192), base ** (-np.arange(0, 64, 2) / 64), rtol=1e-12)
    np.testing.assert_array_equal(rotary.frequencies(2048), Rotary(head_dim=64, layout="half").frequencies())


def test_two_positions_of_chatglm_are_the_blocks_that_the_message_says():
    """`modeling_chatglm.py` of ChatGLM-6B: each half of a head is rotated by `rotate_half`, by positions of its own."""
    with pytest.raises(ValueError, match="`AxialRotary` with the arrangement 'blocks'"):
        load_rope({"model_type": "chatglm", "head_dim": 16, "position_encoding_2d": True})
    blocks = AxialRotary(head_dim=16, layout="half", axes_dims=(8, 8), arrangement="blocks")
    half = Rotary(head_dim=8, layout="half")
    positions, x = np.array([[3, 5], [0, 7]]), np.arange(32.0).reshape(2, 16)
    halves = [rotate(x[:, 8 * i : 8 * i + 8], *half.cos_sin(positions[i]), layout="half") for i in (0, 1)]
    found = rotate_pairs(x, *blocks.cos_sin(positions), pairing=blocks.pairing)
    np.testing.assert_allclose(found, np.concatenate(halves, axis=1), rtol=1e-6)
