"""Controls: what the user can choose, derived from the fields of the encodings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from posenc_core._values import Value
from posenc_core.encodings import Alibi, Binary, Encoding, Integer, Normalized, Rotary, Sine, Sinusoidal, Timestep, XPos
from posenc_core.scaling import NTK, AttentionFactor, DynamicNTK, Linear, Llama3, NTKAlpha, Proportional, Scaling, YaRN

# Encodings of sequences without learned parameters.
KINDS: dict[str, type[Encoding]] = {
    cls.__name__: cls for cls in (Integer, Normalized, Binary, Sine, Sinusoidal, Timestep, Rotary, XPos, Alibi)
}
SCALINGS: dict[str, type[Scaling]] = {
    cls.__name__: cls for cls in (Linear, NTK, NTKAlpha, DynamicNTK, YaRN, Llama3, Proportional, AttentionFactor)
}
NONE = "none"
INNER = "scaling."  # prefix of the fields of a scaling


@dataclass(frozen=True, kw_only=True)
class Control:
    """One part `name=text` of a link.

    Attributes:
        name: the name in the link, such as `base` or `scaling.factor`.
        default: the value if the link has none.
        carried: whether the value stays if another encoding with this control is chosen.
    """

    name: str
    default: Any = None
    carried: bool = True

    def value(self, text: str) -> Any:
        """Return the value of a text.

        Raises:
            ValueError: if the text has no valid value.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Words(Control):
    """A choice of words."""

    words: tuple[str, ...]

    def value(self, text: str) -> str:
        if text not in self.words:
            raise ValueError(f"`{self.name}` must be one of {', '.join(self.words)}, got {text!r}.")
        return text


@dataclass(frozen=True, kw_only=True)
class Number(Control):
    """A number within bounds.

    Attributes:
        lowest, highest: the bounds.
        step: the step of the slider; if None, the slider moves the logarithm.
        whole: whether it is an integer.
        optional: whether it may be empty, which means None.
    """

    lowest: float
    highest: float
    step: float | None = 1
    whole: bool = True
    optional: bool = False

    def value(self, text: str) -> float | None:
        if not text and self.optional:
            return None
        number_type = "whole number" if self.whole else "number"
        bounds = f"`{self.name}` must be a {number_type} from {self.lowest:g} to {self.highest:.10g}"
        try:
            number = float(text)
        except ValueError:
            got = f", got {text!r}" if text else ""  # browsers give no text for a number out of bounds
            raise ValueError(f"{bounds}{got}.") from None
        if not self.lowest <= number <= self.highest or (self.whole and not number.is_integer()):
            raise ValueError(f"{bounds}, got {text!r}.")
        return int(number) if number.is_integer() else number

    def to_slider(self, number: float | None) -> float:
        """Return the value of the slider for a number."""
        shown = self.lowest if number is None else min(max(number, self.lowest), self.highest)
        return shown if self.step else round(math.log10(shown), 2)

    def from_slider(self, slider: float) -> float:
        """Return the number for a value of the slider; rounded to three digits if the slider is logarithmic."""
        number = slider if self.step else float(f"{10**slider:.2e}")
        number = round(number) if self.whole else number
        number = min(max(number, self.lowest), self.highest)
        return int(number) if float(number).is_integer() else number


