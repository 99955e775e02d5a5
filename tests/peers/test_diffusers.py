"""The transformers of diffusers beside what `load_rope` makes of their configs: tables, rotated queries, positions."""

import inspect

import pytest
import torch
from diffusers import ConfigMixin, ModelMixin, models
from diffusers.models.transformers import transformer_ltx2 as ltx2

from posenc_core.huggingface import load_rope
from posenc_core.huggingface.diffusers_classes import REFUSED, RULES, WITHOUT_ROPE

from . import references
from .diffusers_cases import CASES
from .pictures import difference

KNOWN = {*RULES, *REFUSED, *WITHOUT_ROPE}


def config_of(case):
    return {"_class_name": case.name} | {key: value for key, value in case.config.items() if key != "fps"}


def test_each_class_is_compared():
    assert {case.name for case in CASES} == set(RULES)


def test_each_model_is_known():
    found = [getattr(models, name) for name in dir(models) if name[0].isupper()]
    found = [
        one for one in found if inspect.isclass(one) and issubclass(one, ModelMixin) and issubclass(one, ConfigMixin)
    ]
    assert len(found) > len(KNOWN) // 2
    assert {one.__name__ for one in found if "Multi" not in one.__name__} - {"ModelMixin"} <= KNOWN


@pytest.mark.parametrize("case", [*CASES, *references.CASES], ids=lambda case: case.name)
def test_tables_and_rotated_queries(case):
    config = config_of(case)
    tokens = case.tokens if isinstance(case.tokens, dict) else {}
    assert difference(load_rope(config), config | tokens, case) == ""


def test_split_halves_of_heads_are_the_interleaved_rope_of_reordered_channels():
    """What the refusal of `rope_type` "split" advises."""
    make = ltx2.LTX2AudioVideoRotaryPosEmbed
    position = torch.rand(1, 3, 5, 2) * 4
    kinds = {kind: make(dim=40, num_attention_heads=2, rope_type=kind)(position) for kind in ("interleaved", "split")}
    x = torch.randn(1, 5, 40)

    def reorder(channels, *shape):
        return channels.reshape(1, 5, 2, *shape).mT.reshape(1, 5, 40)

    interleaved = ltx2.apply_interleaved_rotary_emb(reorder(x, 2, 10), kinds["interleaved"])
    split = ltx2.apply_split_rotary_emb(x, kinds["split"])
    torch.testing.assert_close(reorder(interleaved, 10, 2), split)
