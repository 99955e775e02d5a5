"""The base class of the layers of the Paddle backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import paddle
from paddle import Tensor, nn
from paddle.utils import unique_name

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Parameter, Tables
from posenc_core.layers import Backend
from posenc_core.layers.base import POSITION_LAYERS, PROJECTIONS
from posenc_core.layers.inputs import learned_by

from .backend import BACKEND, adopted, sized
from .state import SEPARATOR, check_encoding, loadable


class _Initial(nn.initializer.Initializer):
    """The initial numbers of a parameter."""

    def __init__(self, parameter: Parameter) -> None:
        super().__init__()
        self.parameter = parameter

    def forward(self, var: Tensor, block: Any = None) -> None:
        """Assign them to the variable."""
        with paddle.no_grad():
            paddle.assign(self.parameter.initial(paddle.randn(var.shape, var.dtype)), var)


@paddle.jit.marker.unified  # traced in one piece, as Paddle's own layers are
class Module(nn.Layer):
    """The base of every layer, attention included.

    It refuses a whole state with a parameter of another encoding; the name of a parameter contains its encoding.

    Args:
        weight_attr, bias_attr: the `paddle.ParamAttr` of projections and of what is learned of positions, or an
            initializer; a name that is given is not used for the latter.
    """

    backend: Backend = BACKEND
    dropout: nn.Dropout

    def __init__(self, *, weight_attr: Any = None, bias_attr: Any = None) -> None:
        super().__init__()

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return the tokens, with their width where Paddle does not know it."""
        return x if width is None or not hasattr(type(x), "shape") else sized(x, {-1: width})

    def active_dropout(self) -> nn.Dropout | None:
        """Return the dropout if the layer is in training and its rate is not 0."""
        return self.dropout if self.training and self.dropout.p else None

    def part_options(self, *, weight_attr: Any = None, bias_attr: Any = None) -> dict[str, dict[str, Any]]:
        """Return how the parameters of each part are made."""
        position = {"weight_attr": weight_attr}
        projection = {**position, "bias_attr": bias_attr}
        parts = dict.fromkeys(POSITION_LAYERS, position)
        return {**dict.fromkeys(PROJECTIONS, projection), **parts, "norm": {}}  # whose weights start at 1

    def set_state_dict(self, state_dict: Mapping[str, Any], use_structured_name: bool = True) -> Any:
        """Load a state as every layer does; Paddle calls this for the outermost layer only.

        Raises:
            ValueError: if a parameter in the state was learned with another encoding.
        """
        for key, own in self.state_dict().items():
            check_encoding(key, state_dict.get(key if use_structured_name else own.name), own)
        return super().set_state_dict(state_dict, use_structured_name)

    set_dict = load_dict = set_state_dict


class Layer(Module):
    """Holds the constants of an encoding as float32 buffers that no cast reaches, its parameters as parameters."""

    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0, /, *, weight_attr: Any = None) -> None:
        if not paddle.in_dynamic_mode():
            raise RuntimeError(
                f"A layer of {encoding!r} must be made in dynamic mode; call `paddle.disable_static()` before, and "
                "make a program of the layer with `paddle.jit.to_static` or `paddle.jit.save`."
            )
        super().__init__()
        self.encoding = encoding
        self.set_tables(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            saved_name = unique_name.generate(f"{self.full_name()}.{name}{SEPARATOR}{learned_by(encoding)}")
            attr = copy(paddle.ParamAttr._to_attr(weight_attr))
            attr.name, attr.initializer = saved_name, attr.initializer or _Initial(parameter)
            self.add_parameter(name, self.create_parameter(parameter.shape, attr))

    def set_tables(self, constants: Tables) -> None:
        """Hold these constants in place of those before."""
        for name, constant in constants.items():
            self.register_buffer(name, adopted(constant, like=self._buffers.get(name)), persistable=False)

    @property
    def arrays(self) -> dict[str, Any]:
        """The constants and the parameters, by name."""
        for hook in self._forward_pre_hooks.values():
            if getattr(hook, "name", None) in self.encoding.parameters():  # `weight_norm`: attention calls no `forward`
                hook(self, ())
        names = (*self._buffers, *self._parameters)
        return {name: getattr(self, name) for name in names}  # under `to_static` only attributes are traced

    initial_arrays = arrays

    def extra_repr(self) -> str:
        return repr(self.encoding)

    def _apply(self, func: Callable[..., Tensor], device: Any, dtype: Any, *rest: Any) -> None:
        """Follow moves, not casts: the buffers are given no dtype."""
        buffers, self._buffers = self._buffers, {}
        super()._apply(func, device, dtype, *rest)
        self._buffers = {name: func(table, device, None, *rest[:1]) for name, table in buffers.items()}

    def _state_dict_impl(
        self,
        destination: Any = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        include_non_persistable_buffer: bool = False,
        use_hook: bool = True,
        keep_vars: bool = True,
    ) -> dict[str, Any]:
        """Return the state for `state_dict`; without hooks, for `set_state_dict` of a model with the layer in it."""
        options = include_sublayers, structured_name_prefix, include_non_persistable_buffer, use_hook, keep_vars
        state: dict[str, Any] = super()._state_dict_impl(destination, *options)
        return state if use_hook else loadable(state, [structured_name_prefix + name for name in self._parameters])
