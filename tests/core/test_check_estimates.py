"""`check` names mistakes in numbers that it measures, and those of a corpus that was written without its hypotheses."""

import math

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_backends.check.sample_calls import RANDOM_CALLS, Caller, random_calls
from posenc_backends.check.signatures import signature_of
from posenc_core import (
    NTK,
    Alibi,
    AxialRotary,
    Learned,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Rotary,
    ShawBias,
    Sinusoidal,
    T5Bias,
    Timestep,
    YaRN,
)

from .corpus import shorten_search

PLAIN = Rotary(head_dim=16, layout="half")
FREQUENCIES = 10000.0 ** (-np.arange(8) / 8)
TABLE = np.random.default_rng(5).standard_normal((32, 4)).astype(np.float32)


@pytest.fixture
def short_search(monkeypatch):
    shorten_search(monkeypatch)


def half(x, cos, sin):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def cos_sin(positions, frequencies=FREQUENCIES):
    angles = positions[..., None] * frequencies
    angles = angles if angles.ndim == 2 else angles[:, None]
    return np.cos(angles), np.sin(angles)


def turning(frequencies, factor=1.0):
    """Return a rotation with these frequencies and this factor."""

    def rope(x, positions):
        cos, sin = cos_sin(positions, frequencies)
        return half(x, cos * factor, sin * factor)

    return rope


def without_minus(x, positions):
    cos, sin = cos_sin(positions)
    return (x * np.tile(cos, 2) + np.roll(x, 8, axis=-1) * np.tile(sin, 2)).astype(x.dtype)


def in_place(x, positions):
    cos, sin = cos_sin(positions)
    y = x.copy()
    y[..., :8] = y[..., :8] * cos - y[..., 8:] * sin
    y[..., 8:] = y[..., 8:] * cos + y[..., :8] * sin
    return y


def by_head(x, positions):
    cos, sin = cos_sin(np.arange(x.shape[1]))
    return half(x, cos[:, None], sin[:, None])


def reshaped(x, positions):
    cos, sin = cos_sin(positions)
    y = x.reshape(x.shape[0], x.shape[2], x.shape[1], -1).swapaxes(1, 2)
    return half(y, cos, sin).swapaxes(1, 2).reshape(x.shape)


def but_the_last_of_odd(x, positions):
    y = half(x, *cos_sin(positions))
    if x.shape[2] % 2:
        y[:, :, -1] = x[:, :, -1]
    return y


def through_float16(x, positions):
    return half(x.astype(np.float16), *cos_sin(positions)).astype(x.dtype)


@pytest.mark.parametrize(
    ("function", "names", "said"),
    [
        (turning(FREQUENCIES * np.pi / 180), ("wrong unit of angles",), ""),
        (turning(FREQUENCIES * 2 * np.pi), ("wrong unit of angles",), ""),
        (turning(FREQUENCIES[::-1]), ("frequencies reversed",), ""),
        (turning(10000.0 ** (np.arange(8) / 8)), ("wrong exponent",), ""),
        (turning(FREQUENCIES**0), ("wrong exponent",), ""),
        (turning(FREQUENCIES**2), ("wrong denominator",), ""),
        (turning(8000.0 ** (-np.arange(8) / 8)), ("wrong base",), "the base is 8000."),
        (turning(FREQUENCIES * 3), ("wrong frequencies",), "every frequency is multiplied by 3."),
        (turning(np.r_[FREQUENCIES[1:], 0.5]), ("wrong frequencies",), ""),
        (turning(FREQUENCIES, 0.125), ("wrong factor",), "cosine and sine are multiplied by 0.125."),
        (without_minus, ("minus sign missing",), ""),
        (in_place, ("overwritten before it is read",), ""),
        (by_head, ("heads taken for positions",), ""),
        (reshaped, ("axes mixed up by a reshape",), ""),
        (but_the_last_of_odd, ("one token not rotated",), ""),
        (through_float16, ("float16 tokens", "float16 results"), ""),
    ],
    ids=lambda given: ", ".join(given) if isinstance(given, tuple) else "",
)
def test_a_mistake_in_a_rotation_is_named(function, names, said):
    result = check(function, PLAIN)
    assert (result.names, result.status, said in str(result)) == (names, 1, True), result


