"""The queries and keys that a PyTorch model multiplies, and those that it would multiply without rotation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .likeness import are_alike, are_tables, axes_of_products, have_lengths, identities, place_of_cosine
from .protocol import Buffer, Call, Product

MULTIPLY = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
ADD_PRODUCT = (torch.baddbmm, Tensor.baddbmm)
SOFTMAX = (torch.softmax, Tensor.softmax, functional.softmax)
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
        self.takes: set[str] = {*inspect.signature(call or model.forward).parameters}
        #: the argument and the result of `call`, of transformers from 5.24 on, and before
        is_short = call is not None or {"cache", "use_cache"} <= self.takes
        self.cache_name: str = "cache" if is_short else "past_key_values"
        weight = next(iter([*model.parameters(), *model.buffers()]), torch.zeros(1))
        self.device: torch.device = weight.device
        self.dtype: str = str(getattr(model, "dtype", weight.dtype)).removeprefix("torch.")
        self.rotations: dict[int, Callable[..., Any]] = {}  # by the id of a module: its result without rotation
        self.run_names: set[str] = set()
        self.has_sine_first: bool = False  # whether a module seems to return sine and cosine in this order
        self.reads_sine_first: bool = False
        self.inputs: dict[str, tuple[Any, Any]] = {}  # of each layer, in the last run with rotation
        self.token: int = _usual_token(getattr(model, "config", None))

    @property
    def takes_positions(self) -> bool:
        """Whether the model takes the position of each token."""
        return bool(self.takes & {"position_ids", "positions"})

    @property
    def takes_cache(self) -> bool:
        """Whether the model takes the cache that it returned."""
        return self.cache_name in self.takes

    def run(self, call: Call, *, is_rotated: bool = True) -> tuple[list[Product], Any]:
        """Return what the attention of each layer multiplies in a call, and the cache after it.

        Args:
            call: the tokens and their positions.
            is_rotated: False to return what would be multiplied if all angles were 0, as far as a first run has shown
                which modules rotate.
        """
        tables = {} if is_rotated else dict(_identities(self.model))
        mode = _Products(tables, is_rotated, *call.tokens.shape)
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                for handle in self._hooks(name, module, mode, is_rotated):
                    stack.callback(handle.remove)
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(mode)
            result = self._call(call)
        if is_rotated:
            self.inputs = mode.inputs
        return mode.products, getattr(result, self.cache_name, None) if self.call is None else result

    def _call(self, call: Call) -> Any:
        tokens = torch.from_numpy(call.tokens).to(self.device)
        arguments: dict[str, Any] = {}
        if call.positions is not None:
            name = "position_ids" if "position_ids" in self.takes else "positions"
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

    def _hooks(self, name: str, module: nn.Module, mode: _Products, is_rotated: bool) -> Iterator[Any]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> Any:
            mode.running.append((name, args, kwargs))
            if is_rotated or name not in self.inputs:
                return None
            given = self.inputs[name]  # as before, so that nothing but the rotation of this layer differs
            same = tuple(_reuse(*both, mode.sizes) for both in zip(args, given[0], strict=True))
            return same, {key: _reuse(now, given[1].get(key), mode.sizes) for key, now in kwargs.items()}

        yield module.register_forward_pre_hook(enter, with_kwargs=True)

        def note(module: nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
            mode.running.pop()
            self.run_names.add(name)
            if not is_rotated:
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
        numbers = [_numpy(one) for one in results]
        if are_tables(numbers):
            self.has_sine_first |= place_of_cosine(numbers) == 1
            return lambda args, kwargs, now: _ones_and_zeros(now, int(self.reads_sine_first))
        tokens = [one for one in given if isinstance(one, Tensor) and one.is_floating_point()]
        inputs = [next((x for x in tokens if x.shape == one.shape), None) for one in results]
        if any(
            x is None or not _are_alike(x, sizes) or _are_alike(one, sizes)
            for x, one in zip(inputs, results, strict=True)
        ):
            return None
        if not all(have_lengths(_numpy(x), one) for x, one in zip(inputs, numbers, strict=True)):
            return None

        def unchanged(args: Any, kwargs: Any, now: Any) -> Any:
            tokens = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.is_floating_point()]
            found = [
                next(x for x in tokens if x.shape == one.shape) for one in (now if isinstance(now, tuple) else (now,))
            ]
            return tuple(found) if isinstance(now, tuple) else found[0]

        return unchanged

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


class _Products(TorchFunctionMode):
    """Notes queries and keys whose products a softmax takes.

    Args:
        tables: what to use in place of tensors, by their id.
        is_rotated: False to compute each cosine as 1 and each sine as 0.
        rows, length: the sizes of the tokens.
    """

    def __init__(self, tables: dict[int, Tensor], is_rotated: bool, rows: int, length: int) -> None:
        super().__init__()
        self.tables, self.is_rotated, self.sizes = tables, is_rotated, (rows, length)
        self.running: list[tuple[str, Any, Any]] = []  # modules, by name, and their arguments
        self.inputs: dict[str, tuple[Any, Any]] = {}  # of each layer
        self.products: list[Product] = []
        self._last: tuple[Tensor, Tensor, Tensor] | None = None  # queries, keys and their products

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.tables:
            args = tuple([self.tables.get(id(one), one) for one in args])
        if not self.is_rotated and func in AT_ZERO:
            return AT_ZERO[func](args[0])
        result = func(*args, **kwargs)
        if func is functional.scaled_dot_product_attention:
            q, k = (args[i] if len(args) > i else kwargs[name] for i, name in enumerate(("query", "key")))
            mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
            self._add(q, k, mask if mask is not None and mask.is_floating_point() else None)
        elif func in MULTIPLY and args[0].ndim > 2:
            self._last = (args[0], args[1].mT, result)
        elif func in ADD_PRODUCT:
            first, second = (args[i] if len(args) > i else kwargs[f"batch{i}"] for i in (1, 2))
            self._last = (first, second.mT, result)
        elif func is torch.einsum and len(args) == 3 and args[1].ndim > 2 and args[2].ndim > 2:
            q, k = (args[1 + place].permute(axes) for place, axes in axes_of_products(args[0], args[1].ndim))
            self._last = (q, k, result)
        elif func in SOFTMAX:
            self._add_last(args[0] if args else kwargs["input"])
        return result

    def _add_last(self, scores: Tensor) -> None:
        """Add the last product if these are its scores; they may have a column more, of a sink."""
        if self._last is None or scores.shape[-1] - self._last[2].shape[-1] not in (0, 1):
            return
        q, k, products = self._last
        self._last = None
        if scores.numel() // scores.shape[-1] == products.numel() // products.shape[-1]:
            self._add(q, k, None)

    def _add(self, q: Tensor, k: Tensor, bias: Tensor | None) -> None:
        name = self.running[-1][0] if self.running else ""
        layer = next((one for one in self.running if one[0].rpartition(".")[2].isdecimal()), None)
        follows = False
        if layer is not None:
            self.inputs[layer[0]] = layer[1:]
            hidden = [x for x in (*layer[1], *layer[2].values()) if isinstance(x, Tensor) and x.is_floating_point()]
            follows = bool(hidden) and hidden[0].shape[:2] == self.sizes and not _are_alike(hidden[0], self.sizes)
        self.products.append(
            Product(name, self._rows(q), self._rows(k), None if bias is None else _numpy(bias), follows)
        )

    def _rows(self, x: Tensor) -> npt.NDArray[np.float64]:
        """Return `(rows, heads, length, width)`."""
        return _numpy(x.reshape(self.sizes[0], -1, *x.shape[-2:]))


def _usual_token(config: Any) -> int:
    """Return the smallest token from 3 on that the config says nothing about."""
    fields = vars(getattr(config, "get_text_config", lambda: config)() or {}) | vars(config or {}) if config else {}
    special = np.ravel([np.ravel(value or 0)[0] for name, value in fields.items() if "token_i" in name])
    return next(token for token in range(3, 1000) if token not in special)


def _numpy(x: Tensor) -> npt.NDArray[Any]:
    """Return a tensor in float64 or complex128."""
    return np.asarray(x.detach().cpu().to(torch.complex128 if x.is_complex() else torch.float64).numpy())


def _reuse(now: Any, before: Any, sizes: tuple[int, int]) -> Any:
    """Return an argument of a layer as it was before, if it is what all tokens have in common."""
    is_hidden = isinstance(now, Tensor) and now.is_floating_point() and isinstance(before, Tensor)
    return before if is_hidden and before.shape == now.shape and _are_alike(before, sizes) else now


def _are_alike(x: Tensor, sizes: tuple[int, int]) -> bool:
    return are_alike(_numpy(x), sizes)


def _ones_and_zeros(result: Any, cosine: int) -> Any:
    if isinstance(result, Tensor):
        return torch.ones_like(result)
    return type(result)(torch.full_like(one, float(number == cosine)) for number, one in enumerate(result))


def _identities(model: nn.Module) -> Iterator[tuple[int, Tensor]]:
    """Yield the id of each table that a model holds, and a table of the same shape by which nothing rotates."""
    for module in model.modules():
        held = [x for x in (*module._buffers.values(), *vars(module).values()) if isinstance(x, Tensor)]
        floats = [x for x in held if x.is_complex() or x.is_floating_point()]
        tables = [x for x in floats if x.ndim > 1 and x.numel() and not x.is_meta]
        for place, ones in identities([_numpy(x) for x in tables]).items():
            yield id(tables[place]), torch.from_numpy(ones).to(tables[place])
