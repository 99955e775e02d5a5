"""A part of the heads, as a process of tensor parallelism has it, agrees with the same heads of the whole."""

import numpy as np
import pytest

from posenc_core import LearnedQueryScale, Placed, QKNorm, QueryScale, attend
from posenc_core.encodings import NAMES, ContentScoring, Scoring
from posenc_core.encodings.attention_encoding import QueryKeyEncoding
from posenc_core.encodings.examples import example

HEADS, WIDTH, LENGTH = 4, 8, 6
EXAMPLES = [example(name, num_heads=HEADS, head_dim=WIDTH) for name in NAMES]
SCORING = [encoding for encoding in EXAMPLES if isinstance(encoding, Scoring)]
BY_HEAD = [encoding for encoding in EXAMPLES if isinstance(encoding, QueryKeyEncoding) and encoding.head_axes]
BY_HEAD += [example("FoPE", num_heads=HEADS), example("ReRoPE", rotary=example("FoPE", num_heads=HEADS))]
NARROWED = ("numpy", "strict", "jax", "mlx")  # whose projections take narrower matrices
SHOWN = ("T5Bias", "TransformerXLBias", "PoPE", "LearnedRotary")
PARTS = [[1, 2]]


def drawn(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def with_parameters(on, layer, encoding):
    rng = np.random.default_rng(3)
    numbers = {name: rng.normal(size=p.shape).astype(np.float32) / 3 for name, p in encoding.parameters().items()}
    return on.testing.with_parameters(on.testing.eval_mode(layer), numbers) if numbers else layer


def cases(encodings):
    """Return parameters: all encodings are shown by `heads_in_parallel` of PyTorch, one of each kind here."""
    return [pytest.param(e, marks=() if type(e).__name__ in SHOWN else pytest.mark.slow, id=repr(e)) for e in encodings]


def parts(on):
    """Ranges and lists, and arrays of the framework, as `shard_map` makes them from its rank."""
    return [*PARTS, on.backend.from_numpy(np.arange(2, 4, dtype=np.int32))]


def numbers_of(on, part):
    return list(part) if isinstance(part, (range, list, np.ndarray)) else on.backend.to_numpy(part).tolist()


@pytest.mark.parametrize("encoding", cases(SCORING))
def test_bias_and_values_of_some_heads(on, encoding):
    layer = with_parameters(on, on.backend.AttentionBias(encoding), encoding)
    scores, q, k = drawn(2, HEADS, LENGTH, LENGTH), drawn(2, HEADS, LENGTH, WIDTH), drawn(2, HEADS, LENGTH, WIDTH) / 2
    uses, to = isinstance(encoding, ContentScoring), on.backend.from_numpy

    def biased(own_heads, **options):
        own = slice(None) if encoding.mixes_heads else own_heads
        tokens = {"q": to(q[:, own].copy()), "k": to(k[:, own].copy())} if uses else {}
        return on.backend.to_numpy(layer(to(scores[:, own_heads].copy()), **tokens, **options))

    whole = biased([0, 1, 2, 3])
    for part in parts(on):
        heads = numbers_of(on, part)
        np.testing.assert_allclose(biased(heads, heads=part), whole[:, heads], rtol=0, atol=2e-6)
        if encoding.adds_values:
            attention, of_part = (to(x.copy()) for x in (scores, scores[:, heads]))
            values = on.backend.to_numpy(layer.values(attention))
            got = on.backend.to_numpy(layer.values(of_part, heads=part))
            np.testing.assert_allclose(got, values[:, heads], rtol=0, atol=2e-6)


@pytest.mark.parametrize("encoding", cases([e for e in BY_HEAD if not e.needs_attention]))
def test_rotation_of_some_heads(on, encoding):
    layer = with_parameters(on, on.backend.RotaryEmbedding(encoding), encoding)
    q, k, to = drawn(2, 2 * HEADS, LENGTH, WIDTH), drawn(2, HEADS, LENGTH, WIDTH), on.backend.from_numpy
    at = {"positions": np.arange(2 * LENGTH).reshape(2, LENGTH)} if encoding.needs_positions else {"start": 3}
    whole = [on.backend.to_numpy(x) for x in layer(to(q), to(k), **at)]
    for part in parts(on):
        heads = numbers_of(on, part)
        of_queries = [2 * head + i for head in heads for i in range(2)]
        got = layer(to(q[:, of_queries].copy()), to(k[:, heads].copy()), heads=part, **at)
        for x, wanted, own in zip(got, whole, (of_queries, heads), strict=True):
            np.testing.assert_allclose(on.backend.to_numpy(x), wanted[:, own], rtol=0, atol=1e-6)


def test_factors_of_some_heads(on):
    encoding = LearnedQueryScale(num_heads=HEADS)
    layer = with_parameters(on, on.backend.QueryScaling(encoding), encoding)
    q, to = drawn(2, HEADS, LENGTH, WIDTH), on.backend.from_numpy
    whole = on.backend.to_numpy(layer(to(q)))
    for part in parts(on):
        heads = numbers_of(on, part)
        got = on.backend.to_numpy(layer(to(q[:, heads].copy()), heads=part))
        np.testing.assert_allclose(got, whole[:, heads], rtol=0, atol=1e-6)


@pytest.mark.parametrize("encoding", cases([e for e in (*SCORING, *BY_HEAD) if not e.mixes_heads]))
def test_attention_of_some_heads(to_backend, on, encoding):
    """Weights may have all heads, or those of the process alone."""
    rng, to = np.random.default_rng(3), to_backend
    weights = {name: to(rng.normal(size=p.shape)) for name, p in encoding.parameters().items()}
    q, k, v = (to(drawn(2, HEADS, LENGTH, WIDTH) / scale) for scale in (1, 2, 3))
    at = np.arange(2 * LENGTH).reshape(2, LENGTH) if encoding.num_axes > 1 else range(LENGTH)
    causal = {"is_causal": encoding.adds_scores or encoding.needs_attention}
    whole = attend(q, k, v, position=Placed(encoding, at, at, weights), **causal)
    for part in parts(on):
        heads = numbers_of(on, part)
        own = slice(heads[0], heads[-1] + 1)
        tokens = [x[:, own, :, :] for x in (q, k, v)]
        got = attend(*tokens, position=Placed(encoding, at, at, weights, heads=part), **causal)
        np.testing.assert_allclose(on.backend.to_numpy(got), on.backend.to_numpy(whole)[:, own], rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("position", "options"),
    [
        pytest.param(e, {}, marks=() if type(e).__name__ in SHOWN else pytest.mark.slow)
        for e in (*SCORING, *BY_HEAD)
        if not e.mixes_heads and e.num_axes == 1
    ]
    + [(None, {"query_scale": LearnedQueryScale(num_heads=HEADS)}), (None, {"num_kv_heads": 2})]
    + [(None, {"qk_norm": QKNorm(head_dim=WIDTH)})]
    + [(example("LearnedRotary"), {"query_scale": QueryScale(length=4, scale=0.1)}), (example("XPos"), {})],
    ids=repr,
)
def test_layers_add_up(on, position, options):
    """Layers with the projections of two heads each, as in Megatron, add up to the layer with all heads."""
    name = on.backend.__name__.rpartition(".")[2]
    if name not in NARROWED:
        pytest.skip("Projections of this framework keep their shape.")
    kv, to, rng = options.get("num_kv_heads", HEADS), on.backend.from_numpy, np.random.default_rng(5)
    heads = {"W_q": HEADS, "W_k": kv, "W_v": kv, "W_o": HEADS}
    matrices = {name: rng.normal(size=(HEADS * WIDTH, n * WIDTH)).astype(np.float32) / 6 for name, n in heads.items()}
    matrices["W_o"] = matrices["W_o"].T
    layer = on.testing.eval_mode(on.backend.MultiHeadAttention(HEADS * WIDTH, HEADS, position=position, **options))
    learned = position or options.get("query_scale")
    if learned is not None and learned.parameters():
        own = next(part for part in (layer.rotary, layer.scoring, layer.scaling) if part is not None)
        set_layer = with_parameters(on, layer if name == "jax" else own, learned)
        layer = set_layer if name == "jax" else layer
    x = to(drawn(2, LENGTH, HEADS * WIDTH))
    whole = on.backend.to_numpy(on.testing.with_projections(layer, matrices)(x, x, x, causal=True))
    added = 0
    for part in (range(2), on.backend.from_numpy(np.arange(2, 4, dtype=np.int32))):
        first = numbers_of(on, part)[0]
        columns = {
            name: slice(first * n // HEADS * WIDTH, (first + 2) * n // HEADS * WIDTH) for name, n in heads.items()
        }
        narrow = {n: (m[columns[n]] if n == "W_o" else m[:, columns[n]]).copy() for n, m in matrices.items()}
        local = on.testing.with_projections(layer, narrow)
        added = added + on.backend.to_numpy(local(x, x, x, causal=True, heads=part))
    np.testing.assert_allclose(added, whole, rtol=0, atol=4e-6)


@pytest.mark.parametrize(
    ("heads", "error", "message"),
    [
        ([0, 2], ValueError, r"`heads` must be consecutive numbers, like range\(4, 8\), got \[0, 2\]"),
        (range(3, 5), ValueError, r"`heads` must be below the 4 of Alibi\(num_heads=4\), got range\(3, 5\)"),
        ([0, 1, 2], ValueError, r"`scores` must have 3 heads, got shape \(2, 2, 5\)"),
        ("ab", TypeError, "`heads` must be a range or an array of the numbers of heads, got 'ab'"),
        ([0.5, 1.5], TypeError, "`heads` must be an integer, got 0.5"),
    ],
)
def test_other_heads_are_refused(on, heads, error, message):
    layer = on.backend.AttentionBias(example("Alibi", num_heads=HEADS))
    with pytest.raises(error, match=message):
        layer(on.backend.from_numpy(drawn(2, 2, 5)), heads=heads)


def test_encodings_that_mix_heads_are_refused(on):
    encoding = example("ForgettingBias", num_heads=HEADS, head_dim=WIDTH)
    layer, x = on.backend.MultiHeadAttention(HEADS * WIDTH, HEADS, position=encoding), drawn(2, LENGTH, HEADS * WIDTH)
    for call in (
        lambda: Placed(encoding, range(2), range(2), {}, heads=range(2)),
        lambda: layer(*[on.backend.from_numpy(x)] * 3, heads=range(2)),
    ):
        with pytest.raises(ValueError, match=r"`heads` must be left out for ForgettingBias.*depend on all heads"):
            call()
