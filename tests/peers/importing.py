"""Modules of peers whose packages ask, on import, for what this environment lacks."""

import importlib
import importlib.util
import sys
from types import ModuleType


def lone(name):
    """A module without the `__init__` of the packages that it is in.

    timm's asks for torchvision and torchtune's for an old torchao; neither has a build for every torch.
    """
    *packages, _ = name.split(".")
    for depth, _ in enumerate(packages, start=1):
        package = ".".join(packages[:depth])
        if package not in sys.modules:
            spec = importlib.util.find_spec(package)
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = list(spec.submodule_search_locations)
    return importlib.import_module(name)
