"""Explain, compare, extend and draw encodings: pairs, precision, curves, the RoPE of a config, that of two configs."""

# mypy: implicit-reexport

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .extension import plan_extension as plan_extension
    from .same import compare_rope as compare_rope
else:
    from .._lazy import attach

    __getattr__, __dir__, __all__ = attach(__name__, {"extension": "plan_extension", "same": "compare_rope"})
