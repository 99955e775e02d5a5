import pytest

from posenc_backends.conformance.cases import backend_under_test, cases, in_modes


def pytest_generate_tests(metafunc):
    on = backend_under_test(metafunc.config.getoption("--backend"))
    marked = []
    for case in [*cases(), *in_modes(on)]:
        reason = case.known_failure(on.known_failures)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        marks += [pytest.mark.mode] if case.is_mode else []
        marks += [pytest.mark.slow] if case.is_slow else []
        marked.append(pytest.param(case, id=case.name, marks=marks))
    metafunc.parametrize("case", marked)


def test_agrees_with_the_golden_numbers(on, case):
    measurement = case.run(on)
    assert measurement.passed, f"The error is {measurement.worst} ulp, the limit {measurement.limit}."
