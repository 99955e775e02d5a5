"""Strategies for rotary encodings and scalings."""

from dataclasses import replace

from hypothesis import strategies as st

import posenc_core as p

from .numbers import BASES, FACTORS, LENGTHS


def optional_fields(**fields):
    """Return a dict of some of these fields; the others keep their defaults."""
    return st.fixed_dictionaries({}, optional=fields)


def scalings(pairs):
    """Return a strategy for each scaling, by name, for this number of pairs and any sequence length."""
    lists = st.lists(FACTORS, min_size=pairs, max_size=pairs)
    ordered = st.lists(st.floats(0.5, 40), min_size=2, max_size=2).map(sorted)
    dynamic = {"factor": FACTORS, "original_max_position_embeddings": LENGTHS, "seq_len": st.none() | LENGTHS}
    return {
        "AttentionFactor": st.builds(p.AttentionFactor, attention_factor=st.floats(0.25, 4)),
        "Linear": st.builds(p.Linear, factor=FACTORS),
        "NTK": st.builds(p.NTK, factor=FACTORS),
        "NTKAlpha": st.builds(p.NTKAlpha, alpha=FACTORS),
        "DynamicNTK": st.builds(p.DynamicNTK, **dynamic),
        "YaRN": st.builds(
            _yarn, FACTORS, LENGTHS, ordered, optional_fields(attention_factor=FACTORS, truncate=st.booleans())
        ),
        "Llama3": st.builds(_llama, FACTORS, LENGTHS, ordered),
        "RIFLEx": st.builds(p.RIFLEx, k=st.integers(1, pairs), length=LENGTHS, fraction=st.floats(0.5, 1)),
        "DyPE": st.builds(p.DyPE, factor=FACTORS, original_max_position_embeddings=LENGTHS, kappa=st.floats(0.01, 1)),
        "LongRoPE": st.builds(_longrope, lists, lists, LENGTHS, FACTORS, st.none() | LENGTHS),
    }


def _yarn(factor, original, betas, more):
    bounds = {"beta_slow": betas[0], "beta_fast": betas[1]}
    return p.YaRN(factor=factor, original_max_position_embeddings=original, **bounds, **more)


def _llama(factor, original, factors):
    low, high = factors
    return p.Llama3(
        factor=factor, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=original
    )


def _longrope(short, long, original, factor, seq_len):
    return p.LongRoPE(
        short_factor=short, long_factor=long, original_max_position_embeddings=original, factor=factor, seq_len=seq_len
    ).at(seq_len or 1)


@st.composite
def layout_fields(draw):
    """Draw the number of pairs, and fields head_dim, rotary_dim, layout and placement that fit it."""
    pairs, placement = draw(st.integers(1, 6)), draw(st.sampled_from(["lead", "trail", "spread"]))
    layouts = ["interleaved", "half"] + ["interleaved_to_half"] * (placement != "spread")
    rest = 2 * draw(st.integers(0, 2)) if placement == "spread" else draw(st.integers(0, 3))
    fields = {"head_dim": 2 * pairs + rest, "layout": draw(st.sampled_from(layouts)), "placement": placement}
    return pairs, fields | ({"rotary_dim": 2 * pairs} if rest else {})


DIRECTIONS = st.sampled_from(["forward", "inverse"])


@st.composite
def rotaries(draw, kind=p.Rotary, *, by=None, scaled=True, **more):
    """Draw encodings of one class in all layouts and placements, with the scaling called `by`, or any or none."""
    pairs, fields = draw(layout_fields())
    known = scalings(pairs)
    scaling = draw(known[by] if by else st.none() | st.one_of(*known.values())) if scaled else None
    own = scaling is None or isinstance(scaling, p.AttentionFactor)
    if own and draw(st.booleans()):
        fields["frequencies"] = draw(st.lists(st.floats(1e-6, 4), min_size=pairs, max_size=pairs))
    else:
        fields["base"] = draw(BASES)
    drawn = {name: draw(values) for name, values in more.items()}
    return kind(**fields, **drawn, scaling=scaling, direction=draw(DIRECTIONS))


