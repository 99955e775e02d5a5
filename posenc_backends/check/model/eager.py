"""The queries and keys that a model multiplies where its framework computes at once: MLX, JAX and Keras.

The framework's functions and the calls of modules are replaced for the time of a call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .likeness import are_alike, are_tables, axes_of_products, identities, keep_lengths, place_of_cosine
from .notes import Memory, Notes
from .protocol import Addition, Buffer, Call, Float64s, Product, Trace

POSITIONS, STARTS = ("position_ids", "positions"), ("start", "offset")
Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Framework(Protocol):
    """Functions of a framework."""

    is_lazy: bool  # whether the first call builds a model
    checks_rows: bool  # whether a row past the end of a table is an error or NaN

    def prepare(self, model: Any) -> AbstractContextManager[Any]:
        """Return a context in which all is computed at once."""

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        """Return all modules of a model and their names, the model first."""

    def held(self, module: Any) -> Iterator[tuple[Any, Callable[[Any], None]]]:
        """Yield each array that a module holds, and a function that puts another in its place."""

    def function(self, model: Any) -> Callable[..., Any]:
        """Return the function that has the arguments of the model."""

    def is_array(self, x: Any) -> bool:
        """Return whether a value is an array with numbers, and not one of a trace."""

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        """Return an array in float64 or complex128."""

    def from_numpy(self, x: npt.NDArray[Any], like: Any = None) -> Any:
        """Return an array of integers, or one of the dtype of another."""

    def dtype(self, model: Any) -> Any:
        """Return the dtype in which layers compute; None if it is that of the weights."""

    def key(self, module: Any) -> Any:
        """Return what a module has in common with its copies in a compiled function; None if it is not of the model."""

    def make_cache(self, model: Any, start: int) -> Any:
        """Return an empty cache whose first token has this position; None if the framework has no common form."""

    def replacements(self, run: Run) -> Iterator[tuple[Any, str, Any]]:
        """Yield each function to replace: its owner, its name, and what takes its place."""


class EagerModel:
    """Runs a model, and notes what its attention multiplies.

    Args:
        model: the model.
        framework: its framework.
        call: how to call the model; see `check_model`.
    """

    def __init__(self, model: Any, framework: Framework, call: Callable[..., Any] | None) -> None:
        self.model, self.framework, self.call = model, framework, call
        self.takes: Mapping[str, inspect.Parameter] = inspect.signature(call or framework.function(model)).parameters
        self.makes_cache: bool = call is None and "cache" in self.takes and framework.make_cache(model, 0) is not None
        held = [x for _, module in framework.modules(model) for x, _ in framework.held(module)]
        weights = [x for x in held if "float" in str(x.dtype)]
        largest = max(weights, key=lambda x: np.prod(x.shape), default=np.zeros(0, np.float32))
        self.dtype: str = str(framework.dtype(model) or largest.dtype).rpartition(".")[2]
        self.rotations: set[str] = set()  # modules that rotate tokens, or return tables
        self.run_names: set[str] = set()
        self.memory = Memory({}, set())
        self.has_sine_first: bool = False
        self.reads_sine_first: bool = False
        self.checks_rows: bool = framework.checks_rows
        self.token: int = 3

    @property
    def takes_positions(self) -> bool:
        """Whether the model takes the position of each token, or of the first, or a cache that has it."""
        return self.makes_cache or not self.takes.keys().isdisjoint({*POSITIONS, *STARTS})

    @property
    def needs_positions(self) -> bool:
        """Whether the model cannot run without positions."""
        known = (self.takes[name] for name in (*POSITIONS, *STARTS) if name in self.takes)
        return self.call is None and any(one.default is inspect.Parameter.empty for one in known)

    @property
    def generates(self) -> bool:
        """Whether the model has a `generate`, which gives it the position of each token: it does not matter here."""
        return False

    @property
    def takes_cache(self) -> bool:
        """Whether `call` takes the cache that it returned, or the model one of the common form."""
        return self.makes_cache or (self.call is not None and "cache" in self.takes)

    def run(self, call: Call, *, is_rotated: bool = True) -> Trace:
        """Return what the attention of each layer multiplies in a call; see `TorchModel.run`."""
        name = next((one for one in (*POSITIONS, *STARTS) if one in self.takes), None)
        given = {} if self.call is None or name is None else {name: None}
        if call.has_cache or (self.call is not None and "cache" in self.takes):
            is_first = self.makes_cache and call.cache is None
            given["cache"] = self.framework.make_cache(self.model, 0) if is_first else call.cache
        if call.positions is None or name in POSITIONS:
            if name in POSITIONS and call.positions is not None:
                given[name] = self.framework.from_numpy(call.positions)
            return self._run(call, given, is_rotated)
        starts = call.positions.reshape(-1, *call.tokens.shape)[0, :, 0]  # of rows: one for each run

        def run(tokens: npt.NDArray[np.int64], at: int) -> Trace:
            start = {"cache": self.framework.make_cache(self.model, at)} if name is None else {name: at}
            return self._run(call._replace(tokens=tokens), given | start, is_rotated)

        if call.tokens.shape[1] == 1 and is_rotated and not self.memory.summands:
            run(np.repeat(call.tokens[:1], 2, axis=1), 0)  # which tells rows from tokens
        return _join([run(*row) for row in zip(call.tokens[:, None], map(int, starts), strict=True)])

    def _run(self, call: Call, given: dict[str, Any], is_rotated: bool) -> Trace:
        if self.framework.is_lazy and not self.run_names:
            with self.framework.prepare(self.model):
                self._call(call.tokens, given)
        run = Run(self, call, is_rotated)
        modules = self.framework.modules(self.model)
        with self.framework.prepare(self.model), ExitStack() as stack:
            if not is_rotated:
                for _, module in modules:
                    self._leave_out_tables(module, stack)
            classes = {type(module) for _, module in modules}
            calls = [(cls, "__call__", run.follow(cls.__call__)) for cls in classes]
            run.names = {self.framework.key(module): name for name, module in modules}
            for owner, name, function in (*self.framework.replacements(run), *calls):
                is_own, before = name in vars(owner), getattr(owner, name)
                stack.callback(*((setattr, owner, name, before) if is_own else (delattr, owner, name)))
                setattr(owner, name, function)
            cache = self._call(call.tokens, given)
        return Trace(run.products, run.additions, run.layers, cache)

    def _call(self, tokens: npt.NDArray[Any], given: dict[str, Any]) -> Any:
        """Call the model, and return the cache after it."""
        if self.call is not None:
            return self.call(tokens=self.framework.from_numpy(tokens), **given)
        self.model(self.framework.from_numpy(tokens), **given)
        return given.get("cache")

    def _leave_out_tables(self, module: Any, stack: ExitStack) -> None:
        """Replace the tables that a module holds until the stack ends."""
        held = [(x, put) for x, put in self.framework.held(module) if len(x.shape) > 1 and np.prod(x.shape)]
        for place, ones in identities([self.framework.to_numpy(x) for x, _ in held]).items():
            table, put = held[place]
            put(self.framework.from_numpy(ones, table))
            stack.callback(put, table)

    def list_idle(self) -> list[tuple[str, str]]:
        """Return the names and classes of modules that seem to encode positions and that no call has reached."""
        named = [(name, type(module).__name__) for name, module in self.framework.modules(self.model)]
        return [(name, cls) for name, cls in named if name not in self.run_names and _seems_rotary(cls)]

    def weights(self, shape: tuple[int, ...]) -> list[tuple[str, Float64s]]:
        """Return the arrays of this shape that modules hold, with the names of modules."""
        modules = self.framework.modules(self.model)
        held = ((name, x) for name, module in modules for x, _ in self.framework.held(module))
        return [(name, self.framework.to_numpy(x)) for name, x in held if tuple(x.shape) == shape]

    def buffers(self) -> list[Buffer]:
        """Return nothing: these frameworks have no buffers that stay without numbers."""
        return []


class Run(Notes):
    """One call of a model, and what it multiplies and adds.

    Args:
        model: the model.
        call: its call.
        is_rotated: False to leave out rotations.
    """

    def __init__(self, model: EagerModel, call: Call, is_rotated: bool) -> None:
        super().__init__(model.memory, call, is_rotated)
        self.model, self.is_array = model, model.framework.is_array
        self.names: dict[Any, str] = {}  # by the key of the module
        self.copies: dict[str, list[Any]] = {}
        self.traced: set[str] = set()  # modules that have returned no numbers
        self._is_adding = False
        self._last: tuple[Callable[[], Pair], tuple[int, ...]] | None = None

    def is_float(self, x: Any) -> bool:
        return (self.is_array(x) or isinstance(x, np.ndarray)) and "float" in str(x.dtype)

    def to_numpy(self, x: Any) -> npt.NDArray[Any]:
        return self.model.framework.to_numpy(x)

    def from_numpy(self, x: Float64s, like: Any) -> Any:
        return self.model.framework.from_numpy(x, like)

    def at_zero(self, function: Callable[..., Any], number: float) -> Callable[..., Any]:
        """Return a cosine or sine that is that of 0 if rotations are left out."""

        def of_angles(x: Any, *args: Any, **options: Any) -> Any:
            result = function(x, *args, **options)
            return result if self.is_rotated else result * 0 + number

        return of_angles

    def multiply(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `matmul` that notes what it multiplies."""

        def matmul(x: Any, y: Any, *args: Any, **options: Any) -> Any:
            result = function(x, y, *args, **options)
            if len(getattr(x, "shape", ())) > 2 and len(getattr(y, "shape", ())) > 2:
                self.note(lambda: (self.to_numpy(x), self.to_numpy(y).swapaxes(-1, -2)), result)
            return result

        return matmul

    def contract(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `einsum` that notes what it multiplies."""

        def einsum(equation: str, *operands: Any, **options: Any) -> Any:
            result = function(equation, *operands, **options)
            if len(operands) == 2 and all(len(one.shape) > 2 for one in operands):
                self.note(lambda: self._pair(equation, operands), result)
            return result

        return einsum

    def _pair(self, equation: str, operands: tuple[Any, ...]) -> Pair:
        """Return queries and keys of an einsum, each `(…, length, width)`."""
        numbers = [self.to_numpy(one) for one in operands]
        q, k = (numbers[place].transpose(axes) for place, axes in axes_of_products(equation, numbers[0].ndim))
        return q, k

    def softmax(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a softmax that notes the last product, if it is given its scores."""

        def of_scores(x: Any, *args: Any, **options: Any) -> Any:
            self.take_last(x)
            return function(x, *args, **options)

        return of_scores

    def sum(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a sum that notes rows that are added to tokens; it may call another."""

        def add(x: Any, y: Any, *args: Any, **options: Any) -> Any:
            if self._is_adding:
                return function(x, y, *args, **options)
            self._is_adding = True
            try:
                has_rows = self.add_rows(x, y)
                result = function(x, y, *args, **options)
            finally:
                self._is_adding = False
            if has_rows:
                self._with_rows.append(result)
            return result

        return add

    def note(self, pair: Callable[[], Pair], result: Any) -> None:
        """Keep a product until a softmax takes it."""
        if self.is_array(result):
            self._last = (pair, tuple(result.shape))

    def take_last(self, scores: Any) -> None:
        """Add the last product if these are its scores; they may have a column more, of a sink."""
        shape = tuple(scores.shape)
        if self._last is None or not shape or shape[-1] - self._last[1][-1] not in (0, 1):
            return
        pair, product = self._last
        if np.prod(shape[:-1]) == np.prod(product[:-1]):
            # `jax.vmap` may have put groups of heads before heads
            is_in_order = len(shape) < 5 or shape[:-1] == product[:-1] or np.prod(shape[:-2]) == max(shape[:-2])
            of_keys = self.to_numpy(scores)[..., : product[-1]] if self.call.with_scores and is_in_order else None
            self._add(*pair(), of_keys)

    def attend(self, q: Any, k: Any, *masks: Any) -> None:
        """Add the queries and keys, each `(rows, heads, length, width)`, of a function with masks or biases."""
        scores = np.zeros((*q.shape[:-1], k.shape[-2]))
        for mask in masks:
            if hasattr(mask, "dtype"):
                numbers = self.to_numpy(mask)
                scores = np.where(numbers, scores, -np.inf) if "bool" in str(mask.dtype) else scores + numbers
        self._add(self.to_numpy(q), self.to_numpy(k), scores)

    def _add(self, q: npt.NDArray[Any], k: npt.NDArray[Any], scores: npt.NDArray[Any] | None) -> None:
        self._last = None
        name = self.running[-1] if self.running else ""
        if inner := min((one for one in self.traced if one.startswith(f"{name}.".lstrip("."))), default=None):
            advice = "check the model without it"
            raise TypeError(f"`{inner}` is called in a function that is traced, such as `nnx.remat`: {advice}.")
        self.add_product(q, k, scores)

    def follow(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call of a class of modules, which leaves out what it rotates if rotations are left out."""

        def call_module(module: Any, *args: Any, **named: Any) -> Any:
            name = self._name(module)
            if name is None:
                return function(module, *args, **named)
            args, named = self.enter(name, args, named)
            self.model.run_names.add(name)
            self.running.append(name)
            try:
                result = function(module, *args, **named)
            finally:
                self.running.pop()
            return self._result(name, (*args, *named.values()), result)

        return call_module

    def _name(self, module: Any) -> str | None:
        """Return the name of a module of the model, with a number if it is a further copy, as layers of a scan are."""
        name = self.names.get(self.model.framework.key(module))
        if name is None:
            return None
        copies = self.copies.setdefault(name, [])
        place = next((at for at, one in enumerate(copies) if one is module), len(copies))
        if place == len(copies):
            copies.append(module)
        return f"{name}.{place}".lstrip(".") if place else name

    def _result(self, name: str, given: tuple[Any, ...], result: Any) -> Any:
        """Return the result of a module, or what it would be if all angles were 0."""
        results = list(result) if isinstance(result, tuple | list) else [result]
        if any(hasattr(one, "shape") and not (self.is_array(one) or isinstance(one, np.ndarray)) for one in results):
            self.traced.add(name)
        if not results or not all(self.is_array(one) and len(one.shape) > 1 for one in results):
            return result
        numbers = [self.to_numpy(one) for one in results]
        tokens = [x for x in given if self.is_float(x)]
        inputs = [next((x for x in tokens if x.shape == one.shape), None) for one in results]
        if self.is_rotated:
            if self._is_rotation(numbers, [None if x is None else self.to_numpy(x) for x in inputs]):
                self.model.rotations.add(name)
            return result
        if name not in self.model.rotations:
            return result
        if inputs[0] is None:
            cosine, like = int(self.model.reads_sine_first), self.model.framework.from_numpy
            inputs = [like(np.full_like(x, float(at == cosine)), results[at]) for at, x in enumerate(numbers)]
        return type(result)(inputs) if isinstance(result, tuple | list) else inputs[0]

    def _is_rotation(self, results: list[Any], inputs: list[Any]) -> bool:
        """Return whether a module returns tables, or makes tokens depend on positions and keeps their lengths."""
        if are_tables(results):
            self.model.has_sine_first |= place_of_cosine(results) == 1
            return True
        return all(
            x is not None
            and are_alike(x, self.sizes)
            and not are_alike(one, self.sizes)
            and keep_lengths(x, one)
            for x, one in zip(inputs, results, strict=True)
        )  # fmt: skip


def _join(rows: list[Trace]) -> Trace:
    """Return what several runs show as rows of one."""
    products = [_join_products(same) for same in zip(*(one.products for one in rows), strict=True)]
    sums = zip(*(one.additions for one in rows), strict=True)
    additions = [Addition(same[0].name, np.concatenate([one.rows for one in same])) for same in sums]
    layers = {name: any(one.layers[name] for one in rows) for name in rows[0].layers}
    return Trace(products, additions, layers)


def _join_products(same: tuple[Product, ...]) -> Product:
    q, k = (np.concatenate([getattr(one, name) for one in same]) for name in ("q", "k"))
    return same[0]._replace(q=q, k=k, follows_positions=any(one.follows_positions for one in same))


def _seems_rotary(cls: str) -> bool:
    return any(word in cls.lower() for word in ("rotary", "rope"))
