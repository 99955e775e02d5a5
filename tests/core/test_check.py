"""The verdict on callables in NumPy: forms, mistakes, failures."""

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_core import Alibi, Binary, Rotary, Sinusoidal, T5Bias, XPos, rotate

ROTARY = Rotary(head_dim=8, layout="interleaved")


def rope(q, k, positions):
    """Written from the definition, in float64."""
    turns = positions[..., None] * 10000.0 ** (-np.arange(4) / 4)
    turns = turns if positions.ndim == 1 else turns[:, None]
    unit = np.exp(1j * turns)
    return tuple(_real((x[..., 0::2] + 1j * x[..., 1::2]) * unit).astype(x.dtype) for x in (q, k))


def _real(z):
    return np.stack([z.real, z.imag], axis=-1).reshape(*z.shape[:-1], -1)


def cos_sin(positions):
    turns = positions[..., None] * 10000.0 ** (-np.arange(4) / 4)
    return np.cos(turns), np.sin(turns)


def doubled(positions):
    return tuple(np.repeat(table, 2, axis=-1) for table in cos_sin(positions))


def sinusoids(positions):
    turns = positions[..., None] * 10000.0 ** (-np.arange(4) / 4)
    return np.stack([np.sin(turns), np.cos(turns)], axis=-1).reshape(*turns.shape[:-1], 8).astype(np.float32)


def alibi(queries, keys):
    slopes = 2.0 ** -np.arange(1, 9)
    return (-slopes[:, None, None] * np.abs(queries[:, None] - keys)).astype(np.float32)


def names(verdict):
    return [each.name for each in verdict.mistakes]


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (rope, ROTARY),
        (lambda x, positions: rope(x, x, positions)[0], ROTARY),
        (cos_sin, ROTARY),
        (doubled, ROTARY),
        (sinusoids, Sinusoidal(dim=8)),
        (lambda x, positions: x + sinusoids(positions), Sinusoidal(dim=8)),
        (alibi, Alibi(num_heads=8)),
    ],
)
def test_each_form_is_told_by_its_arguments_and_conforms(function, spec):
    verdict = check(function, spec)
    assert verdict.status == 0, verdict
    assert str(verdict).startswith("conforms (worst ")


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
        (lambda q, k, positions: (q, k), ROTARY, "not turned"),
        (lambda q, k, positions: rope(q, k, positions[..., :1] + np.arange(positions.shape[-1])), ROTARY,
         "positions taken as consecutive"),
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
    verdict = check(function, spec)
    assert mistake in names(verdict), verdict
    assert verdict.status == 1
    assert "unknown" not in str(verdict)


def test_what_is_off_where_it_must_be_0_is_not_counted_in_last_places():
    told = str(check(lambda queries, keys: alibi(queries + 1, keys), Alibi(num_heads=8)))
    assert "Off where the number is 0; first " in told
    assert "e+" not in told


def test_a_mistake_of_the_keys_alone_is_told_of_them():
    verdict = check(lambda q, k, positions: (rope(q, q, positions)[0], rope(k, k, positions + 1)[0]), ROTARY)
    assert [(each.name, each.outputs) for each in verdict.mistakes] == [("positions off by one", ("keys",))]
    assert "(keys)" in str(verdict)


def test_two_mistakes_at_once_are_both_named():
    verdict = check(rope, Rotary(head_dim=8, layout="half", base=5e5))
    assert names(verdict) == ["layout swapped, base ignored"]


def test_what_no_mistake_explains_is_not_guessed():
    verdict = check(lambda q, k, positions: rope(q * 1.01, k, positions), ROTARY)
    assert names(verdict) == ["differs, cause unknown"]
    (mistake,) = verdict.mistakes
    assert (mistake.outputs, verdict.status) == (("queries",), 1)
    assert "queries[0, 0, 0, 0] is " in mistake.start


