"""Two processes that share a sequence or its heads agree with one process."""

import numpy as np
import pytest
import torch
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel, implicit_replication
from torch.distributed.tensor.experimental._context_parallel import _attention as ring_attention

from posenc_backends.torch import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding, apply_rotary
from posenc_core import Alibi, Learned, LearnedRotary, Placed, Rotary, ShawBias, Sinusoidal, T5Bias, attend
from posenc_core.positions.sequences import shard
from tests.many_devices import many_devices

HEADS, LENGTH, HEAD = 2, 12, 8
WIDTH = HEADS * HEAD
FAR = 2**20 - 5
ULP = 2.0**-24
CUTS = (Shard(0), Shard(1), Shard(2), Replicate())
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def rotated(x, positions):
    """Rotate in float64 (Su et al. 2021, equation 34): channels i and i + HEAD / 2 are one complex number."""
    numbers, half = x.double().numpy(), HEAD // 2
    angles = np.asarray(positions)[:, None] / 10000.0 ** (np.arange(half) / half)
    points = (numbers[..., :half] + 1j * numbers[..., half:]) * np.exp(1j * angles)
    return np.concatenate([points.real, points.imag], axis=-1)


def attended(q, k, v):
    """Return causal attention in float64 (Vaswani et al. 2017, equation 1)."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(HEAD)
    scores[..., ~np.tri(*scores.shape[-2:], dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def tokens(*shape):
    """Return numbers from -1 to 1, the same in every process."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)) * 2 - 1


def spread(mesh, x, cut):
    return distribute_tensor(x, mesh, [cut])


@many_devices("PyTorch", "`DTensor` tokens, sharded over batch, heads, sequence: rotations")
@check
def rotation_of_distributed_tokens(mesh):
    """Positions are those of the full sequence, not of the part in a process."""
    x, cases = tokens(2, HEADS, LENGTH, HEAD), ({}, {"start": FAR}, {"positions": list(range(FAR, FAR + LENGTH))})
    for layout in ("half", "interleaved"):
        rope = RotaryEmbedding(Rotary(head_dim=HEAD, layout=layout), max_len=4)
        for cut in CUTS:
            for case in cases:
                got = rope(spread(mesh, x, cut), **case)
                assert got.placements == (cut,)
                assert torch.equal(got.full_tensor(), rope(x, **case))
                if layout == "half":
                    wanted = rotated(x, np.arange(LENGTH) + (FAR if case else 0))
                    np.testing.assert_allclose(got.full_tensor(), wanted, rtol=0, atol=6 * ULP)


@many_devices("PyTorch", "`apply_rotary` with `DTensor` tokens and plain tables")
@check
def rotation_by_rows_of_distributed_tokens(mesh):
    x, rotary = tokens(2, HEADS, LENGTH, HEAD), Rotary(head_dim=HEAD, layout="half")
    cos, sin = map(torch.from_numpy, rotary.cos_sin(range(LENGTH)))
    for cut in CUTS:
        got, _ = apply_rotary(spread(mesh, x, cut), spread(mesh, x, cut), cos, sin, layout="half")
        assert torch.equal(got.full_tensor(), apply_rotary(x, x, cos, sin, layout="half")[0])


@check
def positions_that_are_distributed_too(mesh):
    rope, x, positions = RotaryEmbedding(Rotary(head_dim=HEAD, layout="half")), tokens(2, HEADS, LENGTH, HEAD), None
    for cut, own in ((Shard(2), Shard(0)), (Shard(2), Replicate()), (Shard(1), Replicate())):
        positions = spread(mesh, torch.arange(FAR, FAR + LENGTH), own)
        got = rope(spread(mesh, x, cut), positions=positions)
        np.testing.assert_allclose(got.full_tensor(), rotated(x, range(FAR, FAR + LENGTH)), rtol=0, atol=6 * ULP)


