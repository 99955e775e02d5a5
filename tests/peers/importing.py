"""Modules of peers whose packages ask, on import, for what this environment lacks."""

import importlib
import importlib.util
import sys


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
