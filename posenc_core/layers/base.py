"""The base of every layer.

A layer has a `Backend` (composition) and the arrays of one encoding. The classes of this package hold all logic; a
framework's adapter adds its base class, a few hooks and one alias per layer (`forward = RotaryEmbedding.rotate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, runtime_checkable

from .._array_api.checks import check_floating, check_rank, check_width, is_specialized, shown
from .._calls import explain_call, explain_unknown
from .._foreign_names import ours
from ..attention import Dropout
from ..encodings import Encoding
from ..encodings.base import Tables
from ..positions.sequences import arange_like, counted_from, from_array, sequence
from .backend import Backend, Given, Size, Tensor
from .inputs import as_integers, check_positions, host_values, parse_start

if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

    def called_like(method: Callable[P, R]) -> Callable[[Callable[..., Any]], Callable[P, R]]:
        """Return a decorator of `__call__`, which every framework passes on to `method`: editors complete calls."""


PROJECTIONS = ("W_q", "W_k", "W_v", "W_o")  # of attention
POSITION_LAYERS = ("rotary", "scoring", "scaling", "norm")  # likewise
FIXED = frozenset({  # attributes that tables, parts or parameters of a layer were made for
    "auto_expand", "bias", "combine", "encoding", "is_part", "is_shared", "learned", "learned_shapes", "max_len",
    "norm", "num_heads", "num_hiddens", "num_kv_heads", "persistent", "position", "qk_norm", "query_scale", "rotary",
    "rotates_in_attention", "scaling", "scoring", "seq_axis", "window",
})  # fmt: skip


def _signature(cls: type) -> Signature:
    """Return the parameters of the constructor, with the keywords of the adapter's bases in place of `**native`."""
    parameters: dict[str, Parameter] = {}
    is_ours = False
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        if is_ours and not base.__module__.startswith("posenc_"):
            break  # a class of the framework
        is_ours = base.__module__.startswith("posenc_")
        own = signature(base.__init__).parameters.items()  # type: ignore[misc]
        named = {name: each for name, each in own if not parameters or each.kind >= Parameter.KEYWORD_ONLY}
        known = {name: each for name, each in parameters.items() if each.kind != Parameter.VAR_KEYWORD}
        parameters = {**known, **{name: each for name, each in named.items() if name not in known}}
        if all(each.kind != Parameter.VAR_KEYWORD for each in parameters.values()):
            break
    return Signature(list(parameters.values())[1:])


class _ClassSignature:
    """The signature of a class alone: compilers read that of a layer, which is of its calls."""

    def __init__(self, cls: type) -> None:
        self.signature: Signature = _signature(cls)

    def __get__(self, layer: Any, cls: type) -> Signature:
        if layer is not None:
            raise AttributeError("__signature__")
        return self.signature


class Documented:
    """A class whose subclasses have the docstring of their first base, and the options of their framework as well.

    Editors and tools such as `torch.nn.utils.skip_init` read in the signature which options a layer takes. Attributes
    that say what a layer is do not change. Arguments that a layer does not take are explained in one sentence.
    """

    #: The name of the method that a call of the layer runs.
    method: ClassVar[str]
    __signature__: ClassVar[_ClassSignature]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = cls.__doc__ or cls.__mro__[1].__doc__
        cls.__signature__ = _ClassSignature(cls)
        for name in (getattr(cls, "method", ""), "forward"):
            if isinstance(called := vars(cls).get(name), FunctionType) and cls.__module__.startswith("posenc_"):
                called.__qualname__ = cls.__name__  # which Python names in messages about a call
        if "__init__" in vars(cls):
            type.__setattr__(cls, "__init__", explained(vars(cls)["__init__"]))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; raise if arrays of the layer would belong to another one than it then names."""
        if name in FIXED and (before := getattr(self, name, value)) is not value:
            # another layer of the same encoding may take the place of a part, as a wrapper of it does
            own, new = [getattr(x, "encoding", x) if hasattr(x, "backend") else x for x in (before, value)]
            if type(own) is not type(new) or own != new:
                raise AttributeError(unchangeable(name, self))
        super().__setattr__(name, value)

    def refuse(self, unknown: Mapping[str, Any]) -> NoReturn:
        """Raise TypeError for arguments that a call does not take."""
        name, value = next(iter(unknown.items()))
        elsewhere = {"when the layer is made": signature(type(self)).parameters}
        raise TypeError(explain_unknown(type(self).__name__, name, value, call_arguments(type(self)), elsewhere))

    def dropout_with(self, native: Mapping[str, Any]) -> Dropout | None:
        """Return the dropout of a call with options of its own; raise TypeError if there are none of these names."""
        layer: Any = self
        try:
            dropout: Dropout | None = layer.active_dropout(**native)
        except TypeError:
            known = signature(layer.active_dropout).parameters
            unknown = {name: value for name, value in native.items() if name not in known}
            if not unknown:
                raise
            self.refuse(unknown)
        return dropout


def call_arguments(cls: type[Documented]) -> list[str]:
    """Return the names of the arguments of a call, without those of the framework's own."""
    _, *parameters = signature(getattr(cls, cls.method)).parameters.values()
    return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor of a layer that explains what is wrong with its arguments."""

    @wraps(init)
    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
        try:
            init(self, *given, **named)
        except (TypeError, ValueError) as error:  # Keras raises the second
            kind, known = type(self), signature(type(self)).parameters
            takes_more, text = any(one.kind == one.VAR_KEYWORD for one in known.values()), str(error)
            is_wrong = {name: not takes_more or bool(ours(name)) or f"'{name}'" in text for name in named}
            told = {name: x for name, x in named.items() if name in known or is_wrong[name]}
            reason = explain_call(kind.__name__, known, given, told, {"in the call": call_arguments(kind)})
            if reason is None:
                raise
            raise reason from error

    __init__.__signature__ = signature(init)  # type: ignore[attr-defined] # which Keras reads without its wrapper
    return __init__


def unchangeable(name: str, layer: object) -> str:
    """Return the message that an attribute stays as the layer was made."""
    return f"`{name}` of a {type(layer).__name__} cannot be changed; create another."


@runtime_checkable
class AdapterLayer(Protocol):
    """The part of a layer that the adapter of a framework defines, attention included."""

    @property
    def backend(self) -> Backend:
        """The adapter's backend."""

    def prepare(self, x: Tensor, width: int | None) -> Tensor:
        """Return the tokens as the layer uses them: cast, on its device, with a known width."""

    @property
    def active_dropout(self) -> Callable[..., Dropout | None]:
        """Return the dropout of a call with these options of its own, or None without dropout."""


