"""Where the tables that timm gives to its attention, and what they rotate, differ from what `load_rope` makes."""

import numpy as np
import torch

from posenc_core.huggingface.timm import timm_positions

from .rounding import ENTRY, UNIT, angle_slack, pair_slack, rotated


def difference(encoding, config, table, turn, *, shape, half):
    """Return in which of width, table and rotated queries the two differ; empty if in none.

    Args:
        encoding: ours.
        config: the config that it was loaded from.
        table: timm's: sines, then cosines, of each patch.
        turn: the function of its attention, of queries and the table.
        shape: how many rows and columns of patches the table is for.
        half: whether its columns are for the layout "half".
    """
    height, width = shape
    positions = timm_positions(config, height=height, width=width)
    if encoding.head_dim != table.shape[-1] // 2:
        return "width"
    columns = slice(encoding.pairs) if half else slice(None, None, 2)
    sin, cos = (one[:, columns].numpy() for one in table.chunk(2, dim=-1))
    ours = encoding.cos_sin(positions)
    # Coordinates are rounded three times, of numbers up to 2 for those from -1 to 1; and so are the angles.
    turns = getattr(encoding, "unit", "radian") == "turn"
    rounding = 3 * UNIT * np.maximum(np.abs(positions), 2 if turns else 0).T
    slack = angle_slack(encoding, positions) + rounding[:, list(encoding.axes)] * encoding.frequencies()
    for one, theirs in zip(ours, (cos, sin), strict=True):
        if np.any(np.abs(theirs - one) >= slack + ENTRY * UNIT):
            return "table"
    x = np.random.default_rng(0).standard_normal((1, 2, height * width, encoding.head_dim)).astype(np.float32)
    turned = turn(torch.from_numpy(x), table, half=half).numpy()
    off = np.abs(turned - rotated(x, ours, encoding))
    return "" if np.all(off <= pair_slack(x, encoding, slack)) else "rotated queries"


def learned_difference(encoding, config, rope, turn, *, shape):
    """Return in which of heads, table and rotated queries the blocks of a RoPE-Mixed differ, with their frequencies.

    Args:
        encoding, config, turn, shape: as in `difference`.
        rope: timm's module.
    """
    positions = timm_positions(config, height=shape[0], width=shape[1])
    own, tables = (one.detach().numpy() for one in (rope.freqs, rope.get_embed(shape)))
    if own.shape[2:] != (encoding.num_heads, encoding.pairs):
        return "heads"
    for block, table in enumerate(tables):
        frequencies = own[:, block].astype(np.float64)
        ours = encoding.rows_of({"frequencies": frequencies}, positions)
        slack = 3 * UNIT * np.einsum("al,ahp->hlp", np.abs(positions), np.abs(frequencies))  # two products and a sum
        sin, cos = np.split(table[..., ::2], 2, axis=-1)
        for one, theirs in zip(ours, (cos, sin), strict=True):
            if np.any(np.abs(theirs - one) >= slack + ENTRY * UNIT):
                return "table"
        x = np.random.default_rng(block).standard_normal((1, *table.shape[:2], encoding.head_dim)).astype(np.float32)
        turned = turn(torch.from_numpy(x), torch.from_numpy(table)).numpy()
        if np.any(np.abs(turned - rotated(x, ours, encoding)) > pair_slack(x, encoding, slack)):
            return "rotated queries"
    return ""
