"""A call passes through few functions and few files of ours, with the kernel and without it."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
# Guards, not targets: twice the number of calls and of files that are aimed at.
CALLS = {
    "rope(q)": 50,
    "rope(q), one token": 50,
    "PositionalEncoding(64)(x)": 40,
    "PositionalEncoding(64)(x), one token": 40,
}
FILES = {"rope(q)": 12, "rope(q), one token": 12}


@pytest.fixture(scope="module", params=[False, True], ids=["as installed", "without the kernel"])
def counted(request):
    """The counts of each call: in this process, or in one of its own, without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        from architecture import in_subprocess, way

        return in_subprocess("way", kernel="off") if request.param else way()


@pytest.mark.parametrize(("call", "most"), CALLS.items())
def test_a_call_passes_through_few_functions(counted, call, most):
    assert 0 < counted[call]["calls"] <= most, counted[call]["calls by file"]


@pytest.mark.parametrize(("call", "most"), FILES.items())
def test_a_call_passes_through_few_files(counted, call, most):
    assert 0 < counted[call]["files"] <= most, counted[call]["calls by file"]
