"""The fused CPU kernel: bit-identical to the operators, for all dtypes, pairings, strides and tables."""

import mmap
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from posenc_backends._kernels import contiguous, library
from posenc_backends._kernels.plan import plans_of
from posenc_core import Rotary, normalize_and_rotate, rotate, rotation, unrotate
from posenc_core._array_api import kernels
from posenc_core.rotation import pairing_of, rotate_pairs

HALF = pairing_of("half")
RNG = np.random.default_rng(11)
PAIRINGS = [
    *product(("half", "interleaved", "interleaved_to_half"), ("lead", "trail"), (1, 2)),
    *(("half", "spread", 1), ("interleaved", "spread", 1)),
]
AXES = {
    "as it lies": (0, 1, 2, 3),
    "heads last": (0, 2, 1, 3),
    "sequence first": (2, 0, 1, 3),
    "channels first": (3, 0, 1, 2),
}
TABLES = {"for all": (33,), "for each row": (2, 1, 33), "for each head": (2, 3, 33), "for one": (1,)}
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42, 6e-8, 65520.0, 3.0e38], np.float32)


@pytest.fixture
def calls(monkeypatch, to_backend):
    """A list that grows with the plan of each array that the kernel rotates; skips backends without a kernel."""
    assert library.LIBRARY is not None
    kernel = kernels._kernels.get(type(to_backend(np.zeros(1))))
    if kernel is None or kernel.rotate.__module__ == "posenc_backends.jax.kernel":  # which XLA calls
        pytest.skip("a backend that does not call the kernel from Python")
    plans, run = [], library.run

    def counted(both, *arguments):
        plans.extend(both.each)
        run(both, *arguments)

    monkeypatch.setattr(library, "run", counted)
    return plans


def plainly(function, *arguments, **options):
    """The function, without any kernel."""
    held = dict(kernels._kernels)
    kernels._kernels.clear()
    try:
        return function(*arguments, **options)
    finally:
        kernels._kernels.update(held)


def bits(backend, array):
    """Return the bytes of the numbers, with one NaN for all."""
    numbers = backend.to_numpy(array)
    return np.where(np.isnan(numbers), np.nan, numbers).tobytes()


def tokens(*shape, special=False):
    numbers = RNG.normal(size=shape).astype(np.float32)
    if special:
        numbers.reshape(-1)[::7] = np.resize(SPECIAL, numbers.reshape(-1)[::7].shape)
    return numbers


def dtypes(on):
    return [name for name in ("float32", "bfloat16", "float16", "float64") if name not in on.known_failures]


@pytest.mark.parametrize(("layout", "placement", "blocks"), PAIRINGS)
@pytest.mark.parametrize("width", [88, 128])
def test_bits_agree_with_the_reference(on, to_backend, calls, layout, placement, blocks, width):
    pairing = pairing_of(layout, placement, blocks)
    x, (cos, sin) = to_backend(tokens(2, 3, 33, width, special=True)), to_backend(tokens(2, 33, 44))
    with np.errstate(all="ignore"):
        for dtype in dtypes(on):
            given = on.testing.cast(x, dtype)
            for used in (pairing, pairing.inverse):
                rotated = rotate_pairs(given, cos, sin, pairing=used)
                assert bits(on.backend, rotated) == bits(
                    on.backend, plainly(rotate_pairs, given, cos, sin, pairing=used)
                ), dtype
    assert len(calls) == 2 * len(dtypes(on))


@pytest.mark.parametrize("order", ["norm_first", "rope_first"])
def test_a_norm_is_computed_in_the_same_pass(on, to_backend, calls, order):
    """Up to the order of a sum; float64, and one mean of all heads, by operators, which rotate by the kernel."""
    x, (cos, sin), weight = (to_backend(tokens(*sizes)) for sizes in ((2, 3, 33, 88), (2, 33, 40), (88,)))
    for dtype in dtypes(on):
        given, those = on.testing.cast(x, dtype), on.testing.cast(weight, dtype)
        for options in ({"layout": "half", "weight": those, "offset": 1.0}, {"layout": "interleaved_to_half"}):
            found, plain = (
                on.backend.to_numpy(function(normalize_and_rotate, given, cos, sin, order=order, **options))
                for function in (_called, plainly)
            )
            error = {"float64": 1e-12, "float32": 3e-6, "float16": 2**-9, "bfloat16": 2**-6}[dtype]
            np.testing.assert_allclose(found, plain, rtol=error, atol=error)
    assert len(calls) == 2 * len(dtypes(on))


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_arrays_may_have_any_strides(on, to_backend, calls, axes, rows, layout):
    xp = on.backend.namespace
    given = to_backend(tokens(*(dict(zip(axes, (2, 3, 33, 48), strict=True))[axis] for axis in range(4))))
    x, (cos, sin) = xp.permute_dims(given, axes), to_backend(tokens(2, *rows, 24))
    rotated, plain = (function(rotate, x, cos, sin, layout=layout) for function in (_called, plainly))
    assert bits(on.backend, rotated) == bits(on.backend, plain)
    assert calls


