"""The result of a check of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from posenc_core.encodings import Additive
from posenc_core.huggingface.load_layers import name_layers

from ..diagnosis import FoundMistake
from ..precision_classes import names_of
from ..result import CONFORMS, DIFFERS, FAILED
from .expected import LayerEncodings


class LayerResult(NamedTuple):
    """The result for one layer of a model.

    Attributes:
        module: the name of the module that multiplies queries and keys.
        part: of the model, such as `"encoder"`; empty if it has no parts.
        number: of the layer.
        encodings: what the layer should have.
        mistakes: what it does wrong.
    """

    module: str
    part: str
    number: int
    encodings: LayerEncodings
    mistakes: tuple[FoundMistake, ...] = ()

    @property
    def encoding(self) -> Any:
        """The encoding by which it should rotate queries and keys; None if it should not."""
        return self.encodings.rotary

    @property
    def kind(self) -> Any:
        """The properties that layers of one line of the answer have in common."""
        return self.part, self.encodings, kind_of(self.mistakes)


class TableResult(NamedTuple):
    """The result for a table that is added to tokens.

    Attributes:
        module: the name of the module that adds it; empty if none does.
        part: of the model, such as `"encoder"`; empty if it has no parts.
        encoding: what should be added; None if nothing should.
        mistakes: what is wrong.
    """

    module: str
    part: str
    encoding: Additive | None
    mistakes: tuple[FoundMistake, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """The result of `check_model`.

    Attributes:
        model: the name of its class.
        layers: the result of each layer, in order.
        tables: the result of each table that is added to tokens.
        calls: the names of the calls that were compared.
        failure: what the model raised; None if it ran.
        remarks: what was not found, not judged or not run.
    """

    model: str
    layers: tuple[LayerResult, ...] = ()
    tables: tuple[TableResult, ...] = ()
    calls: tuple[str, ...] = ()
    failure: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """0 if all layers and tables conform, 1 if one does not, 2 if the model failed."""
        if self.failure is not None:
            return FAILED
        return DIFFERS if self.names else CONFORMS

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mistake once."""
        results: tuple[TableResult | LayerResult, ...] = (*self.tables, *self.layers)
        return tuple(dict.fromkeys(names_of(one for result in results for one in result.mistakes)))

    def groups(self) -> list[list[LayerResult]]:
        """Return the layers that are alike, those with mistakes first."""
        groups: dict[Any, list[LayerResult]] = {}
        for layer in self.layers:
            groups.setdefault(layer.kind, []).append(layer)
        return sorted(groups.values(), key=lambda group: not group[0].mistakes)

    @property
    def entries(self) -> tuple[str, ...]:
        """The outcome, the tables, the layers with mistakes, the others and the remarks, as texts."""
        if self.failure is not None:
            return (f"failed; {self.model}", *(f"  {one}" for one in (self.failure, *self.remarks)))
        entries = [f"{self._outcome()}; {self.model}, positions {', '.join(self.calls)}"]
        for table in self.tables:
            place = f"tokens of the {table.part}" if table.part else "tokens"
            encoding = "no table" if table.encoding is None else repr(table.encoding)
            entries.append("\n    ".join([f"  {place}: {encoding}", *map(str, table.mistakes)]))
        for group in self.groups():
            layers = name_layers(None, [layer.number for layer in group])
            layers += f" of the {group[0].part}" * bool(group[0].part)
            entries.append("\n    ".join([f"  {layers}: {group[0].encodings}", *map(str, group[0].mistakes)]))
        return (*entries, *(f"  {remark}" for remark in self.remarks))

    def _outcome(self) -> str:
        """Return whether the model conforms, with the number of layers that do not and the names of mistakes."""
        wrong, count = sum(bool(layer.mistakes) for layer in self.layers), len(self.layers)
        if not self.names:
            return f"conforms in {count} layer{'s' * (count > 1)}" if count else "conforms in what is added to tokens"
        where = [f"in {wrong} of {count} layers"] * bool(wrong)
        where += ["in what is added to tokens"] * any(table.mistakes for table in self.tables)
        return f"does not conform {' and '.join(where)}: {', '.join(self.names)}"

    def __str__(self) -> str:
        return "\n".join(self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Return the result in the types of JSON."""
        return {
            "status": self.status,
            "model": self.model,
            "layers": [
                {
                    "module": layer.module,
                    "part": layer.part,
                    "number": layer.number,
                    **{name: one and one.to_dict() for name, one in layer.encodings._asdict().items()},
                    "mistakes": [one.to_dict() for one in layer.mistakes],
                }
                for layer in self.layers
            ],
            "tables": [
                {
                    "module": table.module,
                    "part": table.part,
                    "spec": table.encoding and table.encoding.to_dict(),
                    "mistakes": [one.to_dict() for one in table.mistakes],
                }
                for table in self.tables
            ],
            "calls": list(self.calls),
            "failure": self.failure,
            "remarks": list(self.remarks),
        }


def kind_of(mistakes: tuple[FoundMistake, ...]) -> Any:
    """Return what mistakes of several layers have in common."""
    return tuple((one.name, one.description, one.outputs) for one in mistakes)
