"""`load_position` beside the models of transformers: every config class, their tables, their biases."""

import importlib
import inspect
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers.models
from transformers import CONFIG_MAPPING, PreTrainedModel

from posenc_core import (
    GridSinusoidal,
    Learned,
    ShawBias,
    Sinusoidal,
    SwinBias,
    T5Bias,
    Timestep,
    TransformerXLBias,
    grid,
)
from posenc_core.attention.attend import AttentionInputs
from posenc_core.huggingface import PositionEncodings, load_position

from .rounding import assert_within

ONE_LAYER = (
    *(
        "num_hidden_layers",
        "num_layers",
        "num_decoder_layers",
        "encoder_layers",
        "decoder_layers",
        "n_layer",
        "n_layers",
    ),
    *("num_encoder_layers",),
)
NARROW = (
    *("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "encoder_intermediate_size"),
    *("decoder_intermediate_size", "hidden_dim"),
)
LENGTHS = {"max_position_embeddings": 40, "n_positions": 40, "block_size": 40, "max_target_positions": 40}
TOKENS = 6


def tiny(model_type, **fields):
    """The config of a model with one layer, few tokens and short tables; `fields` come last."""
    default = CONFIG_MAPPING[model_type]().to_dict()
    small = {key: 1 for key in ONE_LAYER} | {key: 32 for key in NARROW} | {"vocab_size": 64} | LENGTHS
    small |= {
        key: 3 for key in default if key.endswith("token_id") and isinstance(default[key], int) and default[key] > 63
    }
    return CONFIG_MAPPING[model_type](**{key: value for key, value in small.items() if key in default} | fields)


def model_classes(config_class):
    """The models that take a config, those called Model first."""
    name = config_class.__module__.replace(".configuration_", ".modeling_")
    models = [one for one in vars(importlib.import_module(name)).values() if inspect.isclass(one)]
    models = [one for one in models if issubclass(one, PreTrainedModel) and one.__module__ == name]
    fitting = [one for one in models if config_class in (one.config_class, one.__init__.__annotations__.get("config"))]
    fitting = [one for one in fitting if "PreTrained" not in one.__name__]
    return sorted(
        fitting, key=lambda one: (not one.__name__.endswith("Model"), "For" not in one.__name__, len(one.__name__))
    )


def build(config):
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    return model_classes(type(config))[0](config).eval()


def parts_of(positions, path=""):
    """Each part with the names that lead to it."""
    yield path, positions
    for name, part in positions.parts:
        yield from parts_of(part, f"{path}/{name}")


def found(config, kind):
    """The encodings of a kind, in all parts."""
    of_config = [part for _, part in parts_of(load_position(config))]
    pairs = [pair for part in of_config for pair in (*part.additive, *part.scoring)]
    return [encoding for _, encoding in pairs if isinstance(encoding, kind)]


LEARNED = """
    albert bert bert-generation big_bird biogpt convbert distilbert electra ernie flaubert fnet gpt2 gpt_bigcode gpt_neo
    megatron-bert mobilebert mra openai-gpt opt rembert roc_bert splinter squeezebert tapas xlm yoso nystromformer
    camembert data2vec-text ibert luke markuplm mpnet roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod
    layoutlm bart mbart mvp plbart bigbird_pegasus blenderbot blenderbot-small whisper led
    clip_text_model siglip_text_model align_text_model chinese_clip_text_model flava_text_model
    groupvit_text_model clipseg_text_model siglip2_text_model owlvit_text_model metaclip_2_text_model xclip_text_model
    aimv2_text_model altclip_text_model bridgetower_text_model clap_text_model imagegpt
""".split()
FIELDS = {
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "led": {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 40, "attention_window": 4},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "mobilebert": {"intermediate_size": 512},
    "fnet": {"use_tpu_fourier_optimizations": False},
}


@pytest.mark.parametrize("model_type", LEARNED)
def test_the_row_of_the_first_token(model_type):
    config = tiny(model_type, **FIELDS.get(model_type, {}))
    model = build(config)
    tables = [pair for _, part in parts_of(load_position(config)) for pair in part.additive]
    tables = [encoding for name, encoding in tables if name == "tokens" and isinstance(encoding, Learned)]
    assert tables
    seen = {}
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) or type(module).__name__ == "QuantEmbedding":
            module.register_forward_pre_hook(lambda module, args: seen.setdefault(id(module), (module, [])) and None)
            module.register_forward_hook(
                lambda module, args, out: seen[id(module)][1].append(out[0] if isinstance(out, tuple) else out)
            )
    tokens = torch.arange(10, 10 + TOKENS)[None]
    with torch.no_grad():
        if "input_features" in model.main_input_name:
            model(torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions), decoder_input_ids=tokens)
        elif config.is_encoder_decoder:
            model(tokens, decoder_input_ids=tokens)
        else:
            model(tokens)
    for encoding in tables:
        shape = encoding.parameters()["table"].shape
        rows = slice(encoding.offset, encoding.offset + TOKENS)
        used = [(module.weight, out) for module, outs in seen.values() for out in outs if module.weight.shape == shape]
        assert any(torch.equal(out.reshape(-1, shape[1])[:TOKENS], weight[rows]) for weight, out in used), encoding


