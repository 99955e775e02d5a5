"""Inputs that were found by the fuzz session stay mended, and the session makes inputs of every kind."""

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from ..fuzz.__main__ import kind_of
from ..fuzz.found import FOUND
from ..fuzz.names import names_of, wrong
from ..fuzz.strategies import AREAS

EASY = list(HealthCheck)


@pytest.mark.parametrize("text", FOUND)
def test_it_ends_in_a_result_or_one_sentence(text):
    assert wrong(text) is None


@pytest.mark.filterwarnings("ignore")  # of configs whose keys are not all used
@pytest.mark.parametrize("area", sorted(set(AREAS) - {"requests"}))  # which need Dash
def test_the_session_would_see_a_raw_error(area):
    """Each area makes expressions that its names evaluate: some to a result, and some to a refusal."""
    ends = set()

    count = 12 if area == "configs" else 40  # `explain` takes its time

    @seed(1)
    @settings(phases=[Phase.generate], max_examples=count, database=None, deadline=None, suppress_health_check=EASY)
    @given(AREAS[area]("numpy"))
    def trial(text):
        compile(text, "<input>", "eval")
        try:
            eval(text, dict(names_of("numpy")))
        except (TypeError, ValueError):
            ends.add("refused")
        else:
            ends.add("taken")

    trial()
    assert ends == {"refused", "taken"}


def test_a_raw_error_is_one():
    assert kind_of(wrong("[1][1]")) == kind_of(wrong("[2, 3][5]")) != kind_of(wrong("{}['a']"))
    assert wrong("load_rope(CONFIG)") is None
    assert "not finite" in wrong(
        "used(type('Broken', (Sinusoidal,), {'constants': lambda *_: {'a': array((), 'f4') / 0}}), dim=2)"
    )
