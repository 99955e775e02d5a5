"""The fused CPU rotation in programs of JAX: its bits, the rules of its primitive, and where the formula stays."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations, product

import jax
import numpy as np
import pytest
from jax import export
from jax import numpy as jnp
from jax.experimental import jet, serialize_executable
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec
from jax.test_util import check_grads

from posenc_backends._kernels import library
from posenc_backends.jax import RotaryEmbedding
from posenc_core import Rotary
from posenc_core.rotation import pairing_of, rotate_pairs, rotate_reference

from .plain import tokens

PAIRINGS = [
    *product(("half", "interleaved", "interleaved_to_half"), ("lead", "trail"), (1, 2)),
    *(("half", "spread", 1), ("interleaved", "spread", 1)),
]
NEAR = {"rtol": 2e-6, "atol": 2e-6}  # XLA contracts the products of the formula
CALL = 'custom_call_target="posenc_rotate"'
PAIRING = pairing_of("interleaved")
X, W = jnp.asarray(tokens(2, 3, 5, 16)), jnp.asarray(tokens(2, 3, 5, 16, seed=1))
COS, SIN = jnp.asarray(tokens(2, 5, 8, seed=2))

pytestmark = pytest.mark.skipif(jax.__version_info__ < (0, 7), reason="the formula alone rotates before JAX 0.7")


@pytest.fixture(autouse=True)
def kernel():
    """The module under test, whose kernel runs."""
    from posenc_backends.jax import kernel

    assert kernel._runs()
    return kernel


def fused(x, cos=COS, sin=SIN):
    return rotate_pairs(x, cos, sin, pairing=PAIRING)


def formula(x, cos=COS, sin=SIN):
    return rotate_reference(x, cos, sin, PAIRING)


def compiled(call, *arrays):
    return jax.jit(call).lower(*arrays).compile().as_text()


def calls(call, *arrays):
    """Return how many calls of the kernel the compiled program has."""
    return compiled(call, *arrays).count(CALL)


def bits(x):
    """Return the bytes of the numbers, with one NaN for all."""
    return np.where(jnp.isnan(x), np.nan, np.asarray(x, np.float64)).tobytes()


def special(*shape):
    """Return tokens, every seventh of which is a number that is hard to round."""
    numbers = np.array(tokens(*shape), np.float32)
    hard = [np.nan, np.inf, -np.inf, -0.0, 1e-42, 6e-8, 65520.0, 3e38]
    numbers.flat[::7] = np.resize(hard, numbers.flat[::7].size)
    return numbers


@pytest.mark.parametrize(
    ("layout", "placement", "blocks", "width"),
    [(*pairing, (88, 128)[(number + number // 2) % 2]) for number, pairing in enumerate(PAIRINGS)],
)
def test_bits_agree_with_the_reference_eager_and_compiled(layout, placement, blocks, width):
    pairing, (cos, sin) = pairing_of(layout, placement, blocks), tokens(2, 33, 44)
    for dtype in ("float32", "bfloat16", "float16"):
        with np.errstate(over="ignore"):
            x = jnp.asarray(special(2, 3, 33, width), dtype)
        for used in (pairing, pairing.inverse):
            call = lambda x, used=used: rotate_pairs(x, jnp.asarray(cos), jnp.asarray(sin), pairing=used)
            wanted = bits(rotate_reference(x, jnp.asarray(cos), jnp.asarray(sin), used))
            assert bits(call(x)) == wanted
            program = jax.jit(call).lower(x).compile()
            assert bits(program(x)) == wanted
            assert program.as_text().count(CALL) == 1
        with np.errstate(all="ignore"):
            on_host = rotate_reference(np.asarray(x), cos, sin, pairing) if dtype != "bfloat16" else None
        assert on_host is None or bits(rotate_pairs(x, jnp.asarray(cos), jnp.asarray(sin), pairing=pairing)) == bits(
            on_host
        )


def test_bits_agree_in_float64():
    with jax.enable_x64(True):
        x, (cos, sin) = jnp.asarray(tokens(3, 5, 16), "float64"), jnp.asarray(tokens(2, 5, 8), "float64")
        for dtype in ("float64", "float32"):  # float32 is rotated by float32 tables
            wanted = rotate_reference(np.asarray(x, dtype), np.asarray(cos), np.asarray(sin), PAIRING)
            for call in (fused, jax.jit(fused)):
                result = call(x.astype(dtype), cos, sin)
                assert result.dtype == dtype
                np.testing.assert_array_equal(result, wanted)
            assert calls(fused, x.astype(dtype), cos, sin) == 1


@pytest.mark.parametrize("rows", [(8,), (1, 8), (2, 1, 5, 8), (2, 3, 5, 8), (3, 1, 8), (1, 1, 5, 8)])
def test_tables_may_have_any_shape_that_fits(rows):
    cos, sin = jnp.asarray(tokens(2, *rows))
    program = jax.jit(fused).lower(X, cos, sin).compile()
    np.testing.assert_array_equal(program(X, cos, sin), formula(X, cos, sin))
    assert program.as_text().count(CALL) == 1


@pytest.mark.parametrize("axes", list(permutations(range(4))))
def test_transposed_tokens_are_read_as_they_lie(axes):
    given = X.transpose(np.argsort(axes).tolist())
    call = lambda x: fused(x.transpose(axes))
    program = jax.jit(call).lower(given).compile()
    np.testing.assert_array_equal(program(given), formula(X))
    text = program.as_text()
    assert "posenc_rotate" in text
    assert "transpose(" not in text
    assert " copy(" not in text


TRANSFORMS = {
    "grad": lambda f: jax.grad(lambda x: (f(x) * W).sum())(X),
    "grad of all": lambda f: jax.grad(lambda *arrays: (f(*arrays) * W).sum(), argnums=(0, 1, 2))(X, COS, SIN),
    "grad of tables": lambda f: jax.grad(lambda *tables: (f(X, *tables) * W).sum(), argnums=(0, 1))(COS, SIN),
    "jit of grad": lambda f: jax.jit(jax.grad(lambda x: (f(x) * W).sum()))(X),
    "value and grad": lambda f: jax.value_and_grad(lambda x: (f(x) ** 2).sum())(X),
    "jvp": lambda f: jax.jvp(f, (X,), (W,)),
    "jvp of all": lambda f: jax.jvp(f, (X, COS, SIN), (W, SIN, COS)),
    "jvp of one table": lambda f: jax.jvp(lambda sin: f(X, COS, sin), (SIN,), (COS,)),
    "linearize": lambda f: jax.linearize(f, X)[1](W),
    "linear transpose": lambda f: jax.linear_transpose(f, X)(W),
    "jacfwd": lambda f: jax.jacfwd(f)(X[:1, :1]),
    "jacrev": lambda f: jax.jacrev(f)(X[:1, :1]),
    "hessian": lambda f: jax.hessian(lambda x: (f(x) ** 3).sum())(X[:1, :1]),
    "hessian of tables": lambda f: jax.jit(jax.hessian(lambda cos: (f(X[:1, :1], cos, cos) ** 3).sum()))(COS),
    "vmap": lambda f: jax.vmap(f)(X),
    "vmap of vmap": lambda f: jax.jit(jax.vmap(jax.vmap(f)))(X),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda x: (f(x) ** 2).sum()))(X),
    "grad of vmap": lambda f: jax.grad(lambda x: (jax.vmap(f, in_axes=1)(x) ** 2).sum())(X),
    "scan": lambda f: jax.lax.scan(lambda carry, x: (f(carry), f(x)), X[0], X),
    "grad of scan": lambda f: jax.grad(lambda x: jax.lax.scan(lambda c, x: (c * f(x), None), W[0], x)[0].sum())(X),
    "while": lambda f: jax.lax.while_loop(lambda at: at[0] < 3, lambda at: (at[0] + 1, f(at[1])), (0, X)),
    "cond": lambda f: jax.jit(lambda x: jax.lax.cond(x.sum() > 0, f, lambda x: x, x))(jnp.abs(X)),
    "remat": lambda f: jax.jit(jax.grad(lambda x: (jax.checkpoint(lambda x: f(f(x)) ** 2)(x)).sum()))(X),
    "no jit": lambda f: _without_jit(lambda: jax.grad(lambda x: (f(x) * W).sum())(X)),
}


def _without_jit(call):
    with jax.disable_jit():
        return call()


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transformed_it_is_the_formula_transformed(transform):
    assert "posenc_rotate" in str(jax.make_jaxpr(lambda: transform(fused))())
    with jax.checking_leaks():
        found = transform(fused)
    for one, other in zip(*(jax.tree.leaves(result) for result in (found, transform(formula))), strict=True):
        np.testing.assert_allclose(one, other, **NEAR)


def test_taylor_polynomials_are_those_of_the_formula():
    found = [jet.jet(jax.jit(f), (X,), ((W, X),)) for f in (fused, formula)]
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(one, other, **NEAR)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_half_precision_are_rounded_once(dtype):
    x, w = X.astype(dtype), W.astype(dtype)
    for f in (fused, jax.jit(fused)):
        assert bits(jax.vjp(f, x)[1](w)[0]) == bits(jax.vjp(formula, x)[1](w)[0])


def test_derivatives_agree_with_differences():
    with jax.enable_x64(True):
        arrays = [jnp.asarray(array, "float64") for array in (X[:1, :1, :2], COS[:2], SIN[:2])]
        check_grads(lambda *arrays: fused(*map(jnp.asarray, arrays)), arrays, order=2)


@pytest.mark.parametrize(
    ("axis", "of_cos", "of_sin"),
    [*product((0, 1, 2, 3), (None,), (None,)), *product((None, 0, 2, 3), (0, 1, 2), (None, 0, 2))],
)
def test_vmap_along_any_axis(axis, of_cos, of_sin):
    place = lambda array, axis: array[0] if axis is None else jnp.moveaxis(array, 0, axis)
    arrays = [jnp.asarray(tokens(4, *shape, seed=3)) for shape in ((3, 5, 16), (5, 8), (5, 8))]
    axes = (axis, of_cos, of_sin)
    arrays = [place(array, axis) for array, axis in zip(arrays, axes, strict=True)]
    for out in (0, 1, -1):
        both = [jax.vmap(f, in_axes=axes, out_axes=out)(*arrays) for f in (fused, formula)]
        np.testing.assert_array_equal(*both)


def test_a_batch_of_one_axis_is_not_moved():
    program = compiled(jax.vmap(fused, in_axes=1, out_axes=1), X)
    assert "posenc_rotate" in program
    assert "transpose(" not in program
    assert " copy(" not in program


@pytest.fixture(scope="module")
def mesh():
    if len(jax.devices()) != 8:
        pytest.skip("XLA_FLAGS must ask for 8 devices.")
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("heads", "sequence"))


@pytest.mark.parametrize("axes", [("heads", "sequence"), (None, "sequence"), ("heads",), ()])
def test_sharded_tokens_take_the_formula_and_send_nothing(mesh, axes):
    sharding = NamedSharding(mesh, Spec(None, *axes))
    x, cos, sin = jnp.asarray(tokens(2, 8, 16, 16)), *jnp.asarray(tokens(2, 16, 8))
    spread = jax.device_put(x, sharding)
    gradient = jax.grad(lambda x: (fused(x, cos, sin) ** 2).sum() / 2)
    for call in (lambda x: fused(x, cos, sin), gradient):
        program = compiled(call, spread)
        assert not [word for word in ("posenc_rotate", "all-gather", "all-to-all", "permute") if word in program]
        assert "posenc_rotate" in compiled(call, x)  # on one of the eight devices
        result = jax.jit(call)(spread)
        assert result.sharding.is_equivalent_to(sharding, 4)
        np.testing.assert_allclose(result, call(x), **NEAR)
    eager = fused(spread, cos, sin)
    assert eager.sharding.is_equivalent_to(sharding, 4)
    np.testing.assert_array_equal(eager, formula(x, cos, sin))


def test_shard_map_and_pmap_take_the_formula(mesh):
    x, spec = jnp.asarray(tokens(8, 2, 5, 16)), Spec(("heads", "sequence"))
    call = jax.shard_map(fused, mesh=mesh, in_specs=spec, out_specs=spec)
    for mapped in (call, jax.jit(call), jax.pmap(fused)):
        np.testing.assert_allclose(mapped(x), formula(x), **NEAR)
    found, wanted = (jax.jit(jax.grad(lambda x, f=f: (f(x) ** 3).sum()))(x) for f in (call, formula))
    np.testing.assert_allclose(found, wanted, **NEAR)
    assert "posenc_rotate" not in compiled(call, x)


def test_arrays_of_any_one_device(mesh):
    x, cos, sin = (jax.device_put(array, jax.devices()[5]) for array in (X, COS, SIN))
    for call in (fused, jax.jit(fused)):
        result = call(x, cos, sin)
        assert result.devices() == {jax.devices()[5]}
        np.testing.assert_array_equal(result, formula(X))


@pytest.mark.parametrize("sizes", ["2, 3, 5", "b, 3, s"])
def test_exported_programs_have_the_formula(sizes):
    shape = export.symbolic_shape(f"{sizes}, 16")
    tables = [jax.ShapeDtypeStruct((shape[2], 8), np.float32)] * 2
    exported = export.export(jax.jit(fused))(jax.ShapeDtypeStruct(shape, np.float32), *tables)
    assert "@posenc_rotate" not in exported.mlir_module()
    np.testing.assert_allclose(jax.jit(exported.call)(X, COS, SIN), formula(X), **NEAR)
    both = export.export(jax.jit(fused), platforms=("cpu", "tpu"))(X, COS, SIN)
    assert "@posenc_rotate" not in both.mlir_module()


def test_compiled_ahead_of_time_and_serialized():
    ready = jax.jit(fused).lower(*[jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (X, COS, SIN)]).compile()
    np.testing.assert_array_equal(ready(X, COS, SIN), formula(X))
    loaded = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(ready), execution_devices=jax.devices()[:1]
    )
    np.testing.assert_array_equal(loaded(X, COS, SIN), formula(X))


def test_donated_tokens():
    x = jnp.copy(X)
    np.testing.assert_array_equal(jax.jit(fused, donate_argnums=0)(x, COS, SIN), formula(X))
    assert x.is_deleted()


def test_empty_arrays_and_arrays_without_a_plan_take_the_formula():
    x, cos = jnp.asarray(tokens(2, 3, 2, 3, 2, 5, 16)), jnp.asarray(tokens(2, 1, 2, 1, 2, 5, 8))
    np.testing.assert_allclose(jax.jit(fused)(x, cos, cos), formula(x, cos, cos), **NEAR)
    assert not calls(fused, x, cos, cos)
    assert fused(X[:, :, :0], COS[:0], SIN[:0]).shape == (2, 3, 0, 16)
    np.testing.assert_array_equal(jax.jit(fused)(X, COS[:, :0], SIN[:, :0]), X)
    batched = jax.vmap(fused, in_axes=(3, 3, None))  # has more loops than the kernel, with its batch
    arrays = (x[0], cos[0], cos[0, ..., 0, :, :])
    np.testing.assert_allclose(jax.jit(batched)(*arrays), jax.vmap(formula, in_axes=(3, 3, None))(*arrays), **NEAR)


def test_large_results_are_shared_by_threads():
    x, (cos, sin) = jnp.asarray(tokens(8, 16, 256, 64)), jnp.asarray(tokens(2, 256, 32))
    call, wanted = jax.jit(fused), np.asarray(formula(x, cos, sin))
    with ThreadPoolExecutor(6) as pool:
        for result in pool.map(lambda _: call(x, cos, sin), range(24)):
            np.testing.assert_array_equal(result, wanted)


def test_layers_use_it_eager_and_compiled(kernel):
    encoding = Rotary(head_dim=16, layout="half")
    layer, (cos, sin) = RotaryEmbedding(encoding), encoding.cos_sin([7])
    wanted = rotate_reference(np.asarray(X[:, :, :1]), cos, sin, pairing_of("half"))
    for call in (layer, jax.jit(layer, static_argnums=2)):
        for result in call(X[:, :, :1], X[:, :, :1], 7):
            np.testing.assert_array_equal(result, wanted)
    assert calls(lambda q, k: layer(q, k, start=7), X[:, :, :1], X[:, :1, :1]) == 2


SITUATIONS = {
    "jit": lambda: jax.jit(fused)(X),
    "jvp": lambda: jax.jvp(fused, (X,), (W,)),
    "vmap": lambda: jax.vmap(fused)(X),
    "no jit": lambda: _without_jit(lambda: fused(X)),
    "jaxpr": lambda: jax.make_jaxpr(fused)(X),
    "eval_shape": lambda: jax.eval_shape(fused, X),
}


@pytest.mark.parametrize("call", SITUATIONS.values(), ids=SITUATIONS)
def test_it_is_tried_out_wherever_the_first_call_is(call, kernel):
    jax.clear_caches()
    kernel._runs.cache_clear()
    with jax.checking_leaks(), jax.transfer_guard("disallow"):
        call()
    assert kernel._runs.cache_info().currsize
    assert kernel._runs()


def test_a_call_that_xla_does_not_know_leaves_the_formula(kernel, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "TARGET", "no_such_call")
        jax.clear_caches()
        kernel._runs.cache_clear()
        assert not kernel._runs()
        assert "no_such_call" not in compiled(fused, X)
        np.testing.assert_array_equal(fused(X), formula(X))
    jax.clear_caches()
    kernel._runs.cache_clear()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"plan": lambda plan: plan[:-1]}, "of another version"),
        ({"plan": lambda plan: np.concatenate([[9], plan[1:]])}, "of another version"),
        ({"plan": lambda plan: plan.astype(np.int32)}, "64-bit integers"),
        ({"plan": lambda plan: plan, "scale": lambda plan: np.int64(1)}, "a plan, and has one result"),
        ({"dtype": np.float16}, "other dtypes"),
        ({"shape": (2, 3, 4, 16)}, "other sizes"),
    ],
)
def test_calls_that_do_not_fit_raise(kernel, changed, message):
    """A serialized program may come from another version of posenc."""
    changed = {"dtype": np.float32, "shape": X.shape, "plan": lambda plan: plan, **changed}
    plan = kernel._plan(X.dtype, X.shape, COS.shape, SIN.shape, PAIRING).numbers
    dtype, shape = changed.pop("dtype"), changed.pop("shape")
    call = jax.ffi.ffi_call("posenc_rotate", jax.ShapeDtypeStruct(shape, dtype))
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(call(X, COS, SIN, **{name: change(plan) for name, change in changed.items()}))


def test_without_the_library_the_formula_is_compiled():
    program = (
        "import jax; from jax import numpy as jnp; import posenc_backends.jax; from posenc_core import rotate;"
        "f = lambda x: rotate(x, jnp.ones((5, 8)), jnp.ones((5, 8)), layout='half'); x = jnp.ones((3, 5, 16));"
        "print('posenc_rotate' in jax.jit(f).lower(x).as_text(), float(f(x).sum()))"
    )
    environment = {**os.environ, library.VARIABLE: "off"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "240.0"]


def test_a_layer_rotates_consecutive_tokens_by_one_program_for_each_length(kernel, monkeypatch):
    """Starts share it; numbers are those of the tables, grown ones as well, for keys of fewer heads and alone."""
    monkeypatch.setattr(kernel, "_compiled", None)  # no other program rotates
    encoding = Rotary(head_dim=16, layout="half")
    layer, q = RotaryEmbedding(encoding, max_len=16), tokens(2, 3, 2, 16)
    kernel._compiled_rows.clear_cache()
    for start in (0, 3, 14):
        both = layer(jnp.asarray(q), jnp.asarray(q[:, :1]), start=start)
        expected = np.asarray(rotate_reference(q, *encoding.cos_sin([start, start + 1]), pairing_of("half")))
        for got, wanted in zip(
            (*both, layer(jnp.asarray(q), start=start)), (expected, expected[:, :1], expected), strict=True
        ):
            np.testing.assert_array_equal(got, wanted)
    assert kernel._compiled_rows._cache_size() == 2  # with keys, and without
    monkeypatch.undo()
    for start in (-2, 15, 15):  # before the tables, past them, and in the longer ones
        wanted = rotate_reference(q, *encoding.cos_sin([start, start + 1]), pairing_of("half"))
        np.testing.assert_array_equal(layer(jnp.asarray(q), start=start), wanted)
    assert kernel._compiled_rows._cache_size() == 3  # one more for the longer tables
