"""What every layer of the Paddle room is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import paddle
from paddle import Tensor, nn
from paddle.utils import unique_name

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers.base import BaseLayer, learned_by

from . import backend as arrays
from .state import OF, check, places


class Loading(nn.Layer):
    """Loads no state of another encoding, and nothing of it: a parameter's name tells of which it is."""

    def set_state_dict(self, state_dict: Mapping[str, Any], use_structured_name: bool = True) -> Any:
        """As in every layer; of those inside of one, Paddle asks for the places of their parameters alone.

        Raises:
            ValueError: if what is to be loaded was learned by another encoding.
        """
        for key, own in self.state_dict().items():
            found = state_dict.get(key if use_structured_name else own.name)
            check(key, found, own)
        return super().set_state_dict(state_dict, use_structured_name)

    set_dict = load_dict = set_state_dict


@paddle.jit.marker.unified  # traced in one piece, as Paddle's own layers are
class Layer(BaseLayer, Loading):
    """Holds an encoding: its constants as float32 buffers that no cast reaches, its parameters as parameters."""

    backend = arrays
    _buffers: dict[str, Any]

    def __init__(self, encoding: Encoding, max_len: int = 0) -> None:
        if not paddle.in_dynamic_mode():
            raise RuntimeError(
                f"A layer of {encoding!r} must be made in dynamic mode; call `paddle.disable_static()` before, and make "
                "a program of the layer with `paddle.jit.to_static` or `paddle.jit.save`."
            )
        super().__init__()
        self.encoding = encoding
        self.hold(encoding.constants(max_len))
        for name, parameter in encoding.parameters().items():
            normal = nn.initializer.Normal(parameter.mean, parameter.std)
            attr = paddle.ParamAttr(unique_name.generate(self._named(name)), initializer=normal)
            self.add_parameter(name, self.create_parameter(parameter.shape, attr))

    def _named(self, name: str) -> str:
        """A parameter's name, with the encoding but for where its numbers start from."""
        return f"{self.full_name()}.{name}{OF}{learned_by(self.encoding)}"

    def hold(self, constants: Tables) -> None:
        for name, constant in constants.items():
            self.register_buffer(name, arrays.adopted(constant, like=self._buffers.get(name)), persistable=False)

    @property
    def held(self) -> dict[str, Any]:
        names = (*self._buffers, *self._parameters)
        return {name: getattr(self, name) for name in names}  # under `to_static` only an attribute is traced

    def extra_repr(self) -> str:
        return repr(self.encoding)

    def _apply(self, func: Callable[..., Tensor], device: Any, dtype: Any, *rest: Any) -> None:
        """Follow moves, not casts: the buffers are told no dtype."""
        held, self._buffers = self._buffers, {}
        super()._apply(func, device, dtype, *rest)
        self._buffers = {name: func(table, device, None, *rest[:1]) for name, table in held.items()}

    def _state_dict_impl(
        self,
        destination: Any = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        include_non_persistable_buffer: bool = False,
        use_hook: bool = True,
        keep_vars: bool = True,
    ) -> dict[str, Any]:
        """What `state_dict` asks for and, without hooks, `set_state_dict` of a model with the layer in it."""
        told = include_sublayers, structured_name_prefix, include_non_persistable_buffer, use_hook, keep_vars
        state: dict[str, Any] = super()._state_dict_impl(destination, *told)
        return state if use_hook else places(state, [structured_name_prefix + name for name in self._parameters])
