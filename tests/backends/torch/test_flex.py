"""`score_mod`: FlexAttention adds the golden biases, with and without given positions, eager and compiled."""

import re
import warnings

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.checks.scoring import COMPUTED
from posenc_backends.conformance.errors import LOOKED_UP, ulps
from posenc_backends.torch import AttentionBias, score_mod
from posenc_core import (
    Alibi,
    Cope,
    DebertaBias,
    DecomposedBias,
    DynamicPositionBias,
    ForgettingBias,
    Kerple,
    Placed,
    RelativeLogits,
    ShawBias,
    SwinV2Bias,
    T5Bias,
    TransformerXLBias,
    attend,
    encodings,
)
from posenc_core.encodings import Encoding, PositionScoring
from posenc_core.encodings.examples import example, examples


def has_formula(kind):
    """Return whether an encoding has a formula for one query and one key."""
    return kind.score_of is not PositionScoring.score_of


GOLDEN_CASES = [
    golden_case
    for golden_case in golden("scoring_constants") + golden("position_scoring")
    if golden_case["dtype"] == "float32" and has_formula(getattr(encodings, golden_case["encoding"]["kind"]))
]
ENCODINGS = [
    *(each for each in examples(PositionScoring, window=(4, 5), threshold=8) if has_formula(type(each))),
    Alibi(num_heads=2, sides="past"),
    Kerple(num_heads=2, variant="power"),
]


def layer_of(encoding, parameters=None):
    torch.manual_seed(0)
    layer = AttentionBias(encoding).requires_grad_(False)
    for name, numbers in (parameters or {}).items():
        getattr(layer, name).copy_(torch.tensor(np.array(numbers, np.float32)))
    return layer


@pytest.mark.parametrize("golden_case", GOLDEN_CASES, ids=lambda golden_case: golden_case["name"])
def test_it_adds_the_golden_numbers(golden_case):
    wanted = np.array(golden_case["bias"])
    positions = {
        name: torch.tensor(golden_case[name]) for name in ("query_positions", "key_positions") if name in golden_case
    }
    add = score_mod(layer_of(Encoding.from_dict(golden_case["encoding"]), golden_case["parameters"]), **positions)
    index = (
        torch.arange(size).reshape(shape)
        for size, shape in zip(wanted.shape, ((-1, 1, 1), (-1, 1), (-1,)), strict=True)
    )
    got = add(torch.zeros(wanted.shape), torch.tensor(0), *index)
    exact = golden_case["encoding"]["kind"] in LOOKED_UP
    scale = None if exact else np.full(wanted.shape, np.abs(wanted).max())
    assert ulps(got.numpy(), wanted, scale=scale) <= (0 if exact else COMPUTED)


def attended(layer, q, k, start, function=flex_attention):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    wanted = torch.softmax(layer(scores, start=start), -1) @ k
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eager code is slow
        return function(q, k, k, score_mod=score_mod(layer, start=start)).numpy(), wanted.numpy()


@pytest.mark.parametrize("start", [0, 3, torch.tensor([0, 5])], ids=str)
@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_flex_attention_agrees_with_attention(encoding, start):
    q, k = torch.randn(2, 2, 7, 4), torch.randn(2, 2, 12, 4)
    got, wanted = attended(layer_of(encoding), q, k, start)
    np.testing.assert_allclose(got, wanted, atol=8 * 2**-23 * np.abs(wanted).max())


@pytest.mark.parametrize("encoding", [example("T5Bias"), example("Fire", threshold=8)], ids=repr)
def test_it_is_compiled(encoding):
    torch.compiler.reset()
    q, k = torch.randn(2, 2, 64, 16), torch.randn(2, 2, 96, 16)
    got, wanted = attended(layer_of(encoding), q, k, torch.tensor([0, 5]), torch.compile(flex_attention))
    np.testing.assert_allclose(got, wanted, atol=8 * 2**-23 * np.abs(wanted).max())


