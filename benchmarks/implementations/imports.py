"""Import modules of peers whose packages import what these environments lack."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any


def installed(module: str) -> bool:
    """Return whether a module of this name can be imported."""
    return module in sys.modules or importlib.util.find_spec(module) is not None


def import_without_init(name: str) -> Any:
    """Import a module without running the `__init__` of its packages, and return it."""
    *packages, _ = name.split(".")
    for depth, _ in enumerate(packages, start=1):
        package = ".".join(packages[:depth])
        spec = importlib.util.find_spec(package) if package not in sys.modules else None
        if spec is not None:
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = list(spec.submodule_search_locations or ())
    return importlib.import_module(name)
