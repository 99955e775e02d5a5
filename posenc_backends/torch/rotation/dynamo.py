"""Marks of functions for the tracer of `torch.compile`, and shorter functions that it traces in place of the core's.

Before each call, compiled code checks a guard for everything that was looked at while it was traced: each function,
each entry of a dictionary, each attribute. For one token, the guards on the core take longer than the rotation.

To load the compiler takes a second, which `import posenc_backends.torch` is not to take; so all of this waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from posenc_core._array_api import kernels
from posenc_core.rotation import pairing_of, rotate, rotate_pairs

from . import compiled, gpu
from .kernel import KERNEL

COMPILER = "torch._dynamo"


def uncompiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)`, which no compiler traces."""
    return function(*arguments)


def after_compiler(prepare: Callable[[], Any]) -> None:
    """Call a function once the compiler has been imported: now if that is so, else when somebody imports it."""
    if COMPILER in sys.modules:
        prepare()
    else:
        sys.meta_path.insert(0, _Finder(prepare))


class _Finder(MetaPathFinder):
    """Finds nothing itself; lets the loader that others find for the compiler call a function afterwards."""

    def __init__(self, prepare: Callable[[], Any]) -> None:
        self.prepare = prepare

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that others find for the compiler; None for all other modules."""
        if name != COMPILER:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_prepare(module: ModuleType) -> None:
                sys.meta_path.remove(self)  # not before: whoever looks for a module need not import it
                execute(module)
                self.prepare()

            spec.loader.exec_module = execute_and_prepare  # type: ignore[method-assign]
        return spec


def _kernel_for(x: Any) -> Any:
    return KERNEL if type(x) is Tensor else None


def _rotate(
    x: Any, cos: Any, sin: Any, *, layout: Any, placement: Any = "lead", blocks: Any = 1, out: Any = None
) -> Any:
    if out is None and placement == "lead" and blocks == 1:
        rotated = compiled.rotate_few(x, cos, sin, layout)
        if rotated is not None:
            return rotated
    return rotate_pairs(x, cos, sin, pairing=pairing_of(layout, placement, blocks), out=out)


def _prepare() -> None:
    global uncompiled  # noqa: PLW0603
    uncompiled = torch.compiler.disable(uncompiled)
    torch.compiler.assume_constant_result(compiled.is_exporting)
    torch.compiler.assume_constant_result(compiled.is_transformed)
    if not gpu.IS_INTERPRETED:
        torch.compiler.substitute_in_graph(kernels.kernel_for)(_kernel_for)
        torch.compiler.substitute_in_graph(rotate)(_rotate)


after_compiler(_prepare)
