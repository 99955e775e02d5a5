"""The models whose files have another layout are those whose weights transformers permutes while it loads them."""

from transformers import conversion_mapping

from posenc_core.huggingface.facts.models import MODELS
from posenc_core.huggingface.facts.towers import TOWERS


def permuted_types():
    """Return the types of models in the table of transformers whose weights are permuted for RoPE."""
    table = conversion_mapping._build_checkpoint_conversion_mapping()
    operations = {
        name: [operation for one in converters for operation in getattr(one, "operations", None) or []]
        for name, converters in table.items()
        if isinstance(converters, list)
    }
    return {name for name, found in operations.items() if any("PermuteForRope" in type(one).__name__ for one in found)}


def test_the_models_are_those_of_the_table_of_transformers():
    ours = {name for name, facts in (MODELS | TOWERS).items() if facts.permuted}
    assert permuted_types() == {{"kimi_k25_vision": "kimi_k25"}.get(name, name) for name in ours}
