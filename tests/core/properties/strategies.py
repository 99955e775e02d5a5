"""Strategies for encodings of every class."""

from hypothesis import strategies as st

from posenc_core import FourierFeatures, GridSinusoidal, RandomFourierFeatures, Sinusoidal, Timestep
from posenc_core.encodings import (
    Alibi,
    Binary,
    Cope,
    DebertaBias,
    DecomposedBias,
    DynamicPositionBias,
    Fire,
    ForgettingBias,
    Integer,
    Kerple,
    Learned,
    LearnedSinusoidal,
    Normalized,
    RelativeLogits,
    Sandwich,
    ShawBias,
    Sine,
    SwinBias,
    SwinV2Bias,
    T5Bias,
    TransformerXLBias,
)

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
    return st.builds(Sinusoidal, dim=st.integers(2, 12), base=BASES, convention=named)


@st.composite
def timesteps(draw):
    """Draw encodings of diffusion timesteps, with any valid shift."""
    dim = draw(st.integers(2, 12))
    shift = draw(st.just(1) if dim < 4 else st.floats(-4, dim // 2 - 0.125))
    scale, order = draw(st.floats(2**-6, 2**10)), draw(st.sampled_from(["sin_first", "cos_first"]))
    return Timestep(dim=dim, base=draw(BASES), shift=shift, scale=scale, order=order)


@st.composite
def grid_sinusoids(draw, *conventions):
    """Draw sinusoidal encodings of grids, of each convention."""
    convention = draw(st.sampled_from(conventions or GRIDS))
    axes = {"diffusers": 3, "tatp22": draw(st.integers(1, 3))}.get(convention, 2)
    dim = draw(DIMS) * {"diffusers": 16, "tatp22": 1}.get(convention, 4)
    return GridSinusoidal(dim=dim, convention=convention, num_axes=axes, base=draw(BASES))


@st.composite
def fourier_features(draw, *conventions):
    """Draw Fourier features of one to three coordinates, of each convention."""
    axes, count = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    convention = draw(st.sampled_from(conventions or ("paper", "code")))
    return FourierFeatures(dim=2 * count * axes, num_axes=axes, convention=convention)


def random_fourier_features():
    """Return random Fourier features of one to three coordinates."""
    return st.builds(
        RandomFourierFeatures,
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
    return Binary(dim=dim, start=draw(st.integers(0, min(2**dim, 2**31) - 1)), bit_order=order)


def sines():
    """Return encodings of sines only, with each spacing or with custom frequencies."""
    custom = st.lists(st.floats(0, 64), min_size=1, max_size=6)
    return st.one_of(
        st.builds(Sine, dim=DIMS, frequencies=st.just("powers_of_two")),
        st.builds(Sine, dim=DIMS, frequencies=st.just("endpoint"), base=BASES),
        custom.map(lambda frequencies: Sine(dim=len(frequencies), frequencies=frequencies)),
    )


@st.composite
def t5_biases(draw):
    """Draw T5 biases for both sides or the past, whose largest distance is past the buckets of single distances."""
    sides, half = draw(st.sampled_from(["both", "past"])), draw(st.integers(1, 8))
    beyond = draw(st.integers(1, 100))
    return T5Bias(num_heads=draw(HEADS), num_buckets=2 * half, max_distance=half + beyond, sides=sides)


SIDES = st.sampled_from(["both", "past"])
WIDTHS = st.integers(1, 4).map(lambda half: 2 * half)
WINDOWS = st.tuples(st.integers(5, 6), st.integers(6, 7))  # at least as many cells as tokens in any test

ADDITIVE = {
    "Integer": st.builds(Integer, dim=DIMS),
    "Normalized": st.builds(Normalized, dim=DIMS, length=st.integers(1, FAR)),
    "Binary": binaries(),
    "Sine": sines(),
    "Sinusoidal": sinusoids(),
    "Timestep": timesteps(),
    "GridSinusoidal": grid_sinusoids(),
    "FourierFeatures": fourier_features(),
    "RandomFourierFeatures": random_fourier_features(),
    "Learned": st.builds(Learned, dim=DIMS, length=st.integers(1, FAR), std=FRACTIONS, offset=st.integers(0, 2)),
    "LearnedSinusoidal": st.builds(
        LearnedSinusoidal, dim=st.integers(2, 12), base=BASES, convention=st.sampled_from(CONVENTIONS), std=FRACTIONS
    ),
}
SINUSOIDAL = {  # columns are pairs of sine and cosine
    **{f"Sinusoidal, {convention}": sinusoids(convention) for convention in CONVENTIONS},
    **{f"GridSinusoidal, {convention}": grid_sinusoids(convention) for convention in GRIDS},
    **{f"FourierFeatures, {convention}": fourier_features(convention) for convention in ("paper", "code")},
    "Timestep": timesteps(),
    "RandomFourierFeatures": random_fourier_features(),
}
ROTARY = {
    "Rotary": rotaries(),
    "Proportional": proportional(),
    "MultimodalRotary": multimodal(),
    "AxialRotary": axial(),
    "XPos": xpos(),
    "LearnedRotary": learned_rotaries(),
    "FoPE": fourier_rotaries(),
    "MixedRotary": mixed_rotaries(),
}
SCORING = {
    "Alibi": st.builds(
        Alibi,
        num_heads=HEADS,
        slopes=st.sampled_from(["press", "geometric"]),
        max_bias=st.floats(1, 16),
        sides=SIDES,
    ),
    "T5Bias": t5_biases(),
    "Kerple": st.builds(Kerple, num_heads=HEADS, variant=st.sampled_from(["logarithmic", "power"]), sides=SIDES),
    "Fire": st.builds(
        Fire, num_heads=HEADS, hidden=st.integers(1, 8), rate=st.floats(0.01, 1), threshold=st.floats(1, 9)
    ),
    "Sandwich": st.builds(
        Sandwich, num_heads=HEADS, max_distance=st.integers(1, 40), dim=WIDTHS, base=st.floats(2, 1e5)
    ),
    "SwinBias": st.builds(SwinBias, num_heads=HEADS, window=WINDOWS, prefix_tokens=st.integers(0, 1), std=FRACTIONS),
    "ShawBias": st.builds(
        ShawBias,
        num_heads=HEADS,
        head_dim=WIDTHS,
        max_distance=st.integers(1, 6),
        applies_to=st.sampled_from(["both", "keys"]),
        std=FRACTIONS,
    ),
    "TransformerXLBias": st.builds(
        TransformerXLBias,
        num_heads=HEADS,
        head_dim=WIDTHS,
        max_distance=st.integers(1, 6),
        dim=st.none() | WIDTHS,
        std=FRACTIONS,
    ),
    "ForgettingBias": st.builds(
        ForgettingBias, num_heads=HEADS, head_dim=WIDTHS, gate_bias=st.floats(-4, 4), std=FRACTIONS
    ),
    "SwinV2Bias": st.builds(SwinV2Bias, num_heads=HEADS, window=WINDOWS, hidden=st.integers(1, 5), std=FRACTIONS),
    "DynamicPositionBias": st.builds(
        DynamicPositionBias,
        num_heads=HEADS,
        hidden=st.integers(1, 5),
        depth=st.integers(1, 3),
        log_distance=st.just(True),
    ),
    "DecomposedBias": st.builds(
        DecomposedBias,
        num_heads=HEADS,
        head_dim=WIDTHS,
        window=WINDOWS,
        prefix_tokens=st.integers(0, 1),
        std=FRACTIONS,
    ),
    "DebertaBias": st.builds(
        DebertaBias,
        num_heads=HEADS,
        head_dim=WIDTHS,
        max_distance=st.integers(4, 9),
        num_buckets=st.sampled_from([None, 4]),
        terms=st.sampled_from(["both", "c2p", "p2c"]),
        std=FRACTIONS,
    ),
    "RelativeLogits": st.builds(
        RelativeLogits,
        num_heads=HEADS,
        head_dim=WIDTHS,
        max_distance=st.integers(1, 6),
        num_curves=st.integers(1, 3),
        std=FRACTIONS,
    ),
    "Cope": st.builds(Cope, num_heads=HEADS, head_dim=WIDTHS, max_position=st.integers(1, 9)),
}
IN_ATTENTION = ROTARY | SCORING
