"""Check a whole model beside its config, layer by layer."""

from .result import LayerResult, ModelResult
from .run import check_model

__all__ = ["LayerResult", "ModelResult", "check_model"]
