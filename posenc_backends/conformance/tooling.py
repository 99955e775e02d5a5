"""Modes: a mode is one of the framework's own tools applied to a layer (compile, export, save, cast, vmap …).

`frameworks/<framework>.py` lists the modes of its framework: functions from a `LayerCase` and an empty folder to a
function that is called with arrays. The suite runs every layer with every encoding in every mode at several lengths,
so a new encoding is tested in all of them.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Encoding, Tabular

from .errors import (
    CONTRACTED,
    DIGITS,
    EXACT,
    LEARNED,
    LOOKED_UP,
    ONCE,
    POLAR,
    BackendUnderTest,
    GoldenCase,
    Measurement,
    beside,
    float32_arrays,
    pair_lengths,
    ulps,
    with_parameters_of_parts,
    worst,
)

LENGTHS = (53, 7, 16, 17, 33)  # the longest first, then shorter and longer ones, odd and even
FIRST_WEIGHT = 7  # where weights begin in `arange_like`, so that they differ from tokens
HALF = ("bfloat16", "float16")
INFINITE = {"float16": 65520.0}  # numbers from here on round to infinity

# Limits in ulp
COMPUTED = 8.0  # scores and attention: about sixty roundings, in an order that each framework chooses
NEIGHBOUR = 1.0  # float32 and golden number both rounded once to half precision: neighbours if both are near the middle
MIXED = 3.0  # attention with q, k, v, rotations, mean and result each rounded to half: 2.92 at most for these tokens

Run: TypeAlias = Callable[..., Any]
Mode: TypeAlias = "Callable[[LayerCase, Path], Run]"


@dataclass(frozen=True)
class LayerCase:
    """A layer of one encoding and the arguments of its call, from a golden case."""

    on: BackendUnderTest
    golden_case: GoldenCase

    @property
    def name(self) -> str:
        """The encoding, its settings and the dtype."""
        return str(self.golden_case["name"])

    @property
    def kind(self) -> str:
        """The class of the layer."""
        return str(self.golden_case["layer"])

    @property
    def dtype(self) -> str:
        """The dtype of the tokens."""
        return str(self.golden_case["dtype"])

    @cached_property
    def encoding(self) -> Any:
        """The encoding; None for attention without one."""
        return Encoding.from_dict(self.golden_case["encoding"]) if self.golden_case["encoding"] else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments that are arrays, tokens first."""
        return tuple(self.golden_case["arrays"])

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """The axes of each array whose size is the length of the sequence."""
        return tuple(tuple(array["lengths"]) for array in self.golden_case["arrays"].values())

    @property
    def options(self) -> dict[str, Any]:
        """The other arguments, constants of a program."""
        return dict(self.golden_case["options"])

    def make(self) -> Any:
        """Return a new layer as initialized, in evaluation mode."""
        backend, encoding = self.on.backend, self.encoding
        if self.kind == "MultiHeadAttention":
            options = beside(self.golden_case)
            if "query_scale" in options or isinstance(encoding, Tabular):
                options["max_len"] = self._max_len
            layer = backend.MultiHeadAttention(8, 2, position=encoding, **options)
        elif self.kind == "AttentionBias":
            layer = backend.AttentionBias(encoding)
        elif self.kind == "PositionalEncoding":
            layer = backend.PositionalEncoding(encoding.dim, max_len=self._max_len, encoding=encoding)
        else:
            layer = backend.RotaryEmbedding(encoding, max_len=self._max_len)
        return self.on.testing.eval_mode(layer, self.dtype)

    @property
    def _max_len(self) -> int:
        """More rows than any call asks for."""
        largest = [np.max(array["numbers"]) for array in self.golden_case["arrays"].values() if "numbers" in array]
        return int(max(largest, default=0)) + LENGTHS[0] + 7

    def layer(self) -> Any:
        """Return a new layer with the parameters of the golden case."""
        testing, layer = self.on.testing, self.make()
        matrices, parameters = (float32_arrays(self.golden_case[which]) for which in ("matrices", "parameters"))
        if not matrices:
            return testing.with_parameters(layer, parameters) if parameters else layer
        layer = testing.eval_mode(testing.with_projections(layer, matrices), self.dtype)
        return with_parameters_of_parts(self.on, layer, parameters)

    def arrays(self, length: int = LENGTHS[0]) -> tuple[Any, ...]:
        """Return the arrays of a call for a sequence of this length."""
        return tuple(
            self._to_backend(_cut(self._numbers(array), array["lengths"], length))
            for array in self.golden_case["arrays"].values()
        )

    def shapes(self, length: Any = None) -> list[tuple[Any, ...]]:
        """Return the shape of each array, with `length` in place of each size that is the length of the sequence."""
        arrays = zip(self.arrays(), self.sizes, strict=True)
        return [
            tuple(length if axis - x.ndim in axes else size for axis, size in enumerate(x.shape)) for x, axes in arrays
        ]

    def weights(self, length: int = LENGTHS[0]) -> Any:
        """Return the weights of the result: the golden gradient is that of `sum(result * weights)`."""
        tokens = next(iter(self.golden_case["arrays"].values()))
        return self._to_backend(_cut(arange_like(*tokens["shape"], first=FIRST_WEIGHT), tokens["lengths"], length))

    def _numbers(self, array: GoldenCase) -> npt.NDArray[Any]:
        if "numbers" in array:
            return np.array(array["numbers"], np.int32)
        numbers = arange_like(*array["shape"])
        if self.golden_case["masked"] and len(array["lengths"]) > 1:
            numbers[..., np.triu(np.ones(numbers.shape[-2:]), 1) > 0] = -np.inf
        return numbers

    def _to_backend(self, numbers: npt.NDArray[Any]) -> Any:
        array = self.on.backend.from_numpy(numbers)
        return array if numbers.dtype.kind == "i" else self.on.testing.cast(array, self.dtype)

    def call(self, layer: Any, *arrays: Any) -> Any:
        """Call a layer with these arrays and the options of the case."""
        return layer(**dict(zip(self.names, arrays, strict=True)), **self.options)

    def measure(self, got: Any, length: int, name: str, dtype: str, contracts: bool) -> Measurement:
        """Measure the rows of a result that are golden; masked numbers must be -inf."""
        rows = [row for row in self.golden_case["rows"] if row < length]
        wanted = np.array(self.golden_case[name], np.float64)[..., : len(rows), :]
        wanted = _cut(wanted, self.sizes[0][1:], length)
        if not isinstance(got, np.ndarray) and dtype not in str(got.dtype):
            raise TypeError(f"Expected {dtype}, got {got.dtype}.")
        array = got if isinstance(got, np.ndarray) else self.on.backend.to_numpy(got)
        if array.shape[-2] != length:
            raise ValueError(f"Expected {length} rows, got shape {array.shape}.")
        found = np.asarray(array, np.float64)[..., rows, :]
        is_masked = np.isnan(wanted) | (np.abs(wanted) >= INFINITE.get(dtype, np.inf))
        found = np.where(is_masked & (found == -np.inf), 0.0, found)
        scale, limit = self._scale_and_limit(wanted, dtype, contracts)
        return Measurement(ulps(found, np.where(is_masked, 0.0, wanted), dtype=dtype, scale=scale), limit)

    def _scale_and_limit(self, wanted: npt.NDArray[Any], dtype: str, contracts: bool) -> tuple[Any, float]:
        """Return the numbers in whose ulp errors are counted (None: each in its own), and the limit."""
        encoding = self.golden_case["encoding"] and self.golden_case["encoding"]["kind"]
        is_half, is_cast = dtype in HALF, dtype != self.dtype
        once = ONCE + 2.0 ** (DIGITS[dtype] - DIGITS[self.dtype] - 1)  # golden numbers have the digits of their tokens
        largest = np.full(wanted.shape, np.nanmax(np.abs(wanted)))
        learned = dict.fromkeys(("FoPE", "LearnedSinusoidal", "LearnedRotary", "MixedRotary"), LEARNED)
        computed = {**learned, "PoPE": POLAR}.get(encoding)
        if computed is not None and self.kind != "MultiHeadAttention":
            return largest, once if is_cast else NEIGHBOUR if is_half else computed
        if self.kind == "RotaryEmbedding" and contracts:
            return pair_lengths(self.encoding, wanted), once if is_cast else CONTRACTED
        if self.kind in ("PositionalEncoding", "RotaryEmbedding"):
            return None, once if is_cast else EXACT
        if self.kind == "AttentionBias" and encoding in LOOKED_UP:
            return None, once if is_cast else EXACT
        if self.kind == "MultiHeadAttention" and is_half:
            return largest, MIXED
        return largest, once if is_cast else NEIGHBOUR if is_half else COMPUTED


