"""Remapped positions against the published codes, whose formulas are written again here; each says where it differs.

LongLM: datamllab/LongLM at cdbbb06, `self_extend_patch/Llama.py`. ReRoPE: bojone/rerope at acfe788, `rerope_patch.py`,
`leaky_rerope_patch.py`. ChunkLlama: HKUNLP/ChunkLlama at 2add4d7, `chunkllama_attn_replace.py`; vLLM at 07b1349,
`dual_chunk_rope.py`, has the same three rotations of queries.
"""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from posenc_core import DualChunk, LeakyReRoPE, Placed, QueryScale, ReRoPE, Rotary, SelfExtend, attend
from posenc_core.attention import attention_weights

HEAD_DIM, LENGTH = 16, 61
ROTARY = Rotary(head_dim=HEAD_DIM, layout="half")
LLAMA = LlamaRotaryEmbedding(LlamaConfig(hidden_size=HEAD_DIM, num_attention_heads=1, max_position_embeddings=LENGTH))
FLOAT32 = 3e-6  # of weights, from angles in float32


def rotated(x, positions):
    """Return tokens rotated by transformers, as each of the codes does."""
    x = torch.tensor(x)
    cos, sin = LLAMA(x, torch.as_tensor(np.broadcast_to(positions, (1, x.shape[-2])).copy()))
    return apply_rotary_pos_emb(x, x, cos, sin)[0].numpy()


def drawn(seed):
    return np.random.default_rng(seed).normal(size=(2, 1, 2, LENGTH, HEAD_DIM)).astype(np.float32)


def weights_of(scores, queries=None):
    """Return the softmax of causal scores; of the last queries only, if there are fewer than keys."""
    keys = scores.shape[-1]
    hidden = np.triu(np.full((keys, keys), -np.inf, np.float32), 1)[-(queries or keys) :]
    parts = np.exp(scores / np.float32(HEAD_DIM**0.5) + hidden)
    return parts / parts.sum(axis=-1, keepdims=True)


def product(q, k):
    return q @ k.swapaxes(-1, -2)


def ours(encoding, q, k, first=0):
    positions = range(first, first + q.shape[-2])
    return attention_weights(q, k, position=Placed(encoding, positions, range(k.shape[-2])))


