"""Threads that share a layer while its tables grow, and layers that share a process."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from posenc_core import Rotary

LENGTHS = 4 * [1, 17, 160, 1025]  # one per thread; few, as each is compiled
WIDTH = 8
ULP = 2.0**-24  # of numbers just below 1


def sinusoids(length, base=10000.0):
    """Vaswani et al. 2017, section 3.5, in float64."""
    angles = np.arange(length)[:, None] / base ** (np.arange(0, WIDTH, 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, WIDTH)


def rotated(tokens, base=10000.0):
    """Rotate in float64 with complex numbers (Su et al. 2021, equation 34); channels i and i + WIDTH / 2 are a pair."""
    half = WIDTH // 2
    angles = np.arange(tokens.shape[-2])[:, None] / base ** (np.arange(0, WIDTH, 2) / WIDTH)
    points = (tokens[..., :half] + 1j * tokens[..., half:]) * np.exp(1j * angles)
    return np.concatenate([points.real, points.imag], axis=-1)


def rope(backend, base=10000.0, max_len=1):
    return backend.RotaryEmbedding(Rotary(head_dim=WIDTH, base=base, layout="half"), max_len=max_len)


def in_threads(function, arguments):
    """Call `function` with each argument in a thread of its own, all at the same time; return the results."""
    ready = threading.Barrier(len(arguments))

    def call_at_once(argument):
        ready.wait()
        return function(argument)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(call_at_once, arguments))


class Slow(dict):
    """A dict whose items arrive slowly, so that other threads see a state in between."""

    def items(self):
        for item in super().items():
            time.sleep(0.002)
            yield item


def slow_down(layer, monkeypatch):
    """Return the layer, slowed down when it sets its tables."""
    set_tables = type(layer).set_tables
    monkeypatch.setattr(type(layer), "set_tables", lambda self, constants: set_tables(self, Slow(constants)))
    return layer


def test_threads_that_grow_one_table_get_right_rows(on, to_backend, monkeypatch):
    layer = slow_down(on.testing.eval_mode(on.backend.PositionalEncoding(WIDTH, max_len=1)), monkeypatch)
    lengths = np.random.default_rng(0).permutation(LENGTHS).tolist()
    zeros = {length: to_backend(np.zeros((1, length, WIDTH))) for length in lengths}
    results = in_threads(lambda length: on.backend.to_numpy(layer(zeros[length])), lengths)
    for length, rows in zip(lengths, results, strict=True):
        np.testing.assert_allclose(rows[0], sinusoids(length), rtol=0, atol=ULP)


def test_threads_that_grow_two_tables_never_see_one_without_the_other(on, to_backend, monkeypatch):
    layer, random = slow_down(rope(on.backend), monkeypatch), np.random.default_rng(0)
    lengths = random.permutation(LENGTHS).tolist()
    tokens = {length: random.uniform(-1, 1, (1, 2, length, WIDTH)).astype(np.float32) for length in lengths}
    arrays = {length: to_backend(given) for length, given in tokens.items()}
    results = in_threads(lambda length: on.backend.to_numpy(layer(arrays[length])), lengths)
    for length, result in zip(lengths, results, strict=True):
        np.testing.assert_allclose(result, rotated(tokens[length].astype(np.float64)), rtol=0, atol=6 * ULP)


def test_threads_that_share_compiled_code_get_right_rows(on, to_backend):
    for key in ("compiled", "compiled code in threads"):
        if key in on.known_failures:
            pytest.skip(on.known_failures[key])
    layer, random = on.testing.eval_mode(rope(on.backend, max_len=32)), np.random.default_rng(0)
    compiled = on.testing.compiled(layer)
    tokens = [random.uniform(-1, 1, (1, 2, length, WIDTH)).astype(np.float32) for length in [3, 17] * 8]
    arrays = [to_backend(given) for given in tokens]
    for array in arrays[:2]:
        compiled(array)  # compile before the threads start
    results = in_threads(lambda array: on.backend.to_numpy(compiled(array)), arrays)  # lazy results run when read
    for given, result in zip(tokens, results, strict=True):
        np.testing.assert_allclose(result, rotated(given.astype(np.float64)), rtol=0, atol=6 * ULP)


def test_a_slower_thread_does_not_shorten_the_table_of_others(on, to_backend, monkeypatch):
    """If two threads grow a table at the same time, the one that asks for less may finish last."""
    layer = on.testing.eval_mode(on.backend.PositionalEncoding(WIDTH, max_len=2))
    set_tables = type(layer).set_tables

    def outrun(self, constants):
        set_tables(self, constants)
        set_tables(self, self.encoding.constants(3))

    monkeypatch.setattr(type(layer), "set_tables", outrun)
    rows = on.backend.to_numpy(layer(to_backend(np.zeros((1, 4, WIDTH)))))
    np.testing.assert_allclose(rows[0], sinusoids(4), rtol=0, atol=ULP)


def test_threads_that_share_attention_agree_with_one_thread(on, to_backend):
    attention = on.backend.MultiHeadAttention(16, 2, position=Rotary(head_dim=WIDTH, layout="half"))
    attention = on.testing.with_projections(on.testing.eval_mode(attention), projections(16))
    random = np.random.default_rng(0)
    tokens = [to_backend(random.uniform(-1, 1, (2, length, 16)).astype(np.float32)) for length in [3, 5] * 8]
    alone = [on.backend.to_numpy(attention(x, x, x, causal=True)) for x in tokens]
    results = in_threads(lambda x: on.backend.to_numpy(attention(x, x, x, causal=True)), tokens)
    for got, expected in zip(results, alone, strict=True):
        np.testing.assert_array_equal(got, expected)


def projections(width):
    random = np.random.default_rng(1)
    return {
        name: random.normal(0, width**-0.5, (width, width)).astype(np.float32) for name in ("W_q", "W_k", "W_v", "W_o")
    }


def test_layers_of_two_bases_are_independent(on, to_backend):
    bases, length = (100.0, 10000.0, 500000.0), 9
    layers = {base: rope(on.backend, base, max_len=4) for base in bases}
    tokens = np.random.default_rng(2).uniform(-1, 1, (1, 2, length, WIDTH)).astype(np.float32)
    x = to_backend(tokens)
    for base in (*bases, *bases[::-1]):
        result = on.backend.to_numpy(layers[base](x))
        np.testing.assert_allclose(result, rotated(tokens.astype(np.float64), base), rtol=0, atol=6 * ULP)
