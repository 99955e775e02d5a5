"""Tasks to train the Transformer on: random pairs of texts, whose answers depend on the order of characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import takewhile
from typing import Literal, NamedTuple, SupportsIndex, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from .._array_api.checks import (
    check_integer,
    check_items,
    check_known,
    check_numbers,
    check_rank,
    check_type,
    host_array,
    shown,
)
from .config import END, PAD

Tokens: TypeAlias = npt.NDArray[np.int32]
Draw: TypeAlias = Callable[[np.random.RandomState], tuple[str, str, str]]
Split: TypeAlias = Literal["train", "test"]

MOST_DIGITS = 9  # that `randint` can draw at once on every machine
LONGEST = 2**20  # question
LARGEST = 2**20  # batch
HELD_OUT = 10  # one question in ten is kept for the test
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DIGITS = "〇一二三四五六七八九"
FIRST_DAY, DAYS = date(1900, 1, 1), 73049  # to the end of 2099


class Batch(NamedTuple):
    """Questions and answers as tokens.

    Attributes:
        source: the questions, shape `(size, source_len)`, padded with `PAD`.
        target: the answers, each followed by `END`, shape `(size, target_len)`, padded with `PAD`.
    """

    source: Tokens
    target: Tokens


@dataclass(frozen=True, kw_only=True)
class Task:
    """Questions and answers in characters.

    Attributes:
        name: the name of the task.
        symbols: the characters; the first one is token 3, after `PAD`, `START` and `END`.
        source_len: the number of characters of the longest question.
        target_len: the number of tokens of the longest answer, including its `END`.
        draw: returns a random question, its answer, and the key by which pairs are held out for the test.
    """

    name: str
    symbols: str
    source_len: int
    target_len: int
    draw: Draw

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return len(self.symbols) + 3

    @property
    def max_len(self) -> int:
        """The length of the longest sequence."""
        return max(self.source_len, self.target_len)

    def pairs(self, size: int, *, seed: Sequence[int], split: Split = "train") -> list[tuple[str, str]]:
        """Draw `size` questions with their answers; those of the test do not occur in training.

        Args:
            size: number of pairs.
            seed: integers; they determine the pairs, on every machine.
            split: `"train"` or `"test"`.
        Returns:
            Tuples of a question and its answer.
        Raises:
            TypeError: if `size` or a number of `seed` is not an integer.
            ValueError: if `size` is not from 1 to 2**20, a number of `seed` not from 0 to 2**32 - 1, or `split` is
                unknown.

        >>> reverse(shortest=3, longest=4).pairs(2, seed=(0, 0))
        [('ffib', 'biff'), ('gaeh', 'heag')]
        """
        size = check_integer("size", size, maximum=LARGEST)
        check_known("split", split, ("train", "test"))
        numbers = check_items("seed", seed, SupportsIndex, "integers")
        if not numbers:
            raise ValueError("`seed` must have an integer, got none.")
        random = np.random.RandomState([check_integer("seed", one, minimum=0, maximum=2**32 - 1) for one in numbers])
        pairs: list[tuple[str, str]] = []
        while len(pairs) < size:
            question, answer, key = self.draw(random)
            if (crc32(key.encode()) % HELD_OUT == 0) == (split == "test"):
                pairs.append((question, answer))
        return pairs

    def batch(self, size: int, *, seed: Sequence[int], split: Split = "train") -> Batch:
        """Draw `pairs`, and return them as tokens; arguments and errors are those of `pairs`."""
        pairs = self.pairs(size, seed=seed, split=split)
        source, target = (np.full((len(pairs), length), PAD) for length in (self.source_len, self.target_len))
        for row, (question, answer) in enumerate(pairs):
            source[row, : len(question)] = self.tokens(question)
            target[row, : len(answer) + 1] = [*self.tokens(answer), END]
        return Batch(source.astype(np.int32), target.astype(np.int32))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text.

        Raises:
            TypeError: if `text` is not a string.
            ValueError: if a character is not in `symbols`.
        """
        check_type("text", text, str, "a string")
        unknown = sorted(set(text) - set(self.symbols))
        if unknown:
            raise ValueError(f"`text` must be made of {shown(self.symbols)}, got {shown(unknown[0])}.")
        return [self.symbols.index(symbol) + 3 for symbol in text]

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens up to the first `END`, without padding and `START`.

        Raises:
            TypeError: if `tokens` are not integers.
            ValueError: if they have not one axis, or one is not a token of this task.
        """
        numbers = host_array("tokens", tokens)
        numbers = numbers if numbers.size else numbers.astype(np.int32)
        check_numbers("tokens", numbers, kinds=("int", "uint"))
        check_rank("tokens", numbers, minimum=1, maximum=1, axes="(length,)")
        wrong = numbers[(numbers < 0) | (numbers >= self.vocabulary)]
        if wrong.size:
            raise ValueError(f"`tokens` must be from 0 to {self.vocabulary - 1}, got {shown(wrong[0].item())}.")
        before_end = list(takewhile(lambda token: token != END, numbers.tolist()))
        return "".join(self.symbols[token - 3] for token in before_end if token > END)


def dates() -> Task:
    """Return the task of writing dates in ISO 8601, from Chinese, English and mixtures of both.

    >>> dates().pairs(3, seed=(0, 2))
    [('二〇三一年 Nov 16', '2031-11-16'), ('2011年4月1日', '2011-04-01'), ('1985年6月19日', '1985-06-19')]
    """
    symbols = "".join(sorted({*"0123456789年月日十 ,./()-", *DIGITS, *"the of st nd rd (day first)", *"".join(MONTHS)}))
    return Task(name="dates", symbols=symbols, source_len=26, target_len=11, draw=_date)


def copy(*, shortest: int = 5, longest: int = 12) -> Task:
    """Return the task of writing letters again."""
    return _letters("copy", shortest, longest, lambda letters: letters)


def reverse(*, shortest: int = 5, longest: int = 12) -> Task:
    """Return the task of writing letters from the last to the first."""
    return _letters("reverse", shortest, longest, lambda letters: letters[::-1])


def addition(*, digits: int = 3) -> Task:
    """Return the task of adding two numbers of up to `digits` digits; the sum is written from its last digit on.

    >>> addition().pairs(2, seed=(0, 0))
    [('5+952', '759'), ('817+43', '068')]
    """
    digits = check_integer("digits", digits, maximum=MOST_DIGITS)

    def draw(random: np.random.RandomState) -> tuple[str, str, str]:
        a, b = (int(random.randint(10 ** random.randint(1, digits + 1))) for _ in "ab")
        question = f"{a}+{b}"
        return question, str(a + b)[::-1], question

    return Task(name="addition", symbols="0123456789+", source_len=2 * digits + 1, target_len=digits + 2, draw=draw)


TASKS: dict[str, Callable[[], Task]] = {"dates": dates, "copy": copy, "reverse": reverse, "addition": addition}


def _letters(name: str, shortest: int, longest: int, answer: Callable[[str], str]) -> Task:
    shortest = check_integer("shortest", shortest)
    longest = check_integer("longest", longest, minimum=shortest, maximum=LONGEST)

    def draw(random: np.random.RandomState) -> tuple[str, str, str]:
        drawn = random.randint(10, size=random.randint(shortest, longest + 1))
        letters = "".join("abcdefghij"[letter] for letter in drawn)
        return letters, answer(letters), letters

    return Task(name=name, symbols="abcdefghij", source_len=longest, target_len=longest + 1, draw=draw)


def _date(random: np.random.RandomState) -> tuple[str, str, str]:
    day = FIRST_DAY + timedelta(days=int(random.randint(DAYS)))
    written = WORDINGS[random.randint(len(WORDINGS))](day)
    return written, day.isoformat(), day.isoformat()


def _chinese(number: int) -> str:
    """Return a number below 100 in Chinese: 21 is 二十一."""
    tens, ones = divmod(number, 10)
    return (DIGITS[tens] if tens > 1 else "") + ("十" if tens else "") + (DIGITS[ones] if ones else "")


def _year(day: date) -> str:
    return "".join(DIGITS[int(digit)] for digit in str(day.year))


def _ordinal(number: int) -> str:
    ending = "th" if number in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _month(day: date) -> str:
    return MONTHS[day.month - 1]


WORDINGS: tuple[Callable[[date], str], ...] = (
    lambda day: f"{_year(day)}年{_chinese(day.month)}月{_chinese(day.day)}日",
    lambda day: f"{day.year}年{day.month}月{day.day}日",
    lambda day: f"{day.year}年{_chinese(day.month)}月{_chinese(day.day)}日",
    lambda day: f"{_year(day)}年 {_month(day)[:3]} {day.day}",
    lambda day: f"{_month(day)} {day.day}日, {day.year}年",
    lambda day: f"{_month(day)[:3]} {day.day}, {day.year}",
    lambda day: f"{_month(day)} {day.day}, {day.year}",
    lambda day: f"the {_ordinal(day.day)} of {_month(day)} {day.year}",
    lambda day: f"{day.day} {_month(day)[:3]} {day.year}",
    lambda day: f"{day.day}.{day.month}.{day.year}",
    lambda day: f"{day.day}/{day.month}/{day.year} (day first)",
    lambda day: f"{day.month}/{day.day}/{day.year}",
)