def forward(on: BackendUnderTest, case: GoldenCase, mode: str) -> Measurement:
    """Measure a layer in a mode at every length; return the worst."""
    layer_case = LayerCase(on, case)
    with tempfile.TemporaryDirectory() as folder:
        run = on.testing.MODES[mode](layer_case, Path(folder))
        results = [(length, run(*layer_case.arrays(length))) for length in _lengths(on)]
        dtypes = getattr(on.testing, "RESULT_DTYPES", {})
        dtype = dtypes.get(f"{mode}: {layer_case.kind}", dtypes.get(mode, layer_case.dtype))
        return _worst(layer_case, mode, "result", dtype, results)


def gradient(on: BackendUnderTest, case: GoldenCase, mode: str) -> Measurement:
    """Measure the gradient with respect to the tokens in a mode at every length; return the worst."""
    layer_case = LayerCase(on, case)
    with tempfile.TemporaryDirectory() as folder:
        run = on.testing.GRADIENT_MODES[mode](layer_case, Path(folder))
        results = [(length, run(layer_case.weights(length), *layer_case.arrays(length))) for length in _lengths(on)]
        return _worst(layer_case, mode, "gradient", layer_case.dtype, results)


def eager(case: LayerCase, folder: Path) -> Run:
    """Call the layer as it is."""
    return partial(case.call, case.layer())


