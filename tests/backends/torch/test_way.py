"""A call passes through few functions and few files of ours, with the kernel and without it."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
# The most functions and files of each call: what `benchmarks/call_path.py` counted last, and at most 5 % more.
MOST = {
    "rope(q)": (18, 8),
    "rope(q), one token": (18, 8),
    "rope(q, k, positions=tensor)": (37, 10),
    "rope(q, k, positions=rows)": (40, 12),
    "PositionalEncoding(64)(x)": (14, 8),
    "PositionalEncoding(64)(x), one token": (14, 8),
    "QueryScaling(QueryScale)(q)": (22, 8),
    "MultiHeadAttention(64, 4)(x, x, x)": (53, 10),
    "MultiHeadAttention(64, 4, position=Rotary)(x, x, x)": (97, 18),
    "MultiHeadAttention(64, 4, position=Alibi)(x, x, x)": (90, 17),
    "AttentionBias(Alibi)(scores)": (44, 13),
    "AttentionBias(T5Bias)(scores)": (48, 14),
}


@pytest.fixture(scope="module", params=[False, True], ids=["as installed", "without the kernel"])
def counts(request):
    """The counts of each call: in this process, or in one of its own, without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        from architecture import in_subprocess
        from call_path import layers

        return in_subprocess("way", kernel="off") if request.param else layers()


@pytest.mark.parametrize("call", MOST)
def test_a_call_passes_through_few_functions_and_files(counts, call):
    calls, files = MOST[call]
    assert 0 < counts[call]["calls"] <= calls, counts[call]["calls by file"]
    assert 0 < counts[call]["files"] <= files, counts[call]["calls by file"]


def test_every_layer_that_is_counted_is_bounded(counts):
    assert set(MOST) == {call for call in counts if not call.startswith("load")}
