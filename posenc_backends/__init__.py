"""One backend for each framework: the same layers, under the same names, native in each.

from posenc_backends.torch import RotaryEmbedding
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

HOST_NAMES = ("numpy", "strict")
NAMES = tuple(
    name
    for name in ("torch", "keras", "paddle", "mxnet", "jax", "mlx")
    if (Path(__file__).with_name(name) / "__init__.py").exists()  # a backend is a folder that can be deleted
)

__all__ = ["HOST_NAMES", "NAMES", "load", "require"]


def load(name: str) -> ModuleType:
    """Import the backend of a framework.

    Args:
        name: one of `NAMES` or `HOST_NAMES`.
    Returns:
        The module `posenc_backends.<name>`.
    Raises:
        ValueError: if the name is unknown; the message lists the names.
        ImportError: if the framework is not installed; the message names the package.

    >>> load("numpy").__name__
    'posenc_backends.numpy'
    """
    from posenc_core._array_api.checks import check_known

    check_known("name", name, NAMES + HOST_NAMES)
    return import_module(f"{__name__}.{name}")


def require(module: str, *, extra: str | None = None, newest: tuple[int, int] | None = None) -> None:
    """Raise `ImportError` unless a module is installed.

    Args:
        module: its name, and without an extra that of its package.
        extra: the extra of posenc that installs it.
        newest: the newest Python that it runs on.
    """
    if find_spec(module) is None:
        if newest is not None and sys.version_info[:2] > newest:
            needed, running = (".".join(map(str, version)) for version in (newest, sys.version_info[:2]))
            raise ImportError(f"`{module}` needs Python {needed} or older, this is Python {running}.", name=module)
        from posenc_core._requirement import requirement

        install = module if extra is None else requirement(extra)
        raise ImportError(f'`{module}` is not installed; run `pip install "{install}"`.', name=module)