def copied(case: LayerCase, folder: Path) -> Run:
    """Deep-copy the layer."""
    return partial(case.call, copy.deepcopy(case.layer()))


def pickled(case: LayerCase, folder: Path) -> Run:
    """Pickle the layer to a file and load it."""
    (folder / "layer.pickle").write_bytes(pickle.dumps(case.layer()))
    return partial(case.call, pickle.loads((folder / "layer.pickle").read_bytes()))


def saved(case: LayerCase, folder: Path) -> Run:
    """Save the state of the layer to a file and load it into a new layer."""
    case.on.testing.save_layer(case.layer(), folder)
    return partial(case.call, case.on.testing.load_layer(case.make, folder))


def compiled_by(compiler: Callable[[Any], Any], array_type: type, layer: Any) -> Callable[..., Any]:
    """Return the layer compiled; options that are not arrays are constants of the program."""

    def call(*arrays: Any, **options: Any) -> Any:
        traced = {name: option for name, option in options.items() if isinstance(option, array_type)}
        constant = {name: option for name, option in options.items() if name not in traced}
        return compiler(partial(layer, **constant))(*arrays, **traced)

    return call


def gradient_of(gradient: Callable[..., Any], run: Run) -> Run:
    """Return the gradient of `sum(run(tokens, *others) * weights)` as a function of `weights, tokens, *others`."""
    return lambda weights, tokens, *others: gradient(lambda x: run(x, *others), tokens, weights)


def gradient_in(mode: Mode, case: LayerCase, folder: Path) -> Run:
    """Compute the gradient of a mode's result with respect to the tokens."""
    return gradient_of(case.on.testing.gradient, mode(case, folder))


def arange_like(*shape: int, first: int = 0) -> npt.NDArray[np.float32]:
    """Return multiples of 1/32 up to 50/32 in size, which every dtype represents exactly, in a fixed order."""
    numbers = (37 * np.arange(first, first + np.prod(shape, dtype=int)) % 101 - 50) / 32
    return numbers.reshape(shape).astype(np.float32)


def _cut(array: npt.NDArray[Any], axes: Iterable[int], length: int) -> npt.NDArray[Any]:
    for axis in axes:
        array = np.take(array, range(length), axis=axis)
    return array


def _lengths(on: BackendUnderTest) -> tuple[int, ...]:
    """Return the lengths of the framework: fewer if each of them is compiled again."""
    return tuple(getattr(on.testing, "LENGTHS", LENGTHS))


def _worst(case: LayerCase, mode: str, name: str, dtype: str, results: Iterable[tuple[int, Any]]) -> Measurement:
    """Return the worst measurement of the results at these lengths; some modes fuse a product and a sum."""
    contracts = mode in getattr(case.on.testing, "CONTRACTING", ())
    return worst(case.measure(got, length, name, dtype, contracts) for length, got in results)
