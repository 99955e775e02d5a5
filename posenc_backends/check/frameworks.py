"""Call the checked function: arrays of its framework go in, float64 comes out, every failure is a sentence."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_backends import NAMES
from posenc_core._array_api.checks import check_known

from .candidates import Float64s
from .sample_calls import Caller, TestCall
from .signatures import Signature

FRAMEWORKS = (*(name for name in NAMES if name != "keras"), "tensorflow", "keras", "numpy")
INT32_POSITIONS = ("jax", "keras", "tensorflow", "mxnet")  # frameworks in which int32 is the usual integer

WITH_VIEWS = ("numpy", "torch")  # frameworks whose arrays have strides


class CallError(Exception):
    """The function raised, or returned something other than the arrays it must return; the message is a sentence."""


class NotFiniteError(CallError):
    """The function returned infinity or NaN. Unlike an exception, this never counts as a refusal."""


class CutOffError(CallError):
    """A program took too long. Unlike an exception, this never counts as a refusal."""


class Framework(NamedTuple):
    """How to make, read and differentiate arrays of one framework.

    Attributes:
        name: one of `FRAMEWORKS`.
        backend: the folder `posenc_backends.<name>`, with `from_numpy` and `to_numpy`.
        testing: the module of the conformance suite with `cast` and, if the framework has gradients, `gradient`.
    """

    name: str
    backend: Any
    testing: Any

    @property
    def has_gradients(self) -> bool:
        """Whether the framework differentiates."""
        return hasattr(self.testing, "gradient")

    @property
    def compiles_each_shape(self) -> bool:
        """Whether eager code compiles every operator for every new shape, which takes long."""
        if self.name == "keras":
            import keras

            return bool(keras.backend.backend() == "jax")
        return self.name == "jax"

    def to_backend(self, numbers: npt.NDArray[Any], dtype: str) -> Any:
        """Return the numbers as an array of the framework in this dtype."""
        return self.testing.cast(self.backend.from_numpy(np.ascontiguousarray(numbers, np.float32)), dtype)

    def tokens(self, numbers: npt.NDArray[Any], dtype: str, is_strided: bool) -> Any:
        """Return tokens in this dtype; if strided and the framework has views, with other strides."""
        if not is_strided or numbers.ndim != 4 or self.name not in WITH_VIEWS:
            return self.to_backend(numbers, dtype)
        return self.to_backend(numbers.swapaxes(1, 2), dtype).swapaxes(1, 2)

    def positions(self, positions: npt.NDArray[Any]) -> Any:
        """Return positions as an array of the framework in its usual integer dtype, or in float32."""
        if positions.dtype.kind == "f":
            return self.to_backend(positions, "float32")
        return self.backend.from_numpy(positions.astype(np.int32 if self.name in INT32_POSITIONS else np.int64))

    def supports(self, dtype: str) -> bool:
        """Return whether the framework has this dtype."""
        try:
            array = self.to_backend(np.zeros((1, 1)), dtype)
        except Exception:  # noqa: BLE001 - each framework raises its own type
            return False
        return dtype in str(array.dtype)


def framework_of(name: str) -> Framework:
    """Return the framework of this name.

    Raises:
        ValueError: if the name is unknown.
        ImportError: if the framework is not installed.
    """
    check_known("framework", name, tuple(FRAMEWORKS))
    backend = import_module(f"posenc_backends.{name}")
    return Framework(name, backend, import_module(f"posenc_backends.conformance.frameworks.{name}"))


def imported_frameworks(function: Callable[..., Any]) -> list[str]:
    """Return the names of the frameworks that the module of a function imports; `["numpy"]` if it imports none."""
    inner = getattr(function, "func", function)
    names = getattr(inner, "__globals__", None)
    if names is None:
        module = getattr(inner, "__module__", None) or type(inner).__module__
        names = vars(sys.modules.get(module, np))
    packages = {_package(value) for value in list(names.values())} | {_package(base) for base in type(inner).__mro__}
    cells = getattr(inner, "__closure__", None) or ()
    packages |= {_package(type(cell.cell_contents)) for cell in cells if _is_filled(cell)}
    found = [name for name in FRAMEWORKS if name in packages or (name == "jax" and "flax" in packages)]
    if "keras" in found:
        found.insert(0, found.pop(found.index("keras")))
    return found or ["numpy"]


class Returned(NamedTuple):
    """The results of a call in float64, their dtypes, and the names of the arguments that the call changed."""

    results: tuple[Float64s, ...]
    dtypes: tuple[str, ...]
    changed: tuple[str, ...]


class CheckedFunction(NamedTuple):
    """The function that is checked, the framework whose arrays it takes, and what all its calls share."""

    function: Callable[..., Any]
    framework: Framework
    caller: Caller

    def call(self, test_call: TestCall) -> Returned:
        """Call the function and return its results.

        Raises:
            CallError: if it raises, or returns another number of arrays, no numbers, or arrays of another framework.
        """
        framework, wanted, arguments = self.framework, self.caller.signature.outputs, self.arguments(test_call)
        returned = call_checked(self.function, test_call.description, *arguments)
        outputs = returned if isinstance(returned, tuple | list) else (returned,)
        if len(outputs) != len(wanted):
            raise CallError(
                f"it must return {len(wanted)} arrays, got {_type_name(returned)}, for {test_call.description}."
            )
        types = type(arguments[-1]), type(framework.to_backend(np.zeros(1), "float32"))
        results = tuple(to_float64(framework, output, types, test_call.description) for output in outputs)
        numbers = (*test_call.tokens, *test_call.position_arguments)
        names = (*(wanted if test_call.tokens else ()), "positions", "key positions")
        changed = tuple(
            name
            for name, array, before in zip(names, arguments, numbers, strict=False)
            if not _has_numbers(framework, array, before)
        )
        return Returned(results, tuple(dtype_name(output) for output in outputs), changed)

    def gradient(self, test_call: TestCall, weights: Float64s, number: int) -> Float64s:
        """Return the gradient of `sum(result * weights)` with respect to the array and the result of this number.

        Raises:
            CallError: if the framework cannot compute it.
        """
        arguments = self.arguments(test_call)

        def result(x: Any) -> Any:
            returned = self.function(*arguments[:number], x, *arguments[number + 1 :])
            return returned[number] if isinstance(returned, tuple | list) else returned

        weights_array = self.framework.to_backend(weights, test_call.dtype)
        inputs = result, arguments[number], weights_array
        gradient = call_checked(self.framework.testing.gradient, test_call.description, *inputs)
        try:
            return _numbers(self.framework, gradient)
        except Exception as error:
            raise CallError(f"it has no gradient that can be read, for {test_call.description}.") from error

    def arguments(self, test_call: TestCall) -> list[Any]:
        """Return the arrays of a call: tokens, then positions."""
        dtype, is_strided = test_call.dtype, test_call.is_strided
        tokens = [self.framework.tokens(numbers, dtype, is_strided) for numbers in test_call.tokens]
        return [*tokens, *map(self.framework.positions, test_call.position_arguments)]


def dtype_name(array: Any) -> str:
    """Return the name of a dtype, which each framework writes in its own way."""
    text = str(array.dtype)
    return next((name for name in ("bfloat16", "float16", "float32", "float64") if name in text), text)


def _has_numbers(framework: Framework, array: Any, wanted: npt.NDArray[Any]) -> bool:
    """Return whether an array has these numbers; a call may also have freed or cut it."""
    try:
        return np.array_equal(_numbers(framework, array), wanted)
    except Exception:  # noqa: BLE001 - each framework raises its own type
        return False


def _numbers(framework: Framework, array: Any) -> Float64s:
    return np.asarray(framework.backend.to_numpy(array), np.float64)


def check_results(
    signature: Signature, test_call: TestCall, results: tuple[Float64s, ...], expected: tuple[Float64s, ...]
) -> None:
    """Raise `CallError` unless results are finite and have the expected shapes; a leading axis of 1 is allowed."""
    shapes = [result.shape for result in results]
    if len(shapes) == 2 and shapes[0] != shapes[1] and shapes[::-1] == [right.shape for right in expected]:
        raise CallError(f"{' and '.join(signature.outputs)} come back in the wrong order, for {test_call.description}.")
    for name, result, right in zip(signature.outputs, results, expected, strict=True):
        if result.shape not in (right.shape, (1, *right.shape)):
            raise CallError(f"{name} must have shape {right.shape}, got {result.shape}, for {test_call.description}.")
        if not np.isfinite(result).all():
            at = tuple(np.argwhere(~np.isfinite(result))[0].tolist())
            raise NotFiniteError(f"{name} must be numbers, got {result[at]} at {at}, for {test_call.description}.")


def call_checked(function: Callable[..., Any], description: str, *arguments: Any) -> Any:
    """Call a function without its warnings, and restore its settings of NumPy's errors.

    Raises:
        CallError: with the description of the call if it raises, other than by the user's interrupt.
    """
    try:
        with warnings.catch_warnings(), np.errstate():
            warnings.simplefilter("ignore")
            return function(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        kind = CutOffError if isinstance(error, TimeoutError) else CallError
        raise kind(f"it raised {type(error).__name__}: {_one_line(error)}, for {description}.") from error


def to_float64(framework: Framework, output: Any, types: tuple[type, ...], description: str) -> Float64s:
    """Return the numbers of an array; raise `CallError` unless it is one of these types and has real numbers."""
    if not isinstance(output, types) and not (framework.name == "numpy" and isinstance(output, np.generic)):
        wanted = f"{types[-1].__module__}.{types[-1].__qualname__}"
        message = f"it must return {framework.name}'s arrays ({wanted}), got {_type_name(output)}"
        raise CallError(f"{message}, for {description}.")
    try:
        numbers = np.asarray(framework.backend.to_numpy(output))
    except Exception as error:
        message = f"it returned {_type_name(output)} that cannot be read, {type(error).__name__}: {_one_line(error)}"
        raise CallError(f"{message}, for {description}.") from error
    if numbers.dtype.kind not in "fiu":
        raise CallError(f"it must return real numbers, got {numbers.dtype}, for {description}.")
    return numbers.astype(np.float64)


def _one_line(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())[:300] or "no message"
    except Exception:  # noqa: BLE001 - the text of a function's own exception
        return "no message"


def _type_name(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {len(value)}"
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _package(value: Any) -> str:
    try:
        name = getattr(value, "__name__" if type(value).__name__ == "module" else "__module__", "")
    except Exception:  # noqa: BLE001 - a proxy may raise anything
        return ""
    return str(name).removeprefix("posenc_backends.").partition(".")[0]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises if the cell is empty
    except ValueError:
        return False
    return True
