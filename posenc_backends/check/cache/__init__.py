"""Check whether a decoder with a cache of keys and values computes what the same decoder computes without one."""

from .protocol import Decoder
from .result import CacheResult
from .run import check_cache

__all__ = ["CacheResult", "Decoder", "check_cache"]
