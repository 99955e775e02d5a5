"""Two processes that share a model or its heads agree with one process."""

import copy
import itertools
import tempfile
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from posenc_backends.torch import AttentionBias, MultiHeadAttention, PositionalEncoding
from posenc_backends.torch.base import Layer
from posenc_core import Learned, LearnedQueryScale, MixedRotary, QKNorm, Rotary, Sinusoidal, T5Bias
from posenc_core.encodings import NAMES, Scoring
from posenc_core.encodings.attention_encoding import QueryKeyEncoding
from posenc_core.encodings.examples import example
from tests.many_devices import many_devices

WIDTH, HEADS, LENGTH = 16, 2, 8
HEAD = WIDTH // HEADS
ROTARY = Rotary(head_dim=HEAD, layout="half")
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Model(nn.Module):
    """Fixed and learned additive positions, and two attention layers with positions."""

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
    """Return losses and parameters of three steps; with a rank, on that half of the batch."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    part = x if rank is None else x.chunk(2)[rank]
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(part) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def full(model):
    """Return the parameters by name, gathered from all processes."""
    named = ((name, p.detach()) for name, p in model.named_parameters())
    return {name.removeprefix("module."): p.full_tensor() if hasattr(p, "full_tensor") else p for name, p in named}


def assert_same_training(model, reference, mesh):
    """Check that two half batches with averaged gradients train like the full batch, up to the order of sums."""
    x = torch.randn(4, LENGTH, WIDTH)
    losses = trained(model, x, mesh.get_rank())
    torch.distributed.all_reduce(losses)
    torch.testing.assert_close(losses / 2, trained(reference, x), rtol=1e-5, atol=0)
    for name, parameter in full(reference).items():
        torch.testing.assert_close(full(model)[name], parameter, rtol=1e-5, atol=1e-6)


def assert_exact_tables(model):
    """Check that every process has the full exact float32 tables, and that no table is a parameter."""
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


@many_devices("PyTorch", "`DistributedDataParallel`")
@check
def distributed_data_parallel(mesh):
    reference = Model()
    model = DistributedDataParallel(copy.deepcopy(reference))
    assert_same_training(model, reference, mesh)
    assert_exact_tables(model)


@many_devices("PyTorch", "`DistributedDataParallel`, sequences of other lengths in each process")
@check
def tables_of_other_lengths_in_each_process(mesh):
    """A table grows in one process; two forward passes precede a backward pass: DDP would broadcast buffers."""
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
    """Persistent tables keep their initial length."""
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


@many_devices("PyTorch", "`fully_shard` (FSDP2) for each block")
@check
def fully_sharded(mesh):
    reference = Model()
    model = sharded(copy.deepcopy(reference), mesh)
    assert model.learned.table.to_local().shape == (LENGTH // 2, WIDTH)
    assert_same_training(model, reference, mesh)
    assert_exact_tables(model)


@many_devices("PyTorch", "`fully_shard` with `MixedPrecisionPolicy(param_dtype=torch.bfloat16)`; tables stay float32")
@check
def fully_sharded_in_bfloat16(mesh):
    """Learned rows are rounded by the policy; fixed rows are added in float32 and rounded once."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    model = sharded(Model(), mesh, mp_policy=policy)
    x = torch.randn(2, LENGTH, WIDTH)
    assert model(x).dtype == torch.bfloat16
    assert_exact_tables(model)
    alone = fully_shard(PositionalEncoding(WIDTH, encoding=Sinusoidal(dim=WIDTH)), mesh=mesh, mp_policy=policy)
    rows = torch.from_numpy(Sinusoidal(dim=WIDTH).table(range(LENGTH)))
    assert torch.equal(alone(x), (x.bfloat16().float() + rows).bfloat16())


@many_devices("PyTorch", "states of `fully_shard`, sharded and full (`get_model_state_dict`)")
@check
def sharded_state_comes_back(mesh):
    model, loaded, x = sharded(Model(), mesh), sharded(Model(), mesh), torch.randn(2, LENGTH, WIDTH)
    with torch.no_grad():
        assert not torch.equal(model(x), loaded(x))
        loaded.load_state_dict(model.state_dict())
        assert torch.equal(model(x), loaded(x))
        options = StateDictOptions(full_state_dict=True)
        alone = Model()
        alone.load_state_dict(get_model_state_dict(model, options=options))
        assert torch.equal(alone(x), model(x))


@many_devices("PyTorch", "`FullyShardedDataParallel` (FSDP1) in its default, also from the meta device")
@check
def fully_sharded_as_flat_parameters(mesh):
    """The first FSDP holds parameters as attributes, and makes those on the meta device by `reset_parameters`."""
    reference, x = Model(), torch.randn(2, LENGTH, WIDTH)
    with torch.device("meta"):
        empty = Model()
    options = {"device_mesh": mesh, "device_id": torch.device("cpu")}
    model = FullyShardedDataParallel(copy.deepcopy(reference), **options)
    result = model(x)
    result.sum().backward()
    torch.testing.assert_close(result, reference(x))
    assert FullyShardedDataParallel(empty, **options)(x).isfinite().all()


