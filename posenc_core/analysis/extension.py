"""Extensions: the scalings that give a model a longer context, what each changes, and what to write for each engine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .._array_api.checks import check_integer, check_known, check_number, check_type, shown
from ..encodings import Rotary
from ..huggingface import layer_types, load_rope
from ..huggingface.config import contents, find_text, is_translated
from ..positions.sequences import LIMIT
from ..scaling import DynamicNTK, Linear, Llama3, LongRoPE, YaRN
from .engines import EngineLines, write_lines

AS_IS, BASE = "as it is", "NTK"
SHORT = (1024, 4096)  # lengths at which an extension is compared with the model, beside the trained one
DRAWS, SAMPLES, SEED = 64, 512, 0  # random queries and keys; distances, evenly spaced
ENTRY = 4  # bytes of float32
SOURCES = {
    AS_IS: "the config",
    "Linear": "Chen et al. 2023 (arXiv:2306.15595)",
    BASE: "bloc97 2023; Peng et al. 2023, section 3.1 (arXiv:2309.00071)",
    "DynamicNTK": "emozilla 2023; Peng et al. 2023, section 3.4 (arXiv:2309.00071)",
    "YaRN": "Peng et al. 2023, sections 3.2 and 3.3 (arXiv:2309.00071)",
    "Llama3": "`apply_scaling` of Meta's code of Llama 3.1",
    "LongRoPE": "Ding et al. 2024 (arXiv:2402.13753)",
}
OWN = "the model was trained with {}"
REASONS = {
    AS_IS: "the model is for sequences of this length already",
    "YaRN": "pairs that turn often keep their frequency, the others meet no angle that training has not seen, and it "
    "needs the fewest steps of fine-tuning; most engines read it",
}
SEARCH = "the divisors of the config were found by a search for {:,} positions: search for new ones"


@dataclass(frozen=True, kw_only=True)
class Change:
    """The loss of a short context: the largest changes at any of 512 distances, evenly spaced up to a length.

    Attributes:
        length: the length.
        rotation: the largest distance that the vector (cosine, sine) of a pair moves, attention factor included.
        logit: the largest change of the attention logit of a random query and key, of 64 drawn from a fixed seed with
            independent standard normal entries; such logits have a standard deviation of 1.
    """

    length: int
    rotation: float
    logit: float


@dataclass(frozen=True, kw_only=True)
class Extension:
    """One way to extend the context.

    Attributes:
        name: the class of the scaling; `"NTK"` for a larger base; `"as it is"` for the config unchanged.
        rotary: the encoding.
        factor: the `factor` of its scaling (the `alpha` of `NTKAlpha`), or the one by which the base is raised.
        attention_factor: the factor of cosine and sine; scores grow by its square.
        frequencies: in words, which pairs keep the frequency of the config and by how much others are divided.
        unseen: the number of pairs that meet angles beyond those of training, where they made less than one turn.
        changes: what short contexts lose.
        source: the paper or the code of the formula.
    """

    name: str
    rotary: Rotary
    factor: float
    attention_factor: float
    frequencies: str
    unseen: int
    changes: tuple[Change, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The encoding for requests of some lengths, in a server that chooses it by request.

    Attributes:
        factor: by how much the context grows.
        longest: the longest request, prompt and answer, in positions.
        rotary: the encoding.
        table_bytes: the size of its table of cosine and sine in float32.
    """

    factor: float
    longest: int
    rotary: Rotary
    table_bytes: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to extend the context of a model.

    Attributes:
        to: the wanted length, in positions.
        trained_length: the longest sequence that the model was trained for.
        layer_type: the layers that are meant; None if all are alike.
        rotary: the encoding of the config.
        extensions: those that are possible, first the config as it is.
        impossible: names of scalings, each with the reason.
        recommended: the name of one of `extensions`.
        reason: why.
        table_bytes: the size of a table of cosine and sine for `to` positions, in float32.
        profiles: one for each number of `per_request`.
    """

    to: int
    trained_length: int
    layer_type: str | None
    rotary: Rotary
    extensions: tuple[Extension, ...]
    impossible: tuple[tuple[str, str], ...]
    recommended: str
    reason: str
    table_bytes: int
    profiles: tuple[Profile, ...] = ()
    content: Mapping[str, Any] = field(repr=False, compare=False)

    def extension(self, name: str | None = None) -> Extension:
        """Return the extension of a name; by default the recommended one.

        Raises:
            ValueError: if the name is unknown or impossible.
        """
        name, known = self.recommended if name is None else name, {one.name: one for one in self.extensions}
        check_known("name", name, [*known])
        return known[name]

    def lines(self, name: str | None = None) -> tuple[EngineLines, ...]:
        """Return what to write for each engine; arguments as in `extension`.

        Each is read back by `load_rope`, and has the frequencies of the extension. An engine that cannot express it has
        the reason instead.
        """
        extension = self.extension(name)
        to = min(self.to, self.trained_length) if extension.name == AS_IS else self.to
        return write_lines(self.content, extension.rotary, to=to, layer_type=self.layer_type)

    def profile(self, length: int) -> Profile:
        """Return the profile with the smallest factor that covers a request.

        Raises:
            TypeError, ValueError: if `length` is not an integer from 1 to the longest length of the profiles, or there
                are none.
        """
        if not self.profiles:
            raise ValueError("`per_request` must be given to `plan_extension`, got no factors to choose from.")
        check_integer("length", length, maximum=self.profiles[-1].longest)
        return next(one for one in self.profiles if one.longest >= length)


def plan_extension(
    config: Any,
    *,
    to: int,
    trained_length: int | None = None,
    layer_type: str | None = None,
    per_request: Sequence[float] = (),
) -> Plan:
    """Plan how to extend the context of a model: which scalings are possible, what each changes, and what to write.

    Factors of more than four decimals are rounded up to quarters, and bases to six digits, which all programs read.

    Args:
        config: anything that `load_rope` takes: files, folders, dicts, config objects.
        to: the wanted length, in positions: prompt and answer together.
        trained_length: the longest sequence of training; by default `max_position_embeddings`, or the length that the
            scaling of the config extends to. Qwen3 says 40,960 and was trained on 32,768.
        layer_type: the layers to extend, as in `load_rope`; by default `"full_attention"` if the layers differ.
        per_request: factors for a server that chooses by the length of a request, such as `(1, 2, 4)`.
    Returns:
        The plan; `plan.lines()` has what to write for each engine.
    Raises:
        TypeError, ValueError, OSError: as in `load_rope`, or if a number is out of range, the length of training is not
            known, or pairs have no frequency that a scaling could divide (`FoPE`, several axes of an image).
    Warns:
        UserWarning: as in `load_rope`.
    Source: the papers of the scalings, which each extension names.

    >>> qwen = {"model_type": "qwen3", "head_dim": 128, "rope_theta": 1e6, "max_position_embeddings": 40960}
    >>> plan = plan_extension(qwen, to=131072, trained_length=32768)
    >>> plan.recommended, plan.extension().factor, round(plan.extension().attention_factor, 3)
    ('YaRN', 4.0, 1.139)
    """
    to = check_integer("to", to, maximum=LIMIT)
    check_type("per_request", per_request, Sequence, "a sequence of factors")
    content = contents(config)
    if layer_type is None and "full_attention" in layer_types(content):
        layer_type = "full_attention"
    rotary = load_rope(content, layer_type=layer_type)
    if rotary is None:
        raise ValueError(f"`config` must have RoPE in the layers to extend, got none for {layer_type or 'all layers'}.")
    check_type("config", rotary, Rotary, "one of layers with a frequency for each pair, at positions of a sequence")
    if trained_length is None and not _reach(rotary):
        raise ValueError("`trained_length` must be given, as the config has no `max_position_embeddings`.")
    trained = _reach(rotary) if trained_length is None else check_integer("trained_length", trained_length, minimum=2)
    growth = _growth(to / trained)
    made = {AS_IS: rotary} | (dict(_extended(rotary, growth, trained)) if growth > 1 else {})
    recommended = next((name for name in ("YaRN", type(rotary.scaling).__name__) if name in made), AS_IS)
    reason = f"{OWN.format(recommended)}: raise its factor" if rotary.scaling else REASONS.get(recommended, "")
    if recommended == AS_IS:
        reason = REASONS[AS_IS] if growth <= 1 else SEARCH.format(trained)
    return Plan(
        to=to,
        trained_length=trained,
        layer_type=layer_type,
        rotary=rotary,
        extensions=tuple(_extension(name, rotary, one, growth, trained, to) for name, one in made.items()),
        impossible=tuple(_impossible(rotary, made)) if growth > 1 else (),
        recommended=recommended,
        reason=reason,
        table_bytes=_bytes(rotary, to),
        profiles=tuple(_profiles(rotary, recommended, per_request, trained, to)),
        content={} if is_translated(find_text(content)) else content,
    )


def _reach(rotary: Rotary) -> int:
    """Return the longest sequence that the config is for; 0 if it does not say."""
    scaling = rotary.scaling
    if isinstance(scaling, DynamicNTK):
        return round(scaling.original_max_position_embeddings * scaling.factor)
    return max(rotary.max_len or 0, (scaling and scaling.longest) or 0)


def _growth(ratio: float) -> float:
    """Return a ratio of lengths if it has few digits, or else the next quarter, so that it times a length is one."""
    return ratio if ratio == round(ratio, 4) else math.ceil(4 * ratio) / 4


def _extended(rotary: Rotary, growth: float, trained: int) -> Iterator[tuple[str, Rotary]]:
    """Yield the encodings for a context that grows by a factor: the scalings that fit the one of the config."""
    scaling, original = rotary.scaling, cast("dict[str, Any]", {"original_max_position_embeddings": trained})
    rotary = replace(rotary, max_len=min(math.floor(growth * trained), LIMIT))
    if scaling is None:
        options = (
            Linear(factor=growth),
            DynamicNTK(factor=growth, **original),
            YaRN(factor=growth, **original),
            Llama3(factor=growth, low_freq_factor=1.0, high_freq_factor=4.0, **original),
        )
        for one in options:
            yield type(one).__name__, replace(rotary, scaling=one)
    elif name := _factor_name(scaling):
        factor = round(getattr(scaling, name) * growth, 6)
        yield type(scaling).__name__, replace(rotary, scaling=replace(scaling, **{name: factor}))
    if isinstance(scaling, Linear | None) and (channels := rotary.rotary_channels) > 2:
        base = rotary.base * growth ** (channels / (channels - 2))
        unit = Decimal(10) ** (math.floor(math.log10(base)) - 5)
        yield BASE, replace(rotary, base=float(math.ceil(Decimal(base) / unit) * unit))


def _factor_name(scaling: object) -> str | None:
    """Return the field of a scaling that can be raised; LongRoPE's lists hold for one factor only."""
    names = () if isinstance(scaling, LongRoPE) else ("factor", "alpha")
    return next((name for name in names if hasattr(scaling, name)), None)


