"""Values that no argument expects: what a function does with them is a result, or one sentence that names the argument.

`VALUES` is the one table; tests try each value for each argument of what they test.
"""

import math
import re
import signal
import warnings
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .errors import is_one_sentence, sentence

MOST = 300  # characters of a message


class Index:
    """An integer of another library: it has only `__index__`."""

    def __index__(self):
        return 2


class Nameless:
    """An object whose `repr` fails, as that of a broken proxy does."""

    def __repr__(self):
        raise RuntimeError("no repr")


class Array:
    """What looks like an array, and is none."""

    shape, dtype = (2, 4), "float32"


def nested(depth):
    """Return lists in each other."""
    inner = []
    for _ in range(depth):
        inner = [inner]
    return inner


VALUES = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "3": 3,
    "2**33": 2**33,
    "2**63": 2**63,
    "-2**63 - 1": -(2**63) - 1,
    "10**30": 10**30,
    "10**400": 10**400,
    "10**5000": 10**5000,
    "0.5": 0.5,
    "nan": math.nan,
    "inf": math.inf,
    "1e300": 1e300,
    "a complex number": 2j,
    "a decimal": Decimal(2),
    "a fraction": Fraction(1, 2),
    "an empty text": "",
    "a text": "half",
    "a long text": "a" * 10**5,
    "lines": "a\nb c",
    "bytes": b"half",
    "an empty list": [],
    "a list": [0, 1],
    "a ragged list": [[1, 2], [3]],
    "nested lists": nested(500),
    "a list of None": [None],
    "a list of texts": ["a", "b"],
    "a list of large integers": [2**70],
    "a tuple": (2, 4),
    "a dict": {"a": 1},
    "a set": {1},
    "a function": len,
    "a class": np.ndarray,
    "an object": object(),
    "an index": Index(),
    "without a repr": Nameless(),
    "no array": Array(),
    "a slice": slice(2),
    "np.True_": np.True_,
    "a scalar of int64": np.int64(2),
    "a scalar of float32": np.float32(2),
    "no axes": np.array(2),
    "no axes, real": np.array(2.5),
    "no numbers": np.zeros(0),
    "one axis": np.ones(4),
    "two axes": np.ones((2, 4)),
    "five axes": np.ones((1, 1, 1, 2, 4)),
    "integers": np.ones((2, 4), np.int64),
    "uint8": np.ones((2, 4), np.uint8),
    "uint64": np.full((2, 4), 2**63 + 1, np.uint64),
    "bools": np.ones((2, 4), bool),
    "half precision": np.ones((2, 4), np.float16),
    "complex numbers": np.ones((2, 4), np.complex64),
    "texts": np.full((2, 4), "1.5"),
    "dates": np.zeros((2, 4), "datetime64[s]"),
    "objects": np.full((2, 4), None),
    "records": np.zeros((2, 4), [("float", "i4")]),
    "another byte order": np.ones((2, 4), np.dtype("f4").newbyteorder()),
    "masked": np.ma.masked_array(np.ones((2, 4)), np.eye(2, 4)),
    "masked integers": np.ma.masked_array(np.arange(4), [0, 1, 0, 0]),
    "NaN": np.full((2, 4), np.nan),
    "a long row": np.arange(10**3),
}


def complaint(call, *, seconds=30, expected=(), names=()):
    """Return what is wrong with how a call ends that is given a hostile value; None if nothing is.

    Right are a result, and a `TypeError` or `ValueError` of one sentence that names some argument in backticks, within
    so many seconds. Also right are such errors of the `expected` types. If there are `names`, it must be one of them.
    """
    try:
        with warnings.catch_warnings(), _at_most(seconds):
            warnings.simplefilter("ignore")
            call()
    except (TypeError, ValueError, *expected) as error:
        return _flaw(type(error), sentence(error), expected, names)
    except (Exception, Slow) as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def _flaw(kind, message, expected, names):
    """Return what is wrong with the message of an error; None if nothing is."""
    flaws = {
        f"a {kind.__name__}": kind not in (TypeError, ValueError, *expected),
        f"{len(message)} characters": len(message) > MOST,
        "not one sentence": not is_one_sentence(message),
        f"not one of {names}": names and not any(f"`{name}`" in message for name in names),
        "names nothing": not re.search(r"`[^`]+`|Positions|lengths", message),
    }
    found = [flaw for flaw, is_found in flaws.items() if is_found]
    return f"{', '.join(found)}: {message[:200]}" if found else None


class Slow(BaseException):
    """Raised by the alarm, through all that catches `Exception`."""


@contextmanager
def _at_most(seconds):
    def stop(*_):
        raise Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
