"""`check` of functions in NumPy: signatures, mistakes, failures."""

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_backends.check.mistakes import mistakes_of_encoding
from posenc_backends.check.mistakes.rounding import mistakes_of_rounding
from posenc_core import Alibi, Binary, LongRoPE, Rotary, Sinusoidal, T5Bias, rotate
from posenc_core.encodings.examples import examples

ROTARY = Rotary(head_dim=8, layout="interleaved")


def rope(q, k, positions):
    """Written from the definition, in float64."""
    angles = positions[..., None] * 10000.0 ** (-np.arange(4) / 4)
    angles = angles if positions.ndim == 1 else angles[:, None]
    unit = np.exp(1j * angles)
    return tuple(_real((x[..., 0::2] + 1j * x[..., 1::2]) * unit).astype(x.dtype) for x in (q, k))


def _real(z):
    return np.stack([z.real, z.imag], axis=-1).reshape(*z.shape[:-1], -1)


def cos_sin(positions):
    angles = positions[..., None] * 10000.0 ** (-np.arange(4) / 4)
    return np.cos(angles), np.sin(angles)


def doubled(positions):
    return tuple(np.repeat(table, 2, axis=-1) for table in cos_sin(positions))


def sinusoids(positions):
    angles = positions[..., None] * 10000.0 ** (-np.arange(4) / 4)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(*angles.shape[:-1], 8).astype(np.float32)


def alibi(queries, keys):
    slopes = 2.0 ** -np.arange(1, 9)
    return (-slopes[:, None, None] * np.abs(queries[:, None] - keys)).astype(np.float32)


def names(result):
    return [mistake.name for mistake in result.mistakes]


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (rope, ROTARY),
        (lambda x, positions: rope(x, x, positions)[0], ROTARY),
        (cos_sin, ROTARY),
        (doubled, ROTARY),
        (sinusoids, Sinusoidal(dim=8)),
        (lambda x, positions: (x + sinusoids(positions)).astype(x.dtype), Sinusoidal(dim=8)),
        (alibi, Alibi(num_heads=8)),
    ],
)
def test_each_signature_follows_from_the_arguments_and_conforms(function, spec):
    result = check(function, spec)
    assert result.status == 0, result
    assert str(result).startswith(f"conforms ({result.precision}, worst ")
    assert result.precision in ("exact", "rounded once")


@pytest.mark.parametrize(
    ("function", "spec", "mistake"),
    [
        (doubled, Rotary(head_dim=8, layout="half"), "layout swapped"),
        (lambda positions: cos_sin(positions)[::-1], ROTARY, "cos and sin swapped"),
        (lambda positions: cos_sin(positions + 1), ROTARY, "positions off by one"),
        (lambda positions: cos_sin(np.arange(positions.shape[-1]) + 0 * positions), ROTARY, "positions ignored"),
        (lambda positions: cos_sin(positions.astype(np.float16)), ROTARY, "float16 positions"),
        (lambda positions: tuple(2 * table for table in cos_sin(positions)), ROTARY, "attention factor doubled"),
        (cos_sin, Rotary(head_dim=8, layout="half", base=5e5), "base ignored"),
        (lambda q, k, positions: (q, k), ROTARY, "not rotated"),
        (lambda q, k, positions: rope(q, k, positions[..., :1] + np.arange(positions.shape[-1])), ROTARY,
         "positions taken as consecutive"),
        (lambda positions: cos_sin(positions[..., -1:] - np.arange(positions.shape[-1])[::-1]), ROTARY,
         "positions taken as consecutive"),
        (lambda positions: cos_sin(positions.astype(np.int16)), ROTARY, "positions wrapped"),
        (sinusoids, Sinusoidal(dim=8, convention="concatenated"), "layout swapped"),
        (sinusoids, Sinusoidal(dim=8, base=100.0), "base ignored"),
        (lambda positions: sinusoids(positions - 1), Sinusoidal(dim=8), "positions off by one"),
        (lambda positions: sinusoids(-positions), Sinusoidal(dim=8), "sign flipped"),
        (lambda positions: sinusoids(positions).reshape(*positions.shape, 4, 2)[..., ::-1].reshape(*positions.shape, 8),
         Sinusoidal(dim=8), "cos and sin swapped"),
        (lambda queries, keys: -alibi(queries, keys), Alibi(num_heads=8), "sign flipped"),
        (lambda queries, keys: alibi(queries, keys)[::-1], Alibi(num_heads=8), "heads reversed"),
        (lambda queries, keys: alibi(queries + 1, keys), Alibi(num_heads=8), "positions off by one"),
        (lambda queries, keys: alibi(queries - queries[0], keys), Alibi(num_heads=8), "positions ignored"),
        (alibi, Alibi(num_heads=8, max_bias=16), "max_bias ignored"),
    ],
)  # fmt: skip
def test_the_mistake_of_a_table_or_a_bias_is_named(function, spec, mistake):
    result = check(function, spec)
    assert mistake in names(result), result
    assert result.status == 1
    assert "unknown" not in str(result)