def _called(function, *arguments, **options):
    return function(*arguments, **options)


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="pages are of one size here")
def test_large_results_are_asked_for_in_huge_pages():
    cos, sin = tokens(2, 2048, 32)
    x = tokens(16, 2048, 64)
    result = np.empty_like(x)  # NumPy itself asks for huge pages
    strided = [(array.shape, contiguous(array.shape)) for array in (x, cos, sin)]
    plans = plans_of(("float32", strided[0]), None, None, *strided[1:], HALF)
    memory = mmap.mmap(-1, x.nbytes)
    address = np.frombuffer(memory, np.uint8).ctypes.data
    assert "hg" not in flags_of_memory(address + x.nbytes // 2)
    library.run(plans, (x.ctypes.data, address), cos.ctypes.data, sin.ctypes.data, lambda: 1)
    assert "hg" in flags_of_memory(address + x.nbytes // 2)
    result[...] = np.frombuffer(memory, np.float32).reshape(x.shape)
    np.testing.assert_array_equal(result, plainly(rotate, x, cos, sin, layout="half"))


@pytest.mark.parametrize("length", [1, 33, 8203])
def test_nothing_is_written_past_the_last_token(length):
    """A call is cut into blocks of 8,192 tokens for rows of this width, the last of which is shorter."""
    (cos, sin), x, place = tokens(2, length, 32), tokens(2, length, 64), np.full((3, length, 64), 7, np.float32)
    strided = [(array.shape, contiguous(array.shape)) for array in (x, cos, sin)]
    plans = plans_of(("float32", strided[0]), None, None, *strided[1:], HALF)
    library.run(plans, (x.ctypes.data, place.ctypes.data), cos.ctypes.data, sin.ctypes.data, lambda: 1)
    np.testing.assert_array_equal(place[:2], plainly(rotate, x, cos, sin, layout="half"))
    assert (place[2] == 7).all()


def flags_of_memory(address):
    """Return the flags of the memory mapping that contains this address."""
    within = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *words = line.split()
        if "-" in name and not name.endswith(":"):
            begin, end = (int(bound, 16) for bound in name.split("-"))
            within = begin <= address < end
        elif within and name == "VmFlags:":
            return words
    raise LookupError(address)


def test_it_writes_to_out(backend, to_backend, calls, monkeypatch):
    x, out, (cos, sin) = to_backend(tokens(3, 33, 64)), to_backend(np.zeros((3, 33, 64))), to_backend(tokens(2, 33, 32))
    wanted = backend.to_numpy(rotate(x, cos, sin, layout="half"))
    try:
        out[...] = out
    except TypeError:
        pytest.skip("Arrays of this framework are immutable.")
    monkeypatch.setattr(rotation, "rotate_reference", None)
    for place in (out, x):
        assert rotate(x, cos, sin, layout="half", out=place) is place
        np.testing.assert_array_equal(backend.to_numpy(place), wanted)


def test_gradients_agree_with_the_reference(on, to_backend, calls):
    if not hasattr(on.testing, "gradient"):
        pytest.skip("This framework has no gradients.")
    x, weights = to_backend(tokens(2, 3, 33, 40)), to_backend(tokens(2, 3, 33, 40))
    cos, sin = to_backend(tokens(2, 33, 20))
    for layout in ("half", "interleaved", "interleaved_to_half"):
        found, plain = (
            function(on.testing.gradient, lambda x, way=layout: rotate(x, cos, sin, layout=way), x, weights)
            for function in (_called, plainly)
        )
        np.testing.assert_array_equal(on.backend.to_numpy(found), on.backend.to_numpy(plain))
    assert calls


def test_empty_arrays(backend, to_backend):
    empty, tables = to_backend(np.zeros((2, 0, 8))), to_backend(np.zeros((2, 0, 4)))
    assert backend.to_numpy(rotate(empty, *(tables[i, ...] for i in (0, 1)), layout="half")).shape == (2, 0, 8)


def test_threads_share_it(backend, to_backend, calls, monkeypatch):
    monkeypatch.setattr(library, "SHARE", 1 << 12)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    x, (cos, sin) = to_backend(tokens(3, 4, 200, 64)), to_backend(tokens(2, 200, 32))
    wanted = bits(backend, plainly(rotate, x, cos, sin, layout="half"))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: rotate(x, cos, sin, layout="half"), range(8)))
    assert {bits(backend, result) for result in results} == {wanted}
    assert len(calls) == 8


