"""The minutes of `nox` that CONTRIBUTING.md states: of each session, and few enough."""

import ast

import pytest

from posenc_backends import NAMES

from ..minutes import PAGE, minutes_in, minutes_on, with_minutes

MOST = 105  # minutes of all sessions together; the goal is 80, as two cores share them for 40
NOXFILE = PAGE.with_name("noxfile.py")
LOG = """nox > Ran 3 sessions in 53 minutes:
nox > * lint: success, took 42 seconds
nox > * backend(mlx): success, took a minute
nox > * core: success, took 19 minutes
"""


def sessions():
    """Return the sessions that `nox` runs, and the one that they require."""
    names = {"wheel"}
    for function in ast.parse(NOXFILE.read_text(encoding="utf-8")).body:
        if isinstance(function, ast.FunctionDef):
            decorators = [ast.unparse(each) for each in function.decorator_list]
            if any(each.startswith("nox.session") and "default=False" not in each for each in decorators):
                of_each = any("BACKEND_NAMES" in each for each in decorators)
                names |= {f"{function.name}({name})" for name in NAMES} if of_each else {function.name}
    return names


def test_every_session_has_its_minutes():
    assert {*minutes_on(PAGE.read_text(encoding="utf-8"))} == sessions()


def test_all_sessions_take_no_longer_than_before():
    assert 0 < sum(minutes_on(PAGE.read_text(encoding="utf-8")).values()) <= MOST


def test_the_table_is_written_from_what_nox_prints():
    page = "Text\n\n| session | minutes |\n|---|---|\n| old | 3 |\n\n| other | table |\n|---|---|\n| a | b |\n"
    written = with_minutes(page, minutes_in(LOG))
    assert written == page.replace("| old | 3 |\n", "| core | 19 |\n| backend(mlx) | 1 |\n| lint | 0.7 |\n")
    assert minutes_on(written) == {"core": 19, "backend(mlx)": 1, "lint": 0.7}


@pytest.mark.parametrize("log", [LOG + "nox > * docs: failed, took 10 minutes\n", "nothing"])
def test_a_run_that_failed_is_not_written(log):
    with pytest.raises(ValueError, match="`log` must end with sessions that all succeeded"):
        minutes_in(log)
