from collections import Counter

import pytest

from posenc_backends.conformance.cases import backend_under_test, cases, in_modes

LEFT = {"torch": (2, 3)}  # to `nox -s slow`, of each four compiled cases of a dtype: each starts a C++ compiler


def pytest_generate_tests(metafunc):
    name = metafunc.config.getoption("--backend")
    on, compiled = backend_under_test(name), Counter()
    marked = []
    for case in [*cases(), *in_modes(on)]:
        reason = case.known_failure(on.known_failures)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        marks += [pytest.mark.mode] if case.is_mode else []
        is_compiled = case.check == "compiled" and not case.is_mode
        compiled[case.dtype] += is_compiled
        is_left = is_compiled and compiled[case.dtype] % 4 in LEFT.get(name, ())
        marks += [pytest.mark.slow] if case.is_slow or is_left else []
        marked.append(pytest.param(case, id=case.name, marks=marks))
    metafunc.parametrize("case", marked)


def test_agrees_with_the_golden_numbers(on, case):
    measurement = case.run(on)
    assert measurement.passed, f"The error is {measurement.worst} ulp, the limit {measurement.limit}."
