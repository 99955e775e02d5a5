"""A decoder of d2l's parts: with its own attention and positions, and with ours."""

import numpy as np
import pytest

from .decoder import Sizes
from .truth import decoder

# Keras traces layers that take lists, to build them; d2l's softmax fails there, and runs all the same.
pytestmark = pytest.mark.filterwarnings("ignore:.*unbuilt state:UserWarning")

SIZES = Sizes(vocabulary=20, width=24, ffn=48, num_heads=8, num_blks=2, dropout=0.5)
LENGTHS = np.array([3, 2])
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, 20, (2, 5))
MEMORY = RNG.normal(size=(2, 9, 24)).astype(np.float32)


def test_all_tokens_at_once(original, whose):
    """As in training. No token looks ahead, none at what is padding in the question."""
    made = original.decoded(original.decoder(SIZES), SIZES, TOKENS, MEMORY, LENGTHS)
    truth, seen = decoder(TOKENS, MEMORY, LENGTHS, made, 8, original.epsilon)
    assert truth.slack.max() < 1e-4
    assert np.all(np.abs(made.result - truth.value) <= truth.slack)
    least = 0 if whose == "ours" else original.least
    for (own, across), trues in zip(made.weights, seen, strict=True):
        for weight, true in zip((own, across), trues, strict=True):
            assert np.all(np.abs(weight.reshape(true.value.shape) - true.value) <= true.slack + least)
        assert max(np.triu(own, 1).max(), across[:8, :, 3:].max(), across[8:, :, 2:].max()) <= least


@pytest.mark.parametrize("with_start", [True, False], ids=["with start", "as the page"])
def test_token_by_token(original, with_start):
    """Each of the page's tokens stands at position 0. `start` says where it stands, and all is as in training."""
    with original.replace_layers():
        model = original.decoder(SIZES, with_start)
        made = original.decoded(model, SIZES, TOKENS, MEMORY, LENGTHS)
        state = model.init_state(original.to_backend(MEMORY), original.native_lengths(LENGTHS))
        truth, _ = decoder(TOKENS, MEMORY, LENGTHS, made, 8, original.epsilon)
        off = np.zeros(3)
        for step in range(3):
            logits, state = original.stepped(model, made.held, original.to_backend(TOKENS[:, [step]]), state)
            error = np.abs(original.backend.to_numpy(logits)[:, 0] - truth.value[:, step])
            off[step] = np.max(error / truth.slack[:, step])
    assert off[0] <= 1
    assert np.all(off[1:] <= 1) if with_start else np.all(off[1:] > 100)
