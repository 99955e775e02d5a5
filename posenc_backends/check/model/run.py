"""Run a model on single tokens at many positions, and judge each layer by its config."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_core._array_api.checks import shown
from posenc_core.encodings import Encoding, RotaryEncoding
from posenc_core.encodings.notation import parse
from posenc_core.huggingface import load_layers
from posenc_core.huggingface.load_layers import name_layers

from ..diagnosis import FoundMistake
from ..precision_classes import UNKNOWN
from .judge import NOT_FINITE, Judge, Observation
from .protocol import Call, Float64s, ModelAdapter, Product, layer_number
from .result import LayerResult, ModelResult

NEAR = np.stack([np.arange(3, 20), np.arange(100, 117)])  # of two rows
SINGLE_ROWS = np.r_[0, NEAR.ravel()][:, None]  # of rows of one token
FAR = np.array(
    [0, 31, 32, 33, 127, 128, 500, 511, 1000, 2047, 2048, 4095, 4096, 8191, 10000, 32767, 65537, 100003, 131071]
)[:, None]
OTHER, NUMBER = re.compile(r"indexer|compress|cross|enc_?dec|encoder_attn|vision|visual"), r"(?<=\.)\d+(?=\.)"
OWN_POSITIONS = np.arange(67)  # of a model that counts tokens itself
FIRST = "not judged: position 0, which others are compared with, as the rotation cannot be left out"
CACHE_LENGTH = 5  # tokens before the one that is judged
AFTER_CACHE = f"after a cache of {CACHE_LENGTH}"
NOT_COMPUTED, MOST_NUMBERS = "buffer not computed", 3
EAGER = {"keras": ("keras", "Keras"), "mlx": ("mlx", "MLX"), "flax": ("jax", "NNX")}  # file and class, by library
ALIKE = 1e-4  # relative difference of rows that do not depend on positions, but for their length


def check_model(
    model: Any,
    config: Any = None,
    *,
    spec: Encoding | str | None = None,
    call: Callable[..., Any] | None = None,
) -> ModelResult:
    """Check in each layer of a model whether queries and keys rotate as its config says, and name the mistake if not.

    The model runs on rows of one token each, the same in all rows, at positions up to 131,071, and once more with all
    angles 0. The hidden states of all rows are then equal in each layer, so that queries and keys differ by
    their rotation alone.

    Args:
        model: a PyTorch, MLX, flax.nnx or Keras module, called as `model(tokens, position_ids=…)` with tokens
            `(rows, length)`; `positions`, `start` and `offset` are known too.
        config: as in `load_layers`; by default the `config` of the model.
        spec: the encoding of all layers, or its `repr`, in place of a config.
        call: calls the model if it needs other arguments, with keywords of these names as far as it has them: `tokens`,
            `positions` (None to leave them to the model) and `cache` (None, or what the last call returned).
    Returns:
        The result: `status`, `layers`, `remarks`; as a string, a report.
    Raises:
        TypeError: if the model is of no known framework.
        ValueError: if there is neither a config nor an encoding, or the model multiplies no queries and keys.
    """
    adapter = _adapter(model, call)
    expected, remarks = _expected(model, config, spec)
    return _Run(adapter, expected, remarks, type(model).__name__).result()


def _adapter(model: Any, call: Callable[..., Any] | None) -> ModelAdapter:
    libraries = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    library = next((one for one in EAGER if one in libraries), None)  # before torch, as Keras's layers may be of both
    if library is not None:
        from .eager import EagerModel

        module, cls = EAGER[library]
        return EagerModel(model, getattr(import_module(f".{module}", __package__), cls)(), call)
    if "torch" in libraries:
        from .torch import TorchModel

        return TorchModel(model, call)
    wanted = "a torch.nn.Module, mlx.nn.Module, flax.nnx.Module or keras.Layer"
    raise TypeError(f"`model` must be {wanted}, got {shown(model)}.")


def _expected(model: Any, config: Any, spec: Encoding | str | None) -> tuple[Any, list[str]]:
    """Return the encoding of each layer, or the one of all, and what the config warns of."""
    if spec is not None:
        if config is not None:
            raise ValueError("`spec` and `config` both name the encoding: give one of them.")
        encoding = parse(spec) if isinstance(spec, str) else spec
        if not isinstance(encoding, RotaryEncoding):
            raise TypeError(f"`spec` must be rotary, got {shown(encoding)}.")
        return encoding, []
    config = getattr(model, "config", None) if config is None else config
    if config is None:
        raise ValueError("`config` is missing: the model has none, so give one, or `spec`.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        layers = load_layers(config)
    return layers, list(dict.fromkeys(str(one.message) for one in caught))


class _Run:
    """The calls of one check.

    Args:
        adapter: the model.
        expected: the encoding of each layer, or one of all.
        remarks: to begin with.
        name: of the model.
    """

    def __init__(self, adapter: ModelAdapter, expected: Any, remarks: list[str], name: str) -> None:
        self.adapter, self.expected, self.remarks, self.name = adapter, expected, remarks, name
        encodings = [one for one in (expected if isinstance(expected, tuple) else (expected,)) if one is not None]
        self.num_axes = max((one.num_axes for one in encodings), default=1)
        self.judge = Judge()
        self.call_names: list[str] = []  # names of calls

    def result(self) -> ModelResult:
        """Make the calls and judge each layer."""
        try:
            layers = self._layers()
        except Exception as error:  # noqa: BLE001 - whatever the model raises
            failure = f"the model raised {type(error).__name__}: {' '.join(str(error).split())}"
            return ModelResult(model=self.name, failure=failure, remarks=tuple(self.remarks))
        if not layers:
            reasons = "; ".join(dict.fromkeys(self.remarks)) or "no module multiplies queries and keys"
            raise ValueError(f"`model` must have a layer that can be judged, but {reasons}.")
        if any(layer.mistakes for layer in layers) and self.adapter.has_sine_first:
            self.adapter.reads_sine_first = True
            other = self._layers()
            layers = layers if any(layer.mistakes for layer in other) else other
        if isinstance(self.expected, tuple):
            found = {layer.number for layer in layers}
            silent = [at for at, one in enumerate(self.expected) if one is not None and at not in found]
            self.remarks += (
                [f"not found: products of queries and keys in {name_layers(None, silent)}"] if silent else []
            )
        self.remarks += [f"not run: {name} ({cls})" for name, cls in self.adapter.list_idle()]
        remarks = tuple(dict.fromkeys(self.remarks))
        return ModelResult(model=self.name, layers=tuple(layers), calls=tuple(self.call_names), remarks=remarks)

    def _layers(self) -> list[LayerResult]:
        calls = [*self._calls(), *self._after_cache()]
        self.call_names = list(dict.fromkeys(observation.name for call in calls for observation in call.values()))
        layers = []
        for module, number in self._modules(calls[0]):
            encoding = self.expected[number] if isinstance(self.expected, tuple) else self.expected
            observation = [call[module] for call in calls if module in call]
            mistakes = [self._rename(one) for one in self.judge.mistakes(encoding, observation)]
            layers.append(LayerResult(module, number, encoding, tuple(mistakes)))
        return layers

    def _rename(self, mistake: FoundMistake) -> FoundMistake:
        """Return a mistake by its cause in a model: a cache that is forgotten, or a buffer that was not computed."""
        if mistake.name == "not rotated" and mistake.calls == (AFTER_CACHE,):  # as at position 0
            return replace(mistake, name="positions ignored", description="a token after a cache has position 0")
        if mistake.name not in (UNKNOWN, NOT_FINITE, "not rotated"):
            return mistake
        for buffer in self.adapter.buffers():
            numbers = buffer.numbers
            is_computed = np.isfinite(numbers).all() and numbers.any() and (np.diff(numbers) <= 0).all()
            if len(numbers) > 1 and not is_computed:
                values = ", ".join(f"{one:.3g}" for one in numbers[:MOST_NUMBERS])
                description = f"`{buffer.name}` is {values}, …: memory that was not filled, as after `to_empty`"
                return replace(mistake, name=NOT_COMPUTED, description=description)
        return mistake

    def _calls(self) -> list[dict[str, Observation]]:
        """Return what each layer multiplies near position 0 and far from it."""
        if not self.adapter.takes_positions:
            self.remarks.append(f"not run: positions past {OWN_POSITIONS[-1]}, as the model takes none")
            near, is_alike = self._observe(f"up to {OWN_POSITIONS[-1]}", OWN_POSITIONS[None], is_given=False)
            self.remarks += [] if is_alike else [FIRST]
            return [near]
        near, is_alike = dict[str, Observation](), False
        if self.adapter.dtype == "float32":
            before = len(self.remarks)
            near, is_alike = self._observe("near 0", NEAR)
            if not is_alike:
                del self.remarks[before:]
        if not is_alike:  # where tokens change others, by convolutions or weights whose sum is not 1 in half precision
            near, is_alike = self._observe("near 0", SINGLE_ROWS)
        self.remarks += [] if is_alike else [FIRST]
        try:
            return [near, self._observe(f"up to {FAR.max():,}", FAR)[0]]
        except Exception as error:  # noqa: BLE001 - whatever the model raises past the end of its table
            self.remarks.append(f"not run: positions past {NEAR.max()}: {error}")
            return [near]

    def _after_cache(self) -> list[dict[str, Observation]]:
        """Return what each layer multiplies for a token after a cache of others, whose position the model counts."""
        if not self.adapter.takes_cache:
            self.remarks.append("not run: a token after a cache, as the model takes none of a known form")
            return []
        tokens = np.full((1, CACHE_LENGTH + 1), self.adapter.token)
        runs = []
        try:
            for is_rotated in (True, False):
                _, cache = self.adapter.run(Call(tokens[:, 1:], None, has_cache=True), is_rotated=is_rotated)
                if cache is None:
                    self.remarks.append("not run: a token after a cache, as the model returns none")
                    return []
                call = Call(tokens[:, :1], None, cache, has_cache=True)
                runs.append(self.adapter.run(call, is_rotated=is_rotated)[0])
        except Exception as error:  # noqa: BLE001 - whatever the model raises
            self.remarks.append(f"not run: a token after a cache: {type(error).__name__}: {error}")
            return []
        last = [[one._replace(k=one.k[..., : CACHE_LENGTH + 1, :][..., -1:, :]) for one in run] for run in runs]
        positions = np.full((self.num_axes, 1) if self.num_axes > 1 else 1, CACHE_LENGTH)
        return [self._by_module(AFTER_CACHE, positions, *last)[0]]

    def _modules(self, call: dict[str, Observation]) -> Iterator[tuple[str, int]]:
        """Yield the modules of layers that are judged, with their numbers."""
        for place, module in enumerate(call):
            number = layer_number(module)
            number = place if number is None else number
            if OTHER.search(module.lower()):
                self.remarks.append(f"not judged: {re.sub(NUMBER, '*', module)}, which is no attention within the text")
            elif isinstance(self.expected, tuple) and number >= len(self.expected):
                self.remarks.append(f"not judged: {module}, which the config does not describe")
            else:
                yield module, number

    def _observe(
        self, name: str, rows: npt.NDArray[Any], *, is_given: bool = True
    ) -> tuple[dict[str, Observation], bool]:
        """Return what each layer multiplies in a call at these positions, and whether all its tokens are alike."""
        at = self._on_axes(rows)
        call = Call(np.full(rows.shape, self.adapter.token), at if is_given else None)
        rotated, _ = self.adapter.run(call)
        plain, _ = self.adapter.run(call, is_rotated=False)
        positions = at[..., 0] if rows.shape[1] == 1 else at[..., 0, :] if rows.shape[0] == 1 else at
        return self._by_module(name, positions, rotated, plain)

    def _by_module(
        self, name: str, positions: npt.NDArray[Any], rotated: list[Product], plain: list[Product]
    ) -> tuple[dict[str, Observation], bool]:
        """Return what each module multiplies first, and whether all tokens are alike."""
        found, is_alike = dict[str, Observation](), True
        for one, other in zip(rotated, plain, strict=True):
            pairs = [_pair(*both) for both in ((other.q, one.q), (other.k, one.k))]
            before, after, alike = zip(*pairs, strict=True)
            is_alike &= all(alike)
            if one.follows_positions and not all(alike):
                self.remarks.append(f"not judged: {one.name}, whose tokens depend on positions before they rotate")
                continue
            found.setdefault(one.name, Observation(name, positions, before, after, self.adapter.dtype))
        return found, is_alike

    def _on_axes(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return positions that differ between the axes, if there are several."""
        if self.num_axes == 1:
            return rows
        return np.stack([rows, *(np.roll(rows // axis, axis) for axis in range(1, self.num_axes))])


def _pair(plain: Float64s, rotated: Float64s) -> tuple[Float64s, Float64s, bool]:
    """Return an array without rotation and with it, `(rows, heads, length, width)`, and whether all tokens are alike.

    Rows of one token become one row. If what should be without rotation depends on positions, the first token takes
    its place, whose position is 0.
    """
    if plain.shape[2] == 1:
        plain, rotated = plain.swapaxes(0, 2), rotated.swapaxes(0, 2)
    first = plain[:1, :, :1]
    size = np.maximum((first * first).sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    longer = (plain * first).sum(axis=-1, keepdims=True) / size
    is_alike = bool(np.abs(plain - longer * first).max() <= ALIKE * np.abs(plain).max())
    return plain if is_alike else np.broadcast_to(rotated[:1, :, :1], rotated.shape), rotated, is_alike
