"""A layer in other processes and threads, and what it is after its tables grew there or here."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, Rotary

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # so is pytest

WIDTH = 8
LENGTHS = (3, 40, 9, 65)
ULP = 2.0**-24


def sinusoids(length):
    """Vaswani et al. 2017, section 3.5, in float64."""
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, WIDTH, 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, WIDTH)


def turns(length):
    """What becomes of tokens that are 1 in the first half and 0 in the second: Su et al. 2021, equation 34."""
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, WIDTH, 2) / WIDTH)
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)


def ones_and_zeros(length):
    return torch.cat([torch.ones(1, 1, length, WIDTH // 2), torch.zeros(1, 1, length, WIDTH // 2)], dim=-1)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader_call_layers(method):
    """Their tables grow, each worker's for itself; the layers here keep their own."""
    rope = RotaryEmbedding(Rotary(head_dim=WIDTH, layout="half"), max_len=2)
    both = torch.nn.Sequential(PositionalEncoding(WIDTH, max_len=2), rope)
    tokens = [torch.zeros(1, length, WIDTH) for length in LENGTHS]
    both(tokens[0])
    loader = DataLoader(tokens, batch_size=None, collate_fn=both, num_workers=2, multiprocessing_context=method)
    for length, got in zip(LENGTHS, loader, strict=True):
        first, second = np.split(sinusoids(length), 2, axis=-1)
        cos, sin = np.split(turns(length), 2, axis=-1)
        wanted = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
        np.testing.assert_allclose(got[0], wanted, rtol=0, atol=8 * ULP)
    assert rope.tables[0].shape[0] == 4


def test_a_shared_layer_is_one_layer():
    """What another process writes into its parameters is here at once; tables are shared, too, and grow apart."""
    learned = PositionalEncoding(WIDTH, encoding=Learned(dim=WIDTH, length=5)).share_memory()
    fixed = PositionalEncoding(WIDTH, max_len=2).share_memory()
    with torch.multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(learned.table.detach().fill_, (0.5,))
        far = pool.apply(fixed, (torch.zeros(1, 9, WIDTH),))
    assert torch.equal(learned(torch.zeros(1, 5, WIDTH)), torch.full((1, 5, WIDTH), 0.5))
    np.testing.assert_allclose(far[0], sinusoids(9), rtol=0, atol=ULP)
    assert fixed.P.is_shared()
    np.testing.assert_allclose(fixed(torch.zeros(1, 33, WIDTH))[0], sinusoids(33), rtol=0, atol=ULP)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))], ids=["copy", "pickle"]
)
def test_copies_of_a_grown_layer_grow_by_themselves(copied):
    layer = PositionalEncoding(WIDTH, max_len=2)
    layer(torch.zeros(1, 9, WIDTH))
    other = copied(layer)
    assert other.P.shape == layer.P.shape
    np.testing.assert_allclose(other(torch.zeros(1, 65, WIDTH))[0], sinusoids(65), rtol=0, atol=ULP)
    np.testing.assert_allclose(layer.P[0], sinusoids(layer.P.shape[1]), rtol=0, atol=ULP)
    assert other.P.shape[1] > layer.P.shape[1]


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad], ids=lambda mode: mode.__name__)
def test_tables_that_grew_where_nothing_is_recorded_are_trained_with(mode):
    attention = MultiHeadAttention(2 * WIDTH, 2, position=Rotary(head_dim=WIDTH, layout="half"))
    attention.rotary.set_tables(attention.rotary.encoding.constants(2))
    fresh = copy.deepcopy(attention)
    x = torch.randn(2, 9, 2 * WIDTH)
    with mode():
        attention(x, x, x)
    for layer in (attention, fresh):
        layer(x, x, x).square().sum().backward()
        layer(x, x, x, start=7).square().sum().backward()
    assert not attention.rotary.tables[0].is_inference()
    for ours, theirs in zip(attention.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


def test_threads_that_train_and_threads_that_infer_share_a_layer():
    """The gradient of ones by a rotation is what the inverse rotation makes of them, whoever grew the table."""
    layer, ready = RotaryEmbedding(Rotary(head_dim=WIDTH, layout="half"), max_len=1), threading.Barrier(16)
    lengths = [3, 65, 17, 130] * 4

    def inferred(length):
        with torch.inference_mode():
            return layer(ones_and_zeros(length))

    def trained(length):
        x = ones_and_zeros(length).requires_grad_()
        (layer(x) * torch.from_numpy(turns(length)).float()).sum().backward()
        return x.grad

    def run(which):
        ready.wait()
        return (trained if which % 2 else inferred)(lengths[which])

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(run, range(16)))
    for which, (length, got) in enumerate(zip(lengths, results, strict=True)):
        wanted = ones_and_zeros(length)[0, 0] if which % 2 else turns(length)
        np.testing.assert_allclose(got[0, 0], wanted, rtol=0, atol=4 * ULP)
