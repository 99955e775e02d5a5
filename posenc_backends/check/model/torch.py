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
from .protocol import Addition, Buffer, Call, Float64s, Product, Trace

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
        self.common: dict[str, Tensor] = {}  # the hidden state that all tokens have in a layer, in all runs
        self.summands: set[tuple[str, int, int]] = set()  # which sums add rows: module, number of the sum, summand
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

        All tokens enter a layer with the same hidden state, that of the first token in the first run, so that nothing
        but the positions within the layer makes a difference.

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
            if mode.layer is None and name.rpartition(".")[2].isdecimal():
                args, kwargs = self._with_common_token(name, args, kwargs, mode)
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

    def _with_common_token(self, name: str, args: Any, kwargs: Any, mode: _Notes) -> tuple[Any, Any]:
        """Return the arguments of a layer with the same hidden state for all tokens."""
        hidden = next((x for x in (*args, *kwargs.values()) if _is_float(x)), None)
        if hidden is None or hidden.ndim < 3 or {hidden.shape[:2], hidden.shape[1::-1]}.isdisjoint({mode.sizes}):
            return args, kwargs
        mode.layers[name] = not are_alike(hidden if hidden.shape[:2] == mode.sizes else hidden.mT, mode.sizes)
        token = self.common.setdefault(name, hidden[:1, :1].clone())
        if token.shape[2:] != hidden.shape[2:]:
            return args, kwargs
        alike = token.expand_as(hidden).clone()
        args = tuple(alike if x is hidden else x for x in args)
        return args, {key: alike if x is hidden else x for key, x in kwargs.items()}

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


class _Notes(TorchFunctionMode):
    """Notes queries and keys whose products a softmax takes, and rows that are added to tokens.

    Args:
        model: the model, of which earlier runs have shown which sums add rows.
        call: its call.
        is_rotated: False to compute each cosine as 1 and each sine as 0.
    """

    def __init__(self, model: TorchModel, call: Call, is_rotated: bool) -> None:
        super().__init__()
        self.model, self.call, self.is_rotated = model, call, is_rotated
        self.sizes: tuple[int, int] = (call.tokens.shape[0], call.tokens.shape[1])
        self.tables: dict[int, Tensor] = {} if is_rotated else dict(_identities(model.model))  # by id
        self.running: list[str] = []  # modules
        self.products: list[Product] = []
        self.additions: list[Addition] = []
        self.layers: dict[str, bool] = {}  # whether tokens depend on positions when they enter
        self._sums: dict[str, int] = {}  # how many each module has computed
        self._with_rows: list[Tensor] = []  # tokens to which rows were added
        self._last: tuple[Tensor, Tensor, Tensor] | None = None  # queries, keys and their products

    @property
    def layer(self) -> str | None:
        """The layer that runs, outside of which tables are added to tokens."""
        return next((name for name in self.running if name.rpartition(".")[2].isdecimal()), None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.tables:
            args = tuple([self.tables.get(id(one), one) for one in args])
        if not self.is_rotated and func in AT_ZERO:
            return AT_ZERO[func](args[0])
        has_rows = func in ADD and self._add_rows(*args[:2])
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

    def _add_rows(self, *summands: Any) -> bool:
        """Note rows that are added to tokens; return whether there are some."""
        if self.layer is not None or not self.is_rotated or not all(map(_is_float, summands)):
            return False
        name = self.running[-1] if self.running else ""
        if any(f".{layer}".startswith(f".{name}.".replace("..", ".")) for layer in self.layers):
            return False  # of a layer's result
        number = self._sums[name] = self._sums.get(name, 0) + 1
        for place, (rows, x) in enumerate((summands, summands[::-1])):
            if x.ndim != 3 or x.shape[:2] != self.sizes or rows.ndim < 2 or rows.shape[-2:] != x.shape[-2:]:
                continue
            if self.sizes == (1, 1):  # where rows cannot be told from tokens
                is_found = (name, number, place) in self.model.summands
            else:
                had_rows = any(x is one for one in self._with_rows)
                is_found = (had_rows or are_alike(x, self.sizes)) and not are_alike(rows.expand_as(x), self.sizes)
            if is_found:
                self.model.summands.add((name, number, place))
                self.additions.append(Addition(name, _numpy(rows.expand_as(x))))
                return True
        return False

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
        shape = (self.sizes[0], -1, *products.shape[-2:])
        self._add(q, k, None if is_indexer else scores[..., : products.shape[-1]].reshape(shape), is_indexer=is_indexer)

    def _add(self, q: Tensor, k: Tensor, scores: Tensor | None, *, is_indexer: bool = False) -> None:
        of_queries = None
        if self.call.with_scores and scores is not None and scores.shape[-2] == self.sizes[1]:
            of_queries = _numpy(scores[..., torch.from_numpy(self.call.queries).to(scores.device), :])
        q, k = (x.reshape(self.sizes[0], -1, *x.shape[-2:]) for x in (q, k))
        follows = self.layer is None and bool(self._with_rows)
        name = self.running[-1] if self.running else ""
        self.products.append(Product(name, _numpy(q), _numpy(k), of_queries, follows, is_indexer))


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