SINUSOIDS = {
    "marian": {}, "pegasus": {}, "fsmt": {}, "m2m_100": {}, "nllb-moe": {"num_experts": 2}, "speech_to_text": {},
    "xglm": {}, "kosmos_2_text_model": {}, "kosmos_2_5_text_model": {}, "tipsv2_text_model": {}, "ctrl": {},
    "videoprism_text_model": {}, "musicgen_decoder": {}, "musicgen_melody_decoder": {}, "whisper": {},
    "fun_asr_nano_encoder": {}, "qwen2_5_omni_audio_encoder": {}, "qwen3_asr_encoder": {},
    "qwen3_omni_moe_audio_encoder": {}, "canary_decoder": {},
    "autoformer": {"prediction_length": 8, "context_length": 24}, "informer": {"prediction_length": 8, "context_length": 24},
    "time_series_transformer": {"prediction_length": 8, "context_length": 24},
    "xlm": {"sinusoidal_embeddings": True}, "flaubert": {"sinusoidal_embeddings": True},
}  # fmt: skip


def fixed_tables(model, width):
    """The tables of positions that are not trained."""
    trained = model.config.model_type in ("flaubert", "fsmt", "xlm")  # as they start
    frozen = [(name, one.detach()) for name, one in model.named_parameters() if trained or not one.requires_grad]
    for name, table in (*model.named_buffers(), *frozen):
        if "pos" in name and table.ndim == 2 and table.shape[1] == width:
            yield table.numpy()


@pytest.mark.parametrize("model_type", sorted(SINUSOIDS))
def test_sinusoids(model_type):
    config = tiny(model_type, **SINUSOIDS[model_type])
    model = build(config)
    parts = [part for _, part in parts_of(load_position(config)) if part.additive]
    pairs = [(part.start, one) for part in parts for _, one in part.additive if isinstance(one, (Sinusoidal, Timestep))]
    assert pairs
    for start, encoding in pairs:
        theirs = list(fixed_tables(model, encoding.dim))
        assert theirs
        for table in theirs:
            rows = np.flatnonzero(table.any(axis=1))
            assert set(range(len(table))) - set(rows) <= {start - 1}
            assert_within(table[rows], encoding, rows, roundings=5, exponents=3)


RELATIVE = {
    "t5": {}, "mt5": {}, "umt5": {}, "switch_transformers": {"num_experts": 2}, "longt5": {}, "pop2piano": {}, "udop": {},
    "pix2struct_text_model": {"initializer_range": 0.02}, "mpnet": {}, "wavlm": {"num_hidden_layers": 1},
}  # fmt: skip


def bucket_bias(module):
    """What a module adds to the scores of queries and keys from 0 on; None if it adds nothing."""
    for name in ("relative_attention_bias", "rel_attn_embed"):
        if isinstance(getattr(module, name, None), torch.nn.Embedding):
            for method in ("compute_bias", "compute_position_bias"):
                if hasattr(module, method):
                    blocks = "Local" in type(module).__name__  # keys of three blocks, of the middle one of them queries
                    sizes = (FAR,) if blocks else (FAR, FAR)
                    sizes = (torch.zeros(1, FAR, 4),) if method == "compute_position_bias" else sizes
                    return getattr(module, name).weight, getattr(module, method)(*sizes), blocks
    return None


