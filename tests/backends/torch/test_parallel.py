"""Two processes that share a model or its heads: what they compute together is what one computes."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding
from posenc_backends.torch.base import Layer
from posenc_core import Learned, Rotary, ShawBias, Sinusoidal, T5Bias

WIDTH, HEADS, LENGTH = 16, 2, 8
HEAD = WIDTH // HEADS
ROTARY = Rotary(head_dim=HEAD, layout="half")
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Model(nn.Module):
    """Fixed and learned positions on tokens, and two layers of attention that see positions."""

    def __init__(self):
        super().__init__()
        self.fixed = PositionalEncoding(WIDTH, max_len=LENGTH, encoding=Sinusoidal(dim=WIDTH))
        self.learned = PositionalEncoding(WIDTH, encoding=Learned(dim=WIDTH, length=LENGTH))
        self.rotary_channels = MultiHeadAttention(WIDTH, HEADS, position=ROTARY)
        self.biased = MultiHeadAttention(WIDTH, HEADS, position=T5Bias(num_heads=HEADS))

    def forward(self, x):
        x = self.learned(self.fixed(x))
        x = x + self.rotary_channels(x, x, x, causal=True)
        return self.biased(x, x, x)


def trained(model, x, rank=None):
    """Losses and parameters of three steps; with a rank, on that half of the batch."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    own = x if rank is None else x.chunk(2)[rank]
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(own) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def full(model):
    """Parameters by name, those of all processes put together."""
    named = ((name, p.detach()) for name, p in model.named_parameters())
    return {name.removeprefix("module."): p.full_tensor() if hasattr(p, "full_tensor") else p for name, p in named}


def assert_same_training(model, reference, mesh):
    """Halves of a batch, whose gradients are averaged, train as the whole batch does, up to the order of sums."""
    x = torch.randn(4, LENGTH, WIDTH)
    losses = trained(model, x, mesh.get_rank())
    torch.distributed.all_reduce(losses)
    torch.testing.assert_close(losses / 2, trained(reference, x), rtol=1e-5, atol=0)
    for name, parameter in full(reference).items():
        torch.testing.assert_close(full(model)[name], parameter, rtol=1e-5, atol=1e-6)


def assert_exact_tables(model):
    """Every table is whole in every process, float32, to the last bit, and no parameter."""
    assert not any(name.endswith(("fixed.table", "cos", "sin")) for name, _ in model.named_parameters())
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, Layer)}
    tables = {
        f"{path}.{name}": table
        for path, layer in layers.items()
        for name, table in layer.constants.items()
        if name.endswith(("table", "cos", "sin"))
    }
    assert len(tables) == 3
    for name, table in tables.items():
        assert type(table) is torch.Tensor
        encoding = ROTARY.constants(len(table)) if "rotary" in name else Sinusoidal(dim=WIDTH).constants(len(table))
        np.testing.assert_array_equal(table.numpy(), encoding[name.rpartition(".")[2]], strict=True)


@check
def distributed_data_parallel(mesh):
    reference = Model()
    model = DistributedDataParallel(copy.deepcopy(reference))
    assert_same_training(model, reference, mesh)
    assert_exact_tables(model)


@check
def tables_of_other_lengths_in_each_process(mesh):
    """One of them grows there alone; two calls go before one way back, between which buffers would be sent."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), PositionalEncoding(WIDTH, max_len=4)))
    turning = DistributedDataParallel(MultiHeadAttention(WIDTH, HEADS, position=ROTARY))
    turning.module.rotary.set_tables(ROTARY.constants(4))
    rank = mesh.get_rank()
    for length in ((3, 3), (3, 9), (3, 3), (17, 2)):
        model(torch.randn(2, length[rank], WIDTH)).sum().backward()
        x = torch.randn(2, length[rank], WIDTH)
        (turning(x, x, x).sum() + turning(x, x, x).sum()).backward()
    assert len(model.module[1].constants["table"]) == len(turning.module.rotary.constants["cos"]) == (17, 9)[rank]


@check
def kept_tables_of_other_lengths_in_each_process(mesh):
    """What is part of the state has the length that it was made with."""
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(WIDTH, WIDTH), PositionalEncoding(WIDTH, max_len=4, persistent=True))
    )
    for length in ((3, 3), (3, 9), (3, 3)):
        model(torch.randn(2, length[mesh.get_rank()], WIDTH)).sum().backward()
    assert model.state_dict()["module.1.table"].shape == (4, WIDTH)
    state = get_model_state_dict(model)
    assert state["1.table"].shape == (4, WIDTH)


def sharded(model, mesh, **options):
    for layer in (model.learned, model.rotary_channels, model.biased):
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


@check
def fully_sharded(mesh):
    reference = Model()
    model = sharded(copy.deepcopy(reference), mesh)
    assert model.learned.table.to_local().shape == (LENGTH // 2, WIDTH)
    assert_same_training(model, reference, mesh)
    assert_exact_tables(model)


@check
def fully_sharded_in_bfloat16(mesh):
    """Learned rows are rounded as the policy says; those that are fixed are added as float32 numbers, rounded once."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    model = sharded(Model(), mesh, mp_policy=policy)
    x = torch.randn(2, LENGTH, WIDTH)
    assert model(x).dtype == torch.bfloat16
    assert_exact_tables(model)
    alone = fully_shard(PositionalEncoding(WIDTH, encoding=Sinusoidal(dim=WIDTH)), mesh=mesh, mp_policy=policy)
    rows = torch.from_numpy(Sinusoidal(dim=WIDTH).table(range(LENGTH)))
    assert torch.equal(alone(x), (x.bfloat16().float() + rows).bfloat16())


@check
def sharded_state_comes_back(mesh):
    model, other, x = sharded(Model(), mesh), sharded(Model(), mesh), torch.randn(2, LENGTH, WIDTH)
    with torch.no_grad():
        assert not torch.equal(model(x), other(x))
        other.load_state_dict(model.state_dict())
        assert torch.equal(model(x), other(x))
        options = StateDictOptions(full_state_dict=True)
        alone = Model()
        alone.load_state_dict(get_model_state_dict(model, options=options))
        assert torch.equal(alone(x), model(x))


@check
def heads_in_parallel(mesh):
    """Each process has the projections of its own heads, and learned numbers for all."""
    x = torch.randn(2, LENGTH, WIDTH)
    for position in (None, ROTARY, T5Bias(num_heads=HEADS), ShawBias(num_heads=HEADS, head_dim=HEAD, max_distance=3)):
        reference = MultiHeadAttention(WIDTH, HEADS, position=position)
        wanted = reference(x, x, x, causal=True)
        plan = dict.fromkeys(("W_q", "W_k", "W_v"), ColwiseParallel(use_local_output=False))
        model = parallelize_module(copy.deepcopy(reference), mesh, {**plan, "W_o": RowwiseParallel()})
        with sdpa_kernel(SDPBackend.MATH):  # of DTensors, that of the CPU knows no sharding
            got = model(x, x, x, causal=True)
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)


@check
def heads_cut_without_a_word_are_refused(mesh):
    model = parallelize_module(MultiHeadAttention(WIDTH, HEADS), mesh, {"W_q": ColwiseParallel()})
    x = torch.randn(2, LENGTH, WIDTH)
    with pytest.raises(ValueError, match=r"`W_q\(…\)` must be 16 wide, got shape \(2, 8, 8\)"):
        model(x, x, x)


@pytest.mark.parametrize("name", CHECKS)
def test_two_processes(faults, name):
    assert not faults[name], faults[name]
