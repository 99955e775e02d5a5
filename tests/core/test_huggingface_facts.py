"""What is known of a model stands in one record, and beside it at most in the table of all its encodings."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from posenc_core import huggingface
from posenc_core.huggingface.facts.models import MODELS, OTHERS
from posenc_core.huggingface.facts.towers import TOWERS

HOME = Path(huggingface.__file__).parent
TYPES = {*MODELS, *OTHERS, *TOWERS}


def names_in(value):
    """Yield the strings that are keys of dicts or items of sets, tuples and lists; `"one two"` is two."""
    for node in ast.walk(value):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        for item in items:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield from item.value.split()


def tables():
    """Return the types of models in each table at the top of a file, by the names of both, and in each file of JSON."""
    found = {}
    for path in HOME.rglob("*.json"):
        names = names_in(ast.parse(path.read_text(encoding="utf-8"), mode="eval"))
        found[path.relative_to(HOME).as_posix()] = TYPES.intersection(names)
    for path in HOME.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if types := TYPES.intersection(names_in(node.value)):
                    found[f"{path.relative_to(HOME).as_posix()}: {ast.unparse(target)}"] = types
    return found


def test_no_model_type_is_in_more_than_two_tables():
    places = defaultdict(list)
    for table, types in tables().items():
        for one in types:
            places[one].append(table)
    assert places.keys() == TYPES
    assert {one: where for one, where in places.items() if len(where) > 2} == {}


def test_tables_by_model_type_stand_with_the_facts():
    assert {table.partition("/")[0] for table in tables()} == {"facts"}


@pytest.mark.parametrize("name", ["load_rope", "load_position", "load_query_scale"])
def test_a_function_is_not_hidden_by_the_module_of_its_name(name):
    program = (
        f"import posenc_core.huggingface.{name}; from posenc_core import huggingface; "
        f"from posenc_core.huggingface.{name} import {name} as inner; from posenc_core.huggingface import {name}; "
        f"print(huggingface.{name} is {name} is inner, callable(inner))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True"