_even = partial(Number, lowest=2, highest=256, step=2)
_far = partial(Number, lowest=32, highest=2**20, step=None)
_real = partial(Number, whole=False)
NUMBERS: MappingProxyType[str, Callable[..., Number]] = MappingProxyType({
    "dim": partial(Number, lowest=1, highest=256, default=64),
    "head_dim": partial(_even, default=64),
    "rotary_dim": _even,
    "num_heads": partial(Number, lowest=1, highest=64, default=8),
    "base": partial(_real, lowest=2, highest=10**8, step=None),
    "scale_base": partial(_real, lowest=32, highest=4096, step=None),
    "center": partial(_real, lowest=0, highest=1024),
    "max_bias": partial(_real, lowest=1, highest=16, step=0.5),
    "start": partial(Number, lowest=0, highest=255),
    "shift": partial(_real, lowest=0, highest=1, step=0.25),
    "scale": partial(_real, lowest=0.001, highest=1000, step=None),
    "factor": partial(_real, lowest=1, highest=64, step=0.5, default=8),
    "alpha": partial(_real, lowest=1, highest=10000, step=None, default=1000),
    "original_max_position_embeddings": partial(_far, default=4096),
    "seq_len": partial(_far, default=32768),
    "beta_fast": partial(_real, lowest=1, highest=64, step=0.5),
    "beta_slow": partial(_real, lowest=0.5, highest=64, step=0.5),
    "mscale": partial(_real, lowest=0, highest=2, step=0.1),
    "mscale_all_dim": partial(_real, lowest=0, highest=2, step=0.1),
    "attention_factor": partial(_real, lowest=0.25, highest=4, step=0.05, default=1.25),
    "low_freq_factor": partial(_real, lowest=0.5, highest=64, step=0.5, default=1),
    "high_freq_factor": partial(_real, lowest=0.5, highest=64, step=0.5, default=4),
    "partial_rotary_factor": partial(_real, lowest=0.05, highest=1, step=0.05),
})  # fmt: skip
DEFAULTS = {
    ("Binary", "dim"): 8,
    ("Rotary", "layout"): "half",
    ("XPos", "layout"): "half",
    ("Proportional", "factor"): 8,
    ("Proportional", "partial_rotary_factor"): 0.5,
    ("YaRN", "attention_factor"): None,
}
LENGTH = Number(name="length", lowest=2, highest=1024, default=128)
PAIR = Number(name="pair", lowest=0, highest=255, default=4)
HEAD = Number(name="head", lowest=0, highest=63, default=0)
POSITION = Number(name="position", lowest=0, highest=1023, default=7)
VIEWS = {control.name: control for control in (LENGTH, PAIR, HEAD, POSITION)}


def kind_control() -> Words:
    """Return the control that chooses the encoding."""
    return Words(name="encoding", words=tuple(KINDS), default="Rotary")


def fields_of(cls: type[Value], prefix: str = "") -> Iterator[Control]:
    """Yield a control for each field of an encoding or a scaling that is a number or a word."""
    hints = get_type_hints(cls)
    for name, field in signature(cls).parameters.items():
        if cls is Normalized and name == LENGTH.name:
            continue  # it is the number of positions that are drawn
        control = _control(name, hints.get(name))
        if control is None:
            continue
        default = DEFAULTS.get(
            (cls.__name__, name), control.default if field.default is Parameter.empty else field.default
        )
        default = control.default if default is None and name == "seq_len" else default
        control = replace(_with_default(control, default), name=prefix + name)
        few = cls is Binary and name == "dim"  # more digits would all be zeros
        yield replace(control, carried=control.default is not None and not few)


def views_of(cls: type[Encoding]) -> tuple[Number, ...]:
    """Return the controls of the pictures of an encoding."""
    if issubclass(cls, Alibi):
        return LENGTH, HEAD
    return (LENGTH, PAIR, POSITION) if issubclass(cls, Rotary | Sine | Sinusoidal | Timestep) else (LENGTH,)


def number_of(name: str) -> Number:
    """Return the number control of this name, for any encoding or scaling."""
    return VIEWS[name] if name in VIEWS else NUMBERS[name.removeprefix(INNER)](name=name)


def _control(name: str, hint: Any) -> Control | None:
    words = tuple(_literals(hint))
    if words:
        return Words(name=name, words=words, default=words[0])
    if hint is bool:
        return Words(name=name, words=("yes", "no"))
    if name == "scaling":
        return Words(name=name, words=(NONE, *SCALINGS))
    if name not in NUMBERS:
        return None
    return NUMBERS[name](name=name)


def _literals(hint: Any) -> Iterator[str]:
    """Yield the words of a `Literal`, alone or in a union."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    for part in get_args(hint):
        if get_origin(part) is Literal:
            yield from get_args(part)


def _with_default(control: Control, default: Any) -> Control:
    """Return the control with a default, spelled as in a link."""
    if isinstance(control, Number):
        return replace(control, default=default, optional=default is None)
    return replace(control, default={True: "yes", False: "no", None: NONE}.get(default, default))