def _impossible(rotary: Rotary, made: Mapping[str, Rotary]) -> Iterator[tuple[str, str]]:
    own = type(rotary.scaling).__name__
    for name in (one for one in SOURCES if one not in made):
        reason = f"{OWN.format(own)}, which another formula would replace"
        if name == own:
            reason = f"its divisors were found for {_reach(rotary):,} positions"
        elif rotary.scaling is None:
            reason = "a search finds its divisors, and the config has none"
        yield name, reason


def _extension(name: str, rotary: Rotary, extended: Rotary, growth: float, trained: int, to: int) -> Extension:
    scaling, longest = extended.scaling, max(to, trained)
    before, after = rotary.frequencies(trained)[: rotary.pairs], extended.frequencies(longest)[: rotary.pairs]
    factor = getattr(scaling, _factor_name(scaling) or "", 1.0) if name not in (AS_IS, BASE) else 1.0
    seen = before * trained
    return Extension(
        name=name,
        rotary=extended,
        factor=growth if name == BASE else factor,
        attention_factor=extended.at(longest).attention_factor,
        frequencies=_describe(before / after),
        unseen=int(np.sum((seen < math.tau) & (after * to > seen * (1 + 1e-3)))),
        changes=tuple(_change(rotary, extended, length) for length in _lengths(trained)),
        source=SOURCES.get(name, "the config"),
    )


