"""States: they name their encoding, and what is loaded of them."""

import copy

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

from posenc_backends.torch import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Learned, LearnedRotary, Rotary, Sinusoidal, T5Bias, allow_change

TURNING = Rotary(head_dim=8, layout="half")
FASTER = Rotary(head_dim=8, layout="half", base=500.0)
BIASING = Alibi(num_heads=2)
LEARNED = Learned(dim=4, length=5)
ORDERED = Sinusoidal(dim=4, convention="concatenated")


def attention(position):
    return MultiHeadAttention(16, 2, position=position)


PAIRS = [
    (attention(TURNING), attention(FASTER), f"rotary.encoding: {TURNING!r}, but the layer has {FASTER!r}"),
    (attention(TURNING), attention(BIASING), f"position: {TURNING!r}, but the layer has {BIASING!r}"),
    (attention(BIASING), attention(TURNING), f"position: {BIASING!r}, but the layer has {TURNING!r}"),
    (attention(TURNING), attention(None), f"position: {TURNING!r}, but the layer has None"),
    (attention(None), attention(TURNING), f"position: None, but the layer has {TURNING!r}"),
    (attention(None), attention(BIASING), f"position: None, but the layer has {BIASING!r}"),
    (RotaryEmbedding(TURNING), RotaryEmbedding(FASTER), f"encoding: {TURNING!r}, but the layer has {FASTER!r}"),
    (PositionalEncoding(4), PositionalEncoding(4, encoding=ORDERED), f"but the layer has {ORDERED!r}"),
    (PositionalEncoding(4), PositionalEncoding(4, combine="concat"), "combine: 'add', but the layer has 'concat'"),
    (AttentionBias(BIASING), AttentionBias(Alibi(num_heads=4)), f"encoding: {BIASING!r}, but the layer has"),
]


@pytest.mark.parametrize(
    ("saved", "layer", "message"), PAIRS, ids=lambda given: given if isinstance(given, str) else ""
)
def test_states_of_another_encoding_are_rejected_with_both_names(saved, layer, message):
    inside = nn.ModuleDict({"inside": layer})
    state = nn.ModuleDict({"inside": saved}).state_dict()
    with pytest.raises(RuntimeError) as caught:
        inside.load_state_dict(state)
    assert str(caught.value).count("inside.") == 1
    assert message in str(caught.value)
    (only,) = inside.load_state_dict(state, strict=False).unexpected_keys
    assert message in only
    layer.load_state_dict(copy.deepcopy(layer).state_dict())


def test_loading_without_strict_loads_the_rest():
    saved, layer = attention(TURNING), attention(BIASING)
    layer.load_state_dict(saved.state_dict(), strict=False)
    assert torch.equal(layer.W_q.weight, saved.W_q.weight)


@pytest.mark.parametrize("change", [{"kind": "Spiral"}, {"spin": 1}, {"base": None}], ids=str)
def test_states_of_unknown_encodings_are_rejected(change):
    layer = attention(TURNING)
    state = layer.state_dict()
    metadata = state._metadata
    metadata["rotary"]["encoding"] = message = {**TURNING.to_dict(), **change}
    metadata[""]["position"] = message
    with pytest.raises(RuntimeError) as caught:
        layer.load_state_dict(state)
    assert str(message) in str(caught.value)
    assert repr(TURNING) in str(caught.value)
    assert layer.load_state_dict(state, strict=False).unexpected_keys


def test_states_without_metadata_are_loaded_and_persistent_tables_are_compared():
    """A plain dict, safetensors and distributed checkpoints have no metadata."""
    attention(BIASING).load_state_dict(dict(attention(TURNING).state_dict()))
    persistent_layers = {base: MultiHeadAttention(16, 2, position=base, persistent=True) for base in (TURNING, FASTER)}
    persistent_layers[TURNING].load_state_dict(dict(persistent_layers[TURNING].state_dict()))
    with pytest.raises(RuntimeError, match=r"rotary\.cos and 1 more: other numbers than Rotary.* has; name the f"):
        persistent_layers[FASTER].load_state_dict(dict(persistent_layers[TURNING].state_dict()))
    persistent_layers[FASTER].load_state_dict(dict(persistent_layers[TURNING].state_dict()), strict=False)
    wanted = FASTER.constants(2048)["cos"]
    for table in (
        persistent_layers[FASTER].rotary.constants["cos"],
        persistent_layers[FASTER].state_dict()["rotary.cos"],
    ):
        np.testing.assert_array_equal(table, wanted)


