"""Scoring encodings of images and of newer text models: those of other libraries and ours."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import DebertaConfig, DebertaV2Config, Swinv2Config
from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention as DisentangledSelfAttentionV2
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.inkling.modeling_inkling import InklingRelativeLogits
from transformers.models.sam.modeling_sam import SamVisionAttention
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention
from transformers.models.vitdet.modeling_vitdet import add_decomposed_relative_positions
from x_transformers.x_transformers import DynamicPositionBias as Peer
from x_transformers.x_transformers import RelativeProjPositionalBias

from posenc_core import DebertaBias, DecomposedBias, DynamicPositionBias, RelativeLogits, SwinV2Bias, attend
from posenc_core.attention.attend import AttentionInputs
from posenc_core.attention.buckets import log_buckets
from posenc_core.encodings import Placed

from .importing import whole

timm = whole("timm", without="torchvision")
HEADS, WIDTH = 2, 4
APART = 2.0**-19  # of numbers of a size to 8, which both sides round some thirty times in float32
GENERATOR = torch.Generator().manual_seed(5)


def drawn(*shape):
    return torch.randn(shape, generator=GENERATOR)


def biases(encoding, weights, queries, keys, q=None, k=None):
    """Return what the encoding adds to scores that are 0."""
    placed = Placed(encoding, queries, keys, {name: array.detach() for name, array in weights.items()})
    scores = torch.zeros(2, HEADS, len(queries), len(keys))
    return placed.scores(AttentionInputs(q, k, scores))


@pytest.mark.parametrize("trained", [None, (4, 4)])
@pytest.mark.parametrize("window", [(3, 5), (8, 8)])
def test_swin_v2(window, trained):
    config = Swinv2Config()
    theirs = Swinv2SelfAttention(config, HEADS * WIDTH, HEADS, window, list(trained or (0, 0)))
    hidden, _, head = theirs.continuous_position_bias_mlp
    table = theirs.continuous_position_bias_mlp(theirs.relative_coords_table).view(-1, HEADS)
    cells = range(window[0] * window[1])
    pairs = table[theirs.relative_position_index.view(-1)].view(len(cells), len(cells), HEADS)
    expected = 16 * torch.sigmoid(pairs)
    weights = {"hidden_weight": hidden.weight, "hidden_bias": hidden.bias, "head_weight": head.weight}
    encoding = SwinV2Bias(num_heads=HEADS, window=window, trained_window=trained)
    ours = biases(encoding, weights, cells, cells)
    torch.testing.assert_close(ours, expected.permute(2, 0, 1).detach(), atol=2 * APART, rtol=0)
    peer = timm.layers.RelPosMlp(window, HEADS, 512, mode="swin", pretrained_window_size=trained or (0, 0))
    peer.mlp.fc1.load_state_dict(hidden.state_dict())
    peer.mlp.fc2.weight.data = head.weight.data
    torch.testing.assert_close(ours, peer.eval().get_bias()[0].detach(), atol=2 * APART, rtol=0)


@pytest.mark.parametrize("log_distance", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_dynamic_position_bias(depth, log_distance):
    theirs = Peer.__new__(Peer)
    torch.nn.Module.__init__(theirs)
    theirs.log_distance = log_distance
    linear = [torch.nn.Linear(6 if number else 1, 6) for number in range(depth)]
    theirs.mlp = torch.nn.ModuleList(
        [*(torch.nn.Sequential(each, torch.nn.SiLU()) for each in linear), torch.nn.Linear(6, HEADS)]
    )
    weights = {}
    for number, each in enumerate([*linear, theirs.mlp[-1]]):
        name = f"hidden_{number}" if number < depth else "head"
        weights |= {f"{name}_weight": each.weight, f"{name}_bias": each.bias}
    encoding = DynamicPositionBias(num_heads=HEADS, hidden=6, depth=depth, log_distance=log_distance)
    ours = biases(encoding, weights, range(3, 12), range(12))
    torch.testing.assert_close(ours, theirs(9, 12).detach(), atol=APART, rtol=0)


@pytest.mark.parametrize(("window", "key_window"), [((3, 5), None), ((4, 6), (2, 2)), ((2, 3), (4, 3))])
def test_decomposed_relative_positions(window, key_window):
    sizes = window, key_window or window
    queries, keys = (height * width for height, width in sizes)
    q, rows, columns = (
        drawn(2, HEADS, queries, WIDTH),
        *(drawn(2 * max(pair) - 1, WIDTH) for pair in zip(*sizes, strict=True)),
    )
    encoding = DecomposedBias(num_heads=HEADS, head_dim=WIDTH, window=window, key_window=key_window)
    ours = biases(encoding, {"rows": rows, "columns": columns}, range(queries), range(keys), q)
    zeros = torch.zeros(2 * HEADS, queries, keys)
    vitdet = add_decomposed_relative_positions(zeros, q.flatten(0, 1), rows, columns, *sizes)
    torch.testing.assert_close(ours.flatten(0, 1), vitdet, atol=APART, rtol=0)
    own = SimpleNamespace(get_rel_pos=lambda *given: SamVisionAttention.get_rel_pos(None, *given))
    sam = SamVisionAttention.get_decomposed_rel_pos(own, q.flatten(0, 1), rows, columns, *sizes)
    torch.testing.assert_close(ours.flatten(0, 1), sam.reshape(ours.flatten(0, 1).shape), atol=APART, rtol=0)


def test_decomposed_relative_positions_after_a_class_token():
    q, rows, columns = drawn(2, HEADS, 13, WIDTH), drawn(5, WIDTH), drawn(7, WIDTH)
    encoding = DecomposedBias(num_heads=HEADS, head_dim=WIDTH, window=(3, 4), prefix_tokens=1)
    ours = biases(encoding, {"rows": rows, "columns": columns}, range(13), range(13), q)
    theirs = timm.models.mvitv2.cal_rel_pos_type(torch.zeros(2, HEADS, 13, 13), q, True, [3, 4], [3, 4], rows, columns)
    torch.testing.assert_close(ours, theirs, atol=APART, rtol=0)


@pytest.mark.parametrize(("buckets", "farthest"), [(4, 9), (8, 20), (32, 128), (256, 512)])
def test_buckets_of_deberta(buckets, farthest):
    """Theirs are computed by logarithms in float32, ours by integers."""
    theirs = make_log_bucket_position(torch.arange(farthest), buckets, farthest).int()
    np.testing.assert_array_equal(log_buckets(buckets, farthest)[:farthest], theirs)


@pytest.mark.parametrize("terms", ["both", "c2p", "p2c"])
@pytest.mark.parametrize("version", [1, 2])
def test_deberta(version, terms):
    types, length = ["c2p", "p2c"] if terms == "both" else [terms], 30
    more = {"position_buckets": 8} if version == 2 else {}
    config = (DebertaConfig, DebertaV2Config)[version - 1](
        hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, relative_attention=True, pos_att_type=types,
        max_relative_positions=40, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0, **more,
    )  # fmt: skip
    theirs = (DisentangledSelfAttention, DisentangledSelfAttentionV2)[version - 1](config).eval()
    x, table = drawn(2, length, HEADS * WIDTH), drawn(16 if version == 2 else 80, HEADS * WIDTH)

    relative = (torch.arange(length)[:, None] - torch.arange(length))[None] if version == 1 else None

    def heads(tokens):
        return tokens.unflatten(-1, (HEADS, WIDTH)).transpose(-2, -3)

    with torch.no_grad():
        expected = theirs(x, torch.ones(2, 1, length, length), rel_embeddings=table, relative_pos=relative)[0]
        if version == 1:
            q, k, v = theirs.in_proj(x).unflatten(-1, (HEADS, 3 * WIDTH)).transpose(1, 2).chunk(3, dim=-1)
            q, v = q + theirs.q_bias.view(HEADS, 1, WIDTH), v + theirs.v_bias.view(HEADS, 1, WIDTH)
            projections = {"K_r": "pos_proj", "Q_r": "pos_q_proj"}
        else:
            q, k, v = (heads(getattr(theirs, f"{name}_proj")(x)) for name in ("query", "key", "value"))
            projections = {"K_r": "pos_key_proj", "Q_r": "pos_query_proj"}
        encoding = DebertaBias(
            num_heads=HEADS, head_dim=WIDTH, max_distance=40, num_buckets=8 if version == 2 else None, terms=terms
        )
        weights = {name: heads(getattr(theirs, projections[name])(table)) for name in encoding.parameters()}
        ours = attend(q, k, v, position=Placed(encoding, range(length), range(length), weights))
    torch.testing.assert_close(ours.transpose(1, 2).flatten(2), expected, atol=APART, rtol=0)


@pytest.mark.parametrize("extent", [4, 20])
@pytest.mark.parametrize(("queries", "keys"), [(1, 9), (5, 9), (9, 9)])
def test_inkling_and_x_transformers_mix_curves_alike(queries, keys, extent):
    """Their mixtures are of tokens: here the tokens are the queries of all heads, side by side."""
    q = drawn(2, HEADS, queries, WIDTH)
    x = q.transpose(1, 2).flatten(2)
    theirs = RelativeProjPositionalBias(HEADS * WIDTH, HEADS, num_distance_basis=3, max_dist=extent)
    linear = theirs.to_distance_weights[0]
    linear.bias.data.zero_()
    weights = {"W_r": linear.weight.T.reshape(HEADS, WIDTH, HEADS * 3), "curves": theirs.distance_bank}
    encoding = RelativeLogits(num_heads=HEADS, head_dim=WIDTH, max_distance=extent, num_curves=3)
    ours = biases(encoding, weights, range(keys - queries, keys), range(keys), q)
    torch.testing.assert_close(ours, theirs(x, keys).detach(), atol=APART, rtol=0)
    inkling = InklingRelativeLogits(3, extent)
    inkling.proj.data = theirs.distance_bank.data
    states = (x @ linear.weight.T).unflatten(-1, (HEADS, 3))
    expected = inkling(states, torch.arange(keys - queries, keys), torch.arange(keys))
    torch.testing.assert_close(ours, expected.detach(), atol=APART, rtol=0)
