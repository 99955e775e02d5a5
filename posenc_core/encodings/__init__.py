"""All encodings: additive, rotary (RoPE) and scoring. Each is a value, a frozen dataclass that owns no arrays."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .additive import *
    from .additive.base import Additive as Additive
    from .base import Encoding as Encoding
    from .base import Parameter as Parameter
    from .base import Tabular as Tabular
    from .placed import Placed as Placed
    from .qk_norm import QKNorm as QKNorm
    from .query_scale import LearnedQueryScale as LearnedQueryScale
    from .query_scale import QueryEncoding as QueryEncoding
    from .query_scale import QueryScale as QueryScale
    from .remapping import DualChunk as DualChunk
    from .remapping import LeakyReRoPE as LeakyReRoPE
    from .remapping import RemappedRotary as RemappedRotary
    from .remapping import ReRoPE as ReRoPE
    from .remapping import SelfExtend as SelfExtend
    from .rotary import *
    from .rotary.base import RotaryEncoding as RotaryEncoding
    from .scoring import *
    from .scoring.base import ContentScoring as ContentScoring
    from .scoring.base import Pairs as Pairs
    from .scoring.base import PositionScoring as PositionScoring
    from .scoring.base import Scoring as Scoring

    NAMES: list[str]
else:
    from .._lazy import attach
    from . import additive, rotary, scoring

    _ENCODINGS = {
        "additive": " ".join(additive.__all__),
        "query_scale": "LearnedQueryScale QueryScale",
        "remapping": "DualChunk LeakyReRoPE ReRoPE SelfExtend",
        "rotary": " ".join(rotary.__all__),
        "scoring": " ".join(scoring.__all__),
    }
    _BASES = {
        "additive.base": "Additive",
        "base": "Encoding Parameter Tabular",
        "placed": "Placed",
        "qk_norm": "QKNorm",
        "query_scale": "QueryEncoding",
        "remapping": "RemappedRotary",
        "rotary.base": "RotaryEncoding",
        "scoring.base": "ContentScoring Pairs PositionScoring Scoring",
    }
    NAMES = sorted(" ".join(_ENCODINGS.values()).split())
    __getattr__, __dir__, __all__ = attach(__name__, _ENCODINGS, _BASES)
