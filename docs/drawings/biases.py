"""Pictures of the page on biases."""

from __future__ import annotations

import numpy as np
from drawn import COLORS
from matplotlib.figure import Figure

from posenc_core import Alibi
from posenc_core.attention.buckets import t5_buckets


def shapes(figure: Figure) -> None:
    """`Alibi(num_heads=8)`, heads 0 to 3; the buckets of `T5Bias` with `num_buckets=32, max_distance=128`.

    Left, what four heads of ALiBi add to the score against the offset: tents of four slopes, highest at 0.

    Right, the bucket of T5 against the offset: on both sides a steep staircase to 8, then ever longer steps to
    the last one; buckets of keys after the query are counted from 16.
    """
    figure.set_size_inches(7, 2.6)
    tents, stairs = figure.subplots(1, 2)
    near, far = np.arange(-40, 41), np.arange(-160, 161)
    for number, row in enumerate(Alibi(num_heads=8).bias([40], np.arange(81))[:4, 0]):
        tents.plot(near, row, color=COLORS[number], lw=1.2, label=f"slope 1/{2 ** (number + 1)}")
    tents.set(xlabel="key's position less query's", title="ALiBi: added to the score")
    tents.set_ylim(top=13)
    tents.legend(ncols=2, loc="upper center")
    buckets = t5_buckets(32, 128)
    stairs.step(far, buckets[np.clip(far, -128, 128) + 128], where="mid", color=COLORS[0], lw=1.2)
    stairs.set(xlabel="key's position less query's", title="T5: which of 32 numbers is added")
