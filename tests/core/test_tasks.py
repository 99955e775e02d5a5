"""The tasks: determined by their seeds, correct, within their lengths, with separate questions for the test."""

import re
from dataclasses import replace
from datetime import date
from zlib import crc32

import numpy as np
import pytest

from posenc_core.transformer.config import END, PAD
from posenc_core.transformer.tasks import MONTHS, TASKS, _chinese, _ordinal, addition, copy, dates, reverse

from ..errors import rejects

FROZEN = [84742082, 2724514221, 2262714954, 469984613, 1012799209, 3468952452, 2345358440, 2562965704]


@pytest.mark.parametrize("name", TASKS)
def test_batches_are_those_of_their_seed(name):
    task = TASKS[name]()
    first, again, other = (task.batch(50, seed=seed) for seed in ((0, 3), (0, 3), (0, 4)))
    assert all(np.array_equal(*both) for both in zip(first, again, strict=True))
    assert not np.array_equal(first.source, other.source)
    assert first.source.dtype == first.target.dtype == np.int32


def test_the_stream_is_frozen():
    batches = [TASKS[name]().batch(100, seed=(7, 7), split=split) for name in TASKS for split in ("train", "test")]
    assert [crc32(b.source.tobytes() + b.target.tobytes()) for b in batches] == FROZEN


@pytest.mark.parametrize("name", TASKS)
def test_pairs_come_back_from_their_tokens(name):
    task = TASKS[name]()
    pairs, batch = task.pairs(200, seed=(1,)), task.batch(200, seed=(1,))
    assert batch.source.shape == (200, task.source_len)
    assert batch.target.shape == (200, task.target_len)
    assert task.max_len == max(task.source_len, task.target_len)
    for (question, answer), source, target in zip(pairs, batch.source, batch.target, strict=True):
        assert (task.text(source), task.text(target)) == (question, answer)
        assert target[len(answer)] == END
        assert (target[len(answer) + 1 :] == PAD).all()
        assert max(*source, *target) < task.vocabulary


@pytest.mark.parametrize("name", TASKS)
def test_questions_of_the_test_are_in_no_batch_of_the_training(name):
    """Compare answers for dates, which have several wordings each, and questions for the other tasks."""
    task, which = TASKS[name](), int(name == "dates")
    trained = {pair[which] for pair in task.pairs(20000, seed=(0,))}
    tested = {pair[which] for pair in task.pairs(2000, seed=(0,), split="test")}
    assert len(tested) > 200
    assert not trained & tested


def test_answers_are_right():
    for question, answer in addition(digits=3).pairs(300, seed=(2,)):
        a, b = question.split("+")
        assert int(a) + int(b) == int(answer[::-1])
    assert all(question == answer for question, answer in copy().pairs(50, seed=(2,)))
    assert all(list(question) == list(reversed(answer)) for question, answer in reverse().pairs(50, seed=(2,)))
    assert {len(question) for question, _ in reverse(shortest=3, longest=6).pairs(200, seed=(2,))} == {3, 4, 5, 6}


def numbers(wording):
    """Return year, month and day of a wording, by rules written anew here."""
    text = wording
    for place, month in enumerate(MONTHS, 1):
        text = re.sub(rf"\b{month}\b|\b{month[:3]}\b", f"m{place} ", text)
    digits = "〇一二三四五六七八九"
    text = re.sub(rf"[{digits}]{{4}}", lambda year: "".join(str(digits.index(c)) for c in year[0]), text)
    text = re.sub(
        r"([二三]?)十([一二三四五六七八九]?)",
        lambda n: str(10 * (digits.index(n[1]) if n[1] else 1) + (digits.index(n[2]) if n[2] else 0)),
        text,
    )
    text = re.sub(r"[一二三四五六七八九]", lambda n: str(digits.index(n[0])), text)
    year = int(re.search(r"(?<!\d)(\d{4})", text)[1])
    named = re.search(r"m(\d+)", text)
    rest = [int(n) for n in re.findall(r"(?<![\dm])\d{1,2}(?!\d)", text)]
    if named:
        return year, int(named[1]), rest[0]
    if "/" in text and "day first" not in text:
        return year, *rest
    return year, *(rest if "月" in text else rest[::-1])


def test_dates_are_correct():
    pairs = dates().pairs(3000, seed=(3,))
    for question, answer in pairs:
        assert date(*numbers(question)).isoformat() == answer, question
    wordings = {
        re.sub(
            r"[〇一二三四五六七八九十]+",
            "N",
            re.sub(
                r"\d+(st|nd|rd|th)?",
                "D",
                re.sub("|".join(m + "|" + m[:3] for m in MONTHS), lambda m: "M" if m[0] in MONTHS else "m", question),
            ),
        )
        for question, _ in pairs
    }
    assert len(wordings) >= 12


def test_what_cannot_be_is_told():
    with rejects(ValueError, "split", "'validation'"):
        dates().batch(2, seed=(0,), split="validation")
    with rejects(ValueError, "longest", "4"):
        reverse(longest=4)
    with rejects(ValueError, "text", "'k'"):
        copy().tokens("ak")
    with rejects(ValueError, "size", "0"):
        copy().batch(0, seed=(0,))


@pytest.mark.parametrize(("last", "day"), [(False, "1900-01-01"), (True, "2099-12-31")])
def test_dates_lie_in_two_centuries(last, day):
    class Extreme:
        """Draws the first or the last number."""

        def randint(self, end):
            return end - 1 if last else 0

    question, answer, _ = dates().draw(Extreme())
    assert answer == day
    assert question == ("12/31/2099" if last else "一九〇〇年一月一日")


def test_numbers_of_seeds_have_32_bits():
    assert len(copy().pairs(2, seed=(0, 2**32 - 1))) == 2
    for wrong in (-1, 2**32):
        with rejects(ValueError, "seed", wrong):
            copy().pairs(2, seed=(0, wrong))


def test_a_batch_has_at_most_2_to_the_20_pairs():
    with rejects(ValueError, "size", 2**20 + 1):
        copy().pairs(2**20 + 1, seed=(0,))

    def draw(_):
        raise LookupError

    with pytest.raises(LookupError):
        replace(copy(), draw=draw).pairs(2**20, seed=(0,))


def test_ordinal_numbers_of_days():
    special = {1: "st", 21: "st", 31: "st", 2: "nd", 22: "nd", 3: "rd", 23: "rd"}
    for number in range(1, 32):
        assert _ordinal(number) == f"{number}{special.get(number, 'th')}"


def test_numbers_of_days_in_chinese():
    ones = ["", *"一二三四五六七八九"]
    wanted = [*ones[1:], *(f"十{one}" for one in ones), *(f"二十{one}" for one in ones), "三十", "三十一"]
    assert [_chinese(number) for number in range(1, 32)] == wanted
