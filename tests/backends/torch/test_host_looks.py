"""What a CUDA graph needs: calls that copy nothing from the device or to it."""

from contextlib import ExitStack

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.tooling import LayerCase
from posenc_backends.torch import MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_backends.torch import backend as arrays
from posenc_core import Alibi, Rotary

READS = ("item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__")
MAKERS = ("from_numpy", "tensor", "as_tensor", "asarray")
OF_UNKNOWN_SIZE = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "is_nonzero")


class Device(TorchDispatchMode):
    """Raise an error at operations that synchronize the device with the host."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in OF_UNKNOWN_SIZE:
            raise AssertionError(f"The host waits for `{name}`.")
        return function(*args, **(kwargs or {}))


@pytest.fixture
def alone(monkeypatch):
    """Raise an error if code in this block reads values of tensors or makes tensors from values of the host."""

    def refusing(owner, name, refuses):
        original = getattr(owner, name)

        def call(*args, **kwargs):
            if refuses(args[0]):
                raise AssertionError(f"The host is asked by `{name}`.")
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    def entered():
        for name in READS:
            refusing(torch.Tensor, name, lambda tensor: True)
        for name in MAKERS:
            refusing(torch, name, lambda given: not isinstance(given, torch.Tensor))
        return stack.enter_context(Device())

    with ExitStack() as stack:
        stack.callback(monkeypatch.undo)
        yield entered


def described(golden_case):
    return golden_case["name"]


@pytest.mark.parametrize("golden_case", golden("modes"), ids=described)
def test_captured_calls_need_no_host(on, alone, monkeypatch, golden_case):
    """Test every encoding, also with positions as tensors, which are not checked then."""
    layer_case = LayerCase(on, golden_case)
    layer, given = layer_case.layer(), layer_case.arrays(7)
    monkeypatch.setattr(arrays, "is_captured", lambda array: True)
    with torch.no_grad():
        alone()
        layer_case.call(layer, *given)


PLAIN = [golden_case for golden_case in golden("modes") if not {"start", "positions"} & set(golden_case["arrays"])]


@pytest.mark.parametrize("golden_case", PLAIN, ids=described)
def test_calls_with_an_integer_start_need_no_host(on, alone, golden_case):
    layer_case = LayerCase(on, golden_case)
    layer, given = layer_case.layer(), layer_case.arrays(7)
    with torch.no_grad():
        if getattr(layer_case.encoding, "has_offset_table", False):
            layer_case.call(layer, *given)  # the first call makes the table, as one past the end of a table does
        alone()
        layer_case.call(layer, *given)


@pytest.mark.parametrize("position", [None, Rotary(head_dim=4, layout="half"), Alibi(num_heads=2)], ids=str)
def test_attention_with_a_cache_needs_no_host(alone, position):
    layer, x = MultiHeadAttention(8, 2, position=position), torch.randn(1, 3, 8)
    cache = layer(x, x, x, causal=True, cache=()).cache
    step = torch.randn(1, 1, 8)
    mask = torch.ones(1, 1, 1, 4, dtype=torch.bool)
    alone()
    layer(step, step, step, start=3, causal=True, cache=cache, mask=mask)


@pytest.mark.parametrize(
    "start_arguments", [{"start": torch.tensor([3])}, {"positions": torch.tensor([3, 4])}], ids=str
)
def test_tensor_positions_are_checked_unless_a_graph_is_captured(alone, monkeypatch, start_arguments):
    layer, x = RotaryEmbedding(Rotary(head_dim=4, layout="half"), max_len=8), torch.ones(1, 2, 2, 4)
    wanted, far_arguments = layer(x, start=3), {name: given + 5 for name, given in start_arguments.items()}
    with monkeypatch.context() as patch:
        patch.setattr(arrays, "is_captured", lambda array: True)
        assert torch.equal(layer(x, **start_arguments), wanted)
        assert torch.isnan(layer(x, **far_arguments)[..., 1, :]).all()
        with pytest.raises(ValueError, match="`max_len` is 8, but position 8 is asked for"):
            layer(x, start=7)
    alone()
    with pytest.raises(AssertionError, match="The host is asked by `numpy`"):
        layer(x, **start_arguments)


@pytest.mark.parametrize("call", [{"start": [3]}, {"positions": [1, 2]}, {"start": -1}], ids=str)
def test_positions_of_the_host_are_copied_to_the_device(alone, call):
    """This includes negative positions, which no table has."""
    layer, x = PositionalEncoding(4), torch.ones(1, 2, 4)
    layer(x, **call)
    alone()
    with pytest.raises(AssertionError, match="The host is asked by `from_numpy`"):
        layer(x, **call)
