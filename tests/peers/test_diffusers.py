"""The transformers of diffusers beside what `load_rope` makes of their configs: tables, rotated queries, positions."""

import inspect

import pytest
from diffusers import ConfigMixin, ModelMixin, models

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