def persistent_layers(length, **options):
    return PositionalEncoding(4, max_len=length, persistent=True, **options)


@pytest.mark.parametrize(("saved", "own"), [(7, 3), (3, 7), (5, 5)])
def test_persistent_tables_of_other_lengths_are_loaded(saved, own):
    layer = persistent_layers(own)
    layer.load_state_dict(persistent_layers(saved).state_dict())
    assert layer.P.shape[1] == max(saved, own)
    np.testing.assert_array_equal(layer.P[0], Sinusoidal(dim=4).table(range(max(saved, own))))
    assert layer.state_dict()["table"].shape == (saved, 4)
    layer(torch.zeros(1, 20, 4))
    assert layer.state_dict()["table"].shape == (saved, 4)  # growth does not change the state


def test_missing_or_damaged_persistent_tables_are_rejected():
    layer = persistent_layers(5)
    with pytest.raises(RuntimeError, match=r'Missing key.*"table"'):
        layer.load_state_dict(PositionalEncoding(4).state_dict())
    with pytest.raises(RuntimeError, match="table: other numbers than Sinusoidal"):
        layer.load_state_dict(dict(PositionalEncoding(6, max_len=5, persistent=True).state_dict()))
    damaged = layer.state_dict()
    damaged["table"] = damaged["table"].clone()
    damaged["table"][2, 1] += 2.0**-20
    with pytest.raises(RuntimeError, match="table: other numbers than Sinusoidal"):
        layer.load_state_dict(damaged)
    np.testing.assert_array_equal(layer.P[0], Sinusoidal(dim=4).table(range(5)))
    layer.load_state_dict({"table": layer.state_dict()["table"].half()})
    assert layer.P.dtype == torch.float32


def test_persistent_tables_are_moved_but_not_cast():
    layer = nn.Sequential(persistent_layers(5)).half()
    assert layer.state_dict()["0.table"].dtype == torch.float32
    layer.to("meta")
    assert layer.state_dict()["0.table"].is_meta
    layer.to_empty(device="cpu")
    np.testing.assert_array_equal(layer.state_dict()["0.table"], Sinusoidal(dim=4).table(range(5)))


@pytest.mark.parametrize("encoding", [LEARNED, None], ids=str)
def test_tables_follow_the_tokens_if_only_parameters_were_moved(encoding):
    """Libraries that distribute a model over devices move parameters by name."""
    with torch.device("meta"):
        layer = PositionalEncoding(4, max_len=5, encoding=encoding)
        bias = MultiHeadAttention(4, 2, position=T5Bias(num_heads=2) if encoding else BIASING)
    for module in (layer, bias):
        for name, parameter in list(module.named_parameters()):
            owner = module.get_submodule(name.rpartition(".")[0])
            owner.register_parameter(name.rpartition(".")[2], nn.Parameter(torch.ones_like(parameter, device="cpu")))
    x = torch.zeros(1, 3, 4)
    wanted = torch.ones(1, 3, 4) if encoding else torch.from_numpy(Sinusoidal(dim=4).table(range(3)))[None]
    assert torch.equal(layer(x), wanted)
    assert not bias(x, x, x, causal=True).is_meta


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_is_written_into_states_and_buffers_changes_no_table(tmp_path):
    """Distributed checkpoints load into the tensors of a state."""
    saved, layer = (RotaryEmbedding(encoding, max_len=4, persistent=True) for encoding in (TURNING, FASTER))
    dcp.save(saved.state_dict(), checkpoint_id=tmp_path, no_dist=True)
    state, x = layer.state_dict(), torch.randn(1, 1, 4, 8)
    wanted = layer(x)
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    for buffer in layer.buffers():
        buffer.zero_()
    assert torch.equal(layer(x), wanted)
    with pytest.raises(RuntimeError, match=r"cos and 1 more: other numbers than Rotary.*500"):
        layer.load_state_dict(state)
    assert torch.equal(layer(x), wanted)
    np.testing.assert_array_equal(layer.state_dict()["cos"], FASTER.constants(4)["cos"])


