"""Modules of peers whose packages ask, on import, for what this environment lacks."""

import importlib
import importlib.util
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


def lone(name):
    """A module without the `__init__` of the packages that it is in.

    timm's asks for torchvision and torchtune's for an old torchao; neither has a build for every torch.
    """
    *packages, _ = name.split(".")
    for depth, _ in enumerate(packages, start=1):
        package = ".".join(packages[:depth])
        if package not in sys.modules:
            sys.modules[package] = importlib.util.module_from_spec(importlib.util.find_spec(package))
    return importlib.import_module(name)


def whole(name, *, without):
    """Return a package that asks, on import, for another one that its models do not need: empty classes stand for it.

    What `lone` has imported of the package stays as it is where it is in use.
    """
    if hasattr(sys.modules.get(name), "__version__"):  # which `lone` does not run
        return sys.modules[name]
    for one in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[one]
    with _absent(without):
        return importlib.import_module(name)


@contextmanager
def _absent(name):
    """Let a package be imported that is not installed."""
    if importlib.util.find_spec(name):
        yield
        return
    finder = _Finder(name)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for one in [one for one in sys.modules if one.partition(".")[0] == name]:
            del sys.modules[one]


class _Finder:
    """Finds empty modules of a package, and makes them."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == self.name else None

    def create_module(self, spec):
        return _Empty(spec.name)

    def exec_module(self, module):
        pass


class _Empty(ModuleType):
    def __getattr__(self, name):
        return _attribute(self, name)


class _EmptyClass(type):
    def __getattr__(cls, name):
        return _attribute(cls, name)


def _attribute(owner, name):
    """Return an empty class for any name that is not one of Python's own."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _EmptyClass(name, (), {})