def test_errors_where_the_number_is_0_are_not_counted_in_ulp():
    text = str(check(lambda queries, keys: alibi(queries + 1, keys), Alibi(num_heads=8)))
    assert "Off where the number is 0; first " in text
    assert "e+" not in text


def test_a_mistake_of_the_keys_alone_is_reported_for_them():
    result = check(lambda q, k, positions: (rope(q, q, positions)[0], rope(k, k, positions + 1)[0]), ROTARY)
    assert [(mistake.name, mistake.outputs) for mistake in result.mistakes] == [("positions off by one", ("keys",))]
    assert "(keys)" in str(result)


def test_two_mistakes_at_once_are_both_named():
    result = check(rope, Rotary(head_dim=8, layout="half", base=5e5))
    assert names(result) == ["layout swapped, base ignored"]


def test_an_unknown_mistake_is_not_guessed():
    result = check(lambda q, k, positions: rope(np.tanh(q), k, positions), ROTARY)
    assert names(result) == ["differs, cause unknown"]
    (mistake,) = result.mistakes
    assert (mistake.outputs, result.status) == (("queries",), 1)
    assert "queries[0, 0, 0, 0] is " in mistake.start


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        (np.abs, ["sign of positions ignored"]),
        (np.floor, ["positions made whole"]),
        (np.rint, ["positions made whole"]),
        (np.asarray, []),
    ],
)
def test_negative_and_real_positions_are_tested_on_request(change, mistake):
    function = lambda positions: cos_sin(change(positions))
    assert check(function, ROTARY).status == 0
    assert names(check(function, ROTARY, takes=("negative", "real"))) == mistake
    assert check(alibi, Alibi(num_heads=8), takes=("negative", "real")).status == 0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda q, k, positions: 1 / 0, "it raised ZeroDivisionError: division by zero, for (2, 4, 17, 8)"),
        (lambda q, k, positions: q, "it must return 2 arrays, got numpy.ndarray"),
        (lambda q, k, positions: (q, k[..., :2]), "keys must have shape (2, 2, 17, 8), got (2, 2, 17, 2)"),
        (lambda q, k, positions: (q, k * np.nan), "keys must be numbers, got nan at (0, 0, 0, 0)"),
        (lambda q, k, positions: (q, k.tolist()), "it must return numpy's arrays (numpy.ndarray), got list of 2"),
        (lambda q, k, positions: (q, k + 0j), "it must return real numbers, got complex64"),
        (lambda q, k, positions: None, "it must return 2 arrays, got NoneType"),
        (lambda q, k, positions: (q.sum(), k.sum()), "queries must have shape (2, 4, 17, 8), got ()"),
    ],
)
def test_a_failing_function_is_reported_in_a_sentence(function, message):
    result = check(function, ROTARY)
    assert (result.status, result.mistakes) == (2, ())
    assert message in str(result)


def test_half_precision_may_be_refused_but_not_answered_with_nan():
    def refusing(q, k, positions):
        if q.dtype == np.float16:
            raise TypeError("float32 only")
        return rope(q, k, positions)

    result = check(refusing, ROTARY)
    assert (result.status, len(result.remarks)) == (0, 2)
    result = check(lambda q, k, positions: rope(q / (q.dtype != np.float16), k, positions), ROTARY)
    assert result.status == 2
    assert "queries must be numbers" in result.failure
    assert "in float16" in result.failure