@runtime_checkable
class AdapterTables(AdapterLayer, Protocol):
    """The part of a layer with the arrays of one encoding that the adapter defines."""

    @property
    def arrays(self) -> Mapping[str, Tensor]:
        """The constants and parameters of the encoding, by name."""

    @property
    def initial_arrays(self) -> Mapping[str, Tensor]:
        """The arrays of the new layer, before calls grew its tables.

        Traced positions use them, so that their result does not depend on earlier calls.
        """

    def set_tables(self, constants: Tables) -> None:
        """Replace all constants."""


class BaseLayer(Documented):
    """A layer with the arrays of one encoding.

    The adapter of a framework defines all of `AdapterTables`. Nothing of it has a body here, because the classes of the
    core come first among the bases.
    """

    encoding: Any  # a subclass knows of which kind
    backend: Backend
    arrays: Any
    initial_arrays: Any
    set_tables: Callable[[Tables], None]
    prepare: Callable[[Tensor, int | None], Tensor]
    active_dropout: Callable[..., Dropout | None]

    def no_weight_decay(self) -> set[str]:
        """Return the names, from the layer on, of what its encoding learns, which weight decay would pull to 0.

        Optimizers that leave biases and norms out of weight decay leave these out as well; timm asks for this method.
        In JAX and flax the last part of a path is such a name.

        >>> from posenc_backends.numpy import AttentionBias
        >>> from posenc_core import T5Bias
        >>> AttentionBias(T5Bias(num_heads=2)).no_weight_decay()
        {'table'}
        """
        return set(self.encoding.parameters())

    def arrays_of(self, heads: Given) -> Any:
        """Return the arrays of some heads, as `parse_heads` returns them; of all for None."""
        if heads is None:
            return self.arrays
        arrays = self.arrays if heads.processes is None else heads.processes.sum_gradients(self.arrays)
        return self.encoding.take_heads(arrays, heads.numbers)

    def check_tokens(self, name: str, x: Tensor, width: int | None) -> Tensor:
        """Return `x` prepared; raise unless it is a floating-point array of the framework, `(..., length, width)`."""
        return self.check_prepared(name, self.prepare(x, width), width)

    def check_prepared(self, name: str, x: Tensor, width: int | None) -> Tensor:
        """Return `x`, which is already prepared; raise like `check_tokens`."""
        if not isinstance(x, self.backend.array_types):
            raise self._wrong_framework(name, x)
        sizes = x.shape
        if len(sizes) < 2:
            check_rank(name, x, minimum=2, axes="(..., length, width)")
        if width is not None and sizes[-1] != width:
            check_width(name, x, width)
        if not self.backend.is_floating(x):
            check_floating(name, x)
        return x

    def _wrong_framework(self, name: str, x: Tensor) -> TypeError:
        return TypeError(f"`{name}` must be an array of the layer's framework, got {type(x).__name__}.")

    def to_backend(self, given: Given) -> Tensor:
        """Return a number, a list or an array as an array of the framework."""
        host = host_values(given, self.backend)
        return given if host is None else self.backend.from_numpy(host, like=self._any_array)

    def positions(self, name: str, given: Given, length: Size, start: Given, batch: Size) -> Tensor:
        """Return the given positions after checking them, or `length` positions from `start` (or from each start)."""
        if given is not None:
            host = host_values(given, self.backend)
            check_positions(name, given if host is None else host, (length,), batch)
            return given if host is None else self.to_backend(as_integers(from_array(host)))
        start = parse_start(start, batch, self.backend)
        if isinstance(start, int):
            if is_specialized(length, self._any_array):
                sequence(length, start=start)  # raises past 2**31
            return arange_like(length, like=self._any_array) + start
        return counted_from(self.to_backend(start), length)

    @property
    def _any_array(self) -> Tensor:
        return next(iter(self.arrays.values()))


def check_encoding(encoding: Encoding, family: type | tuple[type, ...], word: str) -> None:
    """Raise unless the encoding is of this family."""
    if not isinstance(encoding, family):
        raise TypeError(f"`encoding` must be {word} encoding, got {shown(encoding)}.")
