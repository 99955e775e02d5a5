"""`attend_by_block`: compiled, with gradients of parameters, and with unknown lengths."""

import numpy as np
import pytest

from posenc_core import T5Bias, attend, attend_by_block, attention_state, causal, merge_states
from posenc_core.encodings import Placed

RNG = np.random.default_rng(29)
ENCODING = T5Bias(num_heads=2, num_buckets=8, max_distance=6)


def test_gradients_agree_with_attend(on, to_backend):
    if not hasattr(on.testing, "gradient"):
        pytest.skip("This framework has no gradients.")
    x, weights, table = (to_backend(RNG.normal(size=shape)) for shape in ((1, 2, 12, 4), (1, 2, 12, 4), (8, 2)))

    def of(attention, **options):
        def of_tokens(x):
            return attention(x, x, x, position=Placed(ENCODING, range(12), range(12), {"table": table}), **options)

        def of_table(table):
            return attention(x, x, x, position=Placed(ENCODING, range(12), range(12), {"table": table}), **options)

        gradients = on.testing.gradient(of_tokens, x, weights), on.testing.gradient(of_table, table, weights)
        return [on.backend.to_numpy(each) for each in gradients]

    def by_parts(q, k, v, *, position):
        parts = [slice(first, first + 4) for first in (8, 0, 4)]
        at = [position.part(slice(0, 12), keys) for keys in parts]
        states = [
            attention_state(q, k[..., keys, :], v[..., keys, :], position=each, mask=causal, block=4)
            for keys, each in zip(parts, at, strict=True)
        ]
        return merge_states(*states).result

    mask = to_backend(causal(np.arange(12), np.arange(12)), np.bool_)
    reference = of(attend, mask=mask)
    for blockwise in (of(attend_by_block, block=6, mask=causal), of(by_parts)):
        for got, wanted in zip(blockwise, reference, strict=True):
            close = 8 * 2**-23 * np.abs(wanted).max()  # the limit of the golden cases
            np.testing.assert_allclose(got, wanted, atol=close)


def test_positions_for_each_row_and_masks_of_the_framework(on, to_backend):
    q, k = (to_backend(RNG.normal(size=(2, 2, 8, 4))) for _ in "qk")
    at = to_backend(RNG.integers(0, 9, (2, 8))), to_backend(RNG.integers(0, 9, (2, 8)))
    position = Placed(ENCODING, *at, {"table": to_backend(RNG.normal(size=(8, 2)))})
    got = attend_by_block(q, k, k, position=position, mask=causal, block=4)
    wanted = on.backend.to_numpy(attend(q, k, k, position=position, mask=causal(*at)))
    np.testing.assert_allclose(on.backend.to_numpy(got), wanted, atol=8 * 2**-23 * np.abs(wanted).max())


COMPILES_FUNCTIONS = ("torch", "jax", "paddle", "mlx")


def test_it_is_compiled(on, to_backend):
    if on.backend.__name__.split(".")[-1] not in COMPILES_FUNCTIONS:
        pytest.skip("This framework compiles no functions.")
    x, table = to_backend(RNG.normal(size=(1, 2, 12, 4))), to_backend(RNG.normal(size=(8, 2)))

    def attended(x, table):
        position = Placed(ENCODING, range(12), range(12), {"table": table})
        return attend_by_block(x, x, x, position=position, mask=causal, block=6)

    got = on.backend.to_numpy(on.testing.compiled(attended)(x, table))
    wanted = on.backend.to_numpy(attended(x, table))
    np.testing.assert_allclose(got, wanted, atol=8 * 2**-23 * np.abs(wanted).max())
