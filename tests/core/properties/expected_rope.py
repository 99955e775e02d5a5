"""Frequencies and attention factors of RoPE, written a second time from the papers, in mpmath."""

import posenc_core as p

from .expected_sinusoids import MP, power


def frequencies(rotary):
    """Return the axis of each pair and its radians per position."""
    if isinstance(rotary, p.AxialRotary):
        return axial(rotary)
    scaled = scaled_frequencies(rotary)
    axes = multimodal(rotary) if isinstance(rotary, p.MultimodalRotary) else [0] * len(scaled)
    return [*zip(axes, scaled, strict=True)]


def scaled_frequencies(rotary):
    pairs = (rotary.rotary_dim or rotary.head_dim) // 2
    plain = [power(rotary.base, i, pairs) for i in range(pairs)] if rotary.own is None else [*map(MP.mpf, rotary.own)]
    return SCALED[type(rotary.scaling)](plain, rotary.scaling, rotary)


def attention_factor(rotary):
    scaling = getattr(rotary, "scaling", None)
    if getattr(scaling, "attention_factor", None) is not None:
        return MP.mpf(scaling.attention_factor)
    if isinstance(scaling, p.YaRN | p.DyPE):
        return MP.log(scaling.factor) / 10 + 1
    if isinstance(scaling, p.LongRoPE):
        return MP.sqrt(1 + MP.log(scaling.factor) / MP.log(scaling.original_max_position_embeddings))
    return MP.mpf(1)


def axial(rotary):
    unit = 2 * MP.pi if rotary.unit == "turn" else 1
    axes, total = len(rotary.axes_dims), sum(rotary.axes_dims) // 2
    own = [
        (axis, unit * (power(rotary.base, axis + axes * i, total) if dealt else power(rotary.base, 2 * i, dim)))
        for dealt in [rotary.series == "dealt"]
        for axis, dim in enumerate(rotary.axes_dims)
        for i in range(dim // 2)
    ]
    if rotary.arrangement == "alternating":
        own = [own[axis * (total // axes) + i] for i in range(total // axes) for axis in range(axes)]
    return own


def multimodal(rotary):
    """Return the axis of each pair: time, height or width."""
    if isinstance(rotary.arrangement, tuple):
        return list(rotary.arrangement)
    left = list(rotary.sections)
    if rotary.arrangement == "chunked":
        return [axis for axis in range(3) for _ in range(left[axis])]
    if rotary.arrangement == "ernie":
        return [1, 2] * left[0] + [0] * left[2]
    alike = min(left)
    return [0, 1, 2] * alike + [0] * (left[0] - alike)


def raise_base(plain, growth):
    return [f * MP.mpf(growth) ** -(MP.mpf(i) / max(len(plain) - 1, 1)) for i, f in enumerate(plain)]


def dynamic(plain, scaling, _):
    original, factor = scaling.original_max_position_embeddings, MP.mpf(scaling.factor)
    return raise_base(plain, factor * max(scaling.seq_len or 0, original) / original - (factor - 1))


def blend(first, last, betas, scaling, rotary, most):
    """Blend frequencies from one index to another, at most `most`: those with as many turns in the original length."""
    inverse = (scaling.original_max_position_embeddings / (2 * MP.pi * MP.mpf(turns)) for turns in betas)
    low, high = (len(first) * MP.log(inverse_frequency) / MP.log(rotary.base) for inverse_frequency in inverse)
    if getattr(scaling, "truncate", True):
        low, high = MP.floor(low), MP.ceil(high)
    low, high = min(max(low, 0), most), min(high, most)
    high += MP.mpf("0.001") if low == high else 0
    weights = [min(max((i - low) / (high - low), 0), 1) for i in range(len(first))]
    return [a * (1 - w) + b * w for a, b, w in zip(first, last, weights, strict=True)]


def yarn(plain, scaling, rotary):
    betas, slow = (scaling.beta_fast, scaling.beta_slow), [f / scaling.factor for f in plain]
    return blend(plain, slow, betas, scaling, rotary, 2 * len(plain) - 1)


def llama3(plain, scaling, _):
    def weight(frequency):
        wavelength, original = 2 * MP.pi / frequency, scaling.original_max_position_embeddings
        low, high = MP.mpf(scaling.low_freq_factor), MP.mpf(scaling.high_freq_factor)
        if wavelength > original / low:
            return 1 / MP.mpf(scaling.factor)
        if wavelength < original / high or low == high:
            return 1
        smooth = (original / wavelength - low) / (high - low)
        return (1 - smooth) / scaling.factor + smooth

    return [f * weight(f) for f in plain]


def longrope(plain, scaling, _):
    long = (scaling.seq_len or 0) > scaling.original_max_position_embeddings
    return [f / d for f, d in zip(plain, scaling.long_factor if long else scaling.short_factor, strict=True)]


def proportional(plain, scaling, rotary):
    rotating = int(scaling.partial_rotary_factor * rotary.head_dim // 2)
    return [f / scaling.factor if i < rotating else MP.mpf(0) for i, f in enumerate(plain)]


def riflex(plain, scaling, _):
    return [scaling.fraction * 2 * MP.pi / scaling.length if i == scaling.k else f for i, f in enumerate(plain, 1)]


def dype(plain, scaling, rotary):
    ntk, linear = raise_base(plain, scaling.factor), [f / scaling.factor for f in plain]
    slow = blend(ntk, linear, (1.25 * scaling.kappa, 0.75 * scaling.kappa), scaling, rotary, len(plain))
    return blend(plain, slow, (16 * scaling.kappa, 2 * scaling.kappa), scaling, rotary, len(plain))


SCALED = {
    type(None): lambda plain, *_: plain,
    p.AttentionFactor: lambda plain, *_: plain,
    p.Linear: lambda plain, scaling, _: [f / MP.mpf(scaling.factor) for f in plain],
    p.NTK: lambda plain, scaling, _: raise_base(plain, scaling.factor),
    p.NTKAlpha: lambda plain, scaling, _: raise_base(plain, scaling.alpha),
    p.DynamicNTK: dynamic,
    p.YaRN: yarn,
    p.Llama3: llama3,
    p.LongRoPE: longrope,
    p.Proportional: proportional,
    p.RIFLEx: riflex,
    p.DyPE: dype,
}
