"""Pictures of the page on biases."""

from __future__ import annotations

import numpy as np
from drawn import COLORS, ink
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

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


def places(figure: Figure) -> None:
    """Where positions enter a model: purple, added to tokens; orange, rotations of queries and keys; green, added to
    scores; yellow, factors of queries. Gray parts are computed without positions; values too, but for Shaw's vectors.

    A model from left to right. The embedding of the tokens; additive encodings add a row to each token, once, before
    the first block. Then, in each of N blocks, three matrices make queries, keys and values.

    Rotary encodings rotate queries and keys. Factors multiply queries. Each query is multiplied with each key, which
    gives scores, to which biases are added. After the softmax, the weights multiply the values, and a last matrix
    gives the output of attention.
    """
    figure.set_size_inches(7.5, 2.8)
    panel = figure.subplots()
    plain, added, rotated, biased, factor = "#bbbbbb", COLORS[3], COLORS[1], COLORS[2], COLORS[4]
    queries, keys, values, scores = 5.6, 3.6, 1.6, 4.6
    for path in (
        ((0.9, scores), (4.9, scores), (4.9, queries), (13.3, queries), (13.3, scores), (23.3, scores)),
        ((4.9, scores), (4.9, keys), (13.3, keys), (13.3, scores)),
        ((4.9, scores), (4.9, values), (19.9, values), (19.9, scores)),
    ):
        panel.plot(*zip(*path, strict=True), color="gray", lw=0.9, zorder=0)
    panel.annotate("", (23.9, scores), (23.2, scores), arrowprops={"arrowstyle": "->", "color": "gray", "shrinkA": 0})
    for x, y, width, text, color in (
        (1.1, scores, 2, "embedding", plain),
        (3.5, scores, 1.4, "+ row", added),
        (6.5, queries, 1.2, "$W_q$", plain),
        (6.5, keys, 1.2, "$W_k$", plain),
        (6.5, values, 1.2, "$W_v$", plain),
        (9, queries, 1.7, "rotate", rotated),
        (9, keys, 1.7, "rotate", rotated),
        (11.8, queries, 1.7, "× factor", factor),
        (13.6, scores, 1.2, "q · k", plain),
        (15.5, scores, 1.4, "+ bias", biased),
        (17.7, scores, 1.6, "softmax", plain),
        (19.9, scores, 1.7, "× values", plain),
        (21.9, scores, 1.2, "$W_o$", plain),
    ):
        box = {"boxstyle": "round,pad=0.12", "fc": color, "ec": "none"}
        panel.add_patch(FancyBboxPatch((x - width / 2, y - 0.32), width, 0.64, **box))
        panel.text(x, y, text, color=ink(color), ha="center", va="center", fontsize=8)
    for x, y, text, color in (
        (3.5, 5.6, "Sinusoidal\nLearned", added),
        (9, 4.6, "RoPE, XPos", rotated),
        (11.8, 6.4, "QueryScale", factor),
        (15.5, 5.6, "ALiBi\nT5, Swin", biased),
    ):
        panel.text(x, y, text, color=color, ha="center", va="center", fontsize=8, weight="bold")
    frame = {"boxstyle": "round,pad=0.05", "fc": "none", "ec": "gray", "lw": 0.6, "ls": "--"}
    panel.add_patch(FancyBboxPatch((5.2, 0.9), 17.7, 6.4, **frame))
    panel.text(22.8, 7, "attention, in each of N blocks", ha="right", va="center", fontsize=8)
    panel.text(2.4, 7, "once", ha="center", va="center", fontsize=8)
    panel.set(xlim=(-0.2, 24), ylim=(0.7, 7.5))
    panel.axis("off")
