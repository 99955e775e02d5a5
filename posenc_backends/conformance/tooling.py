"""Modes: one layer put through the tools of its framework, and what must come out at every length.

A room's `modes.py` names what its framework does with a layer (compiles, exports, saves, casts, …). The suite puts every
encoding through every mode, so that an encoding that is added has them all.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Additive, Encoding

from .errors import CONTRACTED, DIGITS, EXACT, LEARNED, BackendUnderTest, GoldenCase, Measurement, ulps
from .oracles import channel_map

LENGTHS = (53, 7, 16, 17, 33)  # the longest first, then shorter and longer ones, odd and even
FIRST_WEIGHT = 7  # weights are counted from another number than tokens
COMPUTED = 8.0  # scores and attention: some sixty roundings, in an order that each framework chooses
ONCE = 0.51  # what was computed in float32, rounded once to half precision
NEIGHBOUR = 1.0  # so was the golden number: where both lie about the middle, they are neighbours
HALF = ("bfloat16", "float16")
MIXED = 3.0  # attention whose q, k, v, their turns, mean and result are each rounded so: 2.92 at most for these tokens
ENDS = {"float16": 65520.0}  # from here on the nearest number is infinite
LOOKED_UP = ("Alibi", "T5Bias", "SwinBias")  # one product, or none

Run = Callable[..., Any]


@dataclass(frozen=True)
class LayerCase:
    """A layer of one encoding, and what it is called with."""

    on: BackendUnderTest
    golden_case: GoldenCase

    @property
    def name(self) -> str:
        """Which encoding, with which settings, in which dtype."""
        return str(self.golden_case["name"])

    @property
    def kind(self) -> str:
        """The class of the layer."""
        return str(self.golden_case["layer"])

    @property
    def dtype(self) -> str:
        """That of the tokens."""
        return str(self.golden_case["dtype"])

    @cached_property
    def encoding(self) -> Any:
        """The encoding; None for attention without one."""
        return Encoding.from_dict(self.golden_case["encoding"]) if self.golden_case["encoding"] else None

    @property
    def names(self) -> tuple[str, ...]:
        """The layer's arguments that are arrays, tokens first."""
        return tuple(self.golden_case["arrays"])

    @property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """For each of them, the axes whose size is the length."""
        return tuple(tuple(told["lengths"]) for told in self.golden_case["arrays"].values())

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that are a part of the program."""
        return dict(self.golden_case["options"])

    def make(self) -> Any:
        """A layer as its constructor leaves it, not in training."""
        backend, encoding = self.on.backend, self.encoding
        if self.kind == "MultiHeadAttention":
            layer = backend.MultiHeadAttention(8, 2, position=encoding, max_len=self._max_len)
        elif self.kind == "AttentionBias":
            layer = backend.AttentionBias(encoding)
        elif isinstance(encoding, Additive):
            layer = backend.PositionalEncoding(encoding.dim, max_len=self._max_len, encoding=encoding)
        else:
            layer = backend.RotaryEmbedding(encoding, max_len=self._max_len)
        return self.on.testing.eval_mode(layer, self.dtype)

    @property
    def _max_len(self) -> int:
        """More rows than any call asks for."""
        given = [np.max(told["numbers"]) for told in self.golden_case["arrays"].values() if "numbers" in told]
        return int(max(given, default=0)) + LENGTHS[0] + 7

    def layer(self) -> Any:
        """A layer with the parameters of the golden numbers."""
        testing, made = self.on.testing, self.make()
        matrices, parameters = (
            {name: np.array(numbers, np.float32) for name, numbers in self.golden_case[which].items()}
            for which in ("matrices", "parameters")
        )
        if not matrices:
            return testing.with_parameters(made, parameters) if parameters else made
        made = testing.eval_mode(testing.with_projections(made, matrices), self.dtype)
        if parameters and testing.with_parameters(made.scoring, parameters) is not made.scoring:
            return testing.with_parameters(made, parameters)  # layers that do not change are made anew, as a whole
        return made

    def arrays(self, length: int = LENGTHS[0]) -> tuple[Any, ...]:
        """What the layer is called with, for a sequence of this length."""
        return tuple(self._native(_cut(self._numbers(told), told["lengths"], length)) for told in self._told)

    def weights(self, length: int = LENGTHS[0]) -> Any:
        """Numbers that the result is multiplied with before it is added up; its gradient is the golden one."""
        told = self._told[0]
        return self._native(_cut(arange_like(*told["shape"], first=FIRST_WEIGHT), told["lengths"], length))

    @property
    def _told(self) -> list[GoldenCase]:
        return list(self.golden_case["arrays"].values())

    def _numbers(self, told: GoldenCase) -> npt.NDArray[Any]:
        if "numbers" in told:
            return np.array(told["numbers"], np.int32)
        numbers = arange_like(*told["shape"])
        if self.golden_case["masked"] and len(told["lengths"]) > 1:
            numbers[..., np.triu(np.ones(numbers.shape[-2:]), 1) > 0] = -np.inf
        return numbers

    def _native(self, array: npt.NDArray[Any]) -> Any:
        to_backend = self.on.backend.from_numpy(array)
        return to_backend if array.dtype.kind == "i" else self.on.testing.cast(to_backend, self.dtype)

    def call(self, layer: Any, *arrays: Any) -> Any:
        """What a layer makes of the arrays."""
        return layer(**dict(zip(self.names, arrays, strict=True)), **self.options)

    def measurement(self, got: Any, length: int, name: str, dtype: str, contracts: bool) -> Measurement:
        """How far the rows that are compared are off; what is hidden must be as far away as numbers go."""
        rows = [row for row in self.golden_case["rows"] if row < length]
        wanted = np.array(self.golden_case[name], np.float64)[..., : len(rows), :]
        wanted = _cut(wanted, self.sizes[0][1:], length)
        if not isinstance(got, np.ndarray) and dtype not in str(got.dtype):
            raise TypeError(f"Expected {dtype}, got {got.dtype}.")
        array = got if isinstance(got, np.ndarray) else self.on.backend.to_numpy(got)
        if array.shape[-2] != length:
            raise ValueError(f"Expected {length} rows, got shape {array.shape}.")
        found = np.asarray(array, np.float64)[..., rows, :]
        hidden = np.isnan(wanted) | (np.abs(wanted) >= ENDS.get(dtype, np.inf))
        found = np.where(hidden & (found == -np.inf), 0.0, found)
        scale, limit = self._allowed(wanted, dtype, contracts)
        return Measurement(ulps(found, np.where(hidden, 0.0, wanted), dtype=dtype, scale=scale), limit)

    def _allowed(self, wanted: npt.NDArray[Any], dtype: str, contracts: bool) -> tuple[Any, float]:
        """The size of numbers in whose last places errors are counted (None: their own), and how many are allowed."""
        kind, mixed = self.golden_case["encoding"] and self.golden_case["encoding"]["kind"], dtype != self.dtype
        half = dtype in HALF
        once = ONCE + 2.0 ** (DIGITS[dtype] - DIGITS[self.dtype] - 1)  # golden numbers have the digits of their tokens
        largest = np.full(wanted.shape, np.nanmax(np.abs(wanted)))
        if kind in ("LearnedSinusoidal", "LearnedRotary"):
            return largest, once if mixed else NEIGHBOUR if half else LEARNED
        if self.kind in ("PositionalEncoding", "RotaryEmbedding"):
            if self.kind == "RotaryEmbedding" and contracts:
                return self._lengths(wanted), once if mixed else CONTRACTED
            return None, once if mixed else EXACT
        if self.kind == "AttentionBias" and kind in LOOKED_UP:
            return None, once if mixed else EXACT
        if self.kind == "MultiHeadAttention" and half:
            return largest, MIXED
        return largest, once if mixed else NEIGHBOUR if half else COMPUTED

    def _lengths(self, turned: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The length of the pair that each channel belongs to."""
        way = channel_map(self.encoding.head_dim, self.encoding.pairs, self.encoding.pairing)
        first, second = way.channels[np.argsort(way.column, kind="stable")].reshape(-1, 2).T
        lengths = np.abs(turned)
        lengths[..., first] = lengths[..., second] = np.hypot(turned[..., first], turned[..., second])
        return lengths