FAR = 300


@pytest.mark.parametrize("model_type", RELATIVE)
def test_buckets(model_type):
    config = tiny(model_type, **RELATIVE[model_type])
    encodings = [
        (path, one)
        for path, part in parts_of(load_position(config))
        for name, one in part.scoring
        if isinstance(one, T5Bias) and name == "self-attention"
    ]
    assert encodings
    named = [(name, bucket_bias(module)) for name, module in build(config).named_modules()]
    named = [(name, *bias) for name, bias in named if bias is not None and "relative_bias" not in name]
    for path, encoding in encodings:
        theirs = [bias for name, *bias in named if not path or path.strip("/") in name]
        assert theirs
        for weight, bias, blocks in theirs:
            arrays = encoding.constants(0) | {"table": weight.detach().numpy()}
            queries, keys = (range(FAR, 2 * FAR), range(3 * FAR)) if blocks else (range(FAR), range(FAR))
            ours = encoding.score(arrays, np.array(queries), np.array(keys))
            np.testing.assert_array_equal(bias.detach().numpy().reshape(ours.shape), ours)


@pytest.mark.parametrize("model_type", ["layoutlmv2", "layoutlmv3"])
def test_buckets_of_pages(model_type):
    config = CONFIG_MAPPING[model_type]()
    module = importlib.import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    named = dict(load_position(config).scoring)
    positions = torch.arange(FAR)
    for name, encoding in named.items():
        table = np.random.default_rng(0).standard_normal((encoding.num_buckets, encoding.num_heads), np.float32)
        bucket = getattr(module, "relative_position_bucket", None) or module.LayoutLMv3Encoder.relative_position_bucket
        arguments = (positions[None, :] - positions[:, None],)
        of = (None,) if bucket is not getattr(module, "relative_position_bucket", None) else ()
        theirs = bucket(*of, *arguments, num_buckets=encoding.num_buckets, max_distance=encoding.max_distance)
        ours = encoding.score(encoding.constants(0) | {"table": table}, np.arange(FAR), np.arange(FAR))
        np.testing.assert_array_equal(np.moveaxis(table[theirs.numpy()], -1, 0), ours, err_msg=name)