def test_a_table_that_ends_names_the_option_longest():
    table = np.stack(cos_sin(np.arange(4096)))

    def lookup(positions):
        return tuple(table[:, positions])

    result = check(lookup, ROTARY)
    assert result.status == 2
    assert "IndexError" in str(result)
    assert "`longest` 4090" in str(result)
    assert check(lookup, ROTARY, longest=4090).status == 0


def test_positions_where_longrope_has_other_frequencies_are_not_tested():
    scaling = LongRoPE(
        short_factor=(1.0,) * 4, long_factor=(2.0,) * 4, original_max_position_embeddings=4096, factor=2.0
    )
    spec = Rotary(head_dim=8, layout="half", scaling=scaling)

    def tables(positions):
        return spec.at(int(positions.max()) + 1).cos_sin(positions)

    assert check(tables, spec).status == 0
    assert check(tables, spec.at(4097)).status == 1


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((alibi, T5Bias(num_heads=2)), {}, ValueError, "must have the names and shapes {'table': (32, 2)}, got {}"),
        ((rope, ROTARY), {"parameters": {"alpha": [1.0]}}, ValueError, "`parameters` of Rotary(head_dim=8"),
        ((rope, ROTARY), {"allow": "wrong"}, ValueError, "`allow` must be one of 'exact', 'rounded once'"),
        ((rope, "Rope(dim=2)"), {}, ValueError, "`kind` must be a class of posenc"),
        ((rope, ROTARY), {"framework": "caffe"}, ValueError, "`framework` must be one of 'torch'"),
        ((rope, ROTARY), {"form": "bias"}, ValueError, "must be one of 'rotation', 'turn', 'table', got 'bias'"),
        ((lambda: 0, ROTARY), {}, ValueError, "`function` takes 0 arguments"),
        ((dict, ROTARY), {}, TypeError, "`function` must be a function"),
        ((rope, ROTARY), {"takes": ("bfloat16",)}, ValueError, "that numpy has, got 'bfloat16'"),
        ((rope, ROTARY), {"takes": ("complex",)}, ValueError, "`takes` must be some of"),
        (
            (lambda positions: 0, Binary(dim=8)),
            {"takes": ("negative",)},
            ValueError,
            "must not ask for negative positions",
        ),
        ((rope, ROTARY), {"longest": 3}, ValueError, "`longest` must be at least 20, got 3"),
        ((rope, ROTARY), {"longest": 0}, ValueError, "`longest` must be at least 20, got 0"),
        ((rope, ROTARY), {"longest": 2**31 + 1}, ValueError, "`longest` must be at most 2147483648, got 2147483649"),
        ((rope, ROTARY), {"longest": 64.0}, TypeError, "`longest` must be an integer, got 64.0"),
        ((sinusoids, Binary(dim=4)), {}, ValueError, "`spec` must have at least 20 positions, got 16 of Binary(dim=4"),
        ((rope, 8), {}, TypeError, "`spec` must be a rotary, an additive, a query or a scoring"),
        ((rope, Rotary), {}, TypeError, "`spec` must be a rotary, an additive, a query or a scoring"),
    ],
)
def test_what_cannot_be_checked_raises(arguments, options, error, message):
    with pytest.raises(error) as raised:
        check(*arguments, **options)
    assert message in str(raised.value)


def test_rotate_itself_conforms_to_the_half_layout():
    def turn(x, positions):
        tables = Rotary(head_dim=6, layout="half").cos_sin(positions)
        return rotate(x, *(table if positions.ndim == 1 else table[:, None] for table in tables), layout="half")

    assert check(turn, Rotary(head_dim=6, layout="half")).status == 0


@pytest.mark.parametrize("encoding", examples(), ids=lambda encoding: type(encoding).__name__)
def test_the_mistakes_of_every_encoding_are_listed_without_an_error(encoding):
    """The search drops what raises, so an error of ours in one list would only show as a cause that is unknown."""
    names = [mistake.name for mistake in (*mistakes_of_encoding(encoding), *mistakes_of_rounding(encoding))]
    assert len({*names}) > 10
