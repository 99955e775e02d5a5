"""Check errors by type, argument and value; the wording of the sentence is free."""

import re
from contextlib import contextmanager

import pytest


@contextmanager
def rejects(error, argument, *values):
    """Check that the block raises an error of one sentence that names an argument and its value.

    Args:
        error: The type of the error, or a tuple of types.
        argument: The name that must stand in backticks; None where a check does not know which argument it was given.
        values: What must stand in the sentence besides: strings as they are, others by their `repr`.
    """
    with pytest.raises(error) as raised:
        yield raised
    message = sentence(raised.value)
    assert argument is None or f"`{argument}`" in message, message
    assert is_one_sentence(message), message
    for value in values:
        assert names(message, value), f"{value!r} is missing: {message}"


def sentence(error):
    """Return the message of an error; Keras prints that of a layer in bold among lines of its own."""
    bold = re.search(r"\x1b\[1m(.*)\x1b\[0m", str(error), re.DOTALL)
    return bold[1] if bold else str(error)


def is_one_sentence(message):
    """Return whether a message is one line that ends with a period or an ellipsis, and no second sentence."""
    return re.fullmatch(r"\S[^\n]*[.…]", message) is not None and not re.search(r"\.\s+[A-Z`]", message)


def names(message, value):
    """Return whether a value stands in a message as a word of its own: 1 is not in "10", "1.5" or "-1"."""
    text = value if isinstance(value, str) else repr(value)
    return re.search(rf"(?<![\w.-]){re.escape(text)}(?!\w|\.\d)", message) is not None
