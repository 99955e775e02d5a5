"""ndonnx: a graph of ONNX is drawn, whatever the length, and onnxruntime computes it."""

import ndonnx as ndx
import numpy as np
import onnxruntime
import pytest

from posenc_core import Alibi, Rotary, Sinusoidal, T5Bias, attend, rotate
from posenc_core.encodings.placed import Placed

from .formulas import UNIT, attended, rotated, slack


def exported(function, **arguments):
    """A function of lazy arrays, drawn as a graph, written and read again."""
    inputs = {name: ndx.argument(shape=shape, dtype=dtype) for name, (shape, dtype) in arguments.items()}
    model = ndx.build(inputs, {"result": function(**inputs)})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda **numbers: session.run(None, numbers)[0]


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_rotation_of_any_length(layout, dtype, rng):
    tables = ("n", 3), ndx.float32
    run = exported(
        lambda x, cos, sin: rotate(x, cos, sin, layout=layout),
        x=((2, 3, "n", 8), getattr(ndx, dtype)),
        cos=tables,
        sin=tables,
    )
    order = [0, 2, 4, 1, 3, 5, 6, 7] if layout == "half" else list(range(8))
    for length in (53, 7, 16):
        x = rng.normal(size=(2, 3, length, 8)).astype(dtype)
        cos, sin = Rotary(head_dim=6, layout=layout).cos_sin(range(length))
        result = run(x=x[..., order], cos=cos, sin=sin)[..., np.argsort(order)]
        limit = 8 * UNIT * np.abs(x).max() + (np.spacing(np.abs(x).max()) if dtype == "float16" else 0)
        assert result.dtype == x.dtype
        np.testing.assert_allclose(result[..., :6], rotated(x[..., :6], np.arange(length)), rtol=0, atol=limit)
        np.testing.assert_array_equal(result[..., 6:], x[..., 6:])


def test_attention_of_any_length(rng):
    sizes = {"q": "n", "k": "m", "v": "m"}
    run = exported(attend, **{name: ((2, 4, size, 8), ndx.float32) for name, size in sizes.items()})
    for lengths in ((7, 9, 9), (16, 1, 1)):
        q, k, v = (rng.normal(size=(2, 4, n, 8)).astype(np.float32) for n in lengths)
        np.testing.assert_allclose(run(q=q, k=k, v=v), attended(q, k, v), rtol=0, atol=slack(q, k, v))


def test_attention_with_positions(rng):
    position = Placed(Rotary(head_dim=8, layout="interleaved"), range(7), range(9))
    sizes = {"q": 7, "k": 9, "v": 9}
    tokens = {name: ((2, 4, size, 8), ndx.float32) for name, size in sizes.items()}
    q, k, v = (rng.normal(size=(2, 4, n, 8)).astype(np.float32) for n in sizes.values())
    result = exported(lambda **arrays: attend(**arrays, position=position), **tokens)(q=q, k=k, v=v)
    rotated_tokens = rotated(q, np.arange(7)), rotated(k, np.arange(9)), v
    np.testing.assert_allclose(result, attended(*rotated_tokens), rtol=0, atol=2 * slack(*rotated_tokens))


def test_a_bias_of_any_length():
    alibi = Alibi(num_heads=2)
    slopes = ndx.asarray(alibi.constants(0)["slopes"])
    positions = ("n",), ndx.int64
    run = exported(
        lambda queries, keys: alibi.score({"slopes": slopes}, queries, keys), queries=positions, keys=positions
    )
    for length in (7, 16):
        result = run(queries=np.arange(length), keys=2**20 + np.arange(length))
        distances = np.arange(length)[:, None] - 2**20 - np.arange(length)
        np.testing.assert_array_equal(result, np.array([2.0**-4, 2.0**-8])[:, None, None] * distances)


def test_rows_of_a_table_are_taken():
    table = Sinusoidal(dim=6).table(range(100))
    run = exported(lambda positions: ndx.take(ndx.asarray(table), positions, axis=0), positions=(("n",), ndx.int64))
    np.testing.assert_array_equal(run(positions=np.array([99, 3])), table[[99, 3]])


def test_rows_are_taken_by_int64_alone():
    """The standard's `take` has any integers; here is the reason for what does not run below, without our code."""
    with pytest.raises(TypeError, match="int64"):
        ndx.take(ndx.asarray(np.eye(2)), ndx.asarray(np.array([0], np.int32)), axis=0)


@pytest.mark.xfail(raises=TypeError, reason="`take` of ndonnx asks for int64, the standard for any integers.")
def test_buckets_are_looked_up(rng):
    bias = T5Bias(num_heads=4, num_buckets=32, max_distance=128)
    weights = {
        name: ndx.asarray(rng.normal(size=each.shape).astype(np.float32)) for name, each in bias.parameters().items()
    }
    q, k, v = (ndx.asarray(rng.normal(size=(2, 4, 5, 8)).astype(np.float32)) for _ in "qkv")
    attend(q, k, v, position=Placed(bias, range(5), range(5), weights))
