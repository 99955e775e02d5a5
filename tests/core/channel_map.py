"""A second formula of the rotation, for tests: one source, partner, column and sign per channel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from posenc_core.rotation import Pairing, channel_pairs


class ChannelMap(NamedTuple):
    """How each rotated channel is computed: one number per channel, in the order of the channels.

    Attributes:
        width: the number of channels.
        channels: the rotated channels, ascending.
        source: the channel that each of them comes from.
        partner: the other channel of its pair.
        column: the column of the cos and sin tables for its pair.
        sign: the sign of its partner's term: -1 for the first of a pair, 1 for the second.
    """

    width: int
    channels: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    partner: npt.NDArray[np.int64]
    column: npt.NDArray[np.int64]
    sign: npt.NDArray[np.float32]


def channel_map(width: int, pairs: int, pairing: Pairing) -> ChannelMap:
    """Return a rotation channel by channel: `x[source] * cos[column] + x[partner] * sign * sin[column]`.

    >>> from posenc_core.rotation import pairing_of
    >>> channel_map(6, 2, pairing_of("half")).partner
    array([2, 3, 0, 1])
    """
    first, second = channel_pairs(width, pairs, pairing, pairing.split)
    rotated = channel_pairs(width, pairs, pairing, pairing.join).ravel()
    order = np.argsort(rotated)
    sign = np.repeat(np.array([-1, 1], np.float32), pairs)
    source, partner = np.r_[first, second][order], np.r_[second, first][order]
    return ChannelMap(width, rotated[order], source, partner, order % pairs, sign[order])