def _lengths(trained: int) -> list[int]:
    return [*(length for length in SHORT if length < trained), trained]


def _describe(divisors: npt.NDArray[np.float64]) -> str:
    """Return in words which pairs are kept, and by how much runs of others are divided."""
    most = divisors.max()

    def kind(item: tuple[int, float]) -> str:
        _, divisor = item
        return "kept" if math.isclose(divisor, 1, rel_tol=1e-6) else str(math.isclose(divisor, most, rel_tol=1e-6))

    runs = []
    for name, run in groupby(enumerate(divisors.tolist()), kind):
        indices, values = zip(*run, strict=True)
        ends = list(dict.fromkeys((f"{min(values):.3g}", f"{max(values):.3g}")))
        which = f"pairs {indices[0]}–{indices[-1]}" if len(indices) > 1 else f"pair {indices[0]}"
        runs.append(f"kept: {which}" if name == "kept" else f"divided by {' to '.join(ends)}: {which}")
    return "; ".join(runs)


def _change(rotary: Rotary, extended: Rotary, length: int) -> Change:
    """Compare two encodings in sequences of a length."""
    distances = np.unique(np.linspace(0, length - 1, SAMPLES).astype(np.int64))
    before, after = (_turns(one.at(length), distances) for one in (rotary, extended))
    draw = np.random.RandomState(SEED).standard_normal((4, rotary.pairs, DRAWS))
    products = (draw[0] + 1j * draw[1]) * (draw[2] - 1j * draw[3])
    factors = rotary.at(length).attention_factor, extended.at(length).attention_factor
    logits = ((after * factors[1] - before * factors[0]) @ products).real / math.sqrt(rotary.head_dim)
    return Change(length=length, rotation=float(np.abs(after - before).max()), logit=float(np.abs(logits).max()))


