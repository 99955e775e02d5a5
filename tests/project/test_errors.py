"""The check of errors itself: a wrong type, argument, value or form of the sentence must fail."""

import pytest

from ..errors import names, rejects


def check(message, argument, *values):
    with rejects(ValueError, argument, *values):
        raise ValueError(message)


def test_a_sentence_with_argument_and_value_passes():
    check("`size` must be at least 1, got 0.", "size", 0)
    check("\x1b[1m`size` must be at least 1, got 0.\x1b[0m\n\nArguments received: …", "size", 0)


@pytest.mark.parametrize(
    ("message", "argument", "value"),
    [
        ("size must be at least 1, got 0.", "size", 0),
        ("`length` must be at least 1, got 0.", "size", 0),
        ("`size` must be at least 1, got -10.", "size", 0),
        ("`size` must be at least 1, got 0", "size", 0),
        ("`size` must be at least 1,\ngot 0.", "size", 0),
        ("`size` must be at least 1, got 0. Give another.", "size", 0),
    ],
)
def test_other_sentences_fail(message, argument, value):
    with pytest.raises(AssertionError):
        check(message, argument, value)


@pytest.mark.parametrize("message", ["got 10.", "got -1.", "got 1.5.", "got x1.", "got (2,)."])
def test_a_value_is_a_word_of_its_own(message):
    assert not names(message, 1)
    assert names("got 1.", 1)