@pytest.mark.parametrize(("rotary_dim", "channels"), [(None, 8), (8, 4), (8, 12)])
def test_another_share_of_the_channels_is_named(rotary_dim, channels):
    def partial(x, positions):
        tables = cos_sin(positions, 10000.0 ** (-np.arange(0, channels, 2) / channels))
        return np.concatenate([half(x[..., :channels], *tables), x[..., channels:]], axis=-1)

    result = check(partial, Rotary(head_dim=16, layout="half", rotary_dim=rotary_dim))
    assert (result.names, result.status) == (("wrong rotary_dim",), 1), result
    assert f"{channels} channels rotate, not {rotary_dim or 16}" in str(result)


@pytest.mark.usefixtures("short_search")
def test_frequencies_beside_pairs_that_stand_still_are_measured():
    kept = np.r_[1.1 * FREQUENCIES[:2], np.zeros(6)]
    result = check(turning(kept), Rotary(head_dim=16, layout="half", scaling=Proportional(partial_rotary_factor=0.25)))
    assert (result.names, result.status) == (("wrong frequencies",), 1), result
    assert "2 of 8 frequencies differ, first that of pair 0: 1.1 radians per position, not 1." in str(result)


def test_measured_frequencies_beside_float32_angles():
    frequencies = np.float32(8000.0 ** (-np.arange(8) / 8))

    def rope(x, positions):
        angles = np.float32(positions)[..., None] * frequencies
        angles = angles if angles.ndim == 2 else angles[:, None]
        return half(x, np.cos(angles), np.sin(angles))

    assert check(rope, PLAIN).names == ("wrong base", "float32 angles")


@pytest.mark.usefixtures("short_search")
def test_frequencies_of_an_axis_are_measured():
    encoding = AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4))

    def rope(x, positions):
        angles = np.concatenate([positions[axis][..., None] * np.array([1, 0.1]) for axis in (0, 1)], axis=-1)
        angles = angles if angles.ndim == 2 else angles[:, None]
        return half(x, np.cos(angles), np.sin(angles))

    assert check(rope, encoding).names == ("wrong frequencies",)


YARN = YaRN(factor=4.0, original_max_position_embeddings=64)
LLAMA = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=512)
LONG = LongRoPE(
    short_factor=(1.0, 1.0, 1.1, 1.2, 1.5, 2.0, 2.0, 3.0),
    long_factor=tuple(range(1, 9)),
    original_max_position_embeddings=64,
    factor=4.0,
    seq_len=256,
)
MSCALE = 0.1 * math.log(4) + 1


def ramped(low, high, *, most=1.0):
    weights = np.clip((np.arange(8) - low) / (high - low), 0, most)
    return FREQUENCIES * (weights / 4 + 1 - weights)


def index_of(turns, length=64.0):
    return 8 * math.log(length / (2 * math.pi * turns)) / math.log(10000)


