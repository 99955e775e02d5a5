"""Checks of arguments raise one sentence of ours, never the error of the operation that the check itself used."""

import json
import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from posenc_core import Integer, LearnedQueryScale, PoPE, Rotary, Sinusoidal, rotate, sequence, shard
from posenc_core._array_api import checks
from posenc_core._array_api.checks import check_even, check_integer, check_known
from posenc_core._array_api.namespace import namespace_of
from posenc_core.layers import inputs


@pytest.mark.parametrize(
    "value",
    [
        np.array([4]),
        np.array([1, 2]),
        np.array([[4]]),
        np.zeros(0, int),
        np.array(4.0),
        np.array(True),
        np.True_,
        np.bool_(False),
        np.float32(4),
        4.0,
        True,
        "4",
        None,
        [4],
    ],
    ids=repr,
)
def test_only_integers_pass(value):
    for check in (check_integer, check_even):
        with pytest.raises(TypeError) as caught:
            check("size", value)
        assert str(caught.value) == f"`size` must be an integer, got {value!r}."


@pytest.mark.parametrize("value", [4, np.int8(4), np.uint64(4), np.array(4), np.array(4, np.uint8)], ids=repr)
def test_integers_of_numpy_pass(value):
    check_integer("size", value)
    check_even("size", value)
    with pytest.raises(ValueError, match=re.escape(f"`size` must be at least 5, got {value!r}.")):
        check_integer("size", value, minimum=5)