def test_a_refusal_of_many_layers_is_one_line():
    """Of layers and tables alike; a change that is named is no refusal, nor is it in a plain dict, which has tables."""
    saved, model = (
        nn.ModuleList([RotaryEmbedding(encoding, max_len=4, persistent=True) for _ in range(12)])
        for encoding in (TURNING, FASTER)
    )
    with pytest.raises(RuntimeError, match=r'"0\.encoding and 11 more: Rot.*"0\.cos and 23 more: other') as caught:
        model.load_state_dict(saved.state_dict())
    assert len(str(caught.value).splitlines()) == 2
    for state in (saved.state_dict(), dict(saved.state_dict())):
        with allow_change("base"):
            model.load_state_dict(state)
        with pytest.raises(RuntimeError, match="and 23 more: other numbers than"), allow_change("window"):
            model.load_state_dict(state)
    np.testing.assert_array_equal(model.state_dict()["3.cos"], FASTER.constants(4)["cos"])


ELSEWHERE = {  # tools that put something else in the place of a parameter
    "parametrize": lambda layer, name: parametrize.register_parametrization(layer, name, nn.Identity()),
    "parametrizations.weight_norm": parametrizations.weight_norm,
    "weight_norm": weight_norm,
    "prune": lambda layer, name: prune.custom_from_mask(layer, name, torch.ones_like(getattr(layer, name))),
}


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("hold", ELSEWHERE.values(), ids=ELSEWHERE)
def test_parameters_are_found_where_other_tools_hold_them(hold):
    layer, x = PositionalEncoding(4, encoding=LEARNED), torch.randn(2, 3, 4)
    attention = MultiHeadAttention(4, 2, position=T5Bias(num_heads=2))
    wanted = layer(x), attention(x, x, x)
    hold(layer, "table")
    hold(attention.scoring, "table")
    for _ in range(2):  # a stale attribute would have no graph the second time
        got = layer(x), attention(x, x, x)
        (got[0].sum() + got[1].sum()).backward()
        torch.testing.assert_close(got, wanted)
    trained = [name for name, parameter in attention.named_parameters() if parameter.grad is not None]
    assert any("scoring" in name for name in trained)
    assert layer.double()(x).dtype == torch.float32


@pytest.mark.parametrize("encoding", [Sinusoidal(dim=4), LEARNED], ids=str)
def test_ensembles_call_a_copy_on_the_meta_device(encoding):
    models, x = [PositionalEncoding(4, encoding=encoding) for _ in range(2)], torch.randn(1, 3, 4)
    base = copy.deepcopy(models[0]).to("meta")
    got = vmap(lambda *state: functional_call(base, state, (x,)), randomness="error", in_dims=(0, None))
    parameters, buffers = stack_module_state(models)
    results = got(parameters, buffers) if parameters else vmap(base)(x[None])
    assert torch.equal(results, torch.stack([model(x) for model in models[: len(results)]]))


@pytest.mark.parametrize("position", [T5Bias(num_heads=2), LearnedRotary(head_dim=8, layout="half")], ids=str)
def test_parameters_are_reset_to_initial_numbers(position):
    with torch.device("meta"):
        model = attention(position)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.data.fill_(torch.nan)
    model.reset_parameters()
    (part,) = (layer for layer in (model.rotary, model.scoring) if layer is not None)
    for name, parameter in position.parameters().items():
        numbers = getattr(part, name)
        assert abs(numbers.mean() - parameter.mean) <= 0.5 * parameter.std
        assert abs(numbers.std() - parameter.std) <= 0.5 * parameter.std
    assert 0.1 < model.W_q.weight.std() < 0.2  # uniform to 1 / sqrt(16)
