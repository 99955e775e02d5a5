"""Reading a config passes through few functions and few files of ours."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# The most functions and files of each call: what `benchmarks/call_path.py` counted last, and 5 % for other versions.
# A quarter of them record which keys are read.
MOST = {"load_rope(Llama 3)": (344, 14)}


@pytest.fixture(scope="module")
def counts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        from call_path import loaders

        return loaders()


@pytest.mark.parametrize("call", MOST)
def test_a_call_passes_through_few_functions_and_files(counts, call):
    calls, files = MOST[call]
    assert 0 < counts[call]["calls"] <= calls, counts[call]["calls by file"]
    assert 0 < counts[call]["files"] <= files, counts[call]["calls by file"]
