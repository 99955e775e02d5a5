"""A trained table resized to another grid, loaded natively, compiled, and with gradients."""

import numpy as np
import pytest

from posenc_core import Learned, resize_bias_table, resize_table

OLD, NEW = Learned(dim=8, length=1 + 14 * 14, std=1.0), Learned(dim=8, length=1 + 16 * 20)


def load_torch(layer, table):
    layer.load_state_dict({"table": table})
    return layer


def load_keras(layer, table):
    layer.learned["table"].assign(table)
    return layer


def load_paddle(layer, table):
    layer.set_state_dict({"table": table})
    return layer


def load_mxnet(layer, table):
    layer.table.set_data(table)
    return layer


def load_jax(layer, table):
    import jax

    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(layer), [table])


def load_numpy(layer, table):
    layer.arrays["table"] = table
    return layer


LOAD = {
    "torch": load_torch,
    "keras": load_keras,
    "paddle": load_paddle,
    "mxnet": load_mxnet,
    "jax": load_jax,
    "numpy": load_numpy,
    "strict": load_numpy,
}


def make_layer(on, encoding):
    return on.testing.eval_mode(on.backend.PositionalEncoding(encoding.dim, encoding=encoding))


def test_a_trained_layer_is_resized_to_another_grid(on, backend, to_backend):
    trained = make_layer(on, OLD)
    resized = resize_table(trained.P, size=(16, 20), prefix_tokens=1)[0, ...]
    name, layer = backend.__name__.rpartition(".")[2], make_layer(on, NEW)
    if name in LOAD:
        layer = LOAD[name](layer, resized)
    else:
        layer = on.testing.with_parameters(layer, {"table": backend.to_numpy(resized)})
    added = backend.to_numpy(layer(to_backend(np.zeros((2, NEW.length, 8), np.float32))))
    np.testing.assert_array_equal(added, [backend.to_numpy(resized)] * 2)
    rows = backend.to_numpy(trained.P)[0]
    np.testing.assert_array_equal(added[0], resize_table(rows, size=(16, 20), prefix_tokens=1))
    assert np.abs(added[0, 1:] - added[0, :1]).min() > 0
    assert added[0, 0].tobytes() == rows[0].tobytes()


@pytest.mark.parametrize("method", ["antialiased_cubic", "aligned_linear"])
def test_tables_are_resized_in_compiled_code(on, backend, to_backend, method, traced):
    """PyTorch generates machine code for the smaller of both graphs."""
    if "compiled" in on.known_failures or backend.__name__.endswith("mxnet"):
        pytest.skip("This framework compiles no functions.")
    table = np.random.default_rng(2).normal(size=(13, 3)).astype(np.float32)

    def resized(table):
        return resize_table(table, size=(5, 2), old_size=(3, 4), prefix_tokens=1, method=method)

    compiled = (on.testing.compiled if method == "aligned_linear" else traced)(resized)
    got = backend.to_numpy(compiled(to_backend(table)))
    np.testing.assert_allclose(got, resized(table), rtol=0, atol=2.0**-22 * np.abs(table).max())


@pytest.mark.parametrize("method", ["antialiased_cubic", "geometric"])
def test_gradients_are_the_transposed_resize(on, backend, to_backend, method):
    """The matrix of the resize is the resized identity."""
    if "gradient" in on.known_failures:
        pytest.skip("This framework has no gradients.")
    words = {"window": (3, 4), "old_window": (3, 2), "prefix_tokens": 1, "method": method}
    table, cotangent = (np.random.default_rng(4).normal(size=(n, 2)).astype(np.float32) for n in (18, 38))
    got = on.testing.gradient(lambda table: resize_bias_table(table, **words), to_backend(table), to_backend(cotangent))
    weights = resize_bias_table(np.eye(18), **words)
    wanted = weights.T @ cotangent
    np.testing.assert_allclose(backend.to_numpy(got), wanted, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(backend.to_numpy(got)[-3:], cotangent[-3:])
