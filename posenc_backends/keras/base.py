"""The base class of the layers of the Keras backend."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from types import MappingProxyType
from typing import Any

import keras

from posenc_core.encodings import Encoding
from posenc_core.encodings.base import Parameter, Tables, Tabular
from posenc_core.layers import Backend
from posenc_core.layers.base import PROJECTIONS
from posenc_core.layers.encoding_bytes import Encodings, to_bytes

from .backend import BACKEND, from_numpy, within
from .state import ENCODING_KEY, check_encoding

OF_PROJECTIONS = tuple(
    f"{what}_{how}" for how in ("initializer", "regularizer", "constraint") for what in ("kernel", "bias")
)
ENCODINGS = ("encoding", "position", "query_scale", "qk_norm")  # what a configuration calls the encoding of a layer
_as_constant = getattr(BACKEND, "as_constant", lambda tensor: tensor)  # TensorFlow asks for gradients of constants

KERAS_2 = "Tokens must be of Keras 3, got a {} of tf_keras, Keras 2; make the model of layers of `keras`."
register = keras.saving.register_keras_serializable(package="posenc")


class Module(keras.layers.Layer):
    """A Keras layer that takes its arguments as they come: the dtype policy is for tokens, and rounds no position.

    Args:
        parent: the layer that it is a part of; the paths of its weights begin with that one's name.
        options: those of every Keras layer: `name`, `dtype`, `trainable`; for attention those of `Dense`, of which its
            projections are: `kernel_initializer`, `bias_initializer`, `kernel_regularizer` …
    """

    backend: Backend = BACKEND
    dropout: keras.layers.Dropout
    has_projections = False

    def __init__(self, *, parent: keras.layers.Layer | None = None, **options: Any) -> None:
        own = options if not self.has_projections else {n: x for n, x in options.items() if n not in OF_PROJECTIONS}
        super().__init__(autocast=False, **own)
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.supports_masking = True
        self.built, self.is_part = True, parent is not None

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call the layer; raise for ragged arrays, which have no positions that all rows share."""
        if any(map(_is_ragged, (*given, *named.values()))):
            check_not_ragged([*zip(inspect.signature(self.call).parameters, given, strict=False), *named.items()])
        return super().__call__(*given, **named)

    def prepare(self, x: Any, width: int | None) -> Any:
        """Return an array as a tensor in the dtype in which the policy computes; what is none is refused later.

        Attention has cast the tokens of its parts: a norm before the rotation makes them float32.
        """
        if not hasattr(type(x), "shape"):  # TensorFlow ends the process where lists are nested deeply
            return x
        try:
            tensor = keras.ops.convert_to_tensor(x)
        except (TypeError, ValueError) as error:  # of what the framework has no tensor, such as a masked array
            if type(x).__module__.startswith("tf_keras"):
                raise TypeError(KERAS_2.format(type(x).__name__)) from error
            return x
        return tensor if self.is_part else self.dtype_policy.convert_input(tensor, True, self.compute_dtype)

    def active_dropout(self, *, training: Any = ...) -> Callable[[Any], Any] | None:
        """Return the dropout; it knows from Keras whether the model is in training, unless `training` is given.

        Args:
            training: whether numbers are dropped; Keras's own `fit` and `predict` say so themselves.
        """
        if not self.dropout.rate or not training:
            return None
        return self.dropout if training is ... else partial(self.dropout, training=training)

    def part_options(self, **options: Any) -> dict[str, dict[str, Any]]:
        """Return the name of each part, the dtype policy, and the options of `Dense` for projections."""
        own = {name: {"parent": self, "name": name, "dtype": self.dtype_policy} for name in (*PROJECTIONS, "rotary")}
        for name in PROJECTIONS:
            own[name] |= {given: _cloned(options[given]) for given in OF_PROJECTIONS if given in options}
        return {**own, **{name: {"parent": self, "name": name} for name in ("scoring", "scaling", "norm")}}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Module:
        """Return a layer of this configuration."""
        encodings = {name: _revived(config[name]) for name in ENCODINGS if config.get(name)}
        position = encodings.get("position")
        parts = position if isinstance(position, tuple) else (position,)
        if "position" in config and not any(isinstance(part, Tabular) for part in parts):
            config = {**config, "max_len": None}  # which attention without tables accepted once
        return super().from_config({**config, **encodings})

    @property
    def _saved_encoding(self) -> Encodings:
        return next((getattr(self, name) for name in ENCODINGS if hasattr(self, name)), None)

    def save_own_variables(self, store: Any) -> None:
        """Save the weights, and the encoding that they were learned with."""
        super().save_own_variables(store)
        store[ENCODING_KEY] = to_bytes(self._saved_encoding)

    def load_own_variables(self, store: Any) -> None:
        """Load the weights; raise if the file says that they were learned with another encoding."""
        arrays = {name: store[name] for name in store.keys()}  # noqa: SIM118 - Keras's stores do not iterate
        if ENCODING_KEY in arrays:
            check_encoding(arrays.pop(ENCODING_KEY), self._saved_encoding)
        super().load_own_variables(arrays)


