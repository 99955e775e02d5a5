"""The known mistakes, the simplest first."""

from __future__ import annotations

from collections.abc import Iterator

from posenc_core.encodings import Additive, Encoding, QueryEncoding, RotaryEncoding, Scoring
from posenc_core.encodings.remapping import RemappedRotary

from .additive import additive_mistakes
from .axes import arrangement_mistakes
from .base import Mistake
from .bias import bias_mistakes, mistakes_of_two_positions
from .polar import polar_mistakes
from .positions import position_mistakes
from .queries import query_mistakes
from .remapping import remapping_mistakes
from .rotary import rotary_mistakes


def mistakes_of_encoding(encoding: Encoding) -> Iterator[Mistake]:
    """Yield the mistakes that a single call shows, except those of `mistakes_of_rounding`."""
    if isinstance(encoding, RotaryEncoding):
        yield from rotary_mistakes(encoding)
    elif isinstance(encoding, Additive):
        yield from additive_mistakes(encoding)
    elif isinstance(encoding, QueryEncoding):
        yield from query_mistakes(encoding)
    elif isinstance(encoding, Scoring):
        yield from bias_mistakes(encoding)
        return
    elif isinstance(encoding, RemappedRotary):
        yield from remapping_mistakes(encoding)
        return
    else:  # magnitudes at angles
        yield from polar_mistakes(encoding)
        yield from mistakes_of_two_positions()
    yield from map(_of_one_sequence, position_mistakes(encoding.num_axes))
    if isinstance(encoding, RotaryEncoding) and encoding.num_axes > 1 and not encoding.computes_rows:
        yield from arrangement_mistakes(encoding)


def _of_one_sequence(mistake: Mistake) -> Mistake:
    """Return a mistake in positions that functions of queries and keys at positions of their own do not make."""
    return mistake._replace(change=lambda candidate: [] if candidate.num_queries else mistake.change(candidate))
