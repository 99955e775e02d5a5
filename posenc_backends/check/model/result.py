"""The result of a check of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from posenc_core.huggingface.load_layers import name_layers

from ..diagnosis import FoundMistake
from ..result import CONFORMS, DIFFERS, FAILED


class LayerResult(NamedTuple):
    """The result for one layer of a model.

    Attributes:
        module: the name of the module that multiplies queries and keys.
        number: of the layer.
        encoding: the encoding that it should have; None if it should not rotate.
        mistakes: what it does wrong.
    """

    module: str
    number: int
    encoding: Any
    mistakes: tuple[FoundMistake, ...] = ()

    @property
    def kind(self) -> Any:
        """The properties that layers of one line of the answer have in common."""
        return self.encoding, tuple((one.name, one.description, one.outputs) for one in self.mistakes)


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """The result of `check_model`.

    Attributes:
        model: the name of its class.
        layers: the result of each layer, in order.
        calls: the names of the calls that were compared.
        failure: what the model raised; None if it ran.
        remarks: what was not found, or not run.
    """

    model: str
    layers: tuple[LayerResult, ...] = ()
    calls: tuple[str, ...] = ()
    failure: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """0 if all layers conform, 1 if one does not, 2 if the model failed."""
        if self.failure is not None:
            return FAILED
        return DIFFERS if any(layer.mistakes for layer in self.layers) else CONFORMS

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each mistake once."""
        found = (name for layer in self.layers for one in layer.mistakes for name in one.name.split(", "))
        return tuple(dict.fromkeys(found))

    def groups(self) -> list[list[LayerResult]]:
        """Return the layers that are alike, those with mistakes first."""
        groups: dict[Any, list[LayerResult]] = {}
        for layer in self.layers:
            groups.setdefault(layer.kind, []).append(layer)
        return sorted(groups.values(), key=lambda group: not group[0].mistakes)

    @property
    def entries(self) -> tuple[str, ...]:
        """The outcome, the layers with mistakes, the others and the remarks, as texts."""
        wrong, count = sum(bool(layer.mistakes) for layer in self.layers), len(self.layers)
        if self.failure is not None:
            return (f"failed; {self.model}", *(f"  {one}" for one in (self.failure, *self.remarks)))
        outcome = f"conforms in {count} layer{'s' * (count > 1)}"
        if wrong:
            outcome = f"does not conform in {wrong} of {count} layers: {', '.join(self.names)}"
        entries = [f"{outcome}; {self.model}, positions {', '.join(self.calls)}"]
        for group in self.groups():
            layers = name_layers(None, [layer.number for layer in group])
            encoding = "no rotation" if group[0].encoding is None else repr(group[0].encoding)
            entries.append("\n    ".join([f"  {layers}: {encoding}", *map(str, group[0].mistakes)]))
        return (*entries, *(f"  {remark}" for remark in self.remarks))

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
                    "number": layer.number,
                    "spec": None if layer.encoding is None else layer.encoding.to_dict(),
                    "mistakes": [one.to_dict() for one in layer.mistakes],
                }
                for layer in self.layers
            ],
            "calls": list(self.calls),
            "failure": self.failure,
            "remarks": list(self.remarks),
        }
