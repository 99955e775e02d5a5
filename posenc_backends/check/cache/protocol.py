"""The functions of a decoder that are checked, and calls of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from posenc_core._array_api.checks import check_integer, check_known, shown

from ..candidates import Float64s
from ..frameworks import CallError, Framework, call_checked, dtype_name, to_float64
from .attention import Attention, Tokens, Window

OPTIONAL = ("trim", "reorder", "move", "full")
LONGEST_WINDOW = 64
DTYPES = ("float32", "bfloat16", "float16")


class Decoder(Protocol):
    """A decoder with a cache of keys and values; the last two of these four functions may be missing.

    It has an attribute `vocabulary`, if tokens are integers below it, `(batch, length)`, or `width`, if they are
    vectors, `(batch, length, width)`, of the dtype `dtype` (`"float32"`). Outputs are `(batch, length, …)`. A state is
    any object; a function may change the one that it is given, if it returns it. Optional attributes:

    * `window`: how many tokens a query see, itself included, at most 64; all by default.
    * `sinks`: how many of the first tokens it sees beside its window; none by default.
    * `remaps`: False if sinks keep their positions in the text; by default they follow the window, as in StreamingLLM.

    Optional functions:

    * `move(state, by)` rotates the cached keys, so that the sequence continues `by` positions further on.
    * `full(tokens, positions, visible)` computes the outputs without a cache: `positions` are `(batch, length)`,
      `visible` is `(batch, length, length)`, True where a query sees a key. With a fourth argument `key_positions`,
      `(batch, length)`, keys may have other positions than queries. It serves to find the name of a mistake.
    """

    def prefill(self, tokens: Any, mask: Any = ..., /) -> tuple[Any, Any]:
        """Return outputs and a new state.

        `mask` is `(batch, length)`, True for tokens and False for padding, which stands on the left. Without it in the
        signature, rows of different lengths are not asked for.
        """

    def decode(self, tokens: Any, state: Any, /) -> tuple[Any, Any]:
        """Return outputs of one or more tokens that follow, without padding, and the state."""

    def trim(self, state: Any, count: int, /) -> Any:
        """Return the state without its last `count` tokens."""

    def reorder(self, state: Any, rows: Any, /) -> Any:
        """Return the state whose rows are those of these numbers, `(batch,)`; a number may occur twice."""


class Calls(NamedTuple):
    """A decoder whose calls take and return NumPy arrays.

    Attributes:
        decoder: the decoder.
        framework: whose arrays it takes.
        window: what it sees.
        pads: whether `prefill` takes a mask.
        takes_key_positions: whether `full` does.
        dtypes: those of outputs so far.
        trusts_full: whether `full` agrees with `prefill`.
    """

    decoder: Any
    framework: Framework
    window: Window
    pads: bool
    takes_key_positions: bool
    dtypes: list[str]
    trusts_full: bool = True

    def has(self, name: str) -> bool:
        """Return whether the decoder has an optional function."""
        return callable(getattr(self.decoder, name, None))

    def draw(self, generator: np.random.Generator, *shape: int) -> Tokens:
        """Return random tokens, `shape` for integers, `(*shape, width)` for vectors."""
        vocabulary = getattr(self.decoder, "vocabulary", None)
        if vocabulary is not None:
            return generator.integers(min(3, vocabulary - 1), vocabulary, shape)
        return generator.standard_normal((*shape, self.decoder.width))

    def prefill(self, tokens: Tokens, place: str, pads: Sequence[int] = ()) -> tuple[Float64s, Any]:
        """Return outputs and the state; `pads` is how many of the first tokens of each row are padding."""
        arguments = [self._tokens(tokens)]
        if self.pads:
            first = np.array(pads or [0] * len(tokens))
            arguments.append(self.framework.backend.from_numpy(np.arange(tokens.shape[1]) >= first[:, None]))
        return self._outputs(self.decoder.prefill, tokens, place, *arguments)

    def decode(self, tokens: Tokens, state: Any, place: str) -> tuple[Float64s, Any]:
        """Return outputs of the next tokens, and the state."""
        return self._outputs(self.decoder.decode, tokens, place, self._tokens(tokens), state)

    def change(self, name: str, state: Any, value: Any, place: str) -> Any:
        """Return the state after `trim`, `reorder` or `move`."""
        value = self.framework.positions(value) if isinstance(value, np.ndarray) else value
        return call_checked(getattr(self.decoder, name), place, state, value)

    def evaluate(self, attentions: Sequence[Attention], *, by_full: bool = False) -> list[Float64s] | None:
        """Return the outputs that the attentions ask for, without a cache; None if the decoder cannot compute them."""
        is_plain = all(one.is_plain(self.window) for one in attentions)
        has_offset = any(one.positions[0] != 0 for one in attentions)
        can_full = self.has("full") and (self.trusts_full or by_full)
        if is_plain and not by_full and not (has_offset and can_full):
            return [self.prefill(one.tokens[None], "a prefill of all tokens")[0][0, one.outputs] for one in attentions]
        if not can_full or (not self.takes_key_positions and any(one.has_other_keys for one in attentions)):
            return None
        return self._full(attentions)

    def _full(self, attentions: Sequence[Attention]) -> list[Float64s]:
        """Return the outputs by `full`; shorter rows are filled with tokens that nobody sees."""
        rows = [one.expanded() for one in attentions]
        length = max(len(positions) for _, positions, _, _ in rows)
        tokens = np.zeros((len(rows), length, *rows[0][0].shape[1:]), rows[0][0].dtype)
        positions, keys = np.zeros((2, len(rows), length), np.int64)
        visible = np.tile(np.eye(length, dtype=bool), (len(rows), 1, 1))
        for number, (own_tokens, own_positions, own_keys, own_visible) in enumerate(rows):
            count = len(own_positions)
            tokens[number, :count], positions[number, :count], keys[number, :count] = (
                own_tokens,
                own_positions,
                own_keys,
            )
            visible[number, :count, :count] = own_visible
        at = [positions, keys] if self.takes_key_positions else [positions]
        queries, *more = map(self.framework.positions, at)
        place = "a call of `full`"
        arguments = (self._tokens(tokens), queries, self.framework.backend.from_numpy(visible), *more)
        outputs = self._numbers(call_checked(self.decoder.full, place, *arguments), tokens, place)
        return [output[one.outputs] for output, one in zip(outputs, attentions, strict=True)]

    def _tokens(self, tokens: Tokens) -> Any:
        if tokens.dtype.kind == "f":
            return self.framework.to_backend(tokens, getattr(self.decoder, "dtype", "float32"))
        return self.framework.positions(tokens)

    def _outputs(self, function: Callable[..., Any], tokens: Tokens, place: str, *arguments: Any) -> tuple[Any, Any]:
        returned = call_checked(function, place, *arguments)
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise CallError(f"it must return outputs and a state, got {shown(returned)}, for {place}.")
        return self._numbers(returned[0], tokens, place), returned[1]

    def _numbers(self, outputs: Any, tokens: Tokens, place: str) -> Float64s:
        types = (type(self.framework.to_backend(np.zeros(1), "float32")),)
        numbers = to_float64(self.framework, outputs, types, place)
        if numbers.shape[:2] != tokens.shape[:2]:
            raise CallError(f"outputs must begin with the axes {tokens.shape[:2]}, got {numbers.shape}, for {place}.")
        if not np.isfinite(numbers).all():
            raise CallError(f"outputs must be numbers, got infinity or NaN, for {place}.")
        if dtype_name(outputs) not in self.dtypes:
            self.dtypes.append(dtype_name(outputs))
        return numbers


def calls_of_decoder(decoder: Any, framework: Framework) -> Calls:
    """Return the decoder ready to be called.

    Raises:
        TypeError: if a function or the kind of tokens is missing.
        ValueError: if an attribute has no meaning.
    """
    for name in ("prefill", "decode"):
        if not callable(getattr(decoder, name, None)):
            raise TypeError(f"`decoder` must have a function `{name}`, got {shown(decoder)}.")
    sizes = [name for name in ("vocabulary", "width") if getattr(decoder, name, None) is not None]
    if len(sizes) != 1:
        raise TypeError("`decoder` must have one attribute of `vocabulary`, for integers, and `width`, for vectors.")
    check_integer(sizes[0], getattr(decoder, sizes[0]), minimum=2)
    check_known("dtype", getattr(decoder, "dtype", "float32"), DTYPES)
    window, sinks = getattr(decoder, "window", None), getattr(decoder, "sinks", 0)
    if window is not None:
        check_integer("window", window, minimum=2, maximum=LONGEST_WINDOW)
    check_integer("sinks", sinks, minimum=0, maximum=0 if window is None else window)
    full = getattr(decoder, "full", None)
    return Calls(
        decoder,
        framework,
        Window(window, sinks, bool(getattr(decoder, "remaps", True))),
        pads=_num_arguments(decoder.prefill) > 1,
        takes_key_positions=callable(full) and _num_arguments(full) > 3,
        dtypes=[],
    )


def _num_arguments(function: Callable[..., Any]) -> int:
    """Return how many positional arguments a function takes."""
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