@pytest.mark.parametrize(
    ("taken", "mistake"),
    [
        (np.abs, ["sign of positions ignored"]),
        (np.floor, ["positions made whole"]),
        (np.rint, ["positions made whole"]),
        (np.asarray, []),
    ],
)
def test_negative_and_real_positions_are_asked_for_by_name(taken, mistake):
    function = lambda positions: cos_sin(taken(positions))
    assert check(function, ROTARY).status == 0
    assert names(check(function, ROTARY, takes=("negative", "real"))) == mistake
    assert check(alibi, Alibi(num_heads=8), takes=("negative", "real")).status == 0


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda q, k, positions: 1 / 0, "it raised ZeroDivisionError: division by zero, of (2, 4, 17, 8)"),
        (lambda q, k, positions: q, "it must return 2 arrays, got numpy.ndarray"),
        (lambda q, k, positions: (q, k[..., :2]), "keys must have shape (2, 2, 17, 8), got (2, 2, 17, 2)"),
        (lambda q, k, positions: (q, k * np.nan), "keys must be numbers, got nan at (0, 0, 0, 0)"),
        (lambda q, k, positions: (q, k.tolist()), "it must return numpy's arrays (numpy.ndarray), got list of 2"),
        (lambda q, k, positions: (q, k + 0j), "it must return real numbers, got complex64"),
        (lambda q, k, positions: None, "it must return 2 arrays, got NoneType"),
        (lambda q, k, positions: (q.sum(), k.sum()), "queries must have shape (2, 4, 17, 8), got ()"),
    ],
)
def test_a_callable_that_fails_is_told_in_a_sentence(function, told):
    verdict = check(function, ROTARY)
    assert (verdict.status, verdict.mistakes) == (2, ())
    assert told in str(verdict)


def test_half_precision_may_be_refused_but_not_answered_with_nan():
    def refusing(q, k, positions):
        if q.dtype == np.float16:
            raise TypeError("float32 only")
        return rope(q, k, positions)

    verdict = check(refusing, ROTARY)
    assert (verdict.status, len(verdict.remarks)) == (0, 2)
    verdict = check(lambda q, k, positions: rope(q / (q.dtype != np.float16), k, positions), ROTARY)
    assert verdict.status == 2
    assert "queries must be numbers" in verdict.failure
    assert "in float16" in verdict.failure


def test_a_table_that_ends_is_told_how_to_be_asked():
    table = np.stack(cos_sin(np.arange(4096)))

    def held(positions):
        return tuple(table[:, positions])

    verdict = check(held, ROTARY)
    assert verdict.status == 2
    assert "IndexError" in str(verdict)
    assert "`longest` 4090" in str(verdict)
    assert check(held, ROTARY, longest=4090).status == 0


@pytest.mark.parametrize(
    ("arguments", "options", "error", "told"),
    [
        ((rope, XPos(head_dim=8, layout="half")), {}, TypeError, "`spec` must be a Rotary, an additive or a scoring"),
        ((alibi, T5Bias(num_heads=2)), {}, TypeError, "without parameters"),
        ((rope, "Rope(dim=2)"), {}, ValueError, "`kind` must be one of"),
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
        ((rope, ROTARY), {"longest": 64.0}, TypeError, "`longest` must be an integer, got 64.0"),
        ((sinusoids, Binary(dim=4)), {}, ValueError, "`spec` must have at least 20 positions, got 16 of Binary(dim=4"),
        ((rope, 8), {}, TypeError, "`spec` must be a Rotary, an additive or a scoring"),
        ((rope, Rotary), {}, TypeError, "`spec` must be a Rotary, an additive or a scoring"),
    ],
)
def test_what_cannot_be_checked_is_refused(arguments, options, error, told):
    with pytest.raises(error) as raised:
        check(*arguments, **options)
    assert told in str(raised.value)


def test_rotate_itself_conforms_to_the_half_layout():
    def turn(x, positions):
        tables = Rotary(head_dim=6, layout="half").cos_sin(positions)
        return rotate(x, *(table if positions.ndim == 1 else table[:, None] for table in tables), layout="half")

    assert check(turn, Rotary(head_dim=6, layout="half")).status == 0
