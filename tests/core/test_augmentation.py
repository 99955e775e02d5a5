"""`augment` and `draw_augmentation`: the numbers of mpmath, and the distributions of timm."""

import numpy as np
import pytest

from posenc_backends.conformance.cases import golden
from posenc_core import augment, draw_augmentation, normalized_grid
from posenc_core.positions.augmentation import Augmentation

from ..errors import rejects

PATCHES = normalized_grid(2, 3)


@pytest.mark.parametrize("case", golden("augmentation"), ids=lambda case: case["name"])
def test_numbers_follow_from_the_seed(case):
    drawn = draw_augmentation(len(case["positions"]), seed=case["seed"], **case["options"])
    for got, name in zip(drawn, Augmentation._fields, strict=True):
        np.testing.assert_array_equal(got, case[name])
    got = augment(case["positions"], seed=tuple(case["seed"]), **case["options"])
    np.testing.assert_array_max_ulp(got, np.array(case["result"]), 2)  # three roundings


def test_nothing_is_changed_by_default():
    np.testing.assert_array_equal(augment(PATCHES, seed=3), PATCHES)
    assert augment([[0, 1], [2, 3]], seed=3).dtype == np.float64


def test_one_seed_draws_each_kind_alike_whatever_the_others():
    options = {"shift": 0.5, "jitter": 1.5, "rescale": 2.0}
    together = draw_augmentation(2, seed=(1, 2), **options)
    for name, value in options.items():
        alone = draw_augmentation(2, seed=[1, 2], **{name: value})
        np.testing.assert_array_equal(getattr(alone, name), getattr(together, name))
    assert draw_augmentation(2, seed=1, **options).rescale != together.rescale
    assert draw_augmentation(2, seed=(1, 3), **options).rescale != together.rescale


def test_numbers_are_uniform():
    """The largest distance of the empirical distribution from the uniform one (Kolmogorov), of 2,000 numbers."""
    draws = [draw_augmentation(2, seed=seed, shift=0.3, jitter=1.5, rescale=2.0) for seed in range(1000)]
    samples = {
        "shift": np.ravel([draw.shift for draw in draws]) / 0.3,
        "jitter": np.log(np.ravel([draw.jitter for draw in draws])) / np.log(1.5),
        "rescale": np.log([draw.rescale for draw in draws]) / np.log(2),
    }
    for name, sample in samples.items():
        expected = np.arange(sample.size) / sample.size
        assert np.abs((np.sort(sample) + 1) / 2 - expected).max() < 1.36 / np.sqrt(sample.size), name
        assert np.abs(sample).max() > 0.99
    shift = samples["shift"].reshape(-1, 2)
    assert abs(np.corrcoef(shift.T)[0, 1]) < 0.1  # an axis says nothing about the other


def test_the_prefix_stays_and_a_batch_has_one_draw():
    tokens = np.concatenate([np.zeros((2, 5)), PATCHES], axis=1)
    got = augment(tokens, seed=1, shift=0.5, jitter=1.5, prefix=5)
    np.testing.assert_array_equal(got[:, :5], 0)
    np.testing.assert_array_equal(got[:, 5:], augment(PATCHES, seed=1, shift=0.5, jitter=1.5))
    batch = augment(np.stack([PATCHES, PATCHES], axis=1), seed=1, shift=0.5, jitter=1.5)
    np.testing.assert_array_equal(batch, np.stack([got[:, 5:]] * 2, axis=1))


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"seed": -1}, ValueError, "seed"),
        ({"seed": 2**32}, ValueError, "seed"),
        ({"seed": ()}, ValueError, "seed"),
        ({"seed": 0.5}, TypeError, "seed"),
        ({"seed": (0, "1")}, TypeError, "seed"),
        ({"shift": -0.1}, ValueError, "shift"),
        ({"jitter": 0.9}, ValueError, "jitter"),
        ({"rescale": 2.0**32}, ValueError, "rescale"),
        ({"rescale": float("nan")}, ValueError, "rescale"),
        ({"prefix": 7}, ValueError, "prefix"),
        ({"positions": [1, 2]}, ValueError, "positions"),
        ({"positions": [["a"]]}, TypeError, "positions"),
        ({"positions": [[2.0**30]], "shift": 2.0**31, "jitter": 2.0**30, "seed": 0}, ValueError, "positions"),
    ],
)
def test_wrong_arguments_are_rejected(options, error, name):
    with rejects(error, name):
        augment(**{"positions": PATCHES, "seed": 0} | options)
    if name == "seed":
        with rejects(error, name):
            draw_augmentation(2, **options)


def test_the_number_of_axes_is_checked():
    with rejects(ValueError, "axes", "65"):
        draw_augmentation(65, seed=0)
