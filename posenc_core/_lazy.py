"""Import a module of a package when a name of it is first read (PEP 562), as `lazy_loader.attach` does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, *tables: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose modules are imported when they are needed.

    Args:
        package: its `__name__`.
        tables: the public names of each module, separated by spaces; a module is named relative to the package.
    """
    module_of = {name: module for table in tables for module, names in table.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{module_of[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*vars(sys.modules[package]), *module_of})

    return __getattr__, __dir__, sorted(module_of, key=lambda name: (not name.isupper(), name))
