"""Modules of d2l: each is one file, which asks on import for all that any page of the book draws or downloads with."""

import importlib
import importlib.util
import sys
import warnings
from types import ModuleType

VERSIONS = {"paddle": "0.17.6"}  # the last with Paddle, which the English edition does not have
WANTED = (
    "IPython",
    "PIL",
    "matplotlib",
    "matplotlib.pyplot",
    "matplotlib_inline",
    "pandas",
    "requests",
    "scipy",
    "scipy.spatial",
    "tensorflow",
    "tensorflow_datasets",
    "torchvision",
)


class StandIn(ModuleType):
    """A module of which all may be imported, and nothing used."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def book(framework):
    """d2l's module for a framework, all of its own text; what it draws with is a stand-in where it is not installed.

    Raises:
        ImportError: if d2l is not installed, or in a version without the framework.
    """
    version = VERSIONS.get(framework, "1.0.3")
    missing = [name for name in WANTED if importlib.util.find_spec(name.partition(".")[0]) is None]
    sys.modules.update((name, StandIn(name)) for name in missing)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it sets filters of its own
            return importlib.import_module(f"d2l.{framework}")
    except ModuleNotFoundError as error:
        if error.name in ("d2l", f"d2l.{framework}"):
            raise ImportError(f"`{error.name}` is missing; run `pip install --no-deps d2l=={version}`.") from error
        raise
    finally:
        for name in missing:
            del sys.modules[name]
