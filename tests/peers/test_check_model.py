"""`check_model` on tiny models of transformers: right ones conform, and planted mistakes are named."""

import copy
import sys
from functools import partial

import pytest
import torch

from posenc_backends.check.model import check_model
from posenc_backends.torch.huggingface import apply_rotary_transformers

from .models import LATENT, LLAMA3, YARN, rope
from .replaced import FAMILIES, WIDE_HEADS, Family, config_of, model_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MORE = [
    Family("glm4", WIDE_HEADS), Family("hunyuan_v1_dense"), Family("deepseek_v3", LATENT | {"rope_interleave": False}),
    Family("lfm2", {"layer_types": ["conv", "full_attention"]}), Family("starcoder2"), Family("stablelm", WIDE_HEADS),
    Family("phi", WIDE_HEADS), Family("minimax"), Family("nemotron"),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny models take longer with two
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("family", [*FAMILIES, *MORE], ids=str)
def test_right_models_conform(family):
    config = config_of(family)
    result = check_model(model_of(config))
    assert result.status == 0, result
    assert len(result.layers) == config.num_hidden_layers - (family.model_type in ("lfm2", "minimax"))


LLAMA = Family("llama", rope("default", 5e5))
SCALED = Family("llama", rope("yarn", 1e4, **YARN | {"factor": 8.0}))
LLAMA31 = Family("llama", rope("llama3", 5e5, **LLAMA3))
PARTIAL = Family("gpt_neox", WIDE_HEADS | rope("default", partial_rotary_factor=0.5))
SECTIONS = Family("qwen2_vl_text", rope("default", 1e6, mrope_section=[2, 1, 1]))
SMOLLM = Family("smollm3", {"no_rope_layers": [1, 0]})


def rotary(model):
    return model.get_decoder().rotary_emb


def frequencies(base=1e4, pairs=4):
    return lambda model: rotary(model).inv_freq.copy_(float(base) ** -(torch.arange(pairs) / pairs))


def of_tables(change):
    """Return a fault that changes the result of the rotary module."""
    return lambda model: rotary(model).register_forward_hook(lambda part, args, result: change(*result))


def of_positions(change):
    """Return a fault that changes the positions that the rotary module gets."""

    def plant(model):
        def changed(part, args, kwargs):
            return args[:1], kwargs | {"position_ids": change(kwargs["position_ids"] if kwargs else args[1])}

        rotary(model).register_forward_pre_hook(changed, with_kwargs=True)

    return plant


def forget_cache(model, *, unless_given=False):
    """Let the model count positions from 0 in each call, as if nothing were in the cache."""

    def counted(part, args, kwargs):
        tokens = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        if kwargs.get("position_ids") is None or (kwargs.get("past_key_values") is not None and not unless_given):
            kwargs = kwargs | {"position_ids": torch.arange(tokens.shape[1])[None]}
        return args, kwargs

    model.get_decoder().register_forward_pre_hook(counted, with_kwargs=True)


def test_positions_that_only_generate_counts():
    model = model_of(config_of(LLAMA))
    forget_cache(model, unless_given=True)
    result = check_model(model)
    assert result.status == 0, result
    assert "after a cache, the model does not count positions itself" in str(result)


def of_function(name, change):
    """Return a fault that changes a function in the file of the model."""

    def plant(model):
        module = sys.modules[type(model).__module__]
        setattr(module, name, change(getattr(module, name)))

    return plant


def of_layer(number, change):
    return lambda model: change(model.get_decoder().layers[number])


def built_as(**fields):
    """Return a fault that builds the model from another config than the one that is checked."""
    return lambda model: type(model)(config_of(Family(model.config.model_type, {**model.config.to_dict(), **fields})))


def rotate_interleaved(function):
    return partial(apply_rotary_transformers, layout="interleaved")


def rotate_queries_alone(function):
    return lambda q, k, *tables, **options: (function(q, k, *tables, **options)[0], k)


def rotate_twice(function):
    return lambda q, k, *tables, **options: function(*function(q, k, *tables, **options), *tables, **options)


def cast(dtype):
    def plant(model):
        rotary(model).to(dtype)

    return plant


def empty(model):
    """Build a model as `from_pretrained` does, but leave its buffers as they come."""
    with torch.device("meta"):
        made = type(model)(model.config)
    made.to_empty(device="cpu")
    for buffer in rotary(made).buffers():
        buffer.fill_(float("nan"))  # as memory may be
    made.load_state_dict(model.state_dict())
    return made.eval()


def own_rotary(layer):
    """Give a layer a rotary module of its own, of another base."""

    def changed(part, args, kwargs):
        return args, kwargs | {"position_embeddings": other(kwargs["position_ids"], kwargs["hidden_states"])}

    def other(positions, x):
        angles = positions[..., None] * 1e4 ** -(torch.arange(4) / 4)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x), angles.sin().to(x)

    layer.self_attn.register_forward_pre_hook(changed, with_kwargs=True)


