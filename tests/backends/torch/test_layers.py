"""What PyTorch users do with a layer."""

import copy
import pickle

import numpy as np
import pytest
import torch

from posenc_backends.torch import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import (
    Alibi,
    DynamicNTK,
    GridSinusoidal,
    Learned,
    LearnedSinusoidal,
    Normalized,
    RandomFourierFeatures,
    Rotary,
    Sinusoidal,
    T5Bias,
    Timestep,
    grid,
)

from ...errors import rejects

TABLE = Sinusoidal(dim=8).table(range(1000))


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: layer.half(),
        lambda layer: layer.bfloat16(),
        lambda layer: layer.double(),
        lambda layer: layer.to(torch.float16).float(),
        lambda layer: torch.nn.Sequential(layer).bfloat16()[0],
        lambda layer: layer.to("meta").to_empty(device="cpu"),
        lambda layer: layer.share_memory(),
        copy.deepcopy,
        lambda layer: pickle.loads(pickle.dumps(layer)),
    ],
    ids=["half", "bfloat16", "double", "to and back", "in a model", "meta", "share", "deepcopy", "pickle"],
)
def test_casts_and_moves_do_not_change_the_table(change):
    table = change(PositionalEncoding(8)).P[0]
    assert table.dtype == torch.float32
    np.testing.assert_array_equal(table.numpy(), TABLE)


def test_a_layer_made_on_the_meta_device_is_filled_later():
    with torch.device("meta"):
        layer = PositionalEncoding(8)
    layer.to_empty(device="cpu")
    np.testing.assert_array_equal(layer.P[0].numpy(), TABLE)


def test_layers_are_made_on_a_device_and_in_a_dtype():
    options = {"position": T5Bias(num_heads=2), "dtype": torch.bfloat16}
    layer = torch.nn.utils.skip_init(MultiHeadAttention, 16, 2, **options)
    assert {(parameter.dtype, parameter.device.type) for parameter in layer.parameters()} == {(torch.bfloat16, "cpu")}
    wanted = MultiHeadAttention(16, 2, **options).scoring.constants["buckets"]
    torch.testing.assert_close(layer.scoring.constants["buckets"], wanted, rtol=0, atol=0)
    assert RotaryEmbedding(Rotary(head_dim=8, layout="half"), device="meta").tables[0].is_meta


def test_layers_follow_the_default_device():
    with torch.device("meta"):
        layer = RotaryEmbedding(Rotary(head_dim=8, layout="half"))
        assert layer(torch.ones(1, 1, 4, 8)).is_meta


@pytest.mark.parametrize("call", [{"start": -3}, {"positions": [0.5, 1.0, 2.0]}, {"start": [7]}], ids=str)
def test_compiled_code_does_not_change_tables(call):
    torch.compiler.reset()
    layer, x = RotaryEmbedding(Rotary(head_dim=8, layout="half")), torch.randn(1, 2, 3, 8)
    assert torch.equal(torch.compile(layer)(x, **call), layer(x, **call))


def test_tables_are_neither_saved_nor_trained():
    assert not PositionalEncoding(8).state_dict()
    assert not list(RotaryEmbedding(Rotary(head_dim=8, layout="half")).parameters())
    learned = PositionalEncoding(8, encoding=Learned(dim=8, length=5))
    assert list(learned.state_dict()) == ["table"]
    PositionalEncoding(8, max_len=3).load_state_dict(PositionalEncoding(8, max_len=7).state_dict())


def test_autocast_and_inference_mode_have_no_lasting_effect():
    layer = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=4)
    x = torch.randn(1, 1, 9, 8)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        first = layer(x)
    again = layer(x.requires_grad_())
    again.sum().backward()
    assert torch.equal(first, again)


def test_vmap_and_functional_gradients():
    layer = RotaryEmbedding(Rotary(head_dim=8, layout="half"))
    x = torch.randn(3, 2, 5, 8)
    assert torch.equal(torch.vmap(layer)(x), layer(x))
    gradient = torch.func.grad(lambda x: (layer(x) ** 2).sum())(x)
    torch.testing.assert_close(gradient, 2 * x)


