"""`check_model` on biases of scores, tables, factors of queries and indexers of transformers: right and wrong ones."""

import math
import sys

import pytest
import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModel, AutoModelForCausalLM

from posenc_backends.check.model import check_model

from .models import LATENT
from .replaced import Family, config_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
OLDER = {"d_model": 16, "num_layers": 2, "d_kv": 8, "d_ff": 16, "num_heads": 4, "pad_token_id": 0}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "max_position_embeddings": 256}
BART = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "max_position_embeddings": 256,
}  # fmt: skip
FACTORS = {"no_rope_layers": [1, 0], "intermediate_size_mlp": 24, "floor_scale": 4, "attn_scale": 0.3}
SPARSE = LATENT | {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 512}
FAMILIES = {
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4},
    "falcon": {"alibi": True, "head_dim": None},
    "t5": OLDER,
    "umt5": OLDER,
    "mpnet": {"max_position_embeddings": 256, "pad_token_id": 1},
    "bert": {"max_position_embeddings": 256},
    "gpt2": GPT2,
    "opt": {"ffn_dim": 16, "word_embed_proj_dim": 32, "max_position_embeddings": 256},
    "roberta": {"max_position_embeddings": 256},
    "bart": BART,
    "marian": BART | {"decoder_start_token_id": 1, "pad_token_id": 0},
    "m2m_100": BART,
    "xglm": {"d_model": 16, "num_layers": 2, "attention_heads": 2, "ffn_dim": 8},
    "ministral3": {},
    "llama4_text": FACTORS,
    "deepseek_v32": SPARSE,
    "glm_moe_dsa": SPARSE,
}


def built(name, **options):
    """Return a model with random weights, all but those of sinusoids."""
    config = config_of(Family(name, FAMILIES[name]))
    torch.manual_seed(0)
    has_head = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING and not config.is_encoder_decoder
    options = {"attn_implementation": "eager", "experts_implementation": "eager"} | options
    model = (AutoModelForCausalLM if has_head else AutoModel).from_config(config, **options).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1 and parameter.requires_grad:
            parameter.data.normal_(std=0.3)
    return model


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", FAMILIES)
def test_right_models_conform(name):
    result = check_model(built(name, **{"attn_implementation": "sdpa"} if name == "falcon" else {}))
    assert result.status == 0, result
    assert "not found" not in str(result)
    assert "not looked at" not in str(result)


def module(model, end):
    """Return the first module whose name ends so."""
    return next(one for name, one in model.named_modules() if name.endswith(end))


def of_function(name, change):
    """Return a fault that changes a function in the file of the model."""

    def plant(model, patch):
        file = sys.modules[type(model).__module__]
        patch.setattr(file, name, change(getattr(file, name)))

    return plant


def of_arguments(end, change):
    """Return a fault that changes the arguments of a module."""
    return lambda model, patch: module(model, end).register_forward_pre_hook(
        lambda part, args, kwargs: change(args, kwargs), with_kwargs=True
    )


def of_result(end, change):
    """Return a fault that changes the result of a module."""
    return lambda model, patch: module(model, end).register_forward_hook(lambda part, args, result: change(result))


def of_method(end, name, change):
    def plant(model, patch):
        one = module(model, end)
        patch.setattr(type(one), name, change(getattr(type(one), name)))

    return plant


def scaled(factor):
    return lambda function: lambda *args, **options: function(*args, **options) * factor


def reverse_heads(function):
    """Reverse the heads of Bloom's slopes."""
    return lambda *args, **options: function(*args, **options).flip(0)


def no_bias(args, kwargs):
    return args, kwargs | {"alibi": torch.zeros_like(kwargs["alibi"])}


def slopes_of_8(function):
    """Take the slopes of a model of 8 heads for one of 4."""
    return lambda heads, device: function(8, device)[:4]


def counted_from_0(function):
    """Leave out how many tokens came before."""
    return lambda self, query_length, key_length, device=None, past_seen_tokens=0, **more: function(
        self, query_length, key_length, device=device, **more
    )


def of_both_sides(model, patch):
    for part in model.decoder.modules():
        if hasattr(part, "relative_attention_bias"):
            part.is_decoder = False


def no_bias_in_layer_1(model, patch):
    one = model.encoder.block[1].layer[0].SelfAttention
    function = one.compute_bias
    one.compute_bias = lambda *args, **options: 0 * function(*args, **options)


def with_alibi(model, patch):
    """Add ALiBi to the mask of a GPT-2."""

    def change(part, args, kwargs):
        mask = kwargs["attention_mask"]
        return args, kwargs | {"attention_mask": torch.where(mask > -1, 0.1 * torch.arange(mask.shape[-1]), mask)}

    model.transformer.h[0].attn.register_forward_pre_hook(change, with_kwargs=True)