@pytest.mark.parametrize("heads", [8, 1], ids=["both large", "one small"])
def test_threads_share_queries_and_keys_of_a_layer(backend, to_backend, calls, monkeypatch, heads):
    shared, share = [], library._share
    monkeypatch.setattr(library, "SHARE", 1 << 14)
    monkeypatch.setattr(library, "_share", lambda *arguments: shared.append(arguments) or share(*arguments))
    monkeypatch.setattr(library, "run", lambda *arguments, run=library.run: run(*arguments[:-1], lambda: 3))
    layer = backend.RotaryEmbedding(Rotary(head_dim=64, layout="half"))
    given = [tokens(2, count, 33, 64) for count in (8, heads)]
    rotated = layer(*map(to_backend, given))
    for result, array in zip(rotated, given, strict=True):
        wanted = plainly(rotate, array, *Rotary(head_dim=64, layout="half").cos_sin(np.arange(33)), layout="half")
        np.testing.assert_array_equal(backend.to_numpy(result), wanted)
    assert len(calls) == 2
    assert len(shared) == (2 if heads == 8 else 1)


def test_an_interrupt_waits_for_writing_threads():
    done = []

    def run(first, last):
        if first == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)
        done.append((first, last))

    with pytest.raises(KeyboardInterrupt):
        library._share(run, 9, 3)
    assert sorted(done) == [(3, 6), (6, 9)]