def test_parameters_have_gradients():
    layer, q = AttentionBias(T5Bias(num_heads=2, num_buckets=8, max_distance=6)), torch.randn(1, 2, 9, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = flex_attention(q, q, q, score_mod=score_mod(layer))
    wanted = torch.softmax(layer(q @ q.mT / 2), -1) @ q
    slopes = [torch.autograd.grad(result.square().sum(), layer.table)[0].numpy() for result in (got, wanted)]
    np.testing.assert_allclose(*slopes, atol=1e-5)


@pytest.mark.parametrize("encoding", [each for each in ENCODINGS if each.parameters()], ids=repr)
def test_one_function_serves_a_whole_training(encoding):
    """Each call reads the parameters as they are then, and has a graph of its own to go back through."""
    layer = layer_of(encoding).requires_grad_(True)
    add, shape = score_mod(layer), (2, 7, 12)
    index = [torch.arange(size).reshape(sizes) for size, sizes in zip(shape, ((-1, 1, 1), (-1, 1), (-1,)), strict=True)]
    for _ in range(2):
        found, wanted = add(torch.zeros(shape), torch.tensor(0), *index), layer(torch.zeros(shape))
        np.testing.assert_allclose(found.detach(), wanted.detach(), rtol=0, atol=2e-6)
        slopes = [torch.autograd.grad(scores.square().sum(), [*layer.parameters()]) for scores in (found, wanted)]
        for got, expected in zip(*slopes, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(0.5)
    assert (found != add(torch.zeros(shape), torch.tensor(0), *index)).any()


def test_an_encoding_without_a_formula_for_one_score_is_refused():
    class Plain(Alibi):
        score_of = PositionScoring.score_of

    with pytest.raises(TypeError, match="`score_of` needs a formula for one query and one key, which Plain does not"):
        score_mod(Plain(num_heads=2))(torch.zeros(()), *(torch.tensor(number) for number in (0, 1, 7, 5)))


@pytest.mark.parametrize(
    "encoding", [SwinV2Bias(num_heads=2, window=(2, 3)), DynamicPositionBias(num_heads=2, hidden=4)], ids=repr
)
def test_perceptrons_of_many_units_are_refused_by_name(encoding):
    add = score_mod(layer_of(encoding))
    with pytest.raises(TypeError, match=f"one query and one key, which {type(encoding).__name__} does not define"):
        add(torch.zeros(()), *(torch.tensor(number) for number in (0, 1, 3, 2)))


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [
        (ShawBias(num_heads=2, head_dim=4, max_distance=3), "adds to the values"),
        (Cope(num_heads=2, head_dim=4, max_position=3), "computes scores from other scores"),
    ],
    ids=["ShawBias", "Cope"],
)
def test_encodings_that_need_more_than_a_score_are_rejected(encoding, reason):
    for bias in (encoding, AttentionBias(encoding)):
        with pytest.raises(
            ValueError, match=re.escape(f"`bias` must add one number to a score, got {encoding!r}, which {reason}")
        ):
            score_mod(bias)


LOGITS = RelativeLogits(num_heads=4, head_dim=4, max_distance=3, num_curves=2, std=1.0)
FORGETTING = ForgettingBias(num_heads=4, head_dim=4, gate_bias=1.0, std=1.0)
LOOKED_UP_BY_TOKEN = {
    "RelativeLogits": LOGITS,
    "ForgettingBias": FORGETTING,
    "ShawBias": ShawBias(num_heads=4, head_dim=4, max_distance=3, applies_to="keys", std=1.0),
    "TransformerXLBias": TransformerXLBias(num_heads=4, head_dim=4, max_distance=3, std=1.0),
    "DebertaBias": DebertaBias(num_heads=4, head_dim=4, max_distance=6, num_buckets=4, std=1.0),
    "DebertaBias, c2p": DebertaBias(num_heads=4, head_dim=4, max_distance=3, terms="c2p", std=1.0),
    "DebertaBias, p2c": DebertaBias(num_heads=4, head_dim=4, max_distance=3, terms="p2c", std=1.0),
    "DecomposedBias": DecomposedBias(num_heads=4, head_dim=4, window=(2, 6), std=1.0),
    "DecomposedBias, pooled": DecomposedBias(
        num_heads=4, head_dim=4, window=(4, 6), key_window=(2, 6), prefix_tokens=1, std=1.0
    ),
}
ROWS = torch.tensor([0, 4])


def placed(layer, q, k, start):
    """Return the encoding at the positions of queries and keys, and which keys a causal mask shows."""
    at = torch.broadcast_to(torch.as_tensor(start), (2,))[:, None] + torch.arange(q.shape[2])
    position = Placed(layer.encoding, at, range(k.shape[2]), dict(layer.named_parameters()))
    return position, at[:, None, :, None] >= torch.arange(k.shape[2])


@pytest.mark.parametrize(
    ("start", "lengths", "key_heads", "is_causal"),
    [(0, (7, 7), 4, True), (3, (5, 12), 1, False), (ROWS, (7, 12), 2, True)],
    ids=["causal", "one head of keys", "rows"],
)
@pytest.mark.parametrize("name", LOOKED_UP_BY_TOKEN)
def test_what_is_added_by_queries_and_keys_has_the_results_and_gradients_of_attend(
    name, start, lengths, key_heads, is_causal
):
    """In float64, for queries, keys and all parameters. FlexAttention has no gradient of queries and keys on CPUs."""
    layer, (queries, keys) = layer_of(LOOKED_UP_BY_TOKEN[name]).requires_grad_(True).double(), lengths
    q, k = (torch.randn(2, heads, n, 4).double().requires_grad_(True) for heads, n in ((4, queries), (key_heads, keys)))
    is_causal = is_causal or name == "ForgettingBias"  # whose gates count up to the query
    position, visible = placed(layer, q, k, start)
    of_heads = k.repeat_interleave(4 // key_heads, dim=1)
    index = [torch.arange(n).reshape(-1, *[1] * axes) for n, axes in ((2, 3), (4, 2), (queries, 1), (keys, 0))]
    scores = score_mod(layer, start=start, queries=q, keys=k)(q @ of_heads.mT / 2, *index)
    scores = scores.masked_fill(~visible, -torch.inf) if is_causal else scores
    found = (
        torch.softmax(scores, -1) @ of_heads,
        attend(q, k, k, position=position, mask=visible if is_causal else None),
    )
    slopes = [torch.autograd.grad(result.square().sum(), [q, k, *layer.parameters()]) for result in found]
    both = ([result, *of_result] for result, of_result in zip(found, slopes, strict=True))
    for got, wanted in zip(*both, strict=True):
        assert wanted.abs().max() > 1e-3
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-13 * wanted.abs().max().item())


@pytest.mark.parametrize(
    ("name", "compiled"),
    [(name, False) for name in LOOKED_UP_BY_TOKEN if "," not in name]
    + [
        pytest.param(name, True, marks=pytest.mark.slow)
        for name in ("ForgettingBias", "TransformerXLBias", "DebertaBias", "DecomposedBias")
    ],
)
def test_flex_attention_takes_encodings_that_look_at_queries_and_keys(name, compiled):
    layer, q, k = layer_of(LOOKED_UP_BY_TOKEN[name]), torch.randn(2, 4, 7, 4), torch.randn(2, 2, 12, 4)
    position, visible = placed(layer, q, k, ROWS)
    add = score_mod(layer, start=ROWS, queries=q, keys=k)

    def masked(score, b, h, q_idx, kv_idx):
        return torch.where(visible[b, 0, q_idx, kv_idx], add(score, b, h, q_idx, kv_idx), -torch.inf)

    torch.compiler.reset()
    function = torch.compile(flex_attention) if compiled else flex_attention
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eager code is slow
        got = function(q, k, k, score_mod=masked, enable_gqa=True)
    np.testing.assert_allclose(got, attend(q, k, k, position=position, mask=visible), atol=2e-6)


def test_tables_of_half_precision_are_computed_in_float32():
    layer = layer_of(LOOKED_UP_BY_TOKEN["TransformerXLBias"])
    q = torch.randn(2, 4, 7, 4).bfloat16()
    index = [torch.arange(7).reshape(shape) for shape in ((-1, 1), (-1,))]
    found = [
        score_mod(layer, queries=x, keys=x)(torch.zeros(7, 7), torch.tensor(1), torch.tensor(3), *index)
        for x in (q, q.float())
    ]
    assert torch.equal(*found)


def test_queries_and_keys_must_be_those_of_the_heads():
    for encoding, name in ((LOGITS, "queries"), (FORGETTING, "keys")):
        with pytest.raises(ValueError, match=re.escape(f"`{name}` must have shape (batch, 4, {name}, 4)")):
            score_mod(AttentionBias(encoding))
        with pytest.raises(ValueError, match=re.escape("got (1, 3, 3, 4)")):
            score_mod(AttentionBias(encoding), **{name: torch.zeros(1, 3, 3, 4)})


def test_learned_encodings_need_their_layer():
    with pytest.raises(TypeError, match="`bias` must be the `AttentionBias` that holds what T5Bias"):
        score_mod(T5Bias(num_heads=2))