@st.composite
def proportional(draw):
    """Draw rotary encodings that rotate a fraction of the head (`Proportional`)."""
    pairs, share = draw(st.integers(1, 6)), draw(st.floats(0.1, 1))
    scaling = p.Proportional(partial_rotary_factor=max(share, 1.01 / pairs) if pairs > 1 else 1, factor=draw(FACTORS))
    layout = draw(st.sampled_from(["interleaved", "half"]))
    return p.Rotary(head_dim=2 * pairs, layout=layout, base=draw(BASES), scaling=scaling)


@st.composite
def multimodal(draw):
    """Draw rotary encodings of time, height and width, of each arrangement, also given by pairs."""
    arrangement = draw(st.sampled_from(["chunked", "interleaved", "ernie"]))
    each, more = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    sections = {"chunked": (each, more, 1), "interleaved": (each + more, each, each), "ernie": (each, each, more)}[
        arrangement
    ]
    layout = draw(st.sampled_from(["interleaved", "half", "interleaved_to_half"]))
    named = p.MultimodalRotary(
        head_dim=2 * sum(sections), layout=layout, sections=sections, arrangement=arrangement, base=draw(BASES)
    )
    if not draw(st.booleans()):
        return named
    return replace(named, sections=(), arrangement=draw(st.permutations(named.axes)))


@st.composite
def axial(draw):
    """Draw rotary encodings of two or three axes."""
    axes, channels = draw(st.integers(2, 3)), 2 * draw(st.integers(1, 3))
    arrangement = draw(st.sampled_from(["concat", "alternating", "blocks"]))
    series = draw(st.sampled_from(["own", "dealt"]))
    equal = arrangement != "concat" or series == "dealt"
    dims = tuple(channels if equal else 2 * draw(st.integers(1, 3)) for _ in range(axes))
    return p.AxialRotary(
        head_dim=sum(dims) + draw(st.integers(0, 2)),
        layout=draw(st.sampled_from(["interleaved", "half"])),
        axes_dims=dims,
        base=draw(BASES),
        arrangement=arrangement,
        series=series,
        unit=draw(st.sampled_from(["radian", "turn"])),
    )


def xpos():
    """Return rotary encodings whose scores decay; positions up to 30000 from the center are valid."""
    return rotaries(p.XPos, scale_base=st.floats(512, 1e4), center=st.integers(-30000, 30000))


def learned_rotaries():
    """Return rotary encodings with learned frequencies."""
    return rotaries(p.LearnedRotary, scaled=False, std=st.floats(0, 1))


@st.composite
def fourier_rotaries(draw):
    """Draw rotary encodings of sums of frequencies."""
    pairs = draw(st.integers(1, 6))
    return p.FoPE(
        head_dim=2 * pairs,
        layout=draw(st.sampled_from(["interleaved", "half", "interleaved_to_half"])),
        base=draw(BASES),
        num_terms=draw(st.integers(1, pairs)),
        num_heads=draw(st.sampled_from([None, 1, 2])),
        floor_sine=draw(st.integers(0, 1)),
        std=draw(st.floats(0, 1)),
        direction=draw(DIRECTIONS),
    )


@st.composite
def mixed_rotaries(draw):
    """Draw rotary encodings of learned directions."""
    axes = draw(st.integers(2, 3))
    channels = 2 * axes * draw(st.integers(1, 2))
    left = draw(st.integers(0, 2))
    return p.MixedRotary(
        head_dim=channels + left,
        layout=draw(st.sampled_from(["interleaved", "half", "interleaved_to_half"])),
        num_heads=draw(st.integers(1, 2)),
        num_axes=axes,
        base=draw(BASES),
        rotary_dim=channels if left else None,
        direction=draw(DIRECTIONS),
    )


SCALINGS = scalings(3)
FLOAT32 = rotaries(precision=st.just("float32"))
TABLES = {  # encodings whose frequencies `expected_rope` has, by name
    "plain": rotaries(scaled=False),
    **{name: rotaries(by=name) for name in SCALINGS},
    "Proportional": proportional(),
    "AxialRotary": axial(),
    "MultimodalRotary": multimodal(),
}