def test_without_new_threads_one_does_all(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    done = []
    monkeypatch.setattr(library.Thread, "start", start)
    library._share(lambda *part: done.append(part), 9, 3)
    assert sorted(done) == [(0, 3), (3, 6), (6, 9)]


def test_layers_use_it_for_a_single_token(backend, to_backend, calls):
    encoding = Rotary(head_dim=64, layout="half")
    layer, q, k = backend.RotaryEmbedding(encoding), tokens(8, 8, 1, 64), tokens(8, 2, 1, 64)
    rotated = layer(to_backend(q), to_backend(k), start=7)
    tables = encoding.cos_sin([7])
    for result, given in zip(rotated, (q, k), strict=True):
        np.testing.assert_array_equal(backend.to_numpy(result), plainly(rotate, given, *tables, layout="half"))
    assert calls


@pytest.mark.parametrize("taken", ["rotate_rows", "rotate", None])
def test_layers_ask_it_once_for_each_rotation(backend, to_backend, calls, monkeypatch, taken):
    layer, q, k = backend.RotaryEmbedding(Rotary(head_dim=64, layout="half")), *map(to_backend, tokens(2, 8, 8, 5, 64))
    kernel, asked = kernels._kernels[type(q)], []

    def counted(name):
        def ask(*arguments):
            asked.append(name)
            return getattr(kernel, name)(*arguments) if name == taken else None

        return ask

    names = ("rotate", "rotate_rows")
    monkeypatch.setitem(kernels._kernels, type(q), kernel._replace(**{name: counted(name) for name in names}))
    layer(q, k)
    assert asked == ["rotate_rows", *([] if taken == "rotate_rows" else ["rotate", "rotate"])]


def test_rows_of_a_layer_follow_its_tables(backend, to_backend, calls):
    """One layer: other heads, lengths and starts, and tables that grow."""
    encoding = Rotary(head_dim=64, layout="half")
    layer = backend.RotaryEmbedding(encoding, max_len=8)
    for start, length in ((0, 1), (7, 1), (3, 2), (7, 2), (30, 1), (0, 1), (-2, 4)):
        q, tables = tokens(2, 3, length, 64), encoding.cos_sin(np.arange(start, start + length))
        for given in (q, q[:, :1]):
            rotated = layer(to_backend(given), start=start)
            np.testing.assert_array_equal(backend.to_numpy(rotated), plainly(rotate, given, *tables, layout="half"))
    assert len(calls) >= 12


def test_errors_stay_where_a_plan_is_remembered(backend, to_backend, calls):
    x, cos = to_backend(tokens(2, 3, 64)), to_backend(tokens(3, 32))
    wide, long = to_backend(tokens(3, 33)), to_backend(tokens(4, 32))
    for _ in range(2):
        rotate(x, cos, cos, layout="half")
        with pytest.raises(ValueError, match="its table rotates 66 channels"):
            rotate(x, wide, wide, layout="half")
        with pytest.raises(ValueError, match="`cos` must broadcast to shape"):
            rotate(x, long, long, layout="half")
        with pytest.raises(ValueError, match="`sin` must broadcast to shape"):
            rotate(x, cos, long, layout="half")
        with pytest.raises(ValueError, match="`blocks` must divide the 32 pairs"):
            rotate(x, cos, cos, layout="half", blocks=3)
    assert len(calls) == 2


def test_without_the_library_no_kernel_runs(backend, to_backend, calls, monkeypatch):
    x, cos, sin = (to_backend(tokens(3, width)) for width in (16, 8, 8))
    with_kernel = rotate(x, cos, sin, layout="half")
    assert len(calls) == 1
    monkeypatch.setattr(library, "LIBRARY", None)
    assert bits(backend, rotate(x, cos, sin, layout="half")) == bits(backend, with_kernel)
    assert len(calls) == 1


def test_compiled_code_does_not_call_it(on, to_backend, calls):
    if "compiled" in on.known_failures:
        pytest.skip("This framework has no compiler.")
    layer, x = (
        on.testing.eval_mode(on.backend.RotaryEmbedding(Rotary(head_dim=64, layout="half"))),
        to_backend(tokens(4, 4, 8, 64)),
    )
    eager = on.backend.to_numpy(layer(x))
    made = len(calls)
    compiled = on.backend.to_numpy(on.testing.compiled(layer)(x))
    np.testing.assert_allclose(compiled, eager, rtol=0, atol=1e-6)
    calls_it = on.backend.__name__.endswith("mxnet")  # a hybridized layer
    assert (len(calls) > made) == calls_it


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
def test_it_runs_in_forked_processes(calls, monkeypatch):
    monkeypatch.setattr(library, "SHARE", 1 << 12)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    import posenc_backends.numpy  # noqa: F401 - NumPy is there in every process

    x, (cos, sin) = tokens(3, 4, 200, 64), tokens(2, 200, 32)
    wanted = rotate(x, cos, sin, layout="half")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads of other libraries
        child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(rotate(x, cos, sin, layout="half"), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_results_are_written_to_out():
    """NumPy alone; for other backends see test_out.py."""
    x, (cos, sin) = tokens(2, 33, 64), tokens(2, 33, 32)
    for layout in ("half", "interleaved", "interleaved_to_half"):
        wanted = plainly(rotate, x, cos, sin, layout=layout)
        for out in (np.empty_like(x), x.copy(), np.empty((2, 66, 64), np.float32)[:, ::2]):
            given = out if out.flags.owndata and np.array_equal(out, x) else x
            assert rotate(given, cos, sin, layout=layout, out=out) is out
            np.testing.assert_array_equal(out, wanted)
        memory = np.empty(x.size + 64, np.float32)
        shifted, before = memory[64:].reshape(x.shape), memory[:-64].reshape(x.shape)
        before[:] = x
        np.testing.assert_array_equal(rotate(before, cos, sin, layout=layout, out=shifted), wanted)
        back = unrotate(wanted.copy(), cos, sin, layout=layout)
        np.testing.assert_array_equal(unrotate(wanted, cos, sin, layout=layout, out=wanted), back)


@pytest.mark.parametrize("shift", [0, 1, 33])
def test_out_may_overlap_tokens_that_lie_backwards(shift):
    """NumPy alone: other backends have no negative strides."""
    memory, (cos, sin) = tokens(67, 64), tokens(2, 33, 32)
    x, out = memory[33 - shift : 66 - shift][::-1], memory[33:66]
    wanted = plainly(rotate, x.copy(), cos, sin, layout="half")
    assert rotate(x, cos, sin, layout="half", out=out) is out
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("out", "kind", "message"),
    [
        (np.empty((2, 33, 65), np.float32), ValueError, "`out` must have shape"),
        (np.empty((33, 64), np.float32), ValueError, "`out` must have shape"),
        (np.empty((2, 33, 64)), TypeError, "`out` must be float32, got float64"),
        ([1.0], TypeError, "`out` must be an array of ndarray's library, got list"),
    ],
)
def test_a_wrong_out_is_rejected(out, kind, message):
    x, (cos, sin) = tokens(2, 33, 64), tokens(2, 33, 32)
    with pytest.raises(kind, match=message):
        rotate(x, cos, sin, layout="half", out=out)


def test_immutable_arrays_are_rejected():
    x, (cos, sin) = tokens(2, 33, 64), tokens(2, 33, 32)
    out = np.zeros_like(x)
    out.flags.writeable = False
    with pytest.raises(TypeError, match="`out` must be an array that can be written to"):
        rotate(x, cos, sin, layout="half", out=out)
    assert not out.any()
