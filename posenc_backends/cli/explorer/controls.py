"""Controls: what the user can choose, derived from the fields of the encodings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter, signature
from types import MappingProxyType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from posenc_core._values import Value
from posenc_core.encodings import Encoding, Rotary
from posenc_core.encodings.examples import FIELDS as USUAL

from .catalogue import (
    FIRST,
    KINDS,
    SCALINGS,
    SIZES,
    drawn_rope,
    first_of,
    has_as_many_positions_as_its_length,
    has_heads,
    is_image,
)
from .help import help_of

NONE = "none"
WITH = "with."  # prefix of all controls of the second encoding
INNER = "scaling."  # prefix of the fields of a scaling
FIELDS = {"trained_length": "length"}  # the fields of controls with another name, as `length` is what is drawn
OF_ROTARY = ("head_dim", "layout", "base")  # fields of the rotary encoding in a remapped one


@dataclass(frozen=True, kw_only=True)
class Control:
    """One part `name=text` of a link.

    Attributes:
        name: the name in the link, such as `base` or `scaling.factor`.
        default: the value if the link has none.
        carried: whether the value stays if another encoding with this control is chosen.
        help: one line about it.
    """

    name: str
    default: Any = None
    carried: bool = True
    help: str = ""

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


@dataclass(frozen=True, kw_only=True)
class Numbers(Control):
    """A list of numbers, separated by commas, or nothing for the usual ones.

    Attributes:
        lowest, highest: the bounds of each number.
        counts: the fewest and the most numbers.
        whole: whether they are integers.
        optional: whether it may be empty.
    """

    lowest: float
    highest: float
    counts: tuple[int, int]
    whole: bool = True
    optional: bool = False

    def value(self, text: str) -> tuple[float, ...] | None:
        if not text.strip() and self.optional:
            return None
        fewest, most = self.counts
        number_type = "whole numbers" if self.whole else "numbers"
        count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        bounds = f"`{self.name}` must be {count} {number_type} from {self.lowest:g} to {self.highest:g}, with commas"
        parts = text.split(",")
        try:
            numbers = [float(part) for part in parts[: most + 1]]
        except ValueError:
            raise ValueError(f"{bounds}, got {text[:40]!r}.") from None
        wrong = [each for each in numbers if not self.lowest <= each <= self.highest]
        if not fewest <= len(parts) <= most or wrong or (self.whole and not all(map(float.is_integer, numbers))):
            raise ValueError(f"{bounds}, got {text[:40]!r}.")
        return tuple(int(each) if self.whole else each for each in numbers)


_even = partial(Number, lowest=2, highest=512, step=2)
_far = partial(Number, lowest=32, highest=2**20, step=None)
_real = partial(Number, whole=False)
_divisors = partial(Numbers, lowest=0.01, highest=10**6, counts=(1, 256), whole=False)
NUMBERS: MappingProxyType[str, Callable[..., Number | Numbers]] = MappingProxyType({
    "dim": partial(Number, lowest=1, highest=1536),
    "head_dim": _even,
    "rotary_dim": _even,
    "num_heads": partial(Number, lowest=1, highest=64),
    "base": partial(_real, lowest=2, highest=10**8, step=None),
    "scale_base": partial(_real, lowest=32, highest=4096, step=None),
    "center": partial(_real, lowest=0, highest=1024),
    "start": partial(Number, lowest=0, highest=255),
    "shift": partial(_real, lowest=0, highest=1, step=0.25),
    "factor": partial(_real, lowest=1, highest=64, step=0.5, default=8),
    "k": partial(Number, lowest=1, highest=256, default=4),
    "seed": partial(Number, lowest=0, highest=4096, default=0),
    "fraction": partial(_real, lowest=0.1, highest=1, step=0.1),
    "kappa": partial(_real, lowest=0, highest=2, step=0.05),
    "alpha": partial(_real, lowest=1, highest=10000, step=None, default=1000),
    "original_max_position_embeddings": partial(_far, default=4096),
    "seq_len": partial(_far, default=32768),
    "attention_factor": partial(_real, lowest=0.25, highest=4, step=0.05, default=1.25),
    "low_freq_factor": partial(_real, lowest=0.5, highest=64, step=0.5, default=1),
    "high_freq_factor": partial(_real, lowest=0.5, highest=64, step=0.5, default=4),
    "partial_rotary_factor": partial(_real, lowest=0.05, highest=1, step=0.05),
    "short_factor": partial(_divisors, default=(1.0,)),
    "long_factor": partial(_divisors, default=(1.0, 32.0)),
    "num_axes": partial(Number, lowest=1, highest=3),
    "axes_dims": partial(Numbers, lowest=2, highest=512, counts=(1, 3), optional=True),
    "sections": partial(Numbers, lowest=0, highest=256, counts=(3, 3), optional=True),
    "window": partial(Numbers, lowest=1, highest=16, counts=(2, 2)),
    "prefix_tokens": partial(Number, lowest=0, highest=1),
    "std": partial(_real, lowest=0, highest=2, step=0.01),
    "num_buckets": partial(Number, lowest=2, highest=128, step=2),
    "trained_window": partial(Numbers, lowest=1, highest=16, counts=(2, 2), optional=True),
    "trained_length": partial(_far, default=8192),
    "floor_sine": partial(Number, lowest=0, highest=1),
})  # fmt: skip
WITHOUT = ("frequencies", "max_len", "mixture", "rotary")  # arrays, and what changes no number
WINDOW = partial(Number, name="window", lowest=1, highest=2**20, step=None)  # of a remapping
DEFAULTS = {  # other than those of the class
    ("Binary", "dim"): 8,
    ("FoPE", "std"): 0.1,
    ("FourierFeatures", "dim"): 20,
    ("LearnedRotary", "std"): 0.1,
    ("LearnedSinusoidal", "std"): 0.1,
    ("LongRoPE", "factor"): 8,
    ("Proportional", "factor"): 8,
    ("RIFLEx", "length"): 4096,
    ("Proportional", "partial_rotary_factor"): 0.5,
    ("RandomFourierFeatures", "num_axes"): 2,
}
LENGTH = Number(name="length", lowest=2, highest=1024, default=128, help="the number of positions that are drawn")
PAIR = Number(name="pair", lowest=0, highest=255, default=4, help="the pair of channels that is marked and rotated")
HEAD = Number(name="head", lowest=0, highest=63, default=0, help="the attention head whose scores are drawn")
POSITION = Number(name="position", lowest=0, highest=1023, default=7, help="the position that the pair is rotated to")
SIDE = Number(name="side", lowest=2, highest=24, default=12, help="height and width of the image, in patches")
CELL = Number(
    name="cell", lowest=0, highest=575, default=78, help="the patch that others are compared with, counted row by row"
)
VIEWS = {control.name: control for control in (LENGTH, SIDE, PAIR, HEAD, CELL, POSITION)}


def kind_control(prefix: str = "") -> Words:
    """Return the control that chooses the encoding; with the prefix `WITH`, the second one, which may be none."""
    if prefix:
        words = (NONE, *KINDS)
        return Words(name=prefix + "encoding", words=words, default=NONE, help="a second encoding, beside the first")
    return Words(name="encoding", words=tuple(KINDS), default="Rotary", help="the encoding that is drawn")


def fields_of(cls: type[Value], prefix: str = "") -> Iterator[Control]:
    """Yield a control for each field of an encoding or a scaling that is a number or a word."""
    hints = get_type_hints(cls)
    if is_remapped(cls):
        yield from (control for control in fields_of(Rotary, prefix) if control.name.removeprefix(prefix) in OF_ROTARY)
    has_length = not has_as_many_positions_as_its_length(cls.__name__)
    for name, field in signature(cls).parameters.items():
        if name == LENGTH.name and not has_length:
            continue  # it is the number of positions that are drawn
        default = _default(cls, name, field)
        control = _control("trained_length" if name == LENGTH.name else name, hints.get(name), default)
        if control is None:
            continue
        default = control.default if default is ... or (default is None and name == "seq_len") else default
        line = help_of(cls, name, whole=isinstance(control, Words))
        control = replace(_with_default(control, default), name=prefix + control.name, help=line)
        few = (name == "dim" and default != SIZES["dim"]) or name == "window"  # others have more, or two sizes
        yield replace(control, carried=control.default is not None and not few)


def is_remapped(cls: type[Value]) -> bool:
    """Return whether an encoding rotates as another one, at remapped positions."""
    return issubclass(cls, Encoding) and cls.needs_attention


def _default(cls: type[Value], name: str, field: Parameter) -> Any:
    """Return the first value of a field; None where it follows from others, `...` where a scaling must be given it."""
    if (cls.__name__, name) in DEFAULTS:
        return DEFAULTS[cls.__name__, name]
    if callable(USUAL.get(cls.__name__, {}).get(name)):
        return None
    if isinstance(field.default, int | float | str | tuple | None):
        return field.default
    return getattr(FIRST[cls.__name__], name) if cls.__name__ in FIRST and name not in WITHOUT else ...


def views_of(cls: type[Encoding], num_axes: int | None = None) -> tuple[Number, ...]:
    """Return the controls of the pictures of an encoding with so many axes."""
    encoding = FIRST[cls.__name__] if num_axes is None else first_of(cls.__name__, num_axes=num_axes)
    if encoding.layer_name == "QueryScaling":
        return ()
    image, window = is_image(encoding), isinstance(getattr(encoding, "window", None), tuple)
    asked = {
        LENGTH: not image,
        SIDE: image and not window,
        PAIR: drawn_rope(encoding) is not None,
        HEAD: has_heads(encoding),
        CELL: image,
        POSITION: drawn_rope(encoding) is not None,
    }
    return tuple(control for control, wanted in asked.items() if wanted)


def number_of(name: str) -> Number:
    """Return the number control of this name, for any encoding or scaling.

    Raises:
        ValueError: if there is none.
    """
    plain = name.removeprefix(WITH).removeprefix(INNER)
    kinds = (*SCALINGS.values(), *KINDS.values()) if INNER in name else KINDS.values()
    controls = [VIEWS[name]] if name in VIEWS else (each for kind in kinds for each in fields_of(kind))
    found = next((each for each in controls if each.name == plain and isinstance(each, Number)), None)
    if found is None:
        raise ValueError(f"`name` must be that of a number, got {name!r}.")
    return replace(found, name=name)


def _control(name: str, hint: Any, default: Any) -> Control | None:
    types = {get_origin(part) or part for part in (get_args(hint) if isinstance(hint, UnionType) else (hint,))}
    words = (NONE, *SCALINGS) if name == "scaling" else ("yes", "no") if bool in types else tuple(_literals(hint))
    if words:
        return Words(name=name, words=words, default=words[0])
    if name == "window" and int in types:
        return WINDOW()
    if name in NUMBERS:
        return NUMBERS[name](name=name)
    return None if name in WITHOUT else _control_of_type(name, types, default)


def _control_of_type(name: str, types: set[Any], default: Any) -> Control | None:
    if tuple in types:
        return Numbers(name=name, lowest=0, highest=4096, counts=(1, 256), whole=False, optional=default is None)
    if int in types:
        return Number(name=name, lowest=0 if default == 0 else 1, highest=4096, step=1 if default == 0 else None)
    return Number(name=name, lowest=0.001, highest=10**4, step=None, whole=False) if float in types else None


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
    if isinstance(control, Numbers):
        return replace(control, default=default)
    return replace(control, default={True: "yes", False: "no", None: NONE}.get(default, default))
