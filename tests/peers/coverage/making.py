"""Records of the rotary modules that a model makes."""

import inspect
from contextlib import ExitStack, contextmanager
from functools import wraps
from unittest.mock import patch


@contextmanager
def recorded(module, pattern):
    """Record which classes of a module, by the pattern of their names, are made, and with which arguments."""
    made = []
    with ExitStack() as stack:
        for name, cls in vars(module).items():
            if inspect.isclass(cls) and pattern.search(name):
                stack.enter_context(patch.object(cls, "__init__", _recording(cls, made)))
        yield made


def _recording(cls, made):
    honest, signature = cls.__init__, inspect.signature(cls.__init__)

    @wraps(honest)  # for the signature of classes that inherit it
    def init(self, *given, **named):
        if type(self) is cls:  # not a class that is derived from it
            bound = signature.bind(self, *given, **named)
            bound.apply_defaults()
            made.append((cls.__name__, {name: _plain(one) for name, one in list(bound.arguments.items())[1:]}))
        honest(self, *given, **named)

    return init


def _plain(value):
    """Return a list as a tuple."""
    return tuple(value) if isinstance(value, list) else value
