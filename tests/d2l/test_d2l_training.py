"""d2l's Transformer, trained and asked as on its page: with its own attention and positions, and with ours."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from .translation import ENGLISH, STEPS, TRANSLATIONS

pytestmark = [  # that of d2l's own code
    pytest.mark.filterwarnings("ignore:.*unbuilt state:UserWarning"),
    pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:ndarray.as_in_context has been renamed:DeprecationWarning"),
]
NUM_BLKS, NUM_HEADS = 2, 4


class Trained(NamedTuple):
    """A model, the losses of its training, its translations, and the weights of attention in the last of them."""

    model: Any
    losses: list[float]
    texts: list[str]
    weights: Any


@pytest.fixture(scope="module")
def page(original):
    with pytest.MonkeyPatch.context() as patch:
        yield TRANSLATIONS[original.framework](original, patch)


@pytest.fixture(scope="module")
def both(original, page):
    """Theirs and ours; training begins with the same numbers."""
    theirs = page.model()
    with original.replace_layers():
        model = page.model()
        page.begin(model, theirs)
        ours = trained(page, model)
    return trained(page, theirs), ours


def trained(page, model):
    return Trained(model, page.fit(model), *page.translated(model, ENGLISH))


def test_losses(both):
    """The first five: from then on a rounding may grow, where Adam divides a gradient that vanishes by its own size."""
    theirs, ours = (np.array(one.losses) for one in both)
    assert theirs.shape == (30,)
    assert theirs[-1] < theirs[0] / 10
    np.testing.assert_allclose(ours[:5], theirs[:5], rtol=0, atol=5e-5)


def test_translations(page, both):
    """Where it forgets positions, it may stammer: then both do."""
    theirs, ours = both
    assert ours.texts == theirs.texts
    assert page.scores(ours.texts) == page.scores(theirs.texts)


def test_weights(original, both):
    """Compare the pictures of the page; its last sentence has four tokens, with its end."""
    for one, least in zip(both, (original.least, 0), strict=True):
        encoder = np.stack([original.backend.to_numpy(weights)[-NUM_HEADS:] for weights in one.weights.encoder])
        assert encoder.shape == (NUM_BLKS, NUM_HEADS, STEPS, STEPS)
        own, across = with_projections(original, one.weights.decoder)
        assert across.shape == own.shape == (NUM_BLKS, NUM_HEADS, len(one.weights.decoder), STEPS)
        for weights in (encoder, own, across):
            np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-6)
        assert max(encoder[..., 4:].max(), across[..., 4:].max()) <= least
        assert not np.triu(own, 1).any()


def test_with_the_line_that_the_page_lacks(original, page, both):
    """Told where tokens stand, it makes no mistake."""
    with original.replace_layers():
        model = page.model(arange_like=True)
        page.begin(model, both[1].model)
        texts, _ = page.translated(model, ENGLISH)
    assert page.scores(texts) == [1, 1, 1, 1]


def with_projections(original, steps):
    """Return the weights of both attentions, `(blocks, heads, steps, keys)`; 0 for later keys, as on the page."""
    rows = [original.backend.to_numpy(block)[-NUM_HEADS:, 0] for step in steps for kind in step for block in kind]
    rows = [np.pad(row, ((0, 0), (0, STEPS - row.shape[-1]))) for row in rows]
    return np.reshape(rows, (len(steps), 2, NUM_BLKS, NUM_HEADS, STEPS)).transpose(1, 2, 3, 0, 4)