@pytest.mark.parametrize("heads", [4, 12, 20])
def test_slopes(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor as mpt

    mask = torch.ones(1, 5, dtype=torch.long)
    ((_, of_bloom),) = load_position({"model_type": "bloom", "n_head": heads}).scoring
    config = {"model_type": "falcon", "alibi": True, "num_attention_heads": heads, "hidden_size": 64 * heads}
    ((_, of_falcon),) = load_position(config).scoring
    config = {"model_type": "mpt", "n_heads": heads, "attn_config": {"alibi": True, "alibi_bias_max": 4}}
    ((_, of_mpt),) = load_position(config).scoring
    ours = of_bloom.bias([4], range(5))
    theirs = bloom(mask, heads, torch.float32).numpy()
    np.testing.assert_allclose(theirs - theirs[..., -1:], ours, rtol=1e-6)
    np.testing.assert_allclose(mpt(heads, 5, alibi_bias_max=4).numpy(), of_mpt.bias([4], range(5)), rtol=1e-6)
    rounded = torch.from_numpy(of_falcon.constants(0)["slopes"]).bfloat16().float().numpy()
    np.testing.assert_array_equal(falcon(mask, heads, torch.float32).numpy()[:, 0, 1], rounded)


WINDOWS = ["swin", "maskformer-swin", "donut-swin", "clap_audio_model"]


@pytest.mark.parametrize("model_type", WINDOWS)
def test_windows(model_type):
    config = CONFIG_MAPPING[model_type]()
    encodings = found(config, SwinBias)
    with torch.device("meta"):
        model = model_classes(type(config))[0](config)
    tables = [one for name, one in model.named_parameters() if "relative_position_bias_table" in name]
    assert {one.parameters()["table"].shape for one in encodings} == {tuple(table.shape) for table in tables}
    window = encodings[0].window[0]
    fields = {"window_size": window, "depths": [1], "num_heads": [2], "image_size": 4 * window, "embed_dim": 8}
    fields |= {"num_attention_heads": [2], "spec_size": 4 * window, "patch_embeds_hidden_size": 8, "num_mel_bins": 7}
    small = CONFIG_MAPPING[model_type](**{key: one for key, one in fields.items() if hasattr(config, key)})
    index = dict(model_classes(type(config))[0](small).named_buffers())
    (index,) = [one.numpy() for name, one in index.items() if name.endswith("relative_position_index")][:1]
    bias = SwinBias(num_heads=1, window=(window, window))
    cells = np.arange(window**2)
    table = np.arange((2 * window - 1) ** 2, dtype=np.float32)[:, None]
    ours = bias.score(bias.constants(0) | {"table": table}, cells, cells)
    np.testing.assert_array_equal(ours[0], index.reshape(len(cells), len(cells)))


@pytest.mark.parametrize("model_type", ["beit", "data2vec-vision"])
def test_window_of_an_image(model_type):
    config = tiny(model_type, image_size=64, use_relative_position_bias=True)
    ((_, encoding),) = load_position(config).scoring
    (module,) = [one for one in build(config).modules() if hasattr(one, "relative_position_bias_table")]
    table = torch.randn(module.relative_position_bias_table.shape)
    module.relative_position_bias_table.data = table
    tokens = np.arange(encoding.limit)
    ours = encoding.score(encoding.constants(0) | {"table": table.numpy()}, tokens, tokens)
    np.testing.assert_array_equal(module(encoding.window).detach().numpy()[0], ours)


def random_content(encoding, tokens, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (1, encoding.num_heads, tokens, encoding.head_dim)
    return [torch.randn(shape, generator=generator) for _ in range(3)]


def scores_of(encoding, weights, q, k):
    """What an encoding adds to the scores of queries and keys that start at 0."""
    content = AttentionInputs(q, k, q @ k.mT / encoding.head_dim**0.5)
    positions = range(q.shape[-2])
    constants = {name: torch.from_numpy(one) for name, one in encoding.constants(0).items()}
    return encoding.scores(constants | weights, positions, positions, content)


def attended(q, k, v, scores):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + scores, dim=-1) @ v


def alternating(weight):
    """W_r for R with all sines first, from one for R with sines and cosines in turn."""
    return torch.cat([weight[0::2], weight[1::2]])


SHIFTED = {
    "parakeet_encoder": ("relative_k_proj", "bias_u", "bias_v"),
    "nemotron_asr_streaming_encoder": ("relative_k_proj", "bias_u", "bias_v"),
    "wav2vec2-conformer": ("linear_pos", "pos_bias_u", "pos_bias_v"),
    "wav2vec2-bert": ("linear_pos", "pos_bias_u", "pos_bias_v"),
    "fastspeech2_conformer": ("linear_pos", "pos_bias_u", "pos_bias_v"),
    "seamless_m4t": ("linear_pos", "pos_bias_u", "pos_bias_v"),
}


@pytest.mark.parametrize("model_type", SHIFTED)
def test_terms_of_transformer_xl(model_type):
    fields = {"position_embeddings_type": "relative"} if "wav2vec2" in model_type else {}
    config = tiny(model_type, **fields)
    encoding = found(config, TransformerXLBias)[0]
    model = build(config)
    project, *biases = SHIFTED[model_type]
    (module, *_) = [one for one in model.modules() if hasattr(one, project) and hasattr(one, biases[0])]
    tables = {type(one).__name__: one for one in model.modules() if "Rel" in type(one).__name__}
    (table,) = [one for name, one in tables.items() if "Pos" in name]
    x = torch.randn(1, TOKENS, encoding.width, generator=torch.Generator().manual_seed(1))
    rows = table(x)
    rows = rows[-1] if isinstance(rows, tuple) else rows
    for name in biases:
        torch.nn.init.normal_(getattr(module, name))
    u, v = (getattr(module, name).detach() for name in biases)
    weights = {"u": u, "v": v, "W_r": alternating(getattr(module, project).weight.detach().T)}
    names = (
        ("q_proj", "k_proj", "v_proj", "o_proj")
        if hasattr(module, "q_proj")
        else ("linear_q", "linear_k", "linear_v", "linear_out")
    )
    q, k, value = (
        getattr(module, name)(x).view(1, TOKENS, encoding.num_heads, encoding.head_dim).transpose(1, 2)
        for name in names[:3]
    )
    ours = attended(q, k, value, scores_of(encoding, weights, q, k)).transpose(1, 2).reshape(1, TOKENS, -1)
    ours = getattr(module, names[3])(ours)
    arguments = list(inspect.signature(module.forward).parameters)
    key = next(name for name in ("relative_position_embeddings", "position_embeddings", "pos_emb") if name in arguments)
    theirs = module(x, **{key: rows})[0]
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-5)