@pytest.mark.parametrize("call", [torch.vmap, lambda layer: torch.func.grad(lambda x: layer(x).sum())])
def test_tables_grow_under_vmap_and_functional_gradients(call):
    """The calls are eager, although tokens are wrapped tensors."""
    layer, x = RotaryEmbedding(Rotary(head_dim=8, layout="half"), max_len=4), torch.randn(3, 2, 9, 8)
    longer = RotaryEmbedding(layer.encoding, max_len=9)
    assert torch.equal(call(layer)(x), call(longer)(x))
    assert torch.equal(layer(x), longer(x))
    assert layer.tables[0].shape == (9, 4)
    assert not any(torch._C._functorch.is_functorch_wrapped_tensor(table) for table in layer.tables)


@pytest.mark.parametrize("call", [torch.vmap, lambda layer: torch.func.grad(lambda x: layer(x).sum())])
def test_a_table_by_offset_that_is_made_under_vmap_or_functional_gradients_outlives_them(call):
    layer, scores = AttentionBias(Alibi(num_heads=2)), torch.zeros(3, 2, 5, 5)
    call(layer)(scores)
    assert not torch._C._functorch.is_functorch_wrapped_tensor(layer.offset_table.tables[0])
    assert torch.equal(layer(scores), AttentionBias(layer.encoding)(scores))


def test_biases_have_the_sizes_of_scores_on_the_meta_device():
    scores = torch.zeros(3, 2, 5, 7, device="meta")
    assert AttentionBias(Alibi(num_heads=2)).to("meta")(scores, 2).shape == scores.shape


def test_functional_gradients_of_frequencies_that_depend_on_the_length():
    scaling = DynamicNTK(factor=2.0, original_max_position_embeddings=16)
    layer = MultiHeadAttention(16, 2, position=Rotary(head_dim=8, layout="half", scaling=scaling)).eval()
    x = torch.randn(1, 20, 16)
    gradient = torch.func.grad(lambda x: layer(x, x, x).square().sum())(x)
    (wanted,) = torch.autograd.grad(layer(x.requires_grad_(), x, x).square().sum(), x)
    torch.testing.assert_close(gradient, wanted, rtol=0, atol=2.0**-20)


def test_gradients_agree_with_finite_differences():
    layer = RotaryEmbedding(Rotary(head_dim=4, layout="interleaved"))
    x = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, start=1000), x)


def test_attention_has_dropout_only_in_training():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(8, 2, 0.5), torch.randn(2, 6, 8)
    assert not torch.equal(layer(x, x, x), layer(x, x, x))
    layer.eval()
    assert torch.equal(layer(x, x, x), layer(x, x, x))


@pytest.mark.parametrize(
    "encoding",
    [
        GridSinusoidal(dim=8, convention="mae"),
        RandomFourierFeatures(dim=8, scale=1.0, seed=0, num_axes=2),
        LearnedSinusoidal(dim=8, convention="concatenated"),
    ],
    ids=repr,
)
def test_every_layer_is_filled_after_the_meta_device(encoding):
    positions = {"positions": grid(1, 3)} if encoding.num_axes > 1 else {}
    here = PositionalEncoding(8, encoding=encoding)
    with torch.device("meta"):
        there = PositionalEncoding(8, encoding=encoding)
    there.to_empty(device="cpu").load_state_dict(here.state_dict())
    x = torch.zeros(1, 3, 8)
    assert torch.equal(there(x, **positions), here(x, **positions))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # forward mode warns
