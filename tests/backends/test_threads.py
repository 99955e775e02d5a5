"""Threads that share a layer while its tables grow, and layers that share a process."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from posenc_core import Rotary

LENGTHS = 4 * [1, 17, 160, 1025]  # of what each thread asks for; others would only be compiled, too
WIDTH = 8
ULP = 2.0**-24  # of numbers below 1, rounded once from a sine that float64 has


def sinusoids(length, base=10000.0):
    """Vaswani et al. 2017, section 3.5, in float64."""
    angles = np.arange(length)[:, None] / base ** (np.arange(0, WIDTH, 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, WIDTH)


def turned(tokens, base=10000.0):
    """Su et al. 2021, equation 34, as complex numbers, in float64; channels i and i + WIDTH / 2 are a pair."""
    half = WIDTH // 2
    angles = np.arange(tokens.shape[-2])[:, None] / base ** (np.arange(0, WIDTH, 2) / WIDTH)
    points = (tokens[..., :half] + 1j * tokens[..., half:]) * np.exp(1j * angles)
    return np.concatenate([points.real, points.imag], axis=-1)


def rope(backend, base=10000.0, max_len=1):
    return backend.RotaryEmbedding(Rotary(head_dim=WIDTH, base=base, layout="half"), max_len=max_len)


def together(function, arguments):
    """`function` of each argument, all begun at once in threads of their own."""
    ready = threading.Barrier(len(arguments))

    def begun(argument):
        ready.wait()
        return function(argument)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(begun, arguments))


class Slow(dict):
    """Tables that are handed over one after the other, while other threads look."""

    def items(self):
        for item in super().items():
            time.sleep(0.002)
            yield item


def slowed(layer, monkeypatch):
    """The layer, which takes its time to hold a table."""
    set_tables = type(layer).set_tables
    monkeypatch.setattr(type(layer), "set_tables", lambda self, constants: set_tables(self, Slow(constants)))
    return layer


def test_threads_that_grow_one_table_all_get_right_rows(on, to_backend, monkeypatch):
    layer = slowed(on.testing.eval_mode(on.backend.PositionalEncoding(WIDTH, max_len=1)), monkeypatch)
    lengths = np.random.default_rng(0).permutation(LENGTHS).tolist()
    zeros = {length: to_backend(np.zeros((1, length, WIDTH))) for length in lengths}
    results = together(lambda length: on.backend.to_numpy(layer(zeros[length])), lengths)
    for length, rows in zip(lengths, results, strict=True):
        np.testing.assert_allclose(rows[0], sinusoids(length), rtol=0, atol=ULP)


def test_threads_that_grow_two_tables_never_see_one_without_the_other(on, to_backend, monkeypatch):
    layer, random = slowed(rope(on.backend), monkeypatch), np.random.default_rng(0)
    lengths = random.permutation(LENGTHS).tolist()
    tokens = {length: random.uniform(-1, 1, (1, 2, length, WIDTH)).astype(np.float32) for length in lengths}
    arrays = {length: to_backend(given) for length, given in tokens.items()}
    results = together(lambda length: on.backend.to_numpy(layer(arrays[length])), lengths)
    for length, result in zip(lengths, results, strict=True):
        np.testing.assert_allclose(result, turned(tokens[length].astype(np.float64)), rtol=0, atol=6 * ULP)


def test_threads_that_share_compiled_code_all_get_right_rows(on, to_backend):
    for gap in ("compiled", "compiled code in threads"):
        if gap in on.known_failures:
            pytest.skip(on.known_failures[gap])
    layer, random = on.testing.eval_mode(rope(on.backend, max_len=32)), np.random.default_rng(0)
    compiled = on.testing.compiled(layer)
    tokens = [random.uniform(-1, 1, (1, 2, length, WIDTH)).astype(np.float32) for length in [3, 17] * 8]
    arrays = [to_backend(given) for given in tokens]
    for array in arrays[:2]:
        compiled(array)  # frameworks compile in one thread
    for given, result in zip(tokens, together(compiled, arrays), strict=True):
        np.testing.assert_allclose(on.backend.to_numpy(result), turned(given.astype(np.float64)), rtol=0, atol=6 * ULP)


def test_a_slower_thread_that_shortens_a_table_takes_no_row_from_others(on, to_backend, monkeypatch):
    """Of two threads that grow a table at the same time, the one that asked for less may come last."""
    layer = on.testing.eval_mode(on.backend.PositionalEncoding(WIDTH, max_len=2))
    set_tables = type(layer).set_tables

    def outrun(self, constants):
        set_tables(self, constants)
        set_tables(self, self.encoding.constants(3))

    monkeypatch.setattr(type(layer), "set_tables", outrun)
    rows = on.backend.to_numpy(layer(to_backend(np.zeros((1, 4, WIDTH)))))
    np.testing.assert_allclose(rows[0], sinusoids(4), rtol=0, atol=ULP)


def test_threads_that_share_attention_all_get_what_one_gets(on, to_backend):
    attention = on.backend.MultiHeadAttention(16, 2, position=Rotary(head_dim=WIDTH, layout="half"))
    attention = on.testing.with_projections(on.testing.eval_mode(attention), projections(16))
    random = np.random.default_rng(0)
    tokens = [to_backend(random.uniform(-1, 1, (2, length, 16)).astype(np.float32)) for length in [3, 5] * 8]
    alone = [on.backend.to_numpy(attention(x, x, x, causal=True)) for x in tokens]
    for ours, theirs in zip(together(lambda x: attention(x, x, x, causal=True), tokens), alone, strict=True):
        np.testing.assert_array_equal(on.backend.to_numpy(ours), theirs)


def projections(width):
    random = np.random.default_rng(1)
    return {
        name: random.normal(0, width**-0.5, (width, width)).astype(np.float32) for name in ("W_q", "W_k", "W_v", "W_o")
    }


def test_layers_of_two_bases_keep_to_their_own(on, to_backend):
    bases, length = (100.0, 10000.0, 500000.0), 9
    layers = {base: rope(on.backend, base, max_len=4) for base in bases}
    tokens = np.random.default_rng(2).uniform(-1, 1, (1, 2, length, WIDTH)).astype(np.float32)
    x = to_backend(tokens)
    for base in (*bases, *bases[::-1]):
        result = on.backend.to_numpy(layers[base](x))
        np.testing.assert_allclose(result, turned(tokens.astype(np.float64), base), rtol=0, atol=6 * ULP)
