"""A converted model gives the same attention scores, for every kind of attention."""

from types import SimpleNamespace as Model

import numpy as np
import pytest

from posenc_backends.cli.relayout.projections import order_of, projections, shares_keys, trained_layout

from ..errors import rejects

RNG = np.random.default_rng(13)
HIDDEN, LENGTH = 12, 7
TOKENS = RNG.normal(size=(LENGTH, HIDDEN))
LLAMA = {
    "model_type": "llama", "hidden_size": HIDDEN, "head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rope_theta": 10000.0, "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = LLAMA | {"num_attention_heads": 6}
AT = "model.layers.1.self_attn"


def made(**shapes):
    """Return random tensors of these shapes; `__` in a name means a dot."""
    return {f"{AT}.{name.replace('__', '.')}": RNG.normal(size=shape) for name, shape in shapes.items()}


def linear(tensors, name, x, at=AT):
    return x @ tensors[f"{at}.{name}.weight"].T + tensors.get(f"{at}.{name}.bias", 0)


def heads_of(x, head_dim=8):
    return x.reshape(LENGTH, -1, head_dim).swapaxes(0, 1)


def normed(x, weight):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True)) * weight


# One function for each kind of attention, after the models' papers and code: its config, its tensors, and how queries
# and keys, `(heads, length, head_dim)`, are made of them.


def one_norm_for_each_head():
    """Qwen 3 with the biases of Qwen 2 and partial rotation."""
    tensors = made(
        q_proj__weight=(48, HIDDEN), q_proj__bias=(48,), q_norm__weight=(8,),
        k_proj__weight=(16, HIDDEN), k_proj__bias=(16,), k_norm__weight=(8,),
        v_proj__weight=(16, HIDDEN), o_proj__weight=(HIDDEN, 48),
    )  # fmt: skip

    def projected(t):
        return [normed(heads_of(linear(t, f"{n}_proj", TOKENS)), t[f"{AT}.{n}_norm.weight"]) for n in "qk"]

    config = GROUPED | {"model_type": "stablelm", "partial_rotary_factor": 0.5}
    return Model(config=config, tensors=tensors, projected=projected, rotary_channels=slice(0, 4))


def one_norm_for_all_heads():
    """OLMo 2."""
    tensors = made(q_proj__weight=(48, HIDDEN), q_norm__weight=(48,), k_proj__weight=(16, HIDDEN), k_norm__weight=(16,))

    def projected(t):
        return [heads_of(normed(linear(t, f"{n}_proj", TOKENS), t[f"{AT}.{n}_norm.weight"])) for n in "qk"]

    return Model(
        config=GROUPED | {"model_type": "olmo2"}, tensors=tensors, projected=projected, rotary_channels=slice(0, 8)
    )


def a_norm_of_its_own_for_each_head():
    """Cohere."""
    tensors = made(
        q_proj__weight=(48, HIDDEN), q_norm__weight=(6, 8), k_proj__weight=(16, HIDDEN), k_norm__weight=(2, 8)
    )

    def projected(t):
        heads = (heads_of(linear(t, f"{n}_proj", TOKENS)) for n in "qk")
        return [normed(x, t[f"{AT}.{n}_norm.weight"][:, None]) for n, x in zip("qk", heads, strict=True)]

    return Model(
        config=GROUPED | {"model_type": "cohere"}, tensors=tensors, projected=projected, rotary_channels=slice(0, 8)
    )


def an_adapter():
    """LoRA, as PEFT saves it, with the magnitudes of DoRA."""
    tensors = made(
        q_proj__lora_A__weight=(3, HIDDEN), q_proj__lora_B__weight=(48, 3), q_proj__lora_magnitude_vector=(48,),
        k_proj__lora_A__default__weight=(3, HIDDEN), k_proj__lora_B__default__weight=(16, 3),
        v_proj__lora_A__weight=(3, HIDDEN), v_proj__lora_B__weight=(16, 3),
    )  # fmt: skip

    def projected(t):
        q = linear(t, "q_proj.lora_B", linear(t, "q_proj.lora_A", TOKENS)) * t[f"{AT}.q_proj.lora_magnitude_vector"]
        k = linear(t, "k_proj.lora_B.default", linear(t, "k_proj.lora_A.default", TOKENS))
        return [heads_of(q), heads_of(k)]

    return Model(config=GROUPED, tensors=tensors, projected=projected, rotary_channels=slice(0, 8))


