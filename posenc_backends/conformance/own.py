"""Cases of one encoding, such as one of your own, for which there are no golden numbers: each backend against NumPy.

NumPy computes in float64 with the methods of the encoding itself, so the cases show that it is the same everywhere, not
that its formula is right.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core.encodings import Encoding

from .cases import Case, backend_under_test
from .errors import EXACT, BackendUnderTest, GoldenCase, Measurement, array_of, float32_arrays, layer_of, measure, ulps
from .tooling import FIRST_WEIGHT, arange_like

LENGTH, FAR = 7, 2000  # FAR is past the tables that layers have by default
STEP = 2.0**-10
COMPUTED = 8.0  # as of scores in `tooling`, in ulp of the largest number
TOKENS = ("x", "q", "k")


def cases_of_encoding(encoding: Encoding) -> Iterator[Case]:
    """Yield `forward` near and far, `compiled`, `gradient` and `saved` of the layer that the encoding is for.

    Raises:
        ValueError: if a layer alone cannot apply the encoding.
    """
    if encoding.needs_attention:
        raise ValueError(f"`encoding` must be one that a layer applies by itself, not attention alone, got {encoding}.")
    near: GoldenCase = {"name": str(encoding), "encoding": encoding.to_dict(), "start": 0}
    far = near | {"name": f"{encoding}, from position {FAR}", "start": FAR}
    yield _case("forward", near, forward)
    if encoding.limit > FAR + LENGTH and not encoding.uses_coordinates:
        yield _case("forward", far, forward)
    yield _case("compiled", near, partial(forward, is_compiled=True))
    yield _case("gradient", near, gradient)
    yield _case("saved", near, saved)


def forward(on: BackendUnderTest, case: GoldenCase, *, is_compiled: bool = False) -> Measurement:
    """Check a layer, compiled or not, with given parameters, in ulp of the largest number."""
    layer, inputs = _layer(on, case), _inputs(case)
    layer = on.testing.compiled(layer) if is_compiled else layer
    return measure(on, _call(layer, _arguments(on, inputs)), _by_numpy(case, inputs), COMPUTED)


def gradient(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check the gradients of tokens, queries and keys along one direction, by the difference quotient of NumPy.

    Only of those that change the result: one that ignores queries has no gradient of them in some frameworks.
    """
    layer, inputs = _layer(on, case), _inputs(case)
    arrays = _arguments(on, inputs)
    weights = arange_like(*_by_numpy(case, inputs).shape, first=FIRST_WEIGHT)
    errors = []
    for name in [name for name in TOKENS if name in inputs]:
        along = STEP * arange_like(*inputs[name].shape, first=3).astype(np.float64)
        ahead, behind = (_by_numpy(case, inputs | {name: inputs[name] + step}) for step in (along, -along))
        if np.array_equal(ahead, behind):
            continue
        call = partial(_with, layer, arrays, name)
        got = on.testing.gradient(call, arrays[name], array_of(on, weights))
        products = np.asarray(on.backend.to_numpy(got), np.float64) * along
        errors.append(ulps(np.sum(products), np.sum((ahead - behind) * weights) / 2, scale=np.sum(np.abs(products))))
    return Measurement(max(errors), COMPUTED)


def saved(on: BackendUnderTest, case: GoldenCase) -> Measurement:
    """Check that a layer gives the same after it is saved and loaded into a new one, bit for bit."""
    layer, arguments = _layer(on, case), _arguments(on, _inputs(case))
    with tempfile.TemporaryDirectory() as folder:
        on.testing.save_layer(layer, Path(folder))
        loaded = on.testing.load_layer(lambda: on.testing.eval_mode(layer_of(on, case)), Path(folder))
        got, wanted = (on.backend.to_numpy(_call(each, arguments)) for each in (loaded, layer))
    return Measurement(ulps(got, wanted), EXACT)


def _case(check: str, case: GoldenCase, run: Any) -> Case:
    return Case(check, case["encoding"]["kind"], case["name"], "float32", partial(run, case=case))


def _layer(on: BackendUnderTest, case: GoldenCase) -> Any:
    layer = on.testing.eval_mode(layer_of(on, case))
    parameters = float32_arrays(_parameters(case))
    return on.testing.with_parameters(layer, parameters) if parameters else layer


def _parameters(case: GoldenCase) -> dict[str, npt.NDArray[Any]]:
    """Return numbers for the parameters: their initial ones, from numbers of mean 0 and standard deviation about 1."""
    parameters = Encoding.from_dict(case["encoding"]).parameters()
    return {name: parameter.initial(arange_like(*parameter.shape)) for name, parameter in parameters.items()}


def _inputs(case: GoldenCase) -> dict[str, Any]:
    """Return the arguments of a call: tokens or scores as `x`, and positions, queries and keys."""
    encoding: Any = Encoding.from_dict(case["encoding"])
    heads = encoding.table_heads or getattr(encoding, "num_heads", None) or 2
    at: Any = np.arange(LENGTH) + case["start"]
    if encoding.num_axes > 1:
        at = np.stack([at // 3**axis % 3 for axis in range(encoding.num_axes)])
    if encoding.uses_coordinates:
        at = np.float32(at / LENGTH)
    is_counted = encoding.num_axes == 1 and not encoding.uses_coordinates
    places = {"start": case["start"]} if is_counted else {"positions": at}
    if encoding.layer_name == "PositionalEncoding":
        return {"x": arange_like(1, LENGTH, encoding.dim), **places}
    if encoding.layer_name != "AttentionBias":
        return {"x": arange_like(1, heads, LENGTH, getattr(encoding, "head_dim", 8)), **places}
    if not is_counted:
        places = {"query_positions": at, "key_positions": at}
    tokens = (1, heads, LENGTH, encoding.head_dim) if encoding.uses_content else ()
    content = {name: arange_like(*tokens, first=i) for i, name in enumerate("qk" if tokens else "")}
    return {"x": arange_like(1, heads, LENGTH, LENGTH), **content, **places}


def _arguments(on: BackendUnderTest, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as arrays of the framework; `start` as it is."""
    return {
        name: on.backend.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()
    }


def _call(layer: Any, arguments: dict[str, Any]) -> Any:
    return layer(arguments["x"], **{name: value for name, value in arguments.items() if name != "x"})


def _with(layer: Any, arguments: dict[str, Any], name: str, array: Any) -> Any:
    return _call(layer, arguments | {name: array})


def _by_numpy(case: GoldenCase, inputs: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Return what NumPy computes in float64."""
    wide = {name: np.asarray(value, np.float64) if name in TOKENS else value for name, value in inputs.items()}
    wanted: npt.NDArray[np.float64] = _call(_layer(backend_under_test("numpy"), case), wide)
    return wanted