def moved(by):
    """Return a change of the indices of an embedding."""
    return lambda args, kwargs: ((args[0] + by, *args[1:]), kwargs)


def clamped(args, kwargs):
    return (args[0].clamp(max=200), *args[1:]), kwargs


def past_the_end(args, kwargs):
    return (args[0].clamp(max=255), *args[1:]), kwargs


def wrapped(args, kwargs):
    return (args[0] % 64, *args[1:]), kwargs


def interleaved(model, patch):
    """Give the encoder sines and cosines in turn."""
    table = model.encoder.embed_positions.weight.data
    rows, columns = table.shape
    angles = torch.arange(rows)[:, None] * 10000 ** -(torch.arange(0, columns, 2) / columns)
    table.copy_(torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))


def sinusoids_of_base_1000(model, patch):
    table = model.encoder.embed_positions.weight.data
    rows, columns = table.shape
    angles = torch.arange(rows)[:, None] * 1000.0 ** -(torch.arange(0, columns, 2) / columns)
    table.copy_(torch.cat([angles.sin(), angles.cos()], dim=1))


def random_table(model, patch):
    model.encoder.embed_positions.weight.data.normal_()


def forgets(args, kwargs):
    """Count the rows of single tokens from the first one."""
    return (args[0] * 0 if args[0].numel() == 1 else args[0], *args[1:]), kwargs


def no_factor(function):
    return lambda *args: function(*args) ** 0


def no_offset(model, patch):
    module(model, "embed_positions").offset = 0


def other_scale(function):
    return lambda positions, beta, length: function(positions, 2 * beta, length)


def logarithm_of_2(function):
    return lambda positions, beta, length: 1 + (function(positions, beta, length) - 1) / math.log(2)


def in_all_layers(model, patch):
    model.model.layers[0].self_attn.use_rope = 0


def not_tuned(model, patch):
    model.model.layers[1].self_attn.attn_temperature_tuning = False


FAULTS = {  # by what was done: the model, how, and the names of the mistakes
    "slopes of 8 heads for 4": ("bloom", of_function("_get_alibi_slopes", slopes_of_8), {"wrong slopes"}),
    "ALiBi of the opposite sign": ("bloom", of_function("_get_alibi_slopes", scaled(-1)), {"sign flipped"}),
    "ALiBi twice": ("bloom", of_function("_get_alibi_slopes", scaled(2)), {"wrong factor"}),
    "heads in reverse order": ("bloom", of_function("_get_alibi_slopes", reverse_heads), {"heads reversed"}),
    "a layer without ALiBi": ("bloom", of_arguments("h.1", no_bias), {"bias missing"}),
    "offsets counted from 0 after a cache": (
        "t5", of_method("decoder.block.0.layer.0.SelfAttention", "compute_bias", counted_from_0), {"positions ignored"},
    ),
    "buckets of both sides": ("t5", of_both_sides, {"side swapped"}),
    "a layer without buckets": ("umt5", no_bias_in_layer_1, {"bias missing"}),
    "ALiBi in a GPT-2": ("gpt2", with_alibi, {"bias that the config does not have"}),
    "rows from 1": ("gpt2", of_arguments("wpe", moved(1)), {"positions off by one"}),
    "rows without the offset": ("opt", no_offset, {"wrong offset"}),
    "rows clamped": ("bert", of_arguments("position_embeddings", clamped), {"positions clamped"}),
    "rows wrapped": ("bert", of_arguments("position_embeddings", wrapped), {"positions wrapped"}),
    "rows past the end": ("gpt2", of_arguments("wpe", past_the_end), {"positions past the table"}),
    "rows counted from 0 after a cache": ("gpt2", of_arguments("wpe", forgets), {"positions ignored"}),
    "no rows": ("gpt2", of_result("wpe", torch.zeros_like), {"table missing"}),
    "sines and cosines in turn": ("marian", interleaved, {"layout swapped"}),
    "sinusoids of another base": ("marian", sinusoids_of_base_1000, {"wrong base"}),
    "a table that was not computed": ("marian", random_table, {"differs, cause unknown"}),
    "factors twice as steep": ("ministral3", of_function("get_llama_4_attn_scale", other_scale), {"wrong scale"}),
    "factors by another logarithm": (
        "ministral3", of_function("get_llama_4_attn_scale", logarithm_of_2), {"wrong scale"},
    ),
    "no factors": ("ministral3", of_function("get_llama_4_attn_scale", no_factor), {"factor missing"}),
    "a layer without factors": ("llama4_text", not_tuned, {"factor missing"}),
    "factors in all layers": (
        "llama4_text", in_all_layers, {"not rotated", "factor of queries that the config does not have"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_mistakes_are_named(fault, monkeypatch):
    name, plant, names = FAULTS[fault]
    model = built(name)
    plant(model, monkeypatch)
    result = check_model(model)
    assert {*result.names} == names, result