@many_devices("PyTorch", "meta device, `fully_shard`, `to_empty`, `reset_parameters`")
@check
def sharded_parameters_start_alike_in_every_process(mesh):
    with torch.device("meta"):
        model = sharded(Model(), mesh)
    model.to_empty(device="cpu")
    torch.manual_seed(mesh.get_rank())
    for layer in model.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    assert 0.01 < model.learned.table.full_tensor().std() < 0.03
    both = torch.stack([model(torch.ones(1, LENGTH, WIDTH)).sum()])
    torch.distributed.all_reduce(both)
    torch.testing.assert_close(both / 2, model(torch.ones(1, LENGTH, WIDTH)).sum()[None])


@many_devices(
    "PyTorch",
    "`torch.distributed.checkpoint` of another encoding, `persistent=True`",
    fails="a `RuntimeError` names it",
)
@check
def persistent_tables_of_another_encoding_are_refused(mesh):
    """A distributed checkpoint loads into the tensors of the state, in both processes."""
    saved, layer = (
        fully_shard(MultiHeadAttention(WIDTH, HEADS, position=position, max_len=4, persistent=True), mesh=mesh)
        for position in (ROTARY, replace(ROTARY, base=500.0))
    )
    state, x, folder = layer.state_dict(), torch.randn(2, 4, HEAD), [tempfile.mkdtemp()]
    torch.distributed.broadcast_object_list(folder)
    dcp.save(saved.state_dict(), checkpoint_id=folder[0])
    wanted = layer.rotary(x)
    dcp.load(state, checkpoint_id=folder[0])
    whole = StateDictOptions(full_state_dict=True)
    for foreign, sent in ((state, False), (get_model_state_dict(saved, options=whole), True)):
        options = StateDictOptions(full_state_dict=sent, broadcast_from_rank0=sent)
        with pytest.raises(RuntimeError, match=r"rotary\.cos and 1 more: other numbers than"):
            set_model_state_dict(layer, dict(foreign), options=options)
    assert torch.equal(layer.rotary(x), wanted)


def by_heads(reference, mesh, **options):
    """Return a copy whose processes share the heads of the projections."""
    plan = dict.fromkeys(("W_q", "W_k", "W_v"), ColwiseParallel(**options))
    return parallelize_module(copy.deepcopy(reference), mesh, {**plan, "W_o": RowwiseParallel()})


def assert_same_gradients(reference, model, x, call=None, **arguments):
    """Check that results and the gradients of all parameters, whole in every process, are those of one process."""
    wanted, got = reference(x, x, x, **arguments), (model if call is None else call)(x, x, x, **arguments)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)
    for result in (wanted, got):
        (result**2).sum().backward()
    gradients = {name: parameter.grad for name, parameter in reference.named_parameters()}
    for name, parameter in model.named_parameters():
        assert isinstance(parameter.grad, type(parameter.data)), name
        found = parameter.grad.full_tensor() if hasattr(parameter.grad, "full_tensor") else parameter.grad
        torch.testing.assert_close(found, gradients[name], rtol=1e-4, atol=1e-5)