@many_devices("PyTorch", "local tokens of a part of the sequence", line="`start=` or `positions=`")
@check
def local_tokens_take_a_start(mesh):
    """A process with local tokens passes their `start`."""
    rope, x = RotaryEmbedding(Rotary(head_dim=HEAD, layout="half")), tokens(2, HEADS, LENGTH, HEAD)
    own = spread(mesh, x, Shard(2)).to_local()
    first = mesh.get_rank() * LENGTH // 2
    wanted = rotated(x, range(LENGTH))[:, :, first : first + LENGTH // 2]
    for got in (rope(own, start=first), rope(own, positions=torch.arange(first, first + LENGTH // 2))):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=6 * ULP)


@many_devices("PyTorch", "`DTensor` tokens: additive positions (sequence parallel)")
@check
def addition_to_distributed_tokens(mesh):
    x = tokens(2, LENGTH, WIDTH)
    for encoding in (Sinusoidal(dim=WIDTH), Learned(dim=WIDTH, length=LENGTH)):
        layer = PositionalEncoding(WIDTH, encoding=encoding)
        with torch.no_grad():
            table = layer.P[0].clone()
        for cut in (Shard(0), Shard(1), Shard(2)):
            assert torch.equal(layer(spread(mesh, x, cut)).full_tensor(), x + table[:LENGTH])


@many_devices("PyTorch", "`DTensor` tokens: gradients of `Learned`, whole in every process")
@check
def rows_learned_from_distributed_tokens(mesh):
    """Every process has the gradient of the full batch as a plain tensor: the sum of the weights over the batch."""
    x = tokens(2, LENGTH, WIDTH)
    for cut in (Shard(0), Shard(1)):
        layer = PositionalEncoding(WIDTH, encoding=Learned(dim=WIDTH, length=LENGTH))
        (layer(spread(mesh, x, cut)) * spread(mesh, x, cut)).sum().full_tensor().backward()
        assert type(layer.table.grad) is torch.Tensor
        torch.testing.assert_close(layer.table.grad, x.sum(0), rtol=0, atol=2 * ULP)


@many_devices("PyTorch", "`DTensor` scores: `AttentionBias`")
@check
def bias_on_distributed_scores(mesh):
    scores = tokens(2, HEADS, LENGTH, LENGTH)
    for encoding in (Alibi(num_heads=HEADS), T5Bias(num_heads=HEADS)):
        layer = AttentionBias(encoding)
        for cut in (*CUTS, Shard(3)):
            assert torch.equal(layer(spread(mesh, scores, cut)).full_tensor(), layer(scores))


@check
def plain_tensors_stay_replicated_on_request(mesh):
    layer, scores = AttentionBias(Alibi(num_heads=HEADS)), spread(mesh, tokens(1, HEADS, 3, 3), Shard(1))
    with implicit_replication():
        once = layer(scores)
        assert torch.equal((once + torch.ones(3, 3)).full_tensor(), layer(scores).full_tensor() + 1)
    with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
        layer(scores) + torch.ones(3, 3)


@many_devices("PyTorch", "`DTensor` tokens under `torch.compile`")
@check
def compiled_with_distributed_tokens(mesh):
    rope, x = RotaryEmbedding(Rotary(head_dim=HEAD, layout="half")), tokens(2, HEADS, LENGTH, HEAD)
    call = torch.compile(rope, fullgraph=True, backend="aot_eager")
    np.testing.assert_allclose(
        call(spread(mesh, x, Shard(2))).full_tensor(), rotated(x, range(LENGTH)), rtol=0, atol=6 * ULP
    )


def gathered(x, axis):
    """Return the concatenated parts of all processes."""
    parts = [torch.empty_like(x) for _ in range(2)]
    torch.distributed.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim=axis)


@check
def context_in_parallel(mesh):
    """Each process rotates its own queries and keys, and attends to the keys of all in another order."""
    rope = RotaryEmbedding(Rotary(head_dim=HEAD, layout="half"))
    q, k, v = (tokens(3, 1, HEADS, LENGTH, HEAD)[i] for i in range(3))
    wanted = attended(*(rotated(x, range(LENGTH)) for x in (q, k)), v.double().numpy())
    for order in ("contiguous", "zigzag"):
        own = shard(torch.arange(LENGTH), mesh.get_rank(), 2, order=order)
        queries, keys = rope(q[:, :, own], k[:, :, own], positions=own)
        keys, values, at = gathered(keys, 2), gathered(v[:, :, own], 2), gathered(own, 0)
        mask = own[:, None] >= at
        got = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, mask)
        np.testing.assert_allclose(got, wanted[:, :, own], rtol=0, atol=32 * ULP)


@many_devices(
    "PyTorch",
    "context parallel by hand, `MultiHeadAttention`",
    line='`positions=shard(…, order="zigzag")`, `key_positions=` of the gathered keys',
)
@check
def attention_with_context_in_parallel(mesh):
    x = tokens(1, LENGTH, WIDTH)
    for position in (Rotary(head_dim=HEAD, layout="half"), Alibi(num_heads=HEADS), T5Bias(num_heads=HEADS)):
        torch.manual_seed(2)
        layer = MultiHeadAttention(WIDTH, HEADS, position=position)
        for order in ("contiguous", "zigzag"):
            own = shard(torch.arange(LENGTH), mesh.get_rank(), 2, order=order)
            all_tokens, at = gathered(x[:, own], 1), gathered(own, 0)
            got = layer(x[:, own], all_tokens, all_tokens, positions=own, key_positions=at, causal=True)
            torch.testing.assert_close(got, layer(x, x, x, causal=True)[:, own], rtol=0, atol=16 * ULP)


@many_devices(
    "PyTorch",
    "PyTorch's `context_parallel`: rotation by sharded positions",
    line="the positions as one of its `buffers`",
)
@check
def context_parallel_of_torch(mesh):
    """PyTorch shards positions like tokens and like `shard`."""
    rope, x = RotaryEmbedding(Rotary(head_dim=HEAD, layout="half")), tokens(1, HEADS, LENGTH, HEAD)
    own, positions = x.clone(), torch.arange(LENGTH)
    with context_parallel(mesh, buffers=[own, positions], buffer_seq_dims=[2, 0]):
        assert torch.equal(positions, shard(torch.arange(LENGTH), mesh.get_rank(), 2, order="zigzag"))
        np.testing.assert_allclose(
            rope(own, positions=positions), rotated(x, range(LENGTH))[:, :, positions], rtol=0, atol=6 * ULP
        )


def ring(operator, backward=False):
    """Return PyTorch's ring attention of an operator, as it has it for operators of GPUs alone."""
    names = [argument.name for argument in operator.default._schema.arguments]
    options = {"seq_dim": 2, "op": operator.default} | ({"grad_out_name": "grad_out"} if backward else {})
    template = "_templated_ring_attention" + "_backward" * backward

    def attention(_, given, named):
        mesh, arguments = given[0].device_mesh, {**dict(zip(names, given, strict=False)), **named}
        local = {name: x.to_local() if isinstance(x, DTensor) else x for name, x in arguments.items()}
        results = getattr(ring_attention, template)(mesh.get_group(), **options, **local)
        return tuple(DTensor.from_local(x, mesh, [Shard(2)], run_check=False) for x in results)

    return {operator.default: attention}


def add_ring_attention_for_cpus():
    """Give `context_parallel` the operators to which `scaled_dot_product_attention` leads on CPUs."""
    aten = torch.ops.aten
    ring_attention.custom_ops.update(ring(aten._scaled_dot_product_flash_attention_for_cpu))
    ring_attention.custom_ops.update(ring(aten._scaled_dot_product_flash_attention_for_cpu_backward, backward=True))


@many_devices(
    "PyTorch",
    "PyTorch's `context_parallel`: `MultiHeadAttention` with rotary positions, forward and backward, `attend` forward",
    line='the positions as one of its `buffers`; `causal="order"`, or `is_causal=True` for `attend`',
)
@check
def attention_in_context_parallel_of_torch(mesh):
    """Results and summed gradients are those of one process, in the zigzag order of the balanced shards."""
    add_ring_attention_for_cpus()
    for position in (None, Rotary(head_dim=HEAD, layout="half"), LearnedRotary(head_dim=HEAD, layout="half", std=0.1)):
        torch.manual_seed(2)
        layer = MultiHeadAttention(WIDTH, HEADS, position=position, num_kv_heads=1)
        wanted = layer(*[tokens(2, LENGTH, WIDTH)] * 3, causal=True)
        gradients = torch.autograd.grad((wanted**2).sum(), list(layer.parameters()))
        own = {"x": tokens(2, LENGTH, WIDTH), "at": torch.arange(LENGTH), "wanted": wanted.detach()}
        with context_parallel(mesh, buffers=list(own.values()), buffer_seq_dims=[1, 0, 1]):
            x, at, wanted = own.values()
            got = layer(x, x, x, positions=at, key_positions=at, causal="order")
            torch.testing.assert_close(got, wanted, rtol=0, atol=16 * ULP)
            (got**2).sum().backward()
        for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
            torch.distributed.all_reduce(parameter.grad)
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)
    rotary, q, at = Rotary(head_dim=HEAD, layout="half"), tokens(1, HEADS, LENGTH, HEAD), torch.arange(LENGTH)
    wanted = attend(q, q, q, position=Placed(rotary, at, at), is_causal=True)
    with context_parallel(mesh, buffers=[q, at, wanted], buffer_seq_dims=[2, 0, 2]):
        got = attend(q, q, q, position=Placed(rotary, at, at), is_causal=True)
        torch.testing.assert_close(got, wanted, rtol=0, atol=16 * ULP)


@many_devices(
    "PyTorch",
    "PyTorch's `context_parallel`: a mask (`causal=True` with positions), scoring encodings, dropout, `weights=True`",
    fails="a `ValueError`, as ring attention has no place for them",
)
@check
def attention_without_a_ring_is_rejected(mesh):
    """Attention by another way than the kernel would miss the keys of other processes."""
    x, at = tokens(1, LENGTH, WIDTH), torch.arange(LENGTH)
    here = {"positions": at, "key_positions": at}
    with context_parallel(mesh, buffers=[x, at], buffer_seq_dims=[1, 0]):
        for options, call in (
            ({}, {**here, "causal": True}),
            ({"dropout": 0.5}, {**here, "causal": "order"}),
            ({}, {**here, "causal": "order", "weights": True}),
            ({"position": Alibi(num_heads=HEADS)}, {**here, "causal": "order"}),
            ({"position": ShawBias(num_heads=HEADS, head_dim=HEAD, max_distance=3)}, {**here, "causal": "order"}),
        ):
            with pytest.raises(ValueError, match="inside `context_parallel` must be PyTorch's ring attention"):
                MultiHeadAttention(WIDTH, HEADS, **options)(x, x, x, **call)


@pytest.mark.parametrize("name", CHECKS)
def test_two_processes(faults, name):
    assert not faults[name], faults[name]
