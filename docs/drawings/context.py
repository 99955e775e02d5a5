"""Pictures of wavelengths and context lengths, of the divisors of scalings, and of rounded angles."""

import math

import numpy as np
from drawn import COLORS
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posenc_core import NTK, DynamicNTK, Linear, Llama3, LongRoPE, Proportional, Rotary, Scaling, YaRN
from posenc_core.analysis.precision import growing_errors

HEAD_DIM = 64
PLAIN = Rotary(head_dim=HEAD_DIM, layout="half")
TRAINED, LONGER = 4096, 32768


def wavelengths(figure: Figure) -> None:
    """`Rotary(head_dim=64)` with two bases: how long the wave of each pair is, and how much of it a training length of
    4,096 shows.

    Positions per turn of the 32 pairs of a head, on a logarithmic scale: with base 10,000 from 6 to 47,117,
    with base 500,000 to two million. 23 pairs of the first are below the training length of 4,096; the rest have
    seen a part of their circle. On the right, the arc that each pair has seen at 4,096, and what 32,768 adds to
    it.
    """
    figure.set_size_inches(7.5, 3)
    turns, arcs = figure.subplots(1, 2)
    for base, color in ((1e4, COLORS[0]), (5e5, COLORS[1])):
        frequencies = Rotary(head_dim=HEAD_DIM, layout="half", base=base).frequencies()
        turns.semilogy(2 * math.pi / frequencies, "o-", ms=3, lw=0.8, color=color, label=f"base {base:,.0f}")
    for length in (TRAINED, LONGER):
        turns.axhline(length, color="gray", lw=0.8, ls="--")
        turns.annotate(f"{length:,}", (0, length), xytext=(0, 2), textcoords="offset points", fontsize=8)
    turns.set(title="positions per turn", xlabel="pair")
    turns.set_ylim(top=2e8)
    turns.legend(loc="upper left")
    pairs = np.arange(HEAD_DIM // 2)
    seen, met = (np.minimum(PLAIN.frequencies() * length / (2 * math.pi), 1) for length in (TRAINED, LONGER))
    arcs.bar(pairs, seen, color=COLORS[2], label=f"within {TRAINED:,}")
    arcs.bar(pairs, met - seen, bottom=seen, color=COLORS[4], label=f"new within {LONGER:,}")
    arcs.set(title="share of the circle, base 10,000", xlabel="pair", ylim=(0, 1.25))
    arcs.legend(loc="upper left", ncols=2)


def interpolation(figure: Figure) -> None:
    """A pair with a wavelength of 128 positions, trained on 16 and used with 64; right, with positions divided by four.

    The cosine of a slow pair against the position, with a dot at each token; the model was trained on the first
    16. Left, 64 tokens as they are: three quarters of the dots lie beyond the trained range. Right, all positions
    divided by four: all 64 dots lie in the trained range, four times as close to each other.
    """
    figure.set_size_inches(7.5, 2.6)
    trained, factor = 16, 4
    places, frequency = np.arange(trained * factor), math.pi / (trained * factor)
    curve = np.linspace(0, trained * factor, 200)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, divisor, title in zip(panels, (1, factor), ("extrapolation", "interpolation"), strict=True):
        panel.axvspan(0, trained, color=COLORS[2], alpha=0.15, lw=0)
        panel.plot(curve, np.cos(frequency * curve), color="gray", lw=0.8)
        for chosen, color in ((places < trained, COLORS[0]), (places >= trained, COLORS[1])):
            at = places[chosen] / divisor
            panel.plot(at, np.cos(frequency * at), ".", ms=4, color=color)
        panel.annotate("trained", (trained / 2, -0.9), ha="center", fontsize=8)
        panel.set(title=title, xlabel="position" if divisor == 1 else f"position / {divisor}")
    panels[0].set_ylabel("cos(ω × position)")


def scalings(figure: Figure) -> None:
    """`Rotary(head_dim=64)` with `factor=8` and a training length of 4,096. `LongRoPE` has a list of example factors;
    `Proportional` rotates half of the pairs.

    Eight panels. By what each scaling divides the frequency of each pair, for eight times the length: Linear
    by 8, all alike; NTK by 1 to 8, rising evenly; DynamicNTK more, the longer the sequence; YaRN and Llama 3 by 1
    for the first pairs and by 8 for the last, with a slope between; LongRoPE by a list of its own; Proportional
    leaves the last pairs unrotated. The last panel has the attention factors of YaRN and LongRoPE, which rise
    slowly with the factor.
    """
    figure.set_size_inches(7.5, 6.2)
    grid = figure.subplots(3, 3)
    grid[2, 2].remove()
    *panels, factors = grid.ravel()[:8]
    for panel, (title, given) in zip(panels, _shown().items(), strict=True):
        for (label, scaling), color in zip(given.items(), COLORS, strict=False):
            _draw_divisors(panel, label, scaling, color)
        panel.set(title=title, ylim=(0.8, 70), xlim=(-1, HEAD_DIM // 2))
        panel.set_yscale("log", base=2)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if len(given) > 1:
            panel.legend(loc="upper left")
    for panel in panels[5:]:
        panel.set_xlabel("pair")
    for panel in panels[::3]:
        panel.set_ylabel("divided by")
    grown = np.geomspace(1, 64)
    factors.semilogx(grown, 0.1 * np.log(grown) + 1, color=COLORS[0], label="YaRN", base=2)
    factors.semilogx(grown, np.sqrt(1 + np.log(grown) / np.log(TRAINED)), color=COLORS[1], label="LongRoPE", base=2)
    factors.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    factors.set(title="attention factor", xlabel="factor")
    factors.legend()


def rounding(figure: Figure) -> None:
    """`Rotary(head_dim=128, base=500_000)`: what angles that are rounded to a short dtype cost.

    The largest error of cosine and sine up to each position, both axes logarithmic. In bfloat16 it is a tenth
    from position 35 on, and close to 2 from 600 on. In float32 it grows in a straight line, to a tenth at two
    million. Exact tables stay at 6e-8 everywhere.
    """
    figure.set_size_inches(7, 3.2)
    panel = figure.subplots()
    rotary = Rotary(head_dim=128, layout="half", base=500_000)
    for arithmetic, color in (("bfloat16", COLORS[1]), ("float32", COLORS[0])):
        positions, errors = np.transpose(growing_errors(rotary, arithmetic=arithmetic, limit=2**22))
        panel.loglog(positions, errors, color=color, label=f"angles in {arithmetic}")
    panel.axhline(2**-24, color=COLORS[2], label="exact, rounded once")
    panel.set(xlabel="position", ylabel="largest error so far", ylim=(1e-8, 5))
    panel.legend(loc="lower right", bbox_to_anchor=(1, 0.1))


def _shown() -> dict[str, dict[str, Scaling]]:
    trained, pairs = {"original_max_position_embeddings": TRAINED}, HEAD_DIM // 2
    dynamic = DynamicNTK(factor=8, **trained)
    searched = [1 + pair / 4 for pair in range(pairs)]
    return {
        "Linear": {"": Linear(factor=8)},
        "NTK": {"": NTK(factor=8)},
        "DynamicNTK": {f"{length:,} tokens": dynamic.at(length) for length in (TRAINED, 8192, LONGER)},
        "YaRN": {"": YaRN(factor=8, **trained)},
        "Llama3": {"": Llama3(factor=8, low_freq_factor=1, high_freq_factor=4, **trained)},
        "LongRoPE": {
            f"{'above' if length > TRAINED else 'up to'} {TRAINED:,}": LongRoPE(
                factor=8, short_factor=[1.0] * pairs, long_factor=searched, **trained
            ).at(length)
            for length in (TRAINED, LONGER)
        },
        "Proportional": {"": Proportional(factor=8, partial_rotary_factor=0.5)},
    }


def _draw_divisors(panel: Axes, label: str, scaling: Scaling, color: str) -> None:
    slow = Rotary(head_dim=HEAD_DIM, layout="half", scaling=scaling).frequencies()
    rotated = slow > 0
    divisors = PLAIN.frequencies()[rotated] / slow[rotated]
    panel.plot(np.flatnonzero(rotated), divisors, "o-", ms=2, lw=0.8, color=color, label=label)
    if not rotated.all():
        panel.text(24, 8, "not rotated", ha="center", va="center", color="gray")