def self_extend(q, k, group, window):
    """LongLM on a whole prompt: neighbours unless the pair lies on or below the diagonal `window` positions back."""
    at = np.arange(LENGTH)
    shift = 0 if at.max() < window else window - window / group  # a true quotient, not the floor of the paper
    near = product(rotated(q, at), rotated(k, at))
    grouped = product(rotated(q, at // group + shift), rotated(k, at // group))
    is_near = np.tril(np.ones((LENGTH, LENGTH)))
    if window < LENGTH:
        is_near[window:, :-window] -= np.tril(np.ones((LENGTH - window, LENGTH - window)))
    return weights_of(np.where(is_near.astype(bool), near, grouped))


@pytest.mark.parametrize(("window", "group"), [(16, 4), (8, 8), (61, 4), (80, 4), (6, 1)])
def test_self_extend_is_that_of_longlm(window, group):
    q, k = drawn(1)
    got = ours(SelfExtend(rotary=ROTARY, window=window, group_size=group), q, k)
    np.testing.assert_allclose(got, self_extend(q, k, group, window), atol=FLOAT32)


def test_longlm_does_not_floor_the_window():
    """With a window that no group divides, LongLM has distances between the integers; its paper and ours floor."""
    q, k = drawn(2)
    got = ours(SelfExtend(rotary=ROTARY, window=10, group_size=4), q, k)
    assert np.abs(got - self_extend(q, k, 4, 10)).max() > 0.01
    at = np.arange(LENGTH)
    near, far = (
        product(rotated(q, at), rotated(k, at)),
        product(rotated(q, at // 4 + 10 - 10 // 4), rotated(k, at // 4)),
    )
    wanted = weights_of(np.where(np.subtract.outer(at, at) < 10, near, far))
    np.testing.assert_allclose(got, wanted, atol=FLOAT32)


def rerope(q, k, window, factor=None):
    """ReRoPE and, with a factor, leaky ReRoPE on a whole prompt, without LogN."""
    at = np.arange(LENGTH)
    near = product(rotated(q, at), rotated(k, at))
    if factor is None:
        far = product(rotated(q, at * 0 + window), k)
    else:
        far = product(rotated(q, (at + window * (factor - 1)) / factor), rotated(k, at / factor))
    return np.where(np.abs(np.subtract.outer(at, at)) < window, near, far)


@pytest.mark.parametrize("window", [1, 16, 80])
def test_rerope_is_that_of_its_author(window):
    q, k = drawn(3)
    np.testing.assert_allclose(
        ours(ReRoPE(rotary=ROTARY, window=window), q, k), weights_of(rerope(q, k, window)), atol=FLOAT32
    )


@pytest.mark.parametrize(("window", "factor"), [(16, 16), (5, 4), (1, 1)])
def test_leaky_rerope_is_that_of_its_author(window, factor):
    q, k = drawn(4)
    got = ours(LeakyReRoPE(rotary=ROTARY, window=window, factor=factor), q, k)
    np.testing.assert_allclose(got, weights_of(rerope(q, k, window, factor)), atol=FLOAT32)


def test_one_query_of_rerope_rotates_keys_by_the_distance():
    """In decoding the author's code rotates keys by minus the distance, and leaves the query as it is."""
    q, k = drawn(5)
    last, distance = q[..., -1:, :], np.arange(LENGTH)[::-1]
    for encoding, at in (
        (ReRoPE(rotary=ROTARY, window=16), np.minimum(distance, 16)),
        (LeakyReRoPE(rotary=ROTARY, window=16, factor=4), np.where(distance < 16, distance, (distance + 16 * 3) / 4)),
    ):
        got = ours(encoding, last, k, LENGTH - 1)
        np.testing.assert_allclose(got, weights_of(product(last, rotated(k, -at)), 1), atol=FLOAT32)


def test_rerope_multiplies_queries_by_logn():
    """The author's code does so before the rotation, from the training length on: our factor of queries."""
    q, k = drawn(6)
    scale = QueryScale(length=20, growth="log")
    logn = np.maximum(np.log(np.arange(LENGTH) + 1) / np.log(20), 1).astype(np.float32)
    wanted = weights_of(rerope(q * logn[:, None], k, 16))
    got = ours(ReRoPE(rotary=ROTARY, window=16), q * scale.factors(range(LENGTH))[:, None], k)
    np.testing.assert_allclose(got, wanted, atol=FLOAT32)


def chunked(q, k, v, chunk_size, local_window):
    """ChunkLlama on a whole prompt: parts of each chunk, merged by their sums of exponentials; mscale is 1."""
    length = chunk_size - local_window
    in_chunk = np.arange(length)
    of_q, of_next = in_chunk, np.minimum(in_chunk + length, chunk_size)
    keys, results = rotated(k, np.arange(LENGTH) % length), []
    for begin in range(0, LENGTH, length):
        tokens = slice(begin, min(begin + length, LENGTH))
        at = np.arange(tokens.start, tokens.stop) % length
        own = product(rotated(q[..., tokens, :], of_q[at]), keys[..., tokens, :])
        parts = [(own + np.triu(np.full(own.shape[-2:], -np.inf, np.float32), 1), v[..., tokens, :])]
        if begin:
            before = slice(begin - length, begin)
            parts.append((product(rotated(q[..., tokens, :], of_next[at]), keys[..., before, :]), v[..., before, :]))
        if begin > length:
            earlier, last = slice(0, begin - length), of_next[[length - 1] * len(at)]
            parts.append((product(rotated(q[..., tokens, :], last), keys[..., earlier, :]), v[..., earlier, :]))
        sums = [np.exp(score / np.float32(HEAD_DIM**0.5)) for score, _ in parts]
        total = sum(each.sum(axis=-1, keepdims=True) for each in sums)
        results.append(sum(each @ values for each, (_, values) in zip(sums, parts, strict=True)) / total)
    return np.concatenate(results, axis=-2)


@pytest.mark.parametrize(("chunk_size", "local_size"), [(20, 4), (12, 8), (16, 15), (8, 1), (64, 8)])
def test_dual_chunk_is_that_of_chunkllama(chunk_size, local_size):
    q, k = drawn(7)
    v = drawn(8)[0]
    at = Placed(DualChunk(rotary=ROTARY, chunk_size=chunk_size, local_size=local_size), range(LENGTH), range(LENGTH))
    got = attend(q, k, v, position=at)
    np.testing.assert_allclose(got, chunked(q, k, v, chunk_size, local_size), atol=2 * FLOAT32)


@pytest.mark.parametrize("length", [9, 17, 40, 61])
def test_one_query_of_dual_chunk(length):
    """Decoding in ChunkLlama and in vLLM: three slices of the keys, each with a rotation of the query."""
    q, k = drawn(9)
    size, chunk = 20, 16
    p, first = length - 1, (length - 1) // chunk * chunk
    keys, query = rotated(k, np.arange(LENGTH) % chunk)[..., :length, :], q[..., length - 1 : length, :]
    bounds = (max(first - chunk, 0), first, length)
    places = (min(2 * chunk - 1, size), min(p % chunk + chunk, size), p % chunk)
    slices = [slice(start, stop) for start, stop in zip((0, *bounds), bounds, strict=False)]
    parts = [
        product(rotated(query, np.array([at])), keys[..., part, :]) for at, part in zip(places, slices, strict=True)
    ]
    got = ours(DualChunk(rotary=ROTARY, chunk_size=size, local_size=size - chunk), query, k[..., :length, :], p)
    np.testing.assert_allclose(got, weights_of(np.concatenate(parts, axis=-1), 1), atol=FLOAT32)