def all_in_one():
    """Phi 3: all queries, all keys, all values."""
    tensors = made(qkv_proj__weight=(80, HIDDEN), qkv_proj__bias=(80,), o_proj__weight=(HIDDEN, 48))

    def split(t):
        return np.split(linear(t, "qkv_proj", TOKENS), [48, 64], axis=-1)

    return Model(
        config=GROUPED | {"model_type": "phi3"}, tensors=tensors, rotary_channels=slice(0, 8),
        projected=lambda t: [heads_of(x) for x in split(t)[:2]], values=lambda t: split(t)[2],
    )  # fmt: skip


def all_in_one_by_group():
    """InternLM2: the queries that share keys, their keys, their values."""
    tensors = made(wqkv__weight=(80, HIDDEN), wo__weight=(HIDDEN, 48))

    def split(t):
        groups = linear(t, "wqkv", TOKENS).reshape(LENGTH, 2, 5, 8)
        return [heads_of(x) for x in np.split(groups, [3, 4], axis=2)]

    return Model(
        config=GROUPED | {"model_type": "internlm2"}, tensors=tensors, rotary_channels=slice(0, 8),
        projected=lambda t: split(t)[:2], values=lambda t: split(t)[2],
    )  # fmt: skip


def all_in_one_under_another_name():
    """gpt-fast: all queries, all keys, all values."""
    model = all_in_one()
    tensors = {name.replace("qkv_proj", "wqkv"): tensor for name, tensor in model.tensors.items()}

    def fused(t):
        return model.projected({name.replace("wqkv", "qkv_proj"): tensor for name, tensor in t.items()})

    return Model(config=GROUPED, tensors=tensors, rotary_channels=slice(0, 8), projected=fused)


def all_in_one_by_head():
    """GPT-NeoX: queries, keys and values of one head after the other; a quarter of each head rotates."""
    at = "gpt_neox.layers.0.attention"
    shapes = {
        "query_key_value.weight": (6 * 3 * 16, HIDDEN), "query_key_value.bias": (6 * 3 * 16,),
        "dense.weight": (HIDDEN, 96),
        "dense.bias": (HIDDEN,), "bias": (1, 1, 4, 4), "masked_bias": (), "rotary_emb.inv_freq": (2,),
    }  # fmt: skip

    def split(t):
        fused = linear(t, "query_key_value", TOKENS, at=at).reshape(LENGTH, 6, 3, 16)
        return list(fused.transpose(2, 1, 0, 3))

    return Model(
        config={"model_type": "gpt_neox", "hidden_size": HIDDEN, "head_dim": 16, "num_attention_heads": 6,
                "rotary_pct": 0.25},
        tensors={f"{at}.{name}": RNG.normal(size=shape) for name, shape in shapes.items()}, rotary_channels=slice(0, 4),
        projected=lambda t: split(t)[:2], values=lambda t: split(t)[2],
    )  # fmt: skip


def latent():
    """DeepSeek: the last channels of each query and of the shared latent rotate."""
    tensors = made(
        q_a_proj__weight=(5, HIDDEN), q_a_layernorm__weight=(5,), q_b_proj__weight=(60, 5),
        kv_a_proj_with_mqa__weight=(14, HIDDEN), kv_a_layernorm__weight=(10,), kv_b_proj__weight=(72, 10),
        o_proj__weight=(HIDDEN, 36),
    )  # fmt: skip

    def projected(t):
        q = linear(t, "q_b_proj", normed(linear(t, "q_a_proj", TOKENS), t[f"{AT}.q_a_layernorm.weight"]))
        shared = linear(t, "kv_a_proj_with_mqa", TOKENS)
        still = linear(t, "kv_b_proj", normed(shared[:, :10], t[f"{AT}.kv_a_layernorm.weight"]))
        turning = np.broadcast_to(shared[:, 10:], (6, LENGTH, 4))
        return [heads_of(q, 10), np.concatenate([heads_of(still, 12)[..., :6], turning], axis=-1)]

    config = GROUPED | {
        "model_type": "deepseek_v3", "num_key_value_heads": 6, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6,
        "kv_lora_rank": 10, "q_lora_rank": 5, "v_head_dim": 6,
    }  # fmt: skip
    return Model(config=config, tensors=tensors, projected=projected, rotary_channels=slice(6, 10))


