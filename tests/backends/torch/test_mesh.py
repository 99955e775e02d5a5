"""Four processes that share a model two ways at once agree with one process."""

import copy
import tempfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, SplitPoint, pipeline
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Learned, LearnedRotary, Rotary, T5Bias
from tests.many_devices import many_devices

WIDTH, HEADS, LENGTH = 16, 2, 8
HEAD = WIDTH // HEADS
PROCESSES = 4
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Block(nn.Module):
    """A layer of a Transformer."""

    def __init__(self, position):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = MultiHeadAttention(WIDTH, HEADS, position=position)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, positions=None):
        y = self.norm(x)
        x = x + self.attention(y, y, y, causal=True, positions=positions, key_positions=positions)
        return x + self.down(self.up(x).relu())


class Model(nn.Module):
    """Learned positions of tokens, then blocks with rotary and scoring encodings that learn."""

    def __init__(self):
        super().__init__()
        self.learned = PositionalEncoding(WIDTH, encoding=Learned(dim=WIDTH, length=LENGTH))
        positions = LearnedRotary(head_dim=HEAD, layout="half", std=0.1), T5Bias(num_heads=HEADS)
        self.blocks = nn.Sequential(*map(Block, positions))

    def forward(self, x):
        return self.blocks(self.learned(x))


