"""The transformers of diffusers beside what `load_rope` makes of their configs: tables, rotated queries, positions."""

import pytest

from posenc_core.huggingface import load_rope
from posenc_core.huggingface.diffusers import RULES

from .pictures import CASES, difference


def config_of(case):
    return {"_class_name": case.name} | {key: value for key, value in case.config.items() if key != "fps"}


def test_each_class_is_compared():
    assert {case.name for case in CASES} == set(RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tables_and_rotated_queries(case):
    config = config_of(case)
    assert difference(load_rope(config), config | case.tokens, case) == ""
