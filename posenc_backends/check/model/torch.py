"""The queries and keys that a PyTorch model multiplies, and those that it would multiply without rotation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .likeness import are_alike, are_tables, axes_of_products, identities, keep_lengths, ones_and_zeros, place_of_cosine
from .notes import Memory, Notes
from .protocol import Buffer, Call, Float64s, Trace

MULTIPLY = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
ADD_PRODUCT = (torch.baddbmm, Tensor.baddbmm)
ADD = (torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__)
SOFTMAX = (torch.softmax, Tensor.softmax, functional.softmax)
RELU = (torch.relu, Tensor.relu, functional.relu)  # of an indexer's products
POSITIONS = ("position_ids", "positions")
AT_ZERO: dict[Any, Callable[[Tensor], Tensor]] = {  # functions of angles, where these are 0
    **dict.fromkeys((torch.cos, Tensor.cos), torch.ones_like),
    **dict.fromkeys((torch.sin, Tensor.sin), torch.zeros_like),
    torch.polar: lambda size: torch.complex(size, torch.zeros_like(size)),
}


class TorchModel:
    """Runs a model of PyTorch, and notes what its attention multiplies.

    Args:
        model: the model, whose parameters are on one device.
        call: how to call it; see `check_model`.
    """

    def __init__(self, model: nn.Module, call: Callable[..., Any] | None = None) -> None:
        self.model, self.call = model, call
        self.takes: Mapping[str, inspect.Parameter] = inspect.signature(call or model.forward).parameters
        #: the argument and the result of `call`, of transformers from 5.24 on, and before
        is_short = call is not None or {"cache", "use_cache"} <= self.takes.keys()
        self.cache_name: str = "cache" if is_short else "past_key_values"
        weight = next(iter([*model.parameters(), *model.buffers()]), torch.zeros(1))
        self.device: torch.device = weight.device
        self.dtype: str = str(getattr(model, "dtype", weight.dtype)).removeprefix("torch.")
        self.rotations: dict[int, Callable[..., Any]] = {}  # by the id of a module: its result without rotation
        self.run_names: set[str] = set()
        self.has_sine_first: bool = False  # whether a module seems to return sine and cosine in this order
        self.reads_sine_first: bool = False
        self.checks_rows: bool = True  # whether a row past the end of a table is an error or NaN
        self.memory = Memory({}, set())
        self.token: int = _usual_token(getattr(model, "config", None))

    @property
    def takes_positions(self) -> bool:
        """Whether the model takes the position of each token."""
        return not self.takes.keys().isdisjoint(POSITIONS)

    @property
    def needs_positions(self) -> bool:
        """Whether the model cannot run without positions."""
        known = (self.takes[name] for name in POSITIONS if name in self.takes)
        return self.call is None and any(one.default is inspect.Parameter.empty for one in known)

    @property
    def takes_cache(self) -> bool:
        """Whether the model takes the cache that it returned."""
        return self.cache_name in self.takes

    @property
    def generates(self) -> bool:
        """Whether the model has a `generate`, which gives it the position of each token."""
        return self.call is None and self.takes_positions and hasattr(self.model, "prepare_inputs_for_generation")

    def run(self, call: Call, *, is_rotated: bool = True) -> Trace:
        """Return what the attention of each layer multiplies in a call, what is added to tokens, and the cache.

        Args:
            call: the tokens and their positions.
            is_rotated: False to return what would be multiplied if all angles were 0, as far as a first run has shown
                which modules rotate.
        """
        mode = _Notes(self, call, is_rotated)
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                for handle in self._hooks(name, module, mode):
                    stack.callback(handle.remove)
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(mode)
            result = self._call(call)
        cache = getattr(result, self.cache_name, None) if self.call is None else result
        return Trace(mode.products, mode.additions, mode.layers, cache)

    def _call(self, call: Call) -> Any:
        tokens = torch.from_numpy(call.tokens).to(self.device)
        arguments: dict[str, Any] = {}
        if call.positions is not None:
            name = next(one for one in POSITIONS if one in self.takes)
            arguments[name] = torch.from_numpy(call.positions).to(self.device)
        if self.call is not None:
            given = {"positions": None, "cache": call.cache} | arguments
            return self.call(tokens=tokens, **{name: one for name, one in given.items() if name in self.takes})
        if "use_cache" in self.takes:
            arguments["use_cache"] = call.has_cache
        if call.cache is not None:
            arguments[self.cache_name] = call.cache
        if "decoder_input_ids" in self.takes:
            arguments["decoder_input_ids"] = tokens
        return self.model(tokens, **arguments)

    def _hooks(self, name: str, module: nn.Module, mode: _Notes) -> Iterator[Any]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> Any:
            args, kwargs = mode.enter(name, args, kwargs)
            mode.running.append(name)
            return args, kwargs

        yield module.register_forward_pre_hook(enter, with_kwargs=True)

        def note(module: nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
            mode.running.pop()
            self.run_names.add(name)
            if not mode.is_rotated:
                without = self.rotations.get(id(module))
                return result if without is None else without(args, kwargs, result)
            found = self._without_rotation([*args, *kwargs.values()], result, mode.sizes)
            if found is not None:
                self.rotations[id(module)] = found
            return None

        yield module.register_forward_hook(note, with_kwargs=True, always_call=True)

    def _without_rotation(self, given: list[Any], result: Any, sizes: tuple[int, int]) -> Callable[..., Any] | None:
        """Return a function from the arguments and the result of a module to the result if all angles were 0.

        None if the module neither returns tables of cosine and sine nor makes tokens depend on positions.
        """
        results = list(result) if isinstance(result, tuple | list) else [result]
        if not results or not all(isinstance(one, Tensor) and one.ndim > 1 and one.numel() for one in results):
            return None
        if are_tables(results):
            self.has_sine_first |= place_of_cosine(results) == 1
            return lambda args, kwargs, now: _at_zero(now, int(self.reads_sine_first))
        tokens = list(filter(_is_float, given))
        inputs = [next((x for x in tokens if x.shape == one.shape), None) for one in results]
        if all(
            x is not None and are_alike(x, sizes) and not are_alike(one, sizes) and keep_lengths(x, one)
            for x, one in zip(inputs, results, strict=True)
        ):
            return _unchanged
        return None

    def list_idle(self) -> list[tuple[str, str]]:
        """Return the names and classes of modules that seem to encode positions and that no call has reached."""
        return [
            (name, type(module).__name__)
            for name, module in self.model.named_modules()
            if name not in self.run_names and any(word in type(module).__name__.lower() for word in ("rotary", "rope"))
        ]

    def buffers(self) -> list[Buffer]:
        """Return the buffers that no checkpoint has, of one axis."""
        saved = self.model.state_dict().keys()
        buffers = ((name, one) for name, one in self.model.named_buffers() if name not in saved)
        return [Buffer(name, _numpy(one)) for name, one in buffers if one.ndim == 1 and one.is_floating_point()]

    def weights(self, shape: tuple[int, ...]) -> list[tuple[str, Float64s]]:
        """Return the parameters and buffers of this shape, with their names."""
        held = (*self.model.named_parameters(), *self.model.named_buffers())
        return [(name, _numpy(one)) for name, one in held if tuple(one.shape) == shape]


class _Notes(TorchFunctionMode, Notes):
    """Notes queries and keys whose products a softmax takes, and rows that are added to tokens.

    Args:
        model: the model.
        call: its call.
        is_rotated: False to compute each cosine as 1 and each sine as 0.
    """

    def __init__(self, model: TorchModel, call: Call, is_rotated: bool) -> None:
        TorchFunctionMode.__init__(self)
        Notes.__init__(self, model.memory, call, is_rotated)
        self.tables: dict[int, Tensor] = {} if is_rotated else dict(_identities(model.model))  # by id
        self._last: tuple[Tensor, Tensor, Tensor] | None = None  # queries, keys and their products

    def is_float(self, x: Any) -> bool:
        return _is_float(x)

    def to_numpy(self, x: Tensor) -> Float64s:
        return _numpy(x)

    def from_numpy(self, x: Float64s, like: Tensor) -> Tensor:
        return torch.from_numpy(x).to(like)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.tables:
            args = tuple([self.tables.get(id(one), one) for one in args])
        if not self.is_rotated and func in AT_ZERO:
            return AT_ZERO[func](args[0])
        has_rows = func in ADD and self.add_rows(*args[:2])
        result = func(*args, **kwargs)
        if has_rows:
            self._with_rows.append(result)
        if func is functional.scaled_dot_product_attention:
            q, k = (args[i] if len(args) > i else kwargs[name] for i, name in enumerate(("query", "key")))
            self._add(q, k, _bias(q, k, args[3] if len(args) > 3 else kwargs.get("attn_mask")))
        elif func in MULTIPLY and args[0].ndim > 2:
            self._last = (args[0], args[1].mT, result)
        elif func in ADD_PRODUCT:
            first, second = (args[i] if len(args) > i else kwargs[f"batch{i}"] for i in (1, 2))
            self._last = (first, second.mT, result)
        elif func is torch.einsum and len(args) == 3 and args[1].ndim > 2 and args[2].ndim > 2:
            q, k = (args[1 + place].permute(axes) for place, axes in axes_of_products(args[0], args[1].ndim))
            self._last = (q, k, result)
        elif func in (*SOFTMAX, *RELU):
            self._add_last(args[0] if args else kwargs["input"], is_indexer=func in RELU)
        return result

    def _add_last(self, scores: Tensor, *, is_indexer: bool) -> None:
        """Add the last product if these are its scores; they may have a column more, of a sink."""
        if self._last is None or scores.shape[-1] - self._last[2].shape[-1] not in (0, 1):
            return
        q, k, products = self._last
        if scores.numel() // scores.shape[-1] != products.numel() // products.shape[-1]:
            return
        self._last = None
        if is_indexer and q.shape[1] == self.sizes[1] != q.shape[2]:
            q = q.transpose(1, 2)  # of `(rows, length, heads, width)`
        of_keys = scores[..., : products.shape[-1]].reshape(self.sizes[0], -1, *products.shape[-2:])
        self._add(q, k, None if is_indexer else of_keys, is_indexer=is_indexer)

    def _add(self, q: Tensor, k: Tensor, scores: Tensor | None, *, is_indexer: bool = False) -> None:
        numbers = None if scores is None or not self.call.with_scores else _numpy(scores)
        self.add_product(_numpy(q), _numpy(k), numbers, is_indexer=is_indexer)


def _usual_token(config: Any) -> int:
    """Return the smallest token from 3 on that the config says nothing about."""
    fields = vars(getattr(config, "get_text_config", lambda: config)() or {}) | vars(config or {}) if config else {}
    special = np.ravel([np.ravel(value or 0)[0] for name, value in fields.items() if "token_i" in name])
    return next(token for token in range(3, 1000) if token not in special)


def _numpy(x: Tensor) -> npt.NDArray[np.float64]:
    return np.asarray(x.detach().cpu().double().numpy())


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _bias(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """Return what the mask of scaled dot-product attention adds to the scores, 0 without one."""
    bias = q.new_zeros(*q.shape[:-1], k.shape[-2])
    if mask is None:
        return bias
    return bias + mask if mask.is_floating_point() else bias.masked_fill(~mask, float("-inf"))


def _at_zero(result: Any, cosine: int) -> Any:
    """Return tables of angles that are 0, as a module returns them."""
    if isinstance(result, Tensor):
        return torch.ones_like(result)
    return type(result)(ones_and_zeros(result, cosine))


def _unchanged(args: Any, kwargs: Any, result: Any) -> Any:
    """Return the tokens that a module was given in place of its result."""
    tokens = list(filter(_is_float, (*args, *kwargs.values())))
    found = [
        next(x for x in tokens if x.shape == one.shape) for one in (result if isinstance(result, tuple) else (result,))
    ]
    return tuple(found) if isinstance(result, tuple) else found[0]


def _identities(model: nn.Module) -> Iterator[tuple[int, Tensor]]:
    """Yield the id of each table that a model holds, and a table of the same shape by which nothing rotates."""
    for module in model.modules():
        held = (*module._buffers.values(), *vars(module).values())
        tables = [x for x in held if isinstance(x, Tensor) and x.ndim > 1 and x.numel() and not x.is_meta]
        tables = [x for x in tables if x.is_complex() or x.is_floating_point()]
        yield from ((id(tables[place]), ones) for place, ones in identities(tables).items())