def test_offsets_of_wav2vec2_bert():
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import _apply_relative_key_position_encoding

    config = tiny("wav2vec2-bert", left_max_position_embeddings=5, right_max_position_embeddings=2)
    (encoding,) = found(config, ShawBias)
    (module, *_) = [one for one in build(config).modules() if hasattr(one, "distance_embedding")]
    table = module.distance_embedding.weight.detach()
    whole = torch.cat([table, table[-1:].expand(3, -1)])
    q, k, _ = random_content(encoding, 9)
    _, theirs = _apply_relative_key_position_encoding(module, q, k)
    torch.testing.assert_close(theirs.detach(), scores_of(encoding, {"key_table": whole}, q, k), rtol=1e-4, atol=1e-5)


def test_offsets_of_vits():
    config = tiny("vits", window_size=3)
    (encoding,) = found(config, ShawBias)
    (module, *_) = [one for one in build(config).modules() if hasattr(one, "emb_rel_k")]
    tables = [torch.nn.functional.pad(one.detach()[0], (0, 0, 1, 1)) for one in (module.emb_rel_k, module.emb_rel_v)]
    x = torch.randn(1, 9, config.hidden_size, generator=torch.Generator().manual_seed(1))
    q, k, v = (
        getattr(module, name)(x).view(1, 9, encoding.num_heads, encoding.head_dim).transpose(1, 2)
        for name in ("q_proj", "k_proj", "v_proj")
    )
    weights = dict(zip(("key_table", "value_table"), tables, strict=True))
    probabilities = torch.softmax(q @ k.mT / encoding.head_dim**0.5 + scores_of(encoding, weights, q, k), dim=-1)
    ours = probabilities @ v + encoding.values(weights, range(9), range(9), probabilities)
    ours = module.out_proj(ours.transpose(1, 2).reshape(1, 9, -1))
    torch.testing.assert_close(module(x)[0], ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model_type", ["granite_speech_encoder", "granite_speech_plus_encoder"])
def test_offsets_of_granite_speech(model_type):
    fields = {"num_layers": 1, "context_size": 9, "max_pos_emb": 12, "hidden_dim": 32, "num_heads": 2, "dim_head": 8}
    config = CONFIG_MAPPING[model_type](**fields)
    (encoding,) = found(config, ShawBias)
    model = build(config)
    (module,) = [one for one in model.modules() if hasattr(one, "rel_pos_emb")]
    q, k, _ = random_content(encoding, 9)
    theirs = torch.einsum("bhcd,crd->bhcr", q, module.rel_pos_emb(model.attention_dists)) * module.scale
    ours = scores_of(encoding, {"key_table": module.rel_pos_emb.weight.detach().flip(0)}, q, k)
    torch.testing.assert_close(theirs.detach(), ours, rtol=1e-4, atol=1e-5)


def test_offsets_of_speecht5():
    config = tiny("speecht5", encoder_max_relative_position=4)
    (encoding,) = found(config, ShawBias)
    (module,) = [one for one in build(config).modules() if hasattr(one, "pe_k")]
    rows = module.pe_k.weight.detach().flip(0)
    table = torch.cat([rows[:1], rows])
    q, k, _ = random_content(encoding, 9)
    theirs = torch.einsum("bhqd,qkd->bhqk", q / encoding.head_dim**0.5, module(torch.zeros(1, 9, 1)))
    torch.testing.assert_close(theirs.detach(), scores_of(encoding, {"key_table": table}, q, k), rtol=1e-4, atol=1e-5)


NORMALIZED = (
    *("detr", "conditional_detr", "deformable_detr", "table-transformer", "grounding-dino", "mm-grounding-dino"),
    *("dab-detr", "mask2former", "oneformer", "maskformer", "sam2_vision_model", "sam3_vision_model"),
)
PLAIN = ("rt_detr", "rt_detr_v2", "d_fine", "deimv2", "pp_doclayout_v2", "pp_doclayout_v3", "pp_doclayout_v4")


def module_of(model_type):
    return importlib.import_module(
        type(CONFIG_MAPPING[model_type]()).__module__.replace(".configuration_", ".modeling_")
    )


def sine_class(model_type):
    names = [name for name in vars(module_of(model_type)) if name.endswith("SinePositionEmbedding")]
    (name,) = [name for name in names if "Learned" not in name]
    return getattr(module_of(model_type), name)


@pytest.mark.parametrize("model_type", NORMALIZED)
def test_sines_of_normalized_cells(model_type):
    config = CONFIG_MAPPING[model_type]()
    (encoding,) = {one for _, one in load_position(config).additive if isinstance(one, GridSinusoidal)}
    sine, size = sine_class(model_type), (3, 5)
    mask = torch.ones(1, *size)
    if "config" in inspect.signature(sine.__init__).parameters:
        theirs = sine(config)(mask, mask)
    elif "pixel_mask" in inspect.signature(sine.forward).parameters:
        theirs = sine(encoding.dim // 2, normalize=True)(mask, mask)
    else:
        theirs = sine(encoding.dim // 2, normalize=True)((1, 1, *size), torch.device("cpu"), torch.float32)
    cells = (grid(*size) + 1) / (np.array(size)[:, None] + 1e-6) * 2 * np.pi
    assert_within(theirs[0].flatten(1).T, encoding, cells, roundings=8, exponents=2)


@pytest.mark.parametrize("model_type", PLAIN)
def test_sines_of_cells(model_type):
    config = CONFIG_MAPPING[model_type](positional_encoding_temperature=300)
    (encoding,) = {one for _, one in load_position(config).additive}
    sine = sine_class(model_type)(encoding.dim, config.positional_encoding_temperature)
    theirs = sine(width=5, height=3, device=torch.device("cpu"), dtype=torch.float32)
    assert_within(theirs[0], encoding, grid(3, 5), roundings=1)


def test_sines_of_patches():
    config = CONFIG_MAPPING["vit_mae"](image_size=48, num_hidden_layers=1, decoder_num_hidden_layers=1)
    position = load_position(config)
    model = module_of("vit_mae").ViTMAEForPreTraining(config)
    tables = (model.vit.embeddings.position_embeddings, model.decoder.decoder_pos_embed)
    encodings = (position.additive[0][1], dict(position.parts)["decoder"].additive[0][1])
    for table, encoding in zip(tables, encodings, strict=True):
        assert not table[0, 0].any()
        assert_within(table[0, 1:].detach(), encoding, grid(3, 3), roundings=1)
    config = CONFIG_MAPPING["aimv2_vision_model"](is_native=True, num_hidden_layers=1)
    ((_, encoding),) = load_position(config).additive
    theirs = module_of("aimv2_vision_model").build_2d_sinusoidal_position_embedding(3, 5, encoding.dim)
    assert_within(theirs, encoding, grid(3, 5), roundings=1)
    config = CONFIG_MAPPING["videomae"](num_hidden_layers=1, image_size=32)
    ((_, encoding),) = load_position(config).additive
    theirs = module_of("videomae").VideoMAEModel(config).embeddings.position_embeddings[0]
    assert_within(theirs, encoding, range(len(theirs)), roundings=1)
    config = CONFIG_MAPPING["omdet-turbo"]()
    ((_, encoding),) = load_position(config).additive
    theirs = module_of("omdet-turbo").OmDetTurboHybridEncoder.build_2d_sincos_position_embedding(4, 4, encoding.dim)
    assert_within(theirs[0], encoding, grid(4, 4), roundings=4, exponents=1)


def config_classes():
    """Every config class of the models of transformers."""
    folder = Path(transformers.models.__path__[0])
    for path in sorted(folder.glob("*/configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for one in vars(module).values():
            is_own = inspect.isclass(one) and one.__module__ == module.__name__
            if is_own and issubclass(one, transformers.PreTrainedConfig):
                yield one


CONFIGS = {one.__name__: one for one in config_classes()}
BROKEN = {"Gemma4AssistantConfig", "NougatConfig"}  # their defaults are no config in transformers itself
REFUSED = {  # their defaults do not go together, or lack what the model needs
    "EsmConfig": "`pad_token_id` is missing",
    **dict.fromkeys(("Glm46VConfig", "Glm4vConfig", "GlmImageConfig", "GlmgaConfig"), "`text_config`: `mrope_section`"),
    **dict.fromkeys(("Glm4vTextConfig", "GlmImageTextConfig", "Qwen4ExpTextConfig"), "`mrope_section` must add up"),
    **dict.fromkeys(("Glm4MoeConfig", "Glm4vMoeTextConfig", "Qwen3OmniMoeTextConfig"), "`hidden_size`"),
    "Glm4vMoeConfig": "`text_config`: `hidden_size`",
    "Qwen3OmniMoeThinkerConfig": "`text_config`: `hidden_size`",
    "Qwen3OmniMoeConfig": "`thinker_config`: `text_config`: `hidden_size`",
    "Qwen4ExpConfig": "`text_config`: `mrope_section`",
}


@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - BROKEN))
def test_every_config_class(name):
    config = CONFIGS[name]()
    if name in REFUSED or not config.model_type:
        with pytest.raises(ValueError, match=REFUSED.get(name, "`model_type`|RoPE")):
            load_position(config)
        return
    position = load_position(config)
    parts = [part for _, part in parts_of(position)]
    assert all(part.additive or part.rotary or part.scoring or part.lacks or part.notes or part.parts for part in parts)
    assert PositionEncodings.from_dict(json.loads(json.dumps(position.to_dict()))) == position


TABLE_NAMES = re.compile(
    r"wpe|pos_emb|pos_embed|position_emb|positions_embed|embed_position|positional_emb|position_embedding_table|"
    r"relative_position_bias_table|rel_pos_[hw]|relative_attention_bias|distance_embedding|row_embedder|column_embedder"
)


def position_tables(model):
    """The learned arrays of a model whose names say that they are of positions: name and shape, as a table."""
    for name, parameter in model.named_parameters():
        if TABLE_NAMES.search(name) and parameter.requires_grad and parameter.ndim > 1 and "proj" not in name:
            yield name, (math.prod(parameter.shape[:-1]), parameter.shape[-1]), tuple(parameter.shape[-2:])


def shallow(config):
    """The config with at most four layers, in all its parts."""
    for key in ONE_LAYER:
        if isinstance(getattr(config, key, None), int) and not getattr(config, "layer_types", None):
            setattr(config, key, min(getattr(config, key), 4))
    for part in vars(config).values():
        if isinstance(part, transformers.PreTrainedConfig):
            shallow(part)
    return config


@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - BROKEN - REFUSED.keys()))
def test_learned_tables_of_every_model(name):
    config = shallow(CONFIGS[name]())
    if not config.model_type:
        pytest.skip("a section of another config")
    models = model_classes(type(config))
    try:
        with torch.device("meta"):
            model = models[0](config)
    except (IndexError, AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
        pytest.skip(f"transformers cannot build it: {error!r}"[:200])
    parts = [part for _, part in parts_of(load_position(config))]
    encodings = [one for part in parts for _, one in (*part.additive, *part.scoring)]
    shapes = {parameter.shape for one in encodings for parameter in one.parameters().values()}
    shapes |= {shape[::-1] for shape in shapes}
    lacks = any(part.lacks for part in parts)
    unknown = [(name, whole) for name, whole, last in position_tables(model) if not {whole, last} & shapes]
    assert lacks or not unknown
