"""Import a module of ours right after another one, so that what the compiler needs costs nothing until it is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def import_after(first: str, second: str) -> None:
    """Import the module `second` once `first` has been imported: now if that is so, else when somebody imports it."""
    if first in sys.modules:
        import_module(second)
    else:
        sys.meta_path.insert(0, _Finder(first, second))


class _Finder(MetaPathFinder):
    """Finds nothing itself; it has the module that others find followed by another one."""

    def __init__(self, first: str, second: str) -> None:
        self.first, self.second = first, second

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that others find for the first module, with another loader; None for all others."""
        if name != self.first or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.second)
        return spec


class _Loader(Loader):
    """Loads as another loader does, and imports a module afterwards."""

    def __init__(self, loader: Loader, second: str) -> None:
        self.loader, self.second = loader, second

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that the other loader makes."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, with its own loader; then import the other one."""
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        import_module(self.second)