def test_real_positions_in_forward_mode_under_vmap_and_compiled():
    encoding, times = Timestep(dim=4, shift=1), [0.25, 17.5, 1234.5]
    layer, x, positions = PositionalEncoding(4, encoding=encoding), torch.zeros(1, 3, 4), torch.tensor(times)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(positions, torch.ones(3))
        primal, tangent = torch.autograd.forward_ad.unpack_dual(layer(x, positions=dual))
    np.testing.assert_array_equal(primal[0].numpy(), encoding.table(times))
    np.testing.assert_array_equal(tangent[0].numpy(), encoding.derivatives(np.array(times))["table"])
    mapped = torch.func.vmap(lambda row: layer(x, positions=row))(positions.expand(2, 3))
    torch.compiler.reset()
    for rows in (mapped[1, 0], torch.compile(layer)(x, positions=positions)[0]):
        np.testing.assert_allclose(rows, encoding.table(times), rtol=0, atol=1234.5 * 2.0**-23)


@pytest.mark.parametrize(
    ("encoding", "second"),
    [
        (Sinusoidal(dim=3), lambda p: [-np.sin(p), -np.cos(p), -np.sin(p * 1e4 ** (-2 / 3)) * 1e4 ** (-4 / 3)]),
        (Timestep(dim=3, scale=0.5), lambda p: [-np.sin(p / 2) / 4, -np.cos(p / 2) / 4, 0 * p]),
        (Normalized(dim=2, length=4), lambda p: [0 * p, 0 * p]),
    ],
    ids=["Sinusoidal", "Timestep", "Normalized"],
)
def test_second_derivatives_of_rows_are_right(encoding, second):
    layer, p = PositionalEncoding(encoding.dim, encoding=encoding), torch.tensor([0.5, 1.5, 2.5])
    for column, wanted in enumerate(second(p.numpy().astype(np.float64))):
        hessian = torch.autograd.functional.hessian(
            lambda p, column=column: layer(torch.zeros(1, 3, encoding.dim), positions=p)[..., column].sum(), p
        )
        np.testing.assert_allclose(hessian.numpy(), np.diag(wanted), rtol=0, atol=2.0**-23)


def test_second_derivatives_of_mixed_axes_are_right():
    """With c the cosine at one point, the Hessian is -c times the outer product of the frequencies."""
    encoding = RandomFourierFeatures(dim=2, scale=0.1, seed=0, num_axes=2)
    layer, p = PositionalEncoding(2, encoding=encoding), torch.tensor([[0.5], [1.5]])
    hessian = torch.autograd.functional.hessian(lambda p: layer(torch.zeros(1, 1, 2), positions=p)[0, 0, 0], p)
    w = 2 * np.pi * encoding.mixture()[0]
    wanted = -np.cos(w @ [0.5, 1.5]) * np.outer(w, w)
    np.testing.assert_allclose(hessian.numpy()[:, 0, :, 0], wanted, rtol=2.0**-21)


def test_second_derivatives_of_a_rotation_are_right():
    rope, p = RotaryEmbedding(Rotary(head_dim=2, layout="half", direction="inverse")), torch.tensor([0.5, 1.5, 2.5])
    x = torch.ones(1, 1, 3, 2) * torch.tensor([1.0, 0.0])
    for column, sign in ((0, np.cos), (1, lambda p: -np.sin(p))):
        hessian = torch.autograd.functional.hessian(lambda p, column=column: rope(x, positions=p)[..., column].sum(), p)
        np.testing.assert_allclose(hessian.numpy(), np.diag(-sign(p.numpy())), rtol=0, atol=2.0**-23)


def test_tables_refuse_positions_that_numpy_cannot_read():
    for positions in (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, requires_grad=True)):
        with rejects(TypeError, "positions", "Tensor", "detach"):
            Sinusoidal(dim=8).table(positions)


@pytest.mark.parametrize("layer", [PositionalEncoding(8), RotaryEmbedding(Rotary(head_dim=8, layout="half"))], ids=repr)
def test_jagged_tokens_are_refused_in_a_sentence(layer):
    rows = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], layout=torch.jagged)
    with pytest.raises(TypeError, match="must not be a nested tensor; give its `values"):
        layer(rows)
