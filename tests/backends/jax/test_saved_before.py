"""Load states that were saved before the files of the package moved, and compare their numbers.

`tests/golden/saved_before.py` wrote them, with the code of commit 0cd9e1f.
"""

from pathlib import Path

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from posenc_backends.jax import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding, from_state
from posenc_core import Fire, Kerple, Learned, LearnedRotary, Rotary, T5Bias

SAVED = Path(__file__).with_name("saved_before")
HALF, INTERLEAVED = (Rotary(head_dim=4, layout=layout) for layout in ("half", "interleaved"))
T5, OTHER_T5 = T5Bias(num_heads=2), T5Bias(num_heads=2, max_distance=99)


def positional_encoding(encoding):
    return PositionalEncoding(4, encoding=encoding)


def attention(encoding):
    return MultiHeadAttention(8, 2, position=encoding)


def model(encoding):
    """Make a tree with learned positions and a list of attention layers."""
    return {
        "positions": PositionalEncoding(8, encoding=Learned(dim=8, length=5)),
        "blocks": [MultiHeadAttention(8, 2, position=encoding)],
        "rope": RotaryEmbedding(HALF),
    }


CASES = {  # the function that makes a layer, the saved encoding, and another encoding
    "learned": (positional_encoding, Learned(dim=4, length=5), Learned(dim=4, length=7)),
    "rotary": (RotaryEmbedding, HALF, INTERLEAVED),
    "learned_rotary": (
        RotaryEmbedding,
        LearnedRotary(head_dim=4, layout="half"),
        LearnedRotary(head_dim=4, layout="half", base=99.0),
    ),
    "t5": (AttentionBias, T5, OTHER_T5),
    "fire": (AttentionBias, Fire(num_heads=2, hidden=4), Fire(num_heads=2, hidden=4, threshold=99)),
    "kerple": (AttentionBias, Kerple(num_heads=2), Kerple(num_heads=2, sides="past")),
    "attention_rotary": (attention, INTERLEAVED, HALF),
    "attention_t5": (attention, T5, OTHER_T5),
    "model": (model, T5, OTHER_T5),
}
UNLEARNED = ("rotary",)
EXACT = ("learned", "rotary", "t5")


def call(tree, arrays):
    """Call a layer, or the layers of a tree in turn, with NumPy arrays; return its results as a list."""
    x, *rest = map(jnp.asarray, arrays)
    layer = tree
    if isinstance(tree, dict):
        x, layer = tree["positions"](x), tree["blocks"][0]
    result = layer(x, x, x, causal=True) if isinstance(layer, MultiHeadAttention) else layer(x, *rest)
    return [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]


def numbers(name):
    """Read the inputs and results of the layer of a case."""
    with np.load(SAVED / "numbers.npz") as saved:
        return [
            [saved[key] for key in sorted(saved) if key.startswith(f"{name}.{role}.")] for role in ("given", "wanted")
        ]


def compare(name, results, wanted):
    """Compare bit by bit if each number is looked up, a sum or a sum of two products: all machines round them alike."""
    assert len(results) == len(wanted) > 0
    for result, array in zip(results, wanted, strict=True):
        assert result.dtype == array.dtype
        # In other cases the order of sums, exponentials and logarithms depend on the machine: the largest number may be
        # off by 16 ulp.
        tolerance = 0 if name in EXACT else 2.0**-20 * np.abs(array).max()
        np.testing.assert_allclose(result, array, rtol=0, atol=tolerance)


def state(name):
    """Read the state of a case."""
    with np.load(SAVED / f"{name}.npz") as saved:
        return dict(saved)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_gives_the_same_numbers(name):
    make, encoding, _ = CASES[name]
    fresh = make(encoding)
    inputs, wanted = numbers(name)
    if name not in UNLEARNED:
        assert np.abs(call(fresh, inputs)[0] - wanted[0]).max() > 1e-3
    loaded = from_state(fresh, state(name))
    assert jax.tree.structure(loaded) == jax.tree.structure(fresh)
    compare(name, call(loaded, inputs), wanted)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_of_another_encoding_is_rejected(name):
    make, encoding, other = CASES[name]
    with pytest.raises(ValueError, match=r"encoding` must be .*, as in the layer, got") as caught:
        from_state(make(other), state(name))
    assert f"must be {other!r}, as in the layer, got {encoding!r}" in str(caught.value)
