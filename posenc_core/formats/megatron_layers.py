"""The layers of a model of Megatron-LM: how many there are, which rotate, and which have latent or sparse attention."""

from __future__ import annotations

import ast
import re
from typing import Any

from .._array_api.checks import check_type, shown
from .values import MOST_LAYERS, Config, flag, integer, layer_count, refuse, skip_layers, warn

STILL, VARIANT, LINEAR = "no_rope_freq", "experimental_attention_variant", "linear_attention_freq"
PATTERN, OLD_PATTERN, DRAFT_PATTERN = "hybrid_layer_pattern", "hybrid_override_pattern", "mtp_hybrid_override_pattern"
DRAFTS = "mtp_num_layers"
LAYERS = {STILL, VARIANT, LINEAR, PATTERN, OLD_PATTERN, DRAFT_PATTERN, DRAFTS, "num_layers", "multi_latent_attention"}
ATTENTION, LATENT, SPARSE, OTHERS = "*", "+D", "D", "MG-E"  # symbols of layers in a pattern


def read_layers(given: Config) -> tuple[dict[str, Any], str, bool]:
    """Return keys of a config, the symbols of the layers of a hybrid model, and whether attention is latent.

    `no_rope_layers` has 1 for each layer with RoPE, then for each that predicts more tokens: their numbers start from 0
    again, in a hybrid model at each step.

    Raises:
        TypeError, ValueError: if a number, a list or a pattern is wrong.
    """
    main, *drafts = _split_pattern(given)
    symbols = main + "".join(drafts)
    latent = flag(given, "multi_latent_attention") or bool({*symbols} & {*LATENT})
    if latent and ATTENTION in symbols:
        raise ValueError(f"`{PATTERN}` must have + or D, not *, with latent attention, got {shown(symbols)}.")
    count = len(main) or layer_count(given, "num_layers")
    later = len(symbols) - len(main) if main else layer_count(given, DRAFTS, minimum=0)
    still: list[int] | int = (
        [] if latent else _read_list(given, STILL, count, nth=1)
    )  # latent attention does not read it
    if isinstance(still, int):  # of layers whose number is missing
        return {"no_rope_layer_interval": still} if still > 1 else {"no_rope_layers": [0]}, main, latent
    count = count or len(still) or None
    numbers = [*range(count or 0), *range(0 if main else later or 0), *(i for one in drafts for i in range(len(one)))]
    rotated = [1 - still[number % len(still)] for number in numbers] if any(still) else []
    linear = [int(symbol in OTHERS) for symbol in symbols]
    if str(given.get(VARIANT)).startswith("g") and not main:  # gated delta net
        listed = _read_list(given, LINEAR, count, nth=0)
        if isinstance(listed, int) or not listed:
            raise ValueError(f"`{LINEAR}` must be an integer or a list, beside `num_layers`, got {shown(listed)}.")
        linear = [listed[number] if index < len(listed) else 0 for index, number in enumerate(numbers)]
    if linear:
        rotated = [int(not one and old) for one, old in zip(linear, rotated or [1] * len(linear), strict=True)]
    keys = {"num_hidden_layers": count, DRAFTS: later, "no_rope_layers": rotated or None}
    return {key: value for key, value in keys.items() if value is not None}, main, latent


def _split_pattern(given: Config) -> list[str]:
    """Return the symbols of the layers of a hybrid model, then those of each step that predicts more tokens."""
    texts: dict[str, Any] = {key: given.get(key) for key in (PATTERN, OLD_PATTERN, DRAFT_PATTERN)}
    for key, text in texts.items():
        check_type(key, text, str | None, "a string or None")
    if texts[PATTERN] and texts[OLD_PATTERN]:
        raise ValueError(f"`{OLD_PATTERN}` must be left out beside `{PATTERN}`, got {shown(texts[OLD_PATTERN])}.")
    text = texts[PATTERN] or texts[OLD_PATTERN]
    if not text:
        refuse(given, {"hybrid_attention_ratio": 0}, "is read by older versions alone", f"write `{PATTERN}`")
        return [""]
    main, *drafts = re.sub(r"[|\[\]]", "", text).split("/")
    if texts[DRAFT_PATTERN] and not drafts:
        drafts = [texts[DRAFT_PATTERN]] * (layer_count(given, DRAFTS, minimum=0) or 0)
    if not main or not {*main, *"".join(drafts)} <= {*ATTENTION, *LATENT, *OTHERS} or len({*drafts}) > 1:
        raise ValueError(
            f"`{PATTERN}` must be made of {ATTENTION}{LATENT}{OTHERS}, | and, before equal parts, /, got {shown(text)}."
        )
    layer_count({PATTERN: len(main) + len("".join(drafts))}, PATTERN)
    for key, size in ("num_layers", len(main)), (DRAFTS, len(drafts)):
        if given.get(key) not in (None, size):
            warn(f"`{key}` {shown(given[key])} has no effect: `{PATTERN}` has {size}.")
    return [main, *drafts]


def _read_list(given: Config, key: str, count: int | None, *, nth: int) -> list[int] | int:
    """Return the list of 0 and 1 of a key, whose integer stands for `nth` at each n-th layer, and the other elsewhere.

    The integer itself if the number of layers is missing; an empty list without a value.
    """
    value = given.get(key)
    layers = _evaluate(value, key) if isinstance(value, str) else value
    if isinstance(layers, bool) or not isinstance(layers, int | list | tuple | None):
        raise TypeError(f"`{key}` must be an integer or a list of 0 and 1, got {shown(value)}.")
    if isinstance(layers, list | tuple):
        if not all(layer in (0, 1) for layer in layers) or (layers and count not in (None, len(layers))):
            raise ValueError(
                f"`{key}` must be an integer or have 0 or 1 for each of {count} layers, got {shown(value)}."
            )
        return list(layers)
    every = integer({key: layers}, key, 0, minimum=0)
    if not every or count is None:
        return every or []
    return [abs(nth - one) for one in skip_layers(count, every)]


def _evaluate(text: str, key: str) -> list[Any] | int:
    """Return the list that an expression of lists, such as `([0]*3+[1]*1)*2`, stands for.

    Raises:
        ValueError: if it is another expression, or has more than `MOST_LAYERS` numbers.
    """

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.List(elts=items):
                return [value(item) for item in items]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return value(left) + value(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=int(times))) if times <= MOST_LAYERS:
                repeated = value(left) * times
                if len(repeated) <= MOST_LAYERS:
                    return repeated
        raise ValueError

    try:
        found = value(ast.parse(text, mode="eval").body)
        return found if isinstance(found, list) else [found]
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"`{key}` must be an integer or a list of 0 and 1, got {shown(text)}.") from None
