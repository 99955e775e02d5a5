"""d2l's `TransformerEncoder`: with its own layers, under their names with ours, and beside our Transformer."""

from functools import partial

import numpy as np
import pytest

from posenc_core import Sinusoidal
from posenc_core.transformer import model as transformer
from posenc_core.transformer.model import Transformer, encode

from .truth import encoder

LENGTHS = np.array([4, 9])
TOKENS = np.random.default_rng(0).integers(1, 20, (2, 9)) * (np.arange(9) < LENGTHS[:, None])
NAMES = {"W_q": "query", "W_k": "key", "W_v": "value", "W_o": "output"}


@pytest.fixture(scope="module")
def theirs(original):
    """Return the result of d2l's encoder, its embedding, and the parameters of its blocks."""
    return original.encoded(original.encoder(20, 24, 32, 3, 2, 0.0), TOKENS, LENGTHS)


@pytest.fixture
def with_ours(original):
    """The same, where the encoder finds our layers under d2l's names."""
    with original.replace_layers():
        return original.encoded(original.encoder(20, 24, 32, 3, 2, 0.0), TOKENS, LENGTHS)


@pytest.mark.parametrize("whose", ["theirs", "with_ours"])
def test_the_encoder_is_that_of_the_formulas(original, request, whose):
    result, embedding, blocks, _ = request.getfixturevalue(whose)
    assert result.shape == (2, 9, 24)
    assert len(blocks) == 2
    truth, _ = encoder(TOKENS, LENGTHS, embedding, blocks, 3, original.epsilon)
    assert truth.slack.max() < 1e-4
    assert np.all(np.abs(result - truth.value) <= truth.slack)


def test_our_transformer_encodes_alike(original, theirs, monkeypatch):
    """With d2l's numbers, and what its framework adds to a variance; padding is known by its token, 0."""
    monkeypatch.setattr(transformer, "NORM_EPSILON", original.epsilon)
    result_of_theirs, embedding, blocks, _ = theirs
    sizes = {"vocabulary": 20, "max_len": 9, "num_hiddens": 24, "ffn_hiddens": 32, "num_heads": 3, "num_blocks": 2}
    model = Transformer(position=Sinusoidal(dim=24), **sizes)
    given = model.initial(seed=0) | model.constants() | {"embedding": embedding} | renamed(blocks)
    weights = {name: original.to_backend(np.asarray(numbers, np.float32)) for name, numbers in given.items()}
    ours = original.called(partial(encode, model, weights), TOKENS)
    truth, _ = encoder(TOKENS, LENGTHS, embedding, blocks, 3, original.epsilon)
    for result in (result_of_theirs, ours):
        assert np.all(np.abs(result - truth.value) <= truth.slack)


def renamed(blocks):
    """The numbers of d2l's blocks, under the names that our Transformer has for them."""
    named = {}
    for index, block in enumerate(blocks):
        named |= {f"encoder.{index}.attention.{ours}": block[theirs] for theirs, ours in NAMES.items()}
        for theirs, ours in (("dense1", "inner"), ("dense2", "outer")):
            matrix, bias = block[theirs]
            named |= {f"encoder.{index}.feed_forward.{ours}": matrix, f"encoder.{index}.feed_forward.{ours}_bias": bias}
    return named