def forward(on: BackendUnderTest, golden_case: GoldenCase, mode: str) -> Measurement:
    """What a layer gives in a mode, at every length, the worst of them."""
    layer_case, modes = LayerCase(on, golden_case), on.testing
    with tempfile.TemporaryDirectory() as folder:
        run = modes.MODES[mode](layer_case, Path(folder))
        found = [(length, run(*layer_case.arrays(length))) for length in _lengths(on)]
        dtypes = getattr(modes, "RESULT_DTYPES", {})
        dtype = dtypes.get(f"{mode}: {layer_case.kind}", dtypes.get(mode, layer_case.dtype))
        return _worst(
            layer_case.measurement(got, length, "result", dtype, _contracts(on, mode)) for length, got in found
        )


def gradient(on: BackendUnderTest, golden_case: GoldenCase, mode: str) -> Measurement:
    """The gradient with respect to the tokens in a mode, at every length, the worst of them."""
    layer_case = LayerCase(on, golden_case)
    with tempfile.TemporaryDirectory() as folder:
        run = on.testing.GRADIENT_MODES[mode](layer_case, Path(folder))
        found = [(length, run(layer_case.weights(length), *layer_case.arrays(length))) for length in _lengths(on)]
        contracts = _contracts(on, mode)
        return _worst(
            layer_case.measurement(got, length, "gradient", layer_case.dtype, contracts) for length, got in found
        )


def copied(layer_case: LayerCase, folder: Path) -> Run:
    """A deep copy of the layer."""
    layer = copy.deepcopy(layer_case.layer())
    return lambda *arrays: layer_case.call(layer, *arrays)


def pickled(layer_case: LayerCase, folder: Path) -> Run:
    """The layer, written to a file by pickle, and read."""
    (folder / "layer.pickle").write_bytes(pickle.dumps(layer_case.layer()))
    layer = pickle.loads((folder / "layer.pickle").read_bytes())
    return lambda *arrays: layer_case.call(layer, *arrays)


def arange_like(*shape: int, first: int = 0) -> npt.NDArray[np.float32]:
    """Multiples of 1/32 up to 50/32 in size, numbers of any dtype, that run through the array in its order."""
    numbers = (37 * np.arange(first, first + np.prod(shape, dtype=int)) % 101 - 50) / 32
    return numbers.reshape(shape).astype(np.float32)


def _cut(array: npt.NDArray[Any], axes: Any, length: int) -> npt.NDArray[Any]:
    for axis in axes:
        array = np.take(array, range(length), axis=axis)
    return array


def _lengths(on: BackendUnderTest) -> tuple[int, ...]:
    """Fewer where each of them is compiled anew."""
    return tuple(getattr(on.testing, "LENGTHS", LENGTHS))


def _contracts(on: BackendUnderTest, mode: str) -> bool:
    """Whether what runs in this mode may fuse a multiplication and an addition."""
    return bool(mode in getattr(on.testing, "CONTRACTING", ()))


def _worst(outcomes: Any) -> Measurement:
    return max(outcomes, key=lambda measurement: (not measurement.passed, measurement.worst))
