"""Functions below `posenc_core` refuse arguments that each pass alone, and do not fit together or into memory."""

from decimal import Decimal

import numpy as np
import pytest

from posenc_core.analysis import compare_rope, curves, precision
from posenc_core.attention.bias import distances, linear_bias
from posenc_core.attention.buckets import t5_buckets, window_index
from posenc_core.encodings import Rotary, SwinBias, T5Bias
from posenc_core.huggingface.diffusers import diffusers_positions
from posenc_core.tables import Envelope, cos_sin, write_cos_sin, write_derivatives
from posenc_core.tables.frequencies import spaced
from posenc_core.transformer import Transformer, answer, decode, embed, feed_forward, layer_norm, loss, read

from ..errors import rejects

ROTARY, FREQUENCIES = Rotary(head_dim=2, layout="half"), (Decimal(1), Decimal("0.5"))
TABLE, READ_ONLY = np.empty((2, 2), np.float32), np.broadcast_to(np.float32(0), (2, 2))
SIZES = {"vocabulary": 5, "max_len": 4, "num_hiddens": 8, "num_heads": 2, "num_blocks": 1}
MODEL = Transformer(**SIZES, position=Rotary(head_dim=4, layout="half"))
LEARNED, CONSTANTS = MODEL.initial(seed=0), MODEL.constants()
WEIGHTS, TOKENS = LEARNED | CONSTANTS, np.array([[3, 4, 0]])
NARROW = {"scale": np.ones(4), "shift": np.ones(4)}


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        (lambda: precision.loss(ROTARY, bounds=(0.1, 0.001)), "bounds", (0.1, 0.001)),
        (lambda: cos_sin([1000], FREQUENCIES, envelope=Envelope(FREQUENCIES)), "envelope", "exp(1000)"),
        (lambda: cos_sin([1], FREQUENCIES, envelope=Envelope(FREQUENCIES[:1])), "envelope", 1),
        (lambda: cos_sin([1], (Decimal("1e999999"),)), "frequencies", "1E+999999"),
        (lambda: cos_sin([1], (Decimal("nan"),)), "frequencies", "NaN"),
        (lambda: cos_sin([1], (Decimal(-1),)), "frequencies", "-1"),
        (lambda: write_cos_sin([1, 2], FREQUENCIES, cos=TABLE, factor=FREQUENCIES[:1]), "factor", 1),
        (lambda: write_cos_sin([1, 2, 3], FREQUENCIES, sin=TABLE), "sin", (2, 2)),
        (lambda: write_derivatives([1, 2, 3], FREQUENCIES, cos=TABLE), "cos", (2, 2)),
        (lambda: write_derivatives([1, 2], (-FREQUENCIES[0], FREQUENCIES[1]), cos=TABLE), "frequencies", Decimal(-1)),
        (lambda: write_cos_sin([1, 2], FREQUENCIES, cos=TABLE[0]), "cos", "(length, columns)"),
        (lambda: spaced(2, spans=FREQUENCIES[0]), "spans", "1"),
        (lambda: t5_buckets(2**13, 2**14), "num_buckets", 2**13),
        (lambda: T5Bias(num_heads=1, max_distance=2**30), "max_distance", 2**30),
        (lambda: window_index(2**10, 2**10), "width", (1024, 1024)),
        (lambda: SwinBias(num_heads=1, window=(2**10, 2**10)), "window", (1024, 1024)),
        (lambda: linear_bias(np.ones(2), np.ones(3)), "slope", (3,)),
        (lambda: distances(np.ones((2, 3)), np.ones((3, 3))), "key_positions", (2, 3)),
        (lambda: curves.rows(ROTARY, 2**21), "length", 2**21),
        (lambda: compare_rope({"head_dim": 4, "rope_theta": 1e4}, None), "b", "NoneType"),
        (lambda: diffusers_positions({"_class_name": "QwenImageTransformer2DModel"}, height=2**16, width=2**16),
         "height", 2**16),
        (lambda: loss(MODEL, LEARNED, TOKENS, TOKENS), "weights", "position.cos"),
        (lambda: loss(MODEL, LEARNED | {"position.cos": CONSTANTS["position.cos"]}, TOKENS, TOKENS), "weights",
         "position.sin"),
        (lambda: loss(MODEL, {k: v for k, v in WEIGHTS.items() if k != "labels"}, TOKENS, TOKENS), "weights", "labels"),
        (lambda: answer(MODEL, WEIGHTS | {"embedding": np.ones((1, 8))}, TOKENS, TOKENS), "weights", (1, 8)),
        (lambda: answer(MODEL, WEIGHTS, TOKENS, np.array([[5]])), "target", 5),
        (lambda: answer(MODEL, WEIGHTS, TOKENS, np.array([[-1]])), "target", -1),
        (lambda: answer(MODEL, WEIGHTS, TOKENS, np.array([[1], [1]])), "target", 2),
        (lambda: decode(MODEL, WEIGHTS, np.array([[1], [1]]), read(MODEL, WEIGHTS, TOKENS)), "tokens", 2),
        (lambda: embed(MODEL, WEIGHTS, "decoder", np.array([[9]]), range(1)), "tokens", 9),
        (lambda: layer_norm(NARROW, np.ones((1, 3, 8), np.float32)), "part", (4,)),
        (lambda: feed_forward(NARROW, np.ones((1, 3, 4), np.float32)), "part", "'inner'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call, argument, value):
    with rejects(ValueError if argument != "spans" and value != "NoneType" else TypeError, argument, value):
        call()


def test_a_table_that_is_read_only_is_refused():
    with rejects(TypeError, "cos", "float32"):
        write_cos_sin([1, 2], FREQUENCIES, cos=READ_ONLY)
