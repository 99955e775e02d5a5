"""Biases of transformers' models beside what `load_position` makes of their configs."""

import importlib
import inspect

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING

from posenc_core import ShawBias, SwinBias, T5Bias, TransformerXLBias
from posenc_core.attention.attend import AttentionInputs
from posenc_core.huggingface import load_position

from .positions import TOKENS, build, found, model_classes, parts_of, tiny

RELATIVE = {
    "t5": {}, "mt5": {}, "umt5": {}, "switch_transformers": {"num_experts": 2}, "longt5": {}, "pop2piano": {},
    "udop": {}, "pix2struct_text_model": {"initializer_range": 0.02}, "mpnet": {}, "wavlm": {"num_hidden_layers": 1},
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