KINDS = [
    one_norm_for_each_head, one_norm_for_all_heads, a_norm_of_its_own_for_each_head, an_adapter, all_in_one,
    all_in_one_by_group, all_in_one_under_another_name, all_in_one_by_head, latent,
]  # fmt: skip


def scores(model, tensors, layout):
    """Return the attention scores of a model that rotates in a layout; channel pairs are complex numbers."""
    channels = np.arange(model.rotary_channels.start, model.rotary_channels.stop)
    half = len(channels) // 2
    first, second = (channels[::2], channels[1::2]) if layout == "interleaved" else (channels[:half], channels[half:])
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(half) / half)
    rotated = []
    for given in model.projected(tensors):
        x = given.copy()
        pair = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angles)
        x[..., first], x[..., second] = pair.real, pair.imag
        rotated.append(x)
    q, k = rotated
    return q @ np.repeat(k, len(q) // len(k), axis=0).swapaxes(-1, -2)


def relaid(model, source, target):
    """Return the tensors of a model with their rows in the new order."""
    known = projections(model.config, source=source, target=target)
    orders = {name: order_of(name, "F64", x.shape, known) for name, x in model.tensors.items()}
    return {
        name: x if orders[name] is None else x.reshape(len(orders[name]), -1)[orders[name]].reshape(x.shape)
        for name, x in model.tensors.items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("source", "target"), [("interleaved", "half"), ("half", "interleaved")])
def test_attention_scores_stay(kind, source, target):
    model = kind()
    after, wanted = relaid(model, source, target), scores(model, model.tensors, source)
    np.testing.assert_allclose(scores(model, after, target), wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    assert np.abs(scores(model, model.tensors, target) - wanted).max() > 0.1
    if hasattr(model, "values"):
        np.testing.assert_array_equal(model.values(after), model.values(model.tensors))


@pytest.mark.filterwarnings("ignore:`partial_rotary_factor` 0.5 is used:UserWarning")  # llama reads none
def test_layers_of_several_types_are_re_laid_alike_or_not_at_all():
    rope = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    config = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
    found = projections(config | {"rope_parameters": rope}, source="half", target="interleaved")
    np.testing.assert_array_equal(found["k_proj"].order[:8], [0, 4, 1, 5, 2, 6, 3, 7])
    rope["full_attention"]["partial_rotary_factor"] = 0.5
    with rejects(ValueError, "config", "[(8, 4, 'lead'), (8, 8, 'lead')]"):
        projections(config | {"rope_parameters": rope}, source="half", target="interleaved")


def test_heads_whose_pairs_are_spread_are_re_laid_whole():
    rope = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5}
    config = {key: value for key, value in LLAMA.items() if key != "rope_theta"} | {"rope_parameters": rope}
    found = projections(config, source="half", target="interleaved")
    np.testing.assert_array_equal(found["k_proj"].order[:8], [0, 4, 1, 5, 2, 6, 3, 7])


def test_a_model_that_does_not_rotate_has_no_layout():
    with rejects(ValueError, "config"):
        projections({"num_attention_heads": 4, "hidden_size": 32, "alibi": True}, source="half", target="interleaved")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, ("llama", "half")),
        ({"model_type": "glm4"}, ("glm4", "interleaved")),
        ({"model_type": "deepseek_v3"}, ("deepseek_v3", "interleaved_to_half")),
        ({"model_type": "deepseek_v3", "rope_interleave": False}, ("deepseek_v3", "half")),
        ({"model_type": "llava", "text_config": {"model_type": "llama"}}, ("llama", "half")),
        ({"model_type": "llava", "text_config": {"head_dim": 8}}, ("llava", None)),
        ({"model_type": "unheard_of"}, ("unheard_of", None)),
        ({"model_type": None}, ("", None)),
        ({"model_type": "internlm2"}, ("internlm2", "half")),
        ({"model_type": None, "layout_from": "params.json", "rotary_emb_interleaved": True}, ("", "interleaved")),
    ],
)
def test_the_layout_of_a_model_is_known_or_it_is_not(changes, wanted):
    config = LLAMA | changes
    if "text_config" in changes:
        config = {"model_type": "llava", "text_config": {**LLAMA, "model_type": None, **changes["text_config"]}}
    assert trained_layout(config) == wanted


def test_some_models_share_keys():
    assert not shares_keys(LLAMA)
    assert not shares_keys(LLAMA | {"num_kv_shared_layers": 0})
    assert shares_keys(LLAMA | {"num_kv_shared_layers": 2})