def _turns(rotary: Rotary, distances: npt.NDArray[np.int64]) -> npt.NDArray[np.complex128]:
    """Return cosine + i sine: `(distances,) -> (distances, pairs)`."""
    angles = np.multiply.outer(distances, rotary.frequencies()[: rotary.pairs])
    return np.asarray(rotary.attention_factor * np.exp(1j * angles), np.complex128)


def _bytes(rotary: Rotary, length: int) -> int:
    return 2 * ENTRY * rotary.pairs * length


def _profiles(rotary: Rotary, name: str, factors: Sequence[float], trained: int, to: int) -> Iterator[Profile]:
    """Yield the encodings for requests, by increasing factor."""
    if not factors:
        return
    if name == AS_IS:
        raise ValueError(f"`per_request` must be left out, as `trained_length` {trained} reaches `to` {to} already.")
    for factor in factors:
        check_number("per_request", factor, minimum=1)
    if max(factors) * trained < to:
        wanted = f"`to` {to} / `trained_length` {trained} = {to / trained:g}"
        raise ValueError(f"`per_request` must reach {wanted}, got {shown(list(factors))}.")
    for factor in sorted({*factors}):
        longest = math.floor(factor * trained)
        made = rotary if factor == 1 else dict(_extended(rotary, factor, trained))[name]
        yield Profile(factor=factor, longest=longest, rotary=made, table_bytes=_bytes(rotary, longest))
