import pytest

from posenc_backends.conformance.cases import backend_under_test, cases_of


def shown(case):
    """Return what a compiled case shows: the encoding and the dtype in this check, its options, the form of a call."""
    check, encoding = case.run.func.__name__, case.run.keywords["case"].get("encoding") or {}
    options = {option for option in encoding.items() if isinstance(option[1], (str, bool))}
    call = {*case.label.split(", ")} if case.encoding == "MultiHeadAttention" else set()
    return {(check, case.encoding), (check, case.dtype)} | options | call


def shown_in_machine_code(case):
    """Return what the code shows that a compiler generates: the encoding, and the dtype in this check."""
    return {case.encoding, case.kind, (case.run.func.__name__, case.dtype)}


def fewest(cases, shown=shown):
    """Return the names of few cases that show all that these do: first those that show most, each starts a compiler."""
    facts = {case.name: shown(case) for case in cases}
    left, names = set().union(*facts.values()), set()
    while left:
        name = max(facts, key=lambda name: len(facts[name] & left))
        names.add(name)
        left -= facts[name]
    return names


def pytest_generate_tests(metafunc):
    on = backend_under_test(metafunc.config.getoption("--backend"))
    cases = [(case, case.known_failure(on.known_failures)) for case in cases_of(on)]
    compiled = [(case, reason) for case, reason in cases if case.check == "compiled" and not case.is_mode]
    chosen = fewest(case for case, reason in compiled if not reason) | fewest(
        case for case, reason in compiled if reason
    )
    traced = set()
    if hasattr(on.testing, "traced_graph"):
        right = [case for case, reason in compiled if case.name in chosen and not reason]
        traced = {case.name for case in right} - fewest(right, shown_in_machine_code)
    left_out = {case.name for case, _ in compiled} - chosen | traced
    marked = []
    for case, reason in cases:
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        marks += [pytest.mark.mode] if case.is_mode else []
        if case.name in traced:
            marked.append(pytest.param(case, True, id=f"{case.name}, traced", marks=marks))
        slow = [pytest.mark.slow] if case.is_slow or case.name in left_out else []
        marked.append(pytest.param(case, False, id=case.name, marks=[*marks, *slow]))
    metafunc.parametrize(("case", "is_traced"), marked)


def test_agrees_with_the_golden_numbers(on, case, is_traced, traced, monkeypatch):
    if is_traced:
        monkeypatch.setattr(on.testing, "compiled", traced)
    measurement = case.run(on)
    assert measurement.passed, f"The error is {measurement.worst} ulp, the limit {measurement.limit}."