TURNS = 512 * FREQUENCIES / (2 * np.pi)
KEPT = np.clip((TURNS - 1) / 3, 0, 1)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(
    ("scaling", "frequencies", "factor", "name"),
    [
        (YARN, ramped(0, 3), 1 / MSCALE, "wrong factor"),
        (YARN, ramped(0, 3), math.log10(4) / 10 + 1, "wrong factor"),
        (YARN, FREQUENCIES / 4, MSCALE, "wrong scaling"),
        (YARN, ramped(0, 3, most=9), MSCALE, "wrong scaling"),
        (YARN, ramped(0, math.ceil(index_of(1, 256))), MSCALE, "wrong scaling"),
        (YARN, ramped(0, 2), MSCALE, "wrong frequencies"),
        (LLAMA, FREQUENCIES * np.where((KEPT > 0) & (KEPT < 1), KEPT / 8 + 1 - KEPT, KEPT + (1 - KEPT) / 8), 1,
         "wrong scaling"),
        (LLAMA, FREQUENCIES * np.where(TURNS > 4, 1, 1 / 8), 1, "wrong scaling"),
        (Linear(factor=4.0), FREQUENCIES / 16, 1, "wrong scaling"),
        (Linear(factor=4.0), FREQUENCIES * 4, 1, "wrong scaling"),
        (NTK(factor=4.0), 40000.0 ** (-np.arange(8) / 8), 1, "wrong scaling"),
        (NTK(factor=4.0), (10000 * 4 ** (14 / 16)) ** (-np.arange(8) / 8), 1, "wrong scaling"),
        (LONG, FREQUENCIES / np.array(LONG.short_factor), math.sqrt(4 / 3), "wrong scaling"),
        (LONG, FREQUENCIES * np.arange(1, 9), math.sqrt(4 / 3), "wrong scaling"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_scaling_is_named(scaling, frequencies, factor, name):
    encoding = Rotary(head_dim=16, layout="half", scaling=scaling)
    result = check(turning(frequencies, factor), encoding, takes=(), longest=2048)
    assert (result.names, result.status) == ((name,), 1), result


def test_positions_divided_as_integers_are_named():
    encoding = Rotary(head_dim=16, layout="half", scaling=Linear(factor=4.0))
    result = check(lambda x, positions: half(x, *cos_sin(positions // 4)), encoding)
    assert result.names == ("wrong scaling",)
    assert "divided by 4 as integers" in str(result)


def test_a_factor_of_one_table_is_named_for_it():
    encoding = Rotary(head_dim=16, layout="half", scaling=YARN)

    def rope(x, positions):
        cos, sin = cos_sin(positions, ramped(0, 3))
        return half(x, cos * MSCALE, sin)

    result = check(rope, encoding)
    assert result.names == ("attention factor missing",)
    assert "the sine lacks the factor" in str(result)


def sinusoids(positions, frequencies=FREQUENCIES):
    angles = positions[..., None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*positions.shape, -1).astype(np.float32)


def columns(positions, exponents):
    angles = positions[..., None] * 10000.0**-exponents
    return np.where(np.arange(16) % 2, np.cos(angles), np.sin(angles)).astype(np.float32)


@pytest.mark.parametrize(
    ("function", "encoding", "name"),
    [
        (lambda p: columns(p, np.arange(16) / 16), Sinusoidal(dim=16), "wrong denominator"),
        (lambda p: sinusoids(p, 1000.0 ** (-np.arange(8) / 8)), Sinusoidal(dim=16), "wrong base"),
        (lambda x, p: (x * 4 + sinusoids(p)).astype(x.dtype), Sinusoidal(dim=16), "tokens scaled"),
        (lambda x, p: (x * sinusoids(p)).astype(x.dtype), Sinusoidal(dim=16), "multiplied instead of added"),
        (lambda x, p: (x + sinusoids(np.arange(len(x)))[:, None]).astype(x.dtype), Sinusoidal(dim=16),
         "batch taken for positions"),
        (lambda p: Timestep(dim=16, shift=1).table(p), Timestep(dim=16), "wrong denominator"),
        (lambda p: Timestep(dim=16, order="cos_first").table(p), Timestep(dim=16), "layout swapped"),
        (lambda p: Timestep(dim=16, scale=1000).table(p), Timestep(dim=16), "wrong scale"),
        (lambda p: Sinusoidal(dim=16, convention="tensor2tensor").table(p),
         Sinusoidal(dim=16, convention="concatenated"), "wrong denominator"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_additive_encoding_is_named(function, encoding, name):
    result = check(function, encoding)
    assert (result.names, result.status) == ((name,), 1), result


def test_rows_left_for_padding_are_named():
    rows = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
    shifted = lambda positions: rows[np.minimum(positions + 2, 63)]
    assert check(shifted, Learned(dim=4, length=64), parameters={"table": rows}).names[0] == "wrong offset"


def offsets(queries, keys):
    return keys[None] - queries[:, None]


def buckets(distances, longest=128):
    far = 8 + np.floor(np.log(np.maximum(distances, 1) / 8) / math.log(longest / 8) * 8 + 1e-9).astype(int)
    return np.where(distances < 8, distances, np.minimum(far, 15))


@pytest.mark.parametrize(
    ("bucket", "name"),
    [
        (lambda off: buckets(np.abs(off)) + 16 * (off > 0), None),
        (lambda off: buckets(np.abs(off)) + 16 * (off < 0), "sign of offsets flipped"),
        (lambda off: buckets(np.abs(off), 256) + 16 * (off > 0), "wrong buckets"),
        (lambda off: np.minimum(np.abs(off), 15) + 16 * (off > 0), "wrong buckets"),
    ],
)
def test_buckets_are_measured(bucket, name):
    def bias(queries, keys):
        return TABLE[bucket(offsets(queries, keys))].transpose(2, 0, 1)

    result = check(bias, T5Bias(num_heads=4), parameters={"table": TABLE})
    assert result.names == (() if name is None else (name,)), result


@pytest.mark.parametrize("sides", ["both", "past"])
def test_the_other_side_of_t5_is_named(sides):
    encoding, other = (T5Bias(num_heads=4, sides=one) for one in (sides, "past" if sides == "both" else "both"))
    weights = {"table": TABLE}
    bias = lambda queries, keys: np.float32(other.score({**other.constants(0), **weights}, queries, keys))
    assert check(bias, encoding, parameters=weights).names == ("side swapped",)


@pytest.mark.parametrize(
    ("slopes", "name"),
    [
        (sorted([2.0**-step for step in (1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5)])[::-1], "wrong slopes"),
        ([2.0**-step for step in range(1, 13)], "wrong slopes"),
    ],
)
def test_slopes_are_measured(slopes, name):
    bias = lambda queries, keys: np.float32(-np.array(slopes)[:, None, None] * np.abs(offsets(queries, keys)))
    result = check(bias, Alibi(num_heads=12))
    assert result.names == (name,)
    assert f"the slopes are {slopes[0]:.5g}, {slopes[1]:.5g}" in str(result)


def test_signed_distances_are_named():
    slopes = 2.0 ** -np.arange(1, 9)[:, None, None]
    bias = lambda queries, keys: np.float32(slopes * offsets(queries, keys))
    assert check(bias, Alibi(num_heads=8)).names == ("signed distances",)


@pytest.mark.parametrize(("sign", "root", "name"), [(-1, 8**0.5, "sign of offsets flipped"), (1, 1, "wrong factor")])
def test_scores_with_another_sign_or_factor_are_named(sign, root, name):
    encoding = ShawBias(num_heads=2, head_dim=8, max_distance=4, applies_to="keys")
    table = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)

    def scores(q, k, queries, keys):
        at = np.clip(sign * offsets(queries, keys), -4, 4) + 4
        return np.float32(np.einsum("bhqd,qkd->bhqk", np.float64(q), table[at]) / root)

    result = check(scores, encoding, parameters={"key_table": table}, takes=())
    assert result.names == (name,), result


def test_a_cache_keyed_by_the_ends_of_positions_is_stale():
    cache = {}

    def rope(x, positions):
        key = (positions.shape, positions.min(), positions.max(), positions.ravel()[0], positions.ravel()[-1])
        cos, sin = cache.setdefault(key, cos_sin(positions))
        return half(x, cos, sin)

    assert check(rope, PLAIN).names == ("stale cache",)


@pytest.mark.usefixtures("short_search")
def test_a_table_that_grows_by_rows_from_0_is_named():
    tables = list(cos_sin(np.arange(200)))

    def rope(x, positions):
        lacking = int(positions.max()) + 1 - len(tables[0])
        if lacking > 0:
            more = cos_sin(np.arange(lacking))
            tables[:] = [np.concatenate(pair) for pair in zip(tables, more, strict=True)]
        cos, sin = (table[positions] for table in tables)
        return half(x, *((cos, sin) if cos.ndim == 2 else (cos[:, None], sin[:, None])))

    names = check(rope, PLAIN, longest=5000).names
    assert "table grown wrongly" in names
    assert not {"wrong frequencies", "wrong base"} & {*names}


def test_outputs_in_the_wrong_order_are_a_sentence():
    result = check(lambda q, k, positions: (k, q), PLAIN)
    assert "queries and keys come back in the wrong order" in str(result)
    assert result.status == 2


@pytest.mark.parametrize("num_shapes", [3, RANDOM_CALLS])
def test_random_calls_of_few_shapes_ask_all_kinds_of_positions(num_shapes):
    caller = Caller(PLAIN, signature_of(turning(FREQUENCIES), PLAIN, None), {})
    calls = list(random_calls(caller, end=2**20, dtypes=("bfloat16",), num_shapes=num_shapes))
    shapes = {(call.tokens[0].shape, call.dtype) for call in calls}
    assert len(calls) == RANDOM_CALLS
    assert len(shapes) <= num_shapes
    by_shape = [{call.name for call in calls if (call.tokens[0].shape, call.dtype) == one} for one in shapes]
    if num_shapes == 3:
        assert all(len(kinds) == 6 for kinds in by_shape)
    else:
        assert len(shapes) > 20