def drawn(position):
    """Return attention whose encoding has drawn numbers where it learns, and what calls of it are given."""
    layer = MultiHeadAttention(WIDTH, HEADS, position=position)
    for name, parameter in layer.named_parameters():
        if not name.startswith("W_"):
            nn.init.normal_(parameter, std=0.1)
    axes = getattr(layer.rotary and layer.rotary.encoding, "num_axes", 1)
    points = torch.cartesian_prod(torch.arange(1), torch.arange(2), torch.arange(LENGTH // 2)).T[-axes:]
    return layer, {"causal": True} | ({"positions": points, "key_positions": points} if axes > 1 else {})


ALL = [example(name, num_heads=HEADS, head_dim=HEAD) for name in NAMES] + [example("FoPE", num_heads=HEADS, std=0.1)]
ROTARIES = [one for one in ALL if isinstance(one, QueryKeyEncoding)]
SCORINGS = [one for one in ALL if isinstance(one, Scoring)]
PAIRS = list(zip(itertools.cycle(ROTARIES), SCORINGS, strict=False))


@many_devices(
    "PyTorch",
    "tensor parallel `MultiHeadAttention`, every `position`, also of several axes and pairs of them; backward",
)
@check
def heads_in_parallel(mesh):
    """Each process has the projections of its own heads, and what the encoding learns, which all share."""
    x = torch.randn(2, LENGTH, WIDTH)
    for position in (None, *ROTARIES, *SCORINGS, *PAIRS):
        reference, options = drawn(position)
        assert_same_gradients(reference, by_heads(reference, mesh, use_local_output=False), x, **options)


@many_devices("PyTorch", "the same with masks, lengths, positions, shared keys, a `query_scale` and a `qk_norm`")
@check
def heads_in_parallel_with_masks(mesh):
    x, at = torch.randn(2, LENGTH, WIDTH), torch.arange(LENGTH) * 2
    reference = MultiHeadAttention(
        WIDTH, 2 * HEADS, position=T5Bias(num_heads=2 * HEADS), num_kv_heads=HEADS,
        query_scale=LearnedQueryScale(num_heads=2 * HEADS), bias=True, qk_norm=QKNorm(head_dim=WIDTH // HEADS // 2),
    )  # fmt: skip
    mask = torch.rand(2, 2 * HEADS, LENGTH, LENGTH) > 0.3
    for options in (
        {"valid_lens": torch.tensor([3, 8])},
        {"mask": mask, "causal": True},
        {"positions": at, "key_positions": at},
        {"positions": at, "key_positions": at, "causal": "order"},
    ):
        assert_same_gradients(reference, by_heads(reference, mesh), x, **options)
        reference.zero_grad()
    of_rows = MultiHeadAttention(WIDTH, HEADS, qk_norm=QKNorm(head_dim=HEAD, num_heads=HEADS))
    with pytest.raises(ValueError, match="`qk_norm` must leave out `num_heads` where processes share the heads"):
        by_heads(of_rows, mesh)(x, x, x)


def assert_compiled_in_parallel(positions, mesh, backend="aot_eager"):
    x = torch.randn(2, LENGTH, WIDTH)
    for position in positions:
        torch.compiler.reset()
        reference, options = drawn(position)
        model = by_heads(reference, mesh, use_local_output=False)
        call = torch.compile(model, fullgraph=True, backend=backend)
        assert_same_gradients(reference, model, x, call, **options)


@check
def heads_in_parallel_compiled(mesh):
    """A rotary encoding of several axes that learns for each head, and a scoring one; others are in the slow tests."""
    rotary = MixedRotary(head_dim=HEAD, layout="half", num_heads=HEADS)
    assert_compiled_in_parallel([(rotary, T5Bias(num_heads=HEADS))], mesh)


@many_devices("PyTorch", "decoding with a cache, tensor parallel; each process keeps the keys of its heads")
@check
def a_cache_of_the_heads_of_a_process(mesh):
    for position in (ROTARY, example("ForgettingBias")):
        reference = MultiHeadAttention(WIDTH, HEADS, position=position)
        model, x, cache = by_heads(reference, mesh), torch.randn(1, LENGTH, WIDTH), ()
        wanted = reference(x, x, x, causal=True)
        for start, tokens in ((0, x[:, :5]), (5, x[:, 5:6]), (6, x[:, 6:])):
            got, _, cache = model(tokens, tokens, tokens, start=start, causal=True, cache=cache)
            torch.testing.assert_close(got, wanted[:, start : start + tokens.shape[1]], rtol=0, atol=1e-6)
        assert cache[0].shape == (1, HEADS // 2, LENGTH, HEAD)


@many_devices("PyTorch", "a plan that shards some of `W_q`, `W_k`, `W_v`", fails="a `ValueError` names the projection")
@check
def one_projection_in_parallel_is_rejected(mesh):
    model = parallelize_module(MultiHeadAttention(WIDTH, HEADS), mesh, {"W_q": ColwiseParallel()})
    x = torch.randn(2, LENGTH, WIDTH)
    with pytest.raises(ValueError, match=r"`W_k\(…\)` must be 8 wide, got shape \(2, 8, 16\)"):
        model(x, x, x)


@many_devices(
    "PyTorch", "heads that the processes do not divide", fails="a `ValueError`, as the heads are not equal shares"
)
@check
def heads_that_the_processes_do_not_divide_are_rejected(mesh):
    reference = MultiHeadAttention(24, 3)
    x = torch.randn(2, LENGTH, 24)
    with pytest.raises(ValueError, match="`num_heads` must be a multiple of the 2 processes that share heads, got 3"):
        by_heads(reference, mesh)(x, x, x)
    with pytest.raises(ValueError, match="`heads` must be whole groups of 2 heads that share keys"):
        by_heads(MultiHeadAttention(WIDTH, 2, num_kv_heads=1), mesh)(*[torch.randn(2, LENGTH, WIDTH)] * 3)


@many_devices(
    "PyTorch",
    "layers of local heads and plain tensors (torchtitan, Megatron, vLLM)",
    line="`heads=range(first, first + count)`; for parameters that all processes have, the hook below",
)
@check
def local_heads_and_plain_tensors(mesh):
    """The line of the page that sums gradients makes those of replicated parameters whole."""
    scores = torch.randn(1, HEADS, LENGTH, LENGTH)
    layer, own = AttentionBias(T5Bias(num_heads=HEADS)), mesh.get_rank()
    wanted = layer(scores)
    (expected,) = torch.autograd.grad((wanted**2).sum(), [layer.table])
    layer.table.register_post_accumulate_grad_hook(lambda p: torch.distributed.all_reduce(p.grad))
    got = layer(scores[:, own : own + 1], heads=range(own, own + 1))
    torch.testing.assert_close(got, wanted[:, own : own + 1], rtol=0, atol=0)
    (got**2).sum().backward()
    torch.testing.assert_close(layer.table.grad, expected)


@pytest.mark.parametrize("name", CHECKS)
def test_two_processes(faults, name):
    assert not faults[name], faults[name]
