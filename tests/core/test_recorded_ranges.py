"""The ranges and defaults of arguments, and the properties of encodings, as recorded in `recorded_ranges.json`.

Each number of each encoding, scaling and transformer is tried with values on both sides of every limit. After a change
on purpose, write the file anew with `python -m tests.core.test_recorded_ranges`, and read the difference.
"""

import inspect
import json
from importlib import import_module
from itertools import groupby
from pathlib import Path
from pkgutil import walk_packages

import numpy as np
import pytest

import posenc_core

from .test_bad_values import SWEEP
from .test_hostile_arguments import CALLS

RECORDED = Path(__file__).with_name("recorded_ranges.json")
BITS = (2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 20, 24, 31, 32)
VALUES = (*range(4), *sorted({2**bits + step for bits in BITS for step in (-1, 0, 1)} - {3}), 0.5, 1.5, 3.0, 1e9, 1e30)
SMALL = (-2, -1, 0, 1, 2, 3, 4, 5, 8, 9, 0.5)
EXAMPLES = {f"{cls.__name__}{options}": (cls, options) for cls, options, _ in SWEEP}


def numbers():
    """Return the names of all arguments that take numbers, each with its class, its other arguments and its name."""
    found = {}
    for cls, options, wrong in SWEEP:
        for field in wrong:
            value = options.get(field, inspect.signature(cls).parameters[field].default)
            if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
                found[f"{cls.__name__}{options}.{field}"] = cls, options, field
    return found


NUMBERS = numbers()


def ranges(cls, options, field):
    """Return a line for each run of values that have the same answer."""
    answers = [(value, answer(cls, options | {field: value}, value)) for value in VALUES]
    runs = [(said, [value for value, _ in run]) for said, run in groupby(answers, key=lambda one: one[1])]
    return [f"{run[0]} … {run[-1]}: {said}" for said, run in runs]


def answer(cls, options, value):
    """Return the message of the error, with the value left out, or that there is none."""
    try:
        cls(**options)
    except (TypeError, ValueError) as error:
        said = f"{type(error).__name__}: {error}".replace(f"got {value!r}", "got it")
        return said.replace(f" {value!r},", " it,") if value > 4 else said
    return "accepted"


def calls():
    """Return the functions with an argument that is a number, each with its arguments and the name of that one."""
    found = {}
    for function, arguments in CALLS.items():
        for name, value in (arguments or {}).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                called = getattr(function, "__qualname__", type(function).__name__)
                found[f"{getattr(function, '__module__', '')} {called}({name})"] = function, arguments, name
    return found


CALLED = calls()


def results(function, arguments, name):
    """Return a line for each number: the result of the call, or its error."""
    return [f"{value}: {result(function, arguments | {name: value})}" for value in SMALL]


def result(function, arguments):
    given = {name: value for name, value in arguments.items() if not name.startswith("*")}
    several = [one for name, value in arguments.items() if name.startswith("*") for one in value]
    given = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}
    try:
        return summary(function(*several, **given))
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def summary(value):
    """Return a result in a few words: of an array its shape and a sum with different weights."""
    if isinstance(value, tuple | list):
        return [summary(one) for one in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        weighted = value.astype(np.float64).ravel() @ np.arange(1.0, value.size + 1)
        return f"{value.dtype.name} {value.shape} {round(weighted, 2) + 0.0:.10g}"
    return str(value)[:200] if isinstance(value, str | int | float | dict) else type(value).__name__


def properties(encoding):
    """Return the public properties and traits of an encoding, and its parameters."""
    kinds = property | bool | int | str | tuple
    names = [name for name, _ in inspect.getmembers(type(encoding), lambda one: isinstance(one, kinds))]
    found = {name: getattr(encoding, name) for name in names if not name.startswith("_")}
    parameters = encoding.parameters() if hasattr(encoding, "parameters") else {}
    return {name: str(value) for name, value in (found | parameters).items()}


def defaults():
    """Return the defaults of all public functions, classes and methods of the core."""
    found = {}
    for module in walk_packages(posenc_core.__path__, "posenc_core."):
        for name, one in vars(import_module(module.name)).items():
            if getattr(one, "__module__", "") == module.name and not name.startswith("_") and callable(one):
                found |= {f"{module.name}.{name}": one}
                members = vars(one).items() if inspect.isclass(one) else ()
                found |= {f"{module.name}.{name}.{member}": made for member, made in members if is_method(made)}
    return {name: values for name, one in sorted(found.items()) if (values := defaults_of(one))}


def is_method(one):
    """Return whether a member is a method that is written in the class, and not by `dataclass` or `NamedTuple`."""
    return inspect.isfunction(one) and not one.__name__.startswith("__")


def defaults_of(one):
    """Return the defaults of a function or a class, as text."""
    try:
        parameters = inspect.signature(one).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {one.name: text(one.default) for one in parameters if one.default is not one.empty}


def text(value):
    """Return a default as text: functions and classes by their names."""
    return getattr(value, "__qualname__", None) or repr(value)


def current():
    """Return what the file should say."""
    return {
        "ranges": {name: ranges(*one) for name, one in NUMBERS.items()},
        "properties": {name: properties(cls(**options)) for name, (cls, options) in EXAMPLES.items()},
        "results": {name: results(*one) for name, one in CALLED.items()},
        "defaults": defaults(),
    }


@pytest.fixture(scope="module")
def record():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NUMBERS)
def test_the_range_of_each_number(name, record):
    assert ranges(*NUMBERS[name]) == record["ranges"][name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_properties_of_each_encoding(name, record):
    cls, options = EXAMPLES[name]
    assert properties(cls(**options)) == record["properties"][name]


@pytest.mark.parametrize("name", CALLED)
def test_the_results_of_each_function(name, record):
    assert results(*CALLED[name]) == record["results"][name]


def test_the_defaults_of_each_function_and_class(record):
    assert defaults() == record["defaults"]


def test_nothing_else_is_recorded(record):
    for part, names in (("ranges", NUMBERS), ("properties", EXAMPLES), ("results", CALLED)):
        assert record[part].keys() == names.keys()


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(current(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
