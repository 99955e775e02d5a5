"""Scoring encodings: biases of attention scores."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .alibi import Alibi as Alibi
    from .cope import Cope as Cope
    from .deberta import DebertaBias as DebertaBias
    from .decomposed import DecomposedBias as DecomposedBias
    from .dynamic import DynamicPositionBias as DynamicPositionBias
    from .fire import Fire as Fire
    from .forgetting import ForgettingBias as ForgettingBias
    from .kerple import Kerple as Kerple
    from .relative_logits import RelativeLogits as RelativeLogits
    from .sandwich import Sandwich as Sandwich
    from .shaw import ShawBias as ShawBias
    from .swin import SwinBias as SwinBias
    from .swin_v2 import SwinV2Bias as SwinV2Bias
    from .t5 import T5Bias as T5Bias
    from .transformer_xl import TransformerXLBias as TransformerXLBias
else:
    from ..._lazy import attach

    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "alibi": "Alibi",
            "cope": "Cope",
            "deberta": "DebertaBias",
            "decomposed": "DecomposedBias",
            "dynamic": "DynamicPositionBias",
            "fire": "Fire",
            "forgetting": "ForgettingBias",
            "kerple": "Kerple",
            "relative_logits": "RelativeLogits",
            "sandwich": "Sandwich",
            "shaw": "ShawBias",
            "swin": "SwinBias",
            "swin_v2": "SwinV2Bias",
            "t5": "T5Bias",
            "transformer_xl": "TransformerXLBias",
        },
    )