def train(model, x, optimizer=None, share=1):
    """Make two steps by a share of the mean square; the processes average or add their shares."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (share * (model(x) ** 2).sum() / x.numel()).backward()
        optimizer.step()


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def sharded(model, mesh):
    for part in (model.learned, *model.blocks, model):
        fully_shard(part, mesh=mesh)
    return model


def assert_same_parameters(model, reference):
    for (name, parameter), (_, wanted) in zip(model.named_parameters(), reference.named_parameters(), strict=True):
        got = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def two_ways(mesh):
    return torch.distributed.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))


HEADS_PLAN = {f"attention.{name}": ColwiseParallel() for name in ("W_q", "W_k", "W_v")}
WIDTH_PLAN = {"up": ColwiseParallel()}


def in_parallel(model, mesh, **extra):
    """Share heads and widths of blocks, and what extra names of the sequence."""
    for block in model.blocks:
        out = {name: RowwiseParallel() for name in ("attention.W_o", "down")}
        parallelize_module(block, mesh, {**HEADS_PLAN, **WIDTH_PLAN, **out, **extra})
    return model


@many_devices("PyTorch", "`fully_shard` on two dimensions of a mesh (HSDP)")
@many_devices("PyTorch", "`fully_shard` and tensor parallel on a mesh of 2 × 2")
@many_devices("PyTorch", "the same and sequence parallel: tokens in `Shard(1)` between the blocks")
@check
def sharded_two_ways(mesh):
    """In the last, each process adds the positions of its part of the sequence, which attention gathers."""
    grid, x, reference = two_ways(mesh), torch.randn(4, LENGTH, WIDTH), Model()
    data, model, cut, whole = grid["data"], grid["model"], Shard(1), Replicate()
    rows = x.chunk(2)[data.get_local_rank()]
    by_sequence = {
        "norm": SequenceParallel(),
        "attention": PrepareModuleInput(input_layouts=(cut,) * 3, desired_input_layouts=(whole,) * 3),
        "attention.W_o": RowwiseParallel(output_layouts=cut),
        "up": ColwiseParallel(input_layouts=cut),
        "down": RowwiseParallel(output_layouts=cut),
    }
    hybrid, heads, sequence = (copy.deepcopy(reference) for _ in range(3))
    parallelize_module(sequence, model, {"learned": SequenceParallel(use_local_output=True)})
    cases = (
        (hybrid, grid, x.chunk(4)[mesh.get_rank()], 1),
        (in_parallel(heads, model), data, rows, 1),
        (in_parallel(sequence, model, **by_sequence), data, rows.chunk(2, 1)[model.get_local_rank()], 0.5),
    )
    train(reference, x)
    for case, across, own, share in cases:
        train(sharded(case, across), own, share=share)
        assert_same_parameters(case, reference)


def assert_same_gradients(stage, reference, prefix=""):
    """Check the gradients of a stage, whose parameters have the names of the whole model after a prefix."""
    wanted, own = dict(reference.named_parameters()), dict(stage.named_parameters())
    assert own
    for name, parameter in own.items():
        torch.testing.assert_close(parameter.grad, wanted[prefix + name].grad, rtol=1e-4, atol=1e-6)


@many_devices(
    "PyTorch",
    "pipelines: stages made by hand, `Schedule1F1B`, packed rows",
    line="`step(x, positions=positions)` in each process: positions are split like tokens and reach every stage",
)
@check
def stages_by_hand(mesh):
    processes, reference = two_ways(mesh)["model"], Model()
    x = torch.randn(4, LENGTH, WIDTH)
    positions = torch.stack([torch.arange(LENGTH), torch.arange(LENGTH) % 3] * 2)
    own = processes.get_local_rank()
    part = copy.deepcopy(reference.blocks[own])
    stage = PipelineStage(part, own, 2, torch.device("cpu"), group=processes.get_group())
    schedule = Schedule1F1B(stage, 2, loss_fn=nn.MSELoss())
    result = schedule.step(x, positions=positions) if not own else schedule.step(positions=positions, target=x)
    wanted = reference.blocks[1](reference.blocks[0](x, positions), positions)
    if own:
        torch.testing.assert_close(result, wanted, rtol=0, atol=1e-5)
    nn.MSELoss()(wanted, x).backward()
    assert_same_gradients(part, reference.blocks[own])


@many_devices("PyTorch", "pipelines: stages that `pipeline(…, split_spec=…)` traces")
@check
def traced_stages(mesh):
    processes, reference, x = two_ways(mesh)["model"], Model(), torch.randn(4, LENGTH, WIDTH)
    if (own := mesh.get_rank()) not in range(2):
        return  # to trace takes seconds, and two processes are enough
    whole = pipeline(copy.deepcopy(reference), (x[:2],), split_spec={"blocks.1": SplitPoint.BEGINNING})
    stage = whole.build_stage(own, torch.device("cpu"), group=processes.get_group())
    schedule = Schedule1F1B(stage, 2, loss_fn=nn.MSELoss())
    schedule.step(x) if not own else schedule.step(target=x)
    nn.MSELoss()(reference(x), x).backward()
    assert_same_gradients(stage.submod, reference)


@many_devices(
    "PyTorch",
    "`pipeline` of blocks that share a layer",
    fails="PyTorch cannot split a module that two stages use; give each block a layer of its own",
)
@check
def a_shared_layer_cannot_be_split(mesh):
    if mesh.get_rank():
        return  # one process is enough
    shared = RotaryEmbedding(Rotary(head_dim=HEAD, layout="half"))
    model = nn.Sequential(Block(shared), Block(shared))
    with pytest.raises(Exception, match="is not a descendant"):
        pipeline(model, (torch.randn(2, LENGTH, WIDTH),), split_spec={"1": SplitPoint.BEGINNING})


@many_devices("PyTorch", "`torch.distributed.checkpoint`: saved by 4 processes, read by 2 or as one file")
@check
def a_checkpoint_of_four_processes(mesh):
    """The model and its optimizer go on as one process does, from the shards of a mesh of 2 × 2."""
    grid, x, reference, folder = two_ways(mesh), torch.randn(4, LENGTH, WIDTH), Model(), [tempfile.mkdtemp()]
    model = sharded(in_parallel(copy.deepcopy(reference), grid["model"]), grid["data"])
    optimizer, kept = adam(model), adam(reference)
    train(model, x, optimizer)
    train(reference, x, kept)
    torch.distributed.broadcast_object_list(folder)
    dcp.save(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True)), checkpoint_id=folder[0])
    dcp_to_torch_save(folder[0], f"{folder[0]}-{mesh.get_rank()}.pt")
    alone, half = Model(), sharded(Model(), grid["model"])
    alone.load_state_dict(torch.load(f"{folder[0]}-{mesh.get_rank()}.pt")["model"])
    assert_same_parameters(alone, reference)
    optimizer = adam(half)
    states = dict(zip(("model", "optimizer"), get_state_dict(half, optimizer), strict=True))
    dcp.load(states, checkpoint_id=folder[0], process_group=grid["model"].get_group())
    set_state_dict(half, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
    assert_same_parameters(half, alone)
    train(half, x.chunk(2)[grid.get_local_rank("model")], optimizer)
    train(reference, x, kept)
    assert_same_parameters(half, reference)


@pytest.mark.parametrize("name", CHECKS)
def test_four_processes(faults, name):
    assert not faults[name], faults[name]
