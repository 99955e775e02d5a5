"""What every layer of the Keras room is."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, TypeAlias

import keras

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Tables
from posenc_core.layers.base import BaseLayer

from . import backend as arrays
from .state import STATED, check_stated, stated

Tensor: TypeAlias = Any  # TensorFlow's, JAX's or PyTorch's
Shape: TypeAlias = tuple[Any, ...]

ENCODINGS = ("encoding", "position")  # what a configuration calls the encoding of a layer

register = keras.saving.register_keras_serializable(package="posenc")


class Shell(keras.layers.Layer):
    """A Keras layer that takes its arguments as they come: the dtype policy is for tokens, and rounds no position."""

    def __init__(self, **options: Any) -> None:
        super().__init__(autocast=False, **options)
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.supports_masking = True
        self.built = True

    def tokens(self, x: Any) -> Any:
        """`x` as a tensor in the dtype in which the policy computes."""
        return self.dtype_policy.convert_input(keras.ops.convert_to_tensor(x), True, self.compute_dtype)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Shell:
        encodings = {name: _revived(config[name]) for name in ENCODINGS if config.get(name)}
        return super().from_config({**config, **encodings})

    @property
    def _stated(self) -> Encoding | None:
        """The encoding that it was made with."""
        return next((getattr(self, name) for name in ENCODINGS if hasattr(self, name)), None)

    def save_own_variables(self, store: Any) -> None:
        """The weights, and the encoding that they were learned with."""
        super().save_own_variables(store)
        store[STATED] = stated(self._stated)

    def load_own_variables(self, store: Any) -> None:
        """The weights, if they were learned with the same encoding, as far as is told."""
        arrays = {name: store[name] for name in store.keys()}  # noqa: SIM118 - Keras's stores do not iterate
        if STATED in arrays:
            check_stated(arrays.pop(STATED), self._stated)
        super().load_own_variables(arrays)


class Layer(BaseLayer, Shell):
    """Holds an encoding: its constants as float32 tensors that are no weights, its parameters as weights."""

    backend = arrays

    def __init__(self, encoding: Encoding, max_len: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.encoding = encoding
        self.max_len = max_len
        self.hold(encoding.constants(max_len))
        self.learned = {
            name: self.add_weight(
                shape=parameter.shape,
                initializer=keras.initializers.RandomNormal(parameter.mean, parameter.std),
                autocast=False,
                name=name,
            )
            for name, parameter in encoding.parameters().items()
        }

    def hold(self, constants: Tables) -> None:
        tensors = {name: keras.ops.convert_to_tensor(arrays.from_numpy(table)) for name, table in constants.items()}
        self.constants = MappingProxyType(tensors)  # Keras would track a dict

    @property
    def held(self) -> dict[str, Any]:
        constants = {name: arrays.still(constant) for name, constant in self.constants.items()}
        return constants | {name: variable.value for name, variable in self.learned.items()}

    @arrays.uncompiled
    def computed_there(self, encoding: Any, *positions: Any) -> tuple[Any, ...]:
        """Outside of what PyTorch compiles: it does not get through the arithmetic of exact frequencies."""
        return super().computed_there(encoding, *positions)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "encoding": self.encoding.to_dict()}


def _revived(given: Any) -> Any:
    """An encoding from its JSON; a layer that blocks share, from Keras's, or as it is."""
    if isinstance(given, Shell):
        return given
    return keras.saving.deserialize_keras_object(given) if "class_name" in given else Encoding.from_dict(given)
