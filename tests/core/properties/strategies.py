"""Strategies for encodings of every class."""

from inspect import signature
from typing import Literal, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from posenc_core import encodings as e
from posenc_core.encodings.examples import example

from ...catalogue import ENCODINGS
from .numbers import BASES, DIMS, FAR, FRACTIONS, HEADS
from .rotary_strategies import (
    axial,
    fourier_rotaries,
    learned_rotaries,
    mixed_rotaries,
    multimodal,
    proportional,
    rotaries,
    xpos,
)

CONVENTIONS = ("interleaved", "concatenated", "tensor2tensor", "timestep")
GRIDS = ("timm", "timm_interleaved", "mae", "diffusers", "tatp22")


def sinusoids(*conventions):
    """Return sinusoidal encodings of these conventions, by default all whose columns are pairs."""
    named = st.sampled_from(conventions or CONVENTIONS)
    return st.builds(e.Sinusoidal, dim=st.integers(2, 12), base=BASES, convention=named)


@st.composite
def timesteps(draw):
    """Draw encodings of diffusion timesteps, with any valid shift."""
    dim = draw(st.integers(2, 12))
    shift = draw(st.just(1) if dim < 4 else st.floats(-4, dim // 2 - 0.125))
    scale, order = draw(st.floats(2**-6, 2**10)), draw(st.sampled_from(["sin_first", "cos_first"]))
    return e.Timestep(dim=dim, base=draw(BASES), shift=shift, scale=scale, order=order)


@st.composite
def grid_sinusoids(draw, *conventions):
    """Draw sinusoidal encodings of grids, of each convention."""
    convention = draw(st.sampled_from(conventions or GRIDS))
    axes = {"diffusers": 3, "tatp22": draw(st.integers(1, 3))}.get(convention, 2)
    dim = draw(DIMS) * {"diffusers": 16, "tatp22": 1}.get(convention, 4)
    return e.GridSinusoidal(dim=dim, convention=convention, num_axes=axes, base=draw(BASES))


@st.composite
def fourier_features(draw, *conventions):
    """Draw Fourier features of one to three coordinates, of each convention."""
    axes, count = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    convention = draw(st.sampled_from(conventions or ("paper", "code")))
    return e.FourierFeatures(dim=2 * count * axes, num_axes=axes, convention=convention)


def random_fourier_features():
    """Return random Fourier features of one to three coordinates."""
    return st.builds(
        e.RandomFourierFeatures,
        dim=st.integers(1, 6).map(lambda pairs: 2 * pairs),
        scale=st.floats(1e-3, 16),
        seed=st.integers(0, 2**32 - 1),
        num_axes=st.integers(1, 3),
        order=st.sampled_from(["sin_first", "cos_first"]),
    )


@st.composite
def binaries(draw):
    """Draw binary encodings with any valid start."""
    dim = draw(st.integers(1, 40))
    order = draw(st.sampled_from(["most_significant_first", "least_significant_first"]))
    return e.Binary(dim=dim, start=draw(st.integers(0, min(2**dim, 2**31) - 1)), bit_order=order)


def sines():
    """Return encodings of sines only, with each spacing or with custom frequencies."""
    custom = st.lists(st.floats(0, 64), min_size=1, max_size=6)
    return st.one_of(
        st.builds(e.Sine, dim=DIMS, frequencies=st.just("powers_of_two")),
        st.builds(e.Sine, dim=DIMS, frequencies=st.just("endpoint"), base=BASES),
        custom.map(lambda frequencies: e.Sine(dim=len(frequencies), frequencies=frequencies)),
    )


@st.composite
def t5_biases(draw):
    """Draw T5 biases for both sides or the past, whose largest distance is past the buckets of single distances."""
    sides, half = draw(st.sampled_from(["both", "past"])), draw(st.integers(1, 8))
    beyond = draw(st.integers(1, 100))
    return e.T5Bias(num_heads=draw(HEADS), num_buckets=2 * half, max_distance=half + beyond, sides=sides)


WIDTHS = st.integers(1, 4).map(lambda half: 2 * half)
WINDOWS = st.tuples(st.integers(5, 6), st.integers(6, 7))  # at least as many cells as tokens in any test
FIELDS = {
    "depth": st.integers(1, 3),
    "dim": DIMS,
    "gate_bias": st.floats(-4, 4),
    "head_dim": WIDTHS,
    "hidden": st.integers(1, 5),
    "max_bias": st.floats(1, 16),
    "max_distance": st.integers(1, 6),
    "max_position": st.integers(1, 9),
    "num_curves": st.integers(1, 3),
    "num_heads": HEADS,
    "prefix_tokens": st.integers(0, 1),
    "rate": st.floats(0.01, 1),
    "std": FRACTIONS,
    "threshold": st.floats(1, 9),
    "window": WINDOWS,
}


def drawn(kind, **fields):
    """Return encodings of a class: any words and numbers of its fields, those of the example where none are known."""
    usual, hints = example(kind.__name__), get_type_hints(kind)
    for name in signature(kind).parameters:
        words = get_args(hints[name]) if get_origin(hints[name]) is Literal else ()
        if name not in fields:
            of_name = FIELDS.get(name, st.just(getattr(usual, name)))
            fields[name] = st.sampled_from(words) if words else of_name
    return st.builds(kind, **fields)


def each(kind):
    """Return the encodings of each class of a kind, by name."""
    return {name: drawn(one) for name, one in ENCODINGS.items() if issubclass(one, kind)}


ADDITIVE = each(e.Additive) | {
    "Normalized": drawn(e.Normalized, length=st.integers(1, FAR)),
    "Binary": binaries(),
    "Sine": sines(),
    "Sinusoidal": sinusoids(),
    "Timestep": timesteps(),
    "GridSinusoidal": grid_sinusoids(),
    "FourierFeatures": fourier_features(),
    "RandomFourierFeatures": random_fourier_features(),
    "Learned": drawn(e.Learned, length=st.integers(1, FAR), offset=st.integers(0, 2)),
    "LearnedSinusoidal": drawn(
        e.LearnedSinusoidal, dim=st.integers(2, 12), base=BASES, convention=st.sampled_from(CONVENTIONS)
    ),
}
SINUSOIDAL = {  # columns are pairs of sine and cosine
    **{f"Sinusoidal, {convention}": sinusoids(convention) for convention in CONVENTIONS},
    **{f"GridSinusoidal, {convention}": grid_sinusoids(convention) for convention in GRIDS},
    **{f"FourierFeatures, {convention}": fourier_features(convention) for convention in ("paper", "code")},
    "Timestep": timesteps(),
    "RandomFourierFeatures": random_fourier_features(),
}
ROTARY = each(e.RotaryEncoding) | {
    "Rotary": rotaries(),
    "Proportional": proportional(),
    "MultimodalRotary": multimodal(),
    "AxialRotary": axial(),
    "XPos": xpos(),
    "LearnedRotary": learned_rotaries(),
    "FoPE": fourier_rotaries(),
    "MixedRotary": mixed_rotaries(),
}
SCORING = each(e.Scoring) | {
    "T5Bias": t5_biases(),
    "Sandwich": drawn(e.Sandwich, max_distance=st.integers(1, 40), dim=WIDTHS, base=st.floats(2, 1e5)),
    "TransformerXLBias": drawn(e.TransformerXLBias, dim=st.none() | WIDTHS),
    "DynamicPositionBias": drawn(e.DynamicPositionBias, log_distance=st.just(True)),
    "DebertaBias": drawn(e.DebertaBias, max_distance=st.integers(4, 9), num_buckets=st.sampled_from([None, 4])),
}
IN_ATTENTION = ROTARY | SCORING