class Layer(Module):
    """Holds the constants of an encoding as float32 tensors that are not weights, its parameters as weights."""

    def __init__(
        self, encoding: Encoding, max_len: int = 0, /, *, parent: keras.layers.Layer | None = None, **options: Any
    ) -> None:
        super().__init__(parent=parent, **options)
        self.encoding = encoding
        self.max_len = max_len
        self.set_tables(encoding.constants(max_len))
        with within(parent):
            self.learned = {
                name: self.add_weight(
                    shape=parameter.shape, initializer=partial(_initial, parameter), autocast=False, name=name
                )
                for name, parameter in encoding.parameters().items()
            }

    def set_tables(self, constants: Tables) -> None:
        """Hold these constants in place of those before."""
        tensors = {name: keras.ops.convert_to_tensor(from_numpy(table)) for name, table in constants.items()}
        self.constants = MappingProxyType(tensors)  # Keras would track a dict

    @property
    def arrays(self) -> dict[str, Any]:
        """The constants and the parameters, by name."""
        constants = {name: _as_constant(constant) for name, constant in self.constants.items()}
        return constants | {name: variable.value for name, variable in self.learned.items()}

    initial_arrays = arrays

    def get_config(self) -> dict[str, Any]:
        """Return what the layer can be made of again."""
        tables = {name: getattr(self, name) for name in ("max_len", "auto_expand") if hasattr(self, "auto_expand")}
        return {**super().get_config(), "encoding": self.encoding.to_dict(), **tables}


def check_not_ragged(arguments: Iterable[tuple[str, Any]]) -> None:
    """Raise if one of the arguments, with their names, is ragged."""
    for name, x in arguments:
        if _is_ragged(x):
            raise TypeError(f"`{name}` must not be ragged; pass its `to_tensor()`, and the lengths as a mask.")


def _cloned(given: Any) -> Any:
    """Return an initializer like this one with a seed of its own, or what else is given for all projections."""
    return given.clone() if isinstance(given, keras.initializers.Initializer) else given


def _is_ragged(x: Any) -> bool:
    """Return whether it is a ragged array of TensorFlow, its specification, or such an input of a Keras model."""
    if isinstance(x, int):  # of which PyTorch compiles no question for attributes, if it may change
        return False
    return getattr(x, "ragged_rank", None) is not None or getattr(x, "ragged", False) is True


def _initial(parameter: Parameter, shape: tuple[int, ...], dtype: Any = None) -> Any:
    """Return the initial numbers of a parameter, as Keras calls it."""
    return parameter.initial(keras.initializers.RandomNormal(0.0, 1.0)(shape, dtype))


def _revived(given: Any) -> Any:
    """Return an encoding from its JSON, or several; a layer that blocks share, from Keras's, or as it is."""
    if isinstance(given, Module):
        return given
    if isinstance(given, list):
        return tuple(map(_revived, given))
    return keras.saving.deserialize_keras_object(given) if "class_name" in given else Encoding.from_dict(given)
