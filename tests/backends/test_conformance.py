import pytest

from posenc_backends.conformance.cases import cases, in_modes, subject


def pytest_generate_tests(metafunc):
    on = subject(metafunc.config.getoption("--backend"))
    marked = []
    for case in [*cases(), *in_modes(on)]:
        gap = case.gap(on.room)
        marks = [pytest.mark.xfail(reason=gap, strict=True)] if gap else []
        marks += [pytest.mark.mode] if case.is_mode else []
        marks += [pytest.mark.slow] if case.is_slow else []
        marked.append(pytest.param(case, id=case.name, marks=marks))
    metafunc.parametrize("case", marked)


def test_agrees_with_the_golden_numbers(on, case):
    outcome = case.run(on)
    assert outcome.passed, f"off by {outcome.worst} units in the last place, allowed are {outcome.limit}"
