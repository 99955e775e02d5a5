"""The largest sizes that functions and layers take: one more is refused, and they are not where this costs little."""

import pytest

from posenc_backends.numpy import QueryScaling, RotaryEmbedding
from posenc_core import LearnedQueryScale, QueryScale, Rotary, Sinusoidal
from posenc_core.attention.bias import alibi_slopes, sandwich_sums
from posenc_core.attention.buckets import (
    check_buckets,
    check_log_buckets,
    check_window,
    log_buckets,
    t5_buckets,
    window_index,
)
from posenc_core.transformer.tasks import addition, copy

from ..errors import rejects

LIMIT = 2**31
ROTARY = Rotary(head_dim=4, layout="half")
QUICK = [  # a call, its argument, and the largest size
    (lambda size: check_buckets(8, size, "both"), "max_distance", 2**24),
    (lambda size: check_log_buckets(8, size), "max_distance", 2**24),
    (lambda size: check_window("`size`", 1, size), "size", 2**13),
    (lambda size: check_window("`size`", size, 1), "size", 2**13),
    (lambda size: sandwich_sums(size, dim=2), "max_distance", 2**16),
    (lambda size: window_index(1, 1, prefix_tokens=size), "prefix_tokens", 1),
    (lambda size: addition(digits=size), "digits", 9),
    (lambda size: copy(longest=size), "longest", 2**20),
    (lambda size: QueryScale(length=size, scale=1.0), "length", LIMIT),
]
LARGE = [
    (lambda size: alibi_slopes(num_heads=size), "num_heads", 2**16),
    (lambda size: t5_buckets(8, size), "max_distance", 2**24),
    (lambda size: log_buckets(8, size), "max_distance", 2**24),
    (lambda size: RotaryEmbedding(ROTARY, max_len=size), "max_len", LIMIT),
    (lambda size: QueryScaling(LearnedQueryScale(num_heads=2), max_len=size), "max_len", LIMIT),
    (lambda size: Sinusoidal(dim=4).constants(size), "max_len", LIMIT),
    (lambda size: ROTARY.as_cache("vllm", size), "max_len", LIMIT),
]


@pytest.mark.parametrize(("call", "name", "largest"), QUICK + LARGE)
def test_one_more_than_the_largest_size_is_refused(call, name, largest):
    with rejects(ValueError, name, "at most", largest):
        call(largest + 1)


@pytest.mark.parametrize(("call", "name", "largest"), QUICK)
def test_the_largest_size_is_a_size(call, name, largest):
    call(largest)
