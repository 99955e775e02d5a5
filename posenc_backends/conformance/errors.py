"""Make the layer and the arrays of a golden case, and measure errors in ulp (units in the last place)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from posenc_core.encodings import Encoding, RotaryEncoding
from posenc_core.rotation import pair_slices

GoldenCase = dict[str, Any]

DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4}
ROTARY_KINDS = ("Rotary", "XPos", "MultimodalRotary", "AxialRotary", "LearnedRotary")
LOOKED_UP = ("Alibi", "Sandwich", "T5Bias", "SwinBias")  # one product, or none: exact

# Limits in ulp
EXACT = 0.0
CONTRACTED = 1.0  # of the length of the pair: a fused multiply-add skips the rounding of one product
LEARNED = 8.0  # six roundings before the sine, of angles up to 6, and each framework rounds the sine differently
POLAR = 4.0  # two exponentials or sines, products and sums: each within an ulp of numbers below the largest
MULTIPLIED = 4.0  # a logarithm, a product, a sum and a product, each rounded
RESIZED = {"float32": 4.0, "float16": 1.0, "bfloat16": 1.0}  # about ten roundings to float32 per axis, and a last one
ONCE = 0.51  # float32 rounded once to half precision


class BackendUnderTest(NamedTuple):
    """A backend, and the module of `conformance.frameworks` that tests it: helpers and modes of its framework.

    Where that module has `MAKES_LAYERS`, it has the names of the backend and is in its place: its layers need no key.
    """

    backend: ModuleType
    testing: ModuleType

    @property
    def known_failures(self) -> dict[str, str]:
        """The cases that the framework cannot pass, with the reason."""
        return self.testing.KNOWN_FAILURES


class Measurement(NamedTuple):
    """The worst error of a case and its limit, in ulp."""

    worst: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the error is within the limit; False for NaN."""
        return self.worst <= self.limit


def worst(measurements: Iterable[Measurement]) -> Measurement:
    """Return the measurement that fails, or has the largest error if none does."""
    return max(measurements, key=lambda measurement: (not measurement.passed, measurement.worst))


def ulps(got: Any, wanted: Any, *, dtype: str = "float32", scale: Any = None) -> float:
    """Return the worst error, in ulp of the wanted numbers, or of `scale`, in this dtype.

    Raises:
        ValueError: if the shapes differ.
    """
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if got.shape != wanted.shape:
        raise ValueError(f"Expected shape {wanted.shape}, got {got.shape}.")
    return float(np.max(np.abs(got - wanted) / ulp_of(wanted if scale is None else scale, dtype), initial=0))


def ulp_of(numbers: Any, dtype: str) -> Any:
    """Return one ulp of each number in this dtype; tiny numbers have that of the smallest normal float32."""
    size = np.maximum(np.abs(numbers), np.finfo(np.float32).tiny)
    return np.where(np.isfinite(size), np.ldexp(1.0, np.frexp(size)[1] - DIGITS[dtype]), size)


def measure(on: BackendUnderTest, got: Any, wanted: Any, limit: float, dtype: str = "float32") -> Measurement:
    """Measure the error of a result in ulp of the largest wanted number."""
    array = got if isinstance(got, np.ndarray) else on.backend.to_numpy(got)
    return Measurement(ulps(array, wanted, dtype=dtype, scale=np.full(np.shape(wanted), np.abs(wanted).max())), limit)


def measure_rotated(on: BackendUnderTest, got: Any, case: GoldenCase, rows: Any = slice(None)) -> Measurement:
    """Measure the result of compiled code: rotations may contain fused multiply-adds, all else is exact."""
    if not on.testing.CONTRACTS or case["encoding"]["kind"] not in ROTARY_KINDS:
        return Measurement(error_of(on, got, case, "result", rows), EXACT)
    lengths = pair_lengths(RotaryEncoding.from_dict(case["encoding"]), np.array(case["result"]))
    return Measurement(error_of(on, got, case, "result", rows, lengths[rows]), CONTRACTED)