FAULTS = {  # by what was done: the family, how, the names of the mistakes, and the layers that have them
    "base of another model": (LLAMA, frequencies(), {"base ignored"}),
    "base of 1e6": (LLAMA, frequencies(1e6), {"wrong base"}),
    "pairs of neighbours": (LLAMA, of_function("apply_rotary_pos_emb", rotate_interleaved), {"layout swapped"}),
    "sine of the opposite sign": (LLAMA, of_tables(lambda cos, sin: (cos, -sin)), {"sign flipped"}),
    "cosine for sine": (LLAMA, of_tables(lambda cos, sin: (sin, cos)), {"cos and sin swapped"}),
    "keys are forgotten": (LLAMA, of_function("apply_rotary_pos_emb", rotate_queries_alone), {"not rotated"}),
    "rotation is done twice": (LLAMA, of_function("apply_rotary_pos_emb", rotate_twice), {"rotated twice"}),
    "positions from 1": (LLAMA, of_positions(lambda at: at + 1), {"positions off by one"}),
    "positions of one row": (LLAMA, of_positions(lambda at: at[:1].expand_as(at)), {"positions of the first row"}),
    "positions counted again": (LLAMA, of_positions(lambda at: torch.arange(at.shape[1])[None]), {"positions ignored"}),
    "positions without the cache": (LLAMA, forget_cache, {"positions ignored"}),
    "positions in bfloat16": (LLAMA, of_positions(lambda at: at.bfloat16().long()), {"bfloat16 positions"}),
    "positions clamped": (LLAMA, of_positions(lambda at: at.clamp(max=4095)), {"positions clamped"}),
    "positions wrapped": (LLAMA, of_positions(lambda at: at % 2048), {"positions wrapped"}),
    "YaRN left out": (SCALED, frequencies(), {"scaling ignored"}),
    "attention factor left out": (
        SCALED, lambda model: setattr(rotary(model), "attention_scaling", 1.0), {"attention factor missing"},
    ),
    "attention factor twice": (
        SCALED,
        lambda model: setattr(rotary(model), "attention_scaling", rotary(model).attention_scaling ** 2),
        {"attention factor squared"},
    ),
    "Llama 3 scaling left out": (LLAMA31, frequencies(5e5), {"scaling ignored"}),
    "factor 4 of 8": (LLAMA31, built_as(**rope("llama3", 5e5, **LLAMA3 | {"factor": 4.0})), {"wrong frequencies"}),
    "all channels": (PARTIAL, built_as(**rope("default", partial_rotary_factor=1.0)), {"rotary_dim ignored"}),
    "another share": (PARTIAL, built_as(**rope("default", partial_rotary_factor=0.25)), {"wrong rotary_dim"}),
    "sections in another order": (
        SECTIONS, built_as(**rope("default", 1e6, mrope_section=[1, 1, 2])), {"axes arranged in another order"},
    ),
    "a NoPE layer rotates": (SMOLLM, of_layer(1, lambda one: setattr(one.self_attn, "use_rope", 1)), {"NoPE ignored"}),
    "a layer is left out": (SMOLLM, of_layer(0, lambda one: setattr(one.self_attn, "use_rope", 0)), {"not rotated"}),
    "one layer has another base": (LLAMA, of_layer(1, own_rotary), {"base ignored"}),
    "frequencies in bfloat16": (LLAMA, cast(torch.bfloat16), {"bfloat16 frequencies"}),
    "frequencies in float16": (LLAMA, cast(torch.float16), {"float16 frequencies"}),
    "a model in bfloat16": (LLAMA, lambda model: model.bfloat16(), {"bfloat16 frequencies"}),
    "buffers not computed": (LLAMA, empty, {"buffer not computed"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_mistakes_are_named(fault, monkeypatch):
    family, plant, names = FAULTS[fault]
    config = config_of(family)
    model = model_of(copy.deepcopy(config))
    module = sys.modules[type(model).__module__]
    monkeypatch.setattr(module, "apply_rotary_pos_emb", module.apply_rotary_pos_emb)  # puts it back
    changed = plant(model)
    result = check_model(changed if isinstance(changed, torch.nn.Module) else model, config)
    assert {*result.names} == names, result
