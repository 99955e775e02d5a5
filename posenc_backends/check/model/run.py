"""Judge each layer of a model, and what is added to its tokens, by its config."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import takewhile
from typing import Any

import numpy as np

from posenc_core._array_api.checks import shown
from posenc_core.encodings import Encoding
from posenc_core.huggingface.load_layers import name_layers

from ..diagnosis import FoundMistake, name_indexer
from ..precision_classes import UNKNOWN
from .additive import (
    ALIKE,
    Rows,
    bias_mistakes,
    factor_mistakes,
    in_bfloat16,
    missing_table,
    mistakes_past_the_table,
    table_mistakes,
)
from .calls import AFTER_CACHE, NUMBER, OTHER, Calls, Seen
from .expected import Expected, LayerEncodings, expect
from .judge import NOT_FINITE, Judge, Observation
from .protocol import Float64s, ModelAdapter, layer_number
from .result import LayerResult, ModelResult, TableResult

NOT_COMPUTED, MOST_NUMBERS = "buffer not computed", 3
EAGER = {"keras": ("keras", "Keras"), "mlx": ("mlx", "MLX"), "flax": ("jax", "NNX")}  # file and class, by library


def check_model(
    model: Any,
    config: Any = None,
    *,
    spec: Encoding | str | None = None,
    call: Callable[..., Any] | None = None,
) -> ModelResult:
    """Check in each layer of a model whether positions enter as its config says, and name the mistake if not.

    Judged are rotations of queries and keys, of attention and of indexers, factors of queries, biases of scores, and
    rows that are added to tokens. The model runs on equal tokens at positions up to 131,071, and once more with all
    angles 0. All tokens enter each layer with the same hidden state, so that queries, keys and scores differ by their
    positions alone.

    Args:
        model: a PyTorch, MLX, flax.nnx or Keras module, called as `model(tokens, position_ids=…)` with tokens
            `(rows, length)`; `positions`, `start` and `offset` are known too.
        config: as in `load_layers`; by default the `config` of the model.
        spec: the only encoding of the model, or its `repr`, in place of a config.
        call: calls the model if it needs other arguments, with keywords of these names as far as it has them: `tokens`,
            `positions` (None to leave them to the model) and `cache` (None, or what the last call returned).
    Returns:
        The result: `status`, `layers`, `tables`, `remarks`; as a string, a report.
    Raises:
        TypeError: if the model is of no known framework.
        ValueError: if there is neither a config nor an encoding, or the model multiplies no queries and keys.

    >>> import torch
    >>> class Attention(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.embed, self.slopes = torch.nn.Embedding(9, 16), torch.tensor([2**-8, 2**-4])
    ...     def forward(self, tokens):
    ...         x = self.embed(tokens).unflatten(-1, (2, 8)).transpose(1, 2)
    ...         at = torch.arange(tokens.shape[1])
    ...         bias = -self.slopes[:, None, None] * (at[:, None] - at).abs()
    ...         return torch.nn.functional.scaled_dot_product_attention(x, x, x, bias)
    >>> check_model(Attention(), spec="Alibi(num_heads=2)").names
    ('heads reversed',)
    """
    adapter = _adapter(model, call)
    if spec is not None and config is not None:
        raise ValueError("`spec` and `config` both name the encoding: give one of them.")
    config = getattr(model, "config", None) if config is None else config
    if spec is None and config is None:
        raise ValueError("`config` is missing: the model has none, so give one, or `spec`.")
    return _Run(adapter, expect(config, spec), type(model).__name__).result()


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


class _Run:
    """One check.

    Args:
        adapter: the model.
        expected: its encodings.
        name: of the model.
    """

    def __init__(self, adapter: ModelAdapter, expected: Expected, name: str) -> None:
        self.adapter, self.expected, self.remarks, self.name = adapter, expected, expected.remarks, name
        self.judge = Judge()
        self.seen: list[Seen] = []

    def result(self) -> ModelResult:
        """Make the calls and judge each layer."""
        try:
            layers, tables = self._judge()
        except Exception as error:  # noqa: BLE001 - whatever the model raises
            failure = f"the model raised {type(error).__name__}: {' '.join(str(error).split())}"
            return ModelResult(model=self.name, failure=failure, remarks=tuple(self.remarks))
        if not layers and not tables:
            reasons = "; ".join(dict.fromkeys(self.remarks)) or "no module multiplies queries and keys"
            raise ValueError(f"`model` must have a layer that can be judged, but {reasons}.")
        if any(layer.mistakes for layer in layers) and self.adapter.has_sine_first:
            self.adapter.reads_sine_first = True
            other, _ = self._judge()
            layers = layers if any(layer.mistakes for layer in other) else other
        self._note_what_is_missing(layers)
        self.remarks += [f"not run: {name} ({cls})" for name, cls in self.adapter.list_idle()]
        return ModelResult(
            model=self.name,
            layers=tuple(layers),
            tables=tuple(tables),
            calls=tuple(dict.fromkeys(one.name for one in self.seen)),
            remarks=tuple(dict.fromkeys(self.remarks)),
        )

    def _judge(self) -> tuple[list[LayerResult], list[TableResult]]:
        calls = Calls(self.adapter, self.expected.num_axes, self.expected.limit, self.remarks)
        self.seen = list(calls.all())
        layers = []
        for place, module in enumerate(self.seen[0].rotations):
            part, number = self.expected.part_of(module), layer_number(module)
            number = place if number is None else number
            encodings = self.expected.layer(part, number)
            if OTHER.search(module.lower()):
                self.remarks.append(f"not judged: {re.sub(NUMBER, '*', module)}, which is no attention within the text")
            elif encodings is None:
                self.remarks.append(f"not judged: {module}, which the config does not describe")
            else:
                mistakes = self._of_layer(module, encodings)
                layers.append(LayerResult(module, part, number, encodings, tuple(mistakes)))
        return layers, self._tables(calls)

    def _of_layer(self, module: str, encodings: LayerEncodings) -> list[FoundMistake]:
        """Return the mistakes of a layer of all kinds, of each kind in the first call that shows one."""
        judge = self.judge
        mistakes = [
            self._rename(one) for one in judge.mistakes(encodings.rotary, [*_of(self.seen, "rotations", module)])
        ]
        if any(one.name in (NOT_FINITE, NOT_COMPUTED) for one in mistakes):
            return mistakes
        bias, weights = encodings.bias, self._weights(encodings.bias, module)
        if bias is not None and self.expected.divides_bias(self.expected.part_of(module)):
            bias = in_bfloat16(bias, self.seen[0].rotations[module].plain[0].shape[-1])
        of_calls = (bias_mistakes(judge, bias, one, weights) for one in _of(self.seen, "scores", module))
        others = {
            "bias": next(filter(None, of_calls), []),
            "factor of queries": self._of_factors(encodings, module),
        }
        if encodings.indexer is not None and (calls := self._indexers(module)):
            of_indexer = judge.mistakes(encodings.indexer, calls)
            others["indexer"] = name_indexer(of_indexer, encodings.indexer, encodings.rotary)
        return [*mistakes, *(one for output, found in others.items() for one in _with_output(found, output))]

    def _of_factors(self, encodings: LayerEncodings, module: str) -> list[FoundMistake]:
        """Return the mistakes in the factors of queries; a layer without rotation may count tokens by itself."""
        encoding = encodings.scale
        given, own = (
            [find for one in self.seen if one.is_given is is_given for find in _of([one], "lengths", module)]
            for is_given in (True, False)
        )
        of_given, of_own = (
            next(filter(None, (factor_mistakes(self.judge, encoding, one) for one in calls)), [])
            for calls in (given, own)
        )
        is_still = not any(np.ptp(one.lengths) > ALIKE for one in given)
        if encoding is None or encodings.rotary is not None or not (of_given and own and is_still):
            return of_given or of_own
        grows = np.ptp(encoding.factors(own[0].positions)) > ALIKE
        words = "factors of queries count tokens, whatever positions are given"
        self.remarks.append(
            words if grows else f"not judged: {words}, or are missing, as they are 1 up to {own[0].positions[-1]}"
        )
        return of_own

    def _weights(self, encoding: Any, module: str = "") -> list[tuple[str, Float64s]]:
        """Return the arrays that may be the table of an encoding that learns, those of like names first."""
        parameters = encoding.parameters() if encoding is not None else {}
        weights = self.adapter.weights(parameters["table"].shape) if "table" in parameters else []
        return sorted(weights, key=lambda one: -_count_common(one[0], module))

    def _tables(self, calls: Calls) -> list[TableResult]:
        """Return the result of each table that is or should be added to tokens, by part."""
        past, results = calls.past_the_table(), list[TableResult]()
        for part in self.expected.parts or ("",):
            wanted, added = self.expected.tables(part), max((self._rows(one, part) for one in self.seen), key=len)
            for number in range(max(len(wanted), len(added))):
                encoding = wanted[number] if number < len(wanted) else None
                module = added[number][0] if number < len(added) else ""
                seen = [
                    (one.is_given, rows[number][1]) for one in self.seen if len(rows := self._rows(one, part)) > number
                ]
                seen_past = self._rows(past, part)[number:] if past is not None else []
                found = self._of_table(part, encoding, seen, [rows for _, rows in seen_past[:1]])
                if found is not None:
                    results.append(TableResult(module, part, encoding, tuple(found)))
        return results

    def _rows(self, seen: Seen, part: str) -> list[tuple[str, Rows]]:
        """Return the rows that are added in a part of the model; an encoder has no token after a cache."""
        is_one = seen.name == AFTER_CACHE and part == "encoder"
        return [] if is_one else [one for one in seen.rows if self.expected.part_of(one[0]) == part]

    def _of_table(
        self, part: str, encoding: Any, seen: list[tuple[bool, Rows]], past: list[Rows]
    ) -> list[FoundMistake] | None:
        """Return the mistakes of a table in the first call that shows one; None if it cannot be judged."""
        first, weights = self.seen[0], self._weights(encoding)
        own = [rows for is_given, rows in seen if not is_given]
        layers = [name for name in first.layers if self.expected.part_of(name) == part]
        if not seen and not layers:
            self.remarks.append(f"not run: {part or 'the layers'}")
            return None
        if not seen:
            if not any(first.layers[name] for name in layers):
                return [missing_table(first.name)]
            self.remarks.append(f"not found: {encoding!r}, which is added to tokens{f' of the {part}' * bool(part)}")
            return None
        if encoding is not None and encoding.parameters() and not weights:
            self.remarks.append(f"not judged: {encoding!r}, as no array has the shape of its table")
            return None
        start = self.expected.start(part)
        every = [rows._replace(positions=rows.positions + start) for _, rows in seen]
        found = table_mistakes(self.judge, encoding, every, weights)
        if found and own and encoding and encoding.parameters() and encoding.offset:
            whole = replace(encoding, offset=0, length=encoding.length + encoding.offset)
            given = [rows for is_given, rows in seen if is_given]
            tries = ((encoding, own), (whole, given))
            if not any(table_mistakes(self.judge, one, rows, weights) for one, rows in tries):
                self.remarks.append(f"given positions are rows of the table: give them from {encoding.offset} on")
                return []
        return found or [mistake for one in past for mistake in mistakes_past_the_table(encoding, one, weights)]

    def _note_what_is_missing(self, layers: list[LayerResult]) -> None:
        """Add remarks on what the config describes and no call has shown."""
        seen, expected = self.seen, self.expected
        found = {layer.number for layer in layers}
        rotary = expected.rotary if isinstance(expected.rotary, tuple) else ()
        silent = [number for number, one in enumerate(rotary) if one is not None and number not in found]
        indexers = [layer.number for layer in layers if layer.encodings.indexer and not self._indexers(layer.module)]
        factors = [
            layer.number
            for layer in layers
            if layer.encodings.scale and not any(layer.module in one.lengths for one in seen)
        ]
        scores = [layer.number for layer in layers if not any(layer.module in one.scores for one in seen)]
        for what, numbers in (
            ("not found: products of queries and keys", silent),
            ("not found: products of the indexer", indexers),
            ("not judged: factors of queries", factors),
            ("not looked at: biases of scores", scores),
        ):
            self.remarks += [f"{what} in {name_layers(None, numbers)}"] if numbers else []

    def _indexers(self, module: str) -> list[Observation]:
        """Return what the indexer of a layer multiplies."""
        layer = re.sub(r"(?<=\d)\..*", "", module)
        names = [name for name in self.seen[0].indexers if name.startswith(f"{layer}.")]
        return [one for name in names for one in _of(self.seen, "indexers", name)]

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


def _of(seen: list[Seen], kind: str, module: str) -> list[Any]:
    """Return what calls show of a module."""
    return [getattr(one, kind)[module] for one in seen if module in getattr(one, kind)]


def _count_common(one: str, other: str) -> int:
    """Return with how many parts of their names two modules begin alike."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _with_output(mistakes: list[FoundMistake], output: str) -> list[FoundMistake]:
    """Return mistakes that say what shows them, unless their name does."""
    return [one if output in one.name else replace(one, outputs=(*one.outputs, output)) for one in mistakes]