class Index:
    """An integer of another library: it has only `__index__`."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


def test_other_integers_pass_and_encodings_store_them_as_int():
    check_integer("size", Index(4))
    with pytest.raises(ValueError, match="`size` must be at least 1, got <"):
        check_integer("size", Index(0))
    encoding = Integer(dim=Index(4))
    assert type(encoding.dim) is int
    assert json.loads(json.dumps(encoding.to_dict())) == {"kind": "Integer", "dim": 4}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Rotary(head_dim=4, layout="half").at(np.array([4])), "`seq_len` must be an integer, got array([4])."),
        (lambda: sequence(np.array([1, 2])), "`length` must be an integer, got array([1, 2])."),
        (lambda: sequence(np.True_), f"`length` must be an integer, got {np.True_!r}."),
        (lambda: shard(range(4), np.array([0]), 2), "`rank` must be an integer, got array([0])."),
    ],
)
def test_public_functions_name_the_argument_that_is_no_integer(call, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("value", [np.array(["a", "b"]), np.array(["a"]), np.zeros(2), np.zeros((2, 2)), b"a", None, 1])
def test_only_known_strings_pass(value):
    with pytest.raises(
        ValueError, match=re.escape(f"`word` must be one of 'a', 'b', got {' '.join(repr(value).split())}.")
    ):
        check_known("word", value, ("a", "b"))
    check_known("word", np.str_("a"), ("a", "b"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rotate(np.ones((2, 4)), np.ones((2, 2)), np.ones((2, 2)), layout=np.array(["half", "half"])),
            "`layout` must be one of 'interleaved', 'half', 'interleaved_to_half', got array(['half', 'half']",
        ),
        (lambda: Sinusoidal(dim=4, convention=np.zeros(2)), "`convention` must be one of 'interleaved'"),
    ],
)
def test_public_functions_name_the_argument_that_is_no_known_string(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(("x", "name"), [([[1.0, 2.0]], "list"), (1.0, "float"), (None, "NoneType")])
def test_rotate_asks_for_an_array(x, name):
    with pytest.raises(TypeError, match=f"^`x` must be an array, got {name}\\.$"):
        rotate(x, np.ones((1, 1)), np.ones((1, 1)), layout="half")


class Symbol:
    """A size that a tracer does not know, which says nothing about comparisons."""

    def __eq__(self, other):
        raise AssertionError

    __hash__ = None


UNKNOWN = (None, -1, Symbol())


@pytest.mark.parametrize("unknown", UNKNOWN, ids=["None", "-1", "a symbol"])
def test_sizes_are_compared_as_far_as_they_are_known(unknown):
    def shaped(*sizes):
        return SimpleNamespace(shape=sizes)

    for sizes in ((3, 4), (unknown, 4), (3, unknown), (unknown, unknown)):
        checks.check_width("x", shaped(2, *sizes), 4)
        assert checks.sizes_match(sizes, (3, 4))
        assert checks.sizes_match((3, 4), sizes)
        for shape in ((3, 4), (2, 3, 4)):
            checks.check_sizes_broadcast("x", sizes, shape)
            checks.check_sizes_broadcast("x", sizes[1:], shape)
        checks.check_meet("x", shaped(*sizes), "y", shaped(2, 3, 4))
        checks.check_meet("x", shaped(2, 3, 4), "y", shaped(*sizes))
        checks.check_rows("x", shaped(*sizes), "y", shaped(3, 7))
        checks.check_positions_shape("x", sizes, (4,), 3)
    for sizes in ((unknown, 5), (5, unknown), (5, 4), (3, 5)):
        assert not checks.sizes_match(sizes, (3, 4))
        wide, tall = sizes[1] == 5 if isinstance(sizes[1], int) else False, isinstance(sizes[0], int) and sizes[0] == 5
        with pytest.raises(ValueError, match="`x` must broadcast"):
            checks.check_sizes_broadcast("x", sizes, (3, 4))
        with pytest.raises(ValueError, match="`x` must broadcast with `y`"):
            checks.check_meet("x", shaped(*sizes), "y", shaped(3, 4))
        with pytest.raises(ValueError, match="`x` must have shape"):
            checks.check_positions_shape("x", sizes, (4,), 3)
        with pytest.raises(ValueError, match="`x` must be 4 wide") if wide else nullcontext():
            checks.check_width("x", shaped(*sizes), 4)
        with pytest.raises(ValueError, match="`x` must have as many rows") if tall else nullcontext():
            checks.check_rows("x", shaped(*sizes), "y", shaped(3, 7))
    assert not checks.sizes_match((unknown,), (unknown, unknown))
    with pytest.raises(ValueError, match="`x` must broadcast"):
        checks.check_sizes_broadcast("x", (unknown, 4), (4,))


def test_a_size_of_1_meets_and_broadcasts_to_every_other():
    one, three = np.ones((1, 4)), np.ones((3, 4))
    checks.check_meet("x", one, "y", three)
    checks.check_meet("x", three, "y", one)
    checks.check_sizes_broadcast("x", (1, 4), (3, 4))
    with pytest.raises(ValueError, match="`x` must broadcast"):
        checks.check_sizes_broadcast("x", (3, 4), (1, 4))
    assert not checks.sizes_match((1, 4), (3, 4))


def test_a_size_is_a_constant_of_a_program_unless_the_library_says_it_is_not(monkeypatch):
    x = np.ones(3)
    assert checks.is_specialized(3, x)
    assert not checks.is_specialized(None, x)
    monkeypatch.setattr(namespace_of(x), "is_specialized", lambda size: size == 3, raising=False)
    assert [checks.is_specialized(size, x) for size in (2, 3, None)] == [False, True, False]


def test_positions_of_several_axes_have_these_first():
    for shape in ((2, 3), (2, 4, 3), (None, 3)):
        inputs.check_axes(SimpleNamespace(shape=shape), 2)
    for shape in ((2,), (3, 3), (1, 3), (None,)):
        with pytest.raises(ValueError, match=r"`positions` must have shape \(2, ..., length\)"):
            inputs.check_axes(SimpleNamespace(shape=shape), 2)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_the_axis_of_the_sequence_is_any_but_the_last(rank):
    x = np.ones(range(2, 2 + rank))
    for axis in range(-rank - 1, rank + 1):
        if axis in (*range(rank - 1), *range(-rank, -1)):
            assert x.shape[inputs.sequence_axis(x, axis)] == x.shape[axis]
        else:
            with pytest.raises(ValueError, match=f"before the last of {rank}, got {axis}"):
                inputs.sequence_axis(x, axis)


@pytest.mark.parametrize(
    ("shape", "sequence", "size"),
    [((5, 4), 0, None), ((2, 5, 4), 1, 2), ((5, 2, 4), 0, 2), ((2, 3, 5, 4), 2, 2), ((5, 2, 3, 4), 0, 2)],
)
def test_the_batch_is_the_first_axis_that_is_not_the_sequence(shape, sequence, size):
    assert inputs.batch_size(np.ones(shape), sequence) == size


class Shaped(SimpleNamespace):
    """An array of a tracer, of which a check sees the shape alone."""

    def __getitem__(self, index):
        raise AssertionError


def test_heads_that_are_not_known_pass():
    """Encodings with heads of their own compare them with those of queries or keys, as far as they can."""
    pope, scale = PoPE(head_dim=4, num_heads=2), LearnedQueryScale(num_heads=2)
    checked = (
        ("q", lambda heads: scale.check_queries(Shaped(shape=(1, heads, 3, 4)))),
        ("k", lambda heads: pope.check_keys(Shaped(shape=(1, heads, 3, 4)))),
        ("k", lambda heads: pope.check_keys(Shaped(shape=(1, 3, heads, 4)), seq_axis=-3)),
    )
    for name, check in checked:
        for heads in (2, None):
            check(heads)
        with pytest.raises(ValueError, match=f"`{name}` must have the 2 heads"):
            check(3)


@pytest.mark.parametrize("seq_axis", [-4, -1, 0])
def test_the_heads_of_pope_are_beside_the_sequence(seq_axis):
    with pytest.raises(ValueError, match=f"`seq_axis` must be -2 or -3.*got {seq_axis}"):
        PoPE(head_dim=4, num_heads=2).check_keys(np.ones((1, 2, 3, 4)), seq_axis=seq_axis)