def error_of(
    on: BackendUnderTest, got: Any, case: GoldenCase, name: str, rows: Any = slice(None), scale: Any = None
) -> float:
    """Return the error of a result against the golden numbers of this name, in ulp of the dtype of the case.

    Raises:
        TypeError: if the result has another dtype.
    """
    if case["dtype"] not in str(got.dtype):
        raise TypeError(f"Expected {case['dtype']}, got {got.dtype}.")
    return ulps(on.backend.to_numpy(got)[0][rows], np.array(case[name])[rows], dtype=case["dtype"], scale=scale)


def pair_lengths(encoding: RotaryEncoding, rotated: Any) -> Any:
    """Return, for each channel, the length of its rotated pair, or its own size if it is not rotated."""
    pairing, lengths = encoding.pairing, np.abs(rotated)
    blocks, _ = pair_slices(encoding.head_dim, encoding.pairs, pairing._replace(split=pairing.join))
    for first, second in (block[:2] for block in blocks):
        lengths[..., first] = lengths[..., second] = np.hypot(rotated[..., first], rotated[..., second])
    return lengths


def layer_of(on: BackendUnderTest, case: GoldenCase) -> Any:
    """Return the backend's layer for the encoding of a case."""
    encoding: Any = Encoding.from_dict(case["encoding"])
    if encoding.layer_name == "PositionalEncoding":
        return on.backend.PositionalEncoding(encoding.dim, encoding=encoding)
    return getattr(on.backend, encoding.layer_name)(encoding)


def with_parameters_of_parts(on: BackendUnderTest, layer: Any, parameters: dict[str, Any]) -> Any:
    """Return attention with these parameters in the part that has them: its rotary, scoring, scaling or norm layer."""
    for part in (layer.rotary, layer.scoring, layer.scaling, layer.norm) if parameters else ():
        if part is not None and parameters.keys() <= part.encoding.parameters().keys():
            is_replaced = on.testing.with_parameters(part, parameters) is not part
            return on.testing.with_parameters(layer, parameters) if is_replaced else layer  # JAX's are immutable
    return layer


def beside(case: GoldenCase) -> dict[str, Any]:
    """Return the arguments of attention beside its position that a case has: a query scale, a norm."""
    return {name: Encoding.from_dict(case[name]) for name in ("query_scale", "qk_norm") if name in case}


def float32_arrays(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return lists of numbers as NumPy arrays of float32, by name."""
    return {name: np.array(each, np.float32) for name, each in numbers.items()}


def positions_in(case: GoldenCase) -> dict[str, Any]:
    """Return the positions of queries and of keys that a case gives, as NumPy arrays."""
    return {name: np.array(case[name]) for name in ("query_positions", "key_positions") if name in case}


def traced_positions_in(on: BackendUnderTest, case: GoldenCase) -> dict[str, Any]:
    """Return the same positions as int32 arrays of the framework."""
    return {name: on.backend.from_numpy(array.astype(np.int32)) for name, array in positions_in(case).items()}


def array_of(on: BackendUnderTest, numbers: Any, dtype: str = "float32") -> Any:
    """Return the numbers as an array of the framework; float64 is not rounded to float32 in between."""
    array = np.array(numbers, np.float64 if dtype == "float64" else np.float32)
    return on.testing.cast(on.backend.from_numpy(array), dtype)


def tokens_of(on: BackendUnderTest, case: GoldenCase, name: str) -> Any:
    """Return the tokens of this name as a batch of one, `(1, …, length, width)`, in the dtype of the case."""
    return array_of(on, [case[name]], case.get("dtype", "float32"))


def zero_scores(on: BackendUnderTest, case: GoldenCase) -> Any:
    """Return scores of zero, `(1, heads, queries, keys)`, in the dtype of the case."""
    return array_of(on, np.zeros((1, *np.shape(case["bias"]))), case["dtype"])


def pair_inputs(case: GoldenCase, *shape: int) -> Any:
    """Return tokens of pairs (1, 0), which a rotation turns into cosine and sine."""
    x = np.zeros((*shape, case["encoding"]["head_dim"]), np.float32)
    x[..., np.array(case["channels"])[:, 0]] = 1
    return x
