"""Load states, pickles and modules that were saved before the files of the package moved, and compare their numbers.

`tests/golden/saved_before.py` wrote them, with the code of commit 0cd9e1f.
"""

import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from posenc_backends.torch import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
from posenc_core import Alibi, Fire, Kerple, Learned, LearnedRotary, Rotary, Sinusoidal, T5Bias, YaRN

SAVED = Path(__file__).with_name("saved_before")
HALF, INTERLEAVED = (Rotary(head_dim=4, layout=layout) for layout in ("half", "interleaved"))
T5, OTHER_T5 = T5Bias(num_heads=2), T5Bias(num_heads=2, max_distance=99)


class Model(nn.Module):
    """Add learned positions to tokens, then attend with an encoding."""

    def __init__(self, encoding):
        super().__init__()
        self.positions = PositionalEncoding(8, encoding=Learned(dim=8, length=5))
        self.blocks = nn.ModuleList([MultiHeadAttention(8, 2, position=encoding)])

    def forward(self, x):
        x = self.positions(x)
        return self.blocks[0](x, x, x, causal=True)


def positional_encoding(encoding):
    return PositionalEncoding(4, encoding=encoding)


def attention(encoding):
    return MultiHeadAttention(8, 2, position=encoding)


CASES = {  # the function that makes a layer, the saved encoding, and another encoding
    "learned": (positional_encoding, Learned(dim=4, length=5), Learned(dim=4, length=7)),
    "rotary": (RotaryEmbedding, HALF, INTERLEAVED),
    "persistent": (partial(RotaryEmbedding, max_len=3, persistent=True), HALF, INTERLEAVED),
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
    "model": (Model, T5, OTHER_T5),
}
UNLEARNED = ("rotary", "persistent")
EXACT = ("learned", "rotary", "persistent", "t5", "whole_rotary", "yarn", "sinusoidal", "alibi")
ENCODINGS = {
    "yarn": Rotary(head_dim=8, layout="half", scaling=YaRN(factor=4.0, original_max_position_embeddings=32)),
    "sinusoidal": Sinusoidal(dim=4, convention="concatenated"),
    "alibi": Alibi(num_heads=2),
}
WHOLE = {
    "whole_rotary": lambda: RotaryEmbedding(HALF, max_len=3),
    "whole_attention": lambda: MultiHeadAttention(8, 2, position=INTERLEAVED, max_len=3),
}
CALLED_LIKE = {"whole_rotary": "rotary", "whole_attention": "attention_rotary"}


def call(layer, arrays):
    """Call a layer with NumPy arrays; return its results as a list."""
    inputs = [torch.from_numpy(array) for array in arrays]
    with torch.no_grad():
        result = layer(*inputs * 3, causal=True) if isinstance(layer, MultiHeadAttention) else layer(*inputs)
    return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]


def tables(encoding):
    """List the tables of an encoding at five positions."""
    if isinstance(encoding, Rotary):
        return [*encoding.cos_sin(range(5))]
    return [encoding.bias(range(5), range(5)) if isinstance(encoding, Alibi) else encoding.table(range(5))]


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


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_gives_the_same_numbers(name):
    make, encoding, _ = CASES[name]
    layer = make(encoding).eval()
    inputs, wanted = numbers(name)
    if name not in UNLEARNED:
        assert np.abs(call(layer, inputs)[0] - wanted[0]).max() > 1e-3
    assert str(layer.load_state_dict(torch.load(SAVED / f"{name}.pt"))) == "<All keys matched successfully>"
    compare(name, call(layer, inputs), wanted)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_of_another_encoding_is_rejected(name):
    make, encoding, other = CASES[name]
    layer = make(other)
    with pytest.raises(RuntimeError, match=r"encoding: .*, but the layer has") as caught:
        layer.load_state_dict(torch.load(SAVED / f"{name}.pt"))
    assert f"encoding: {encoding!r}, but the layer has {other!r}" in str(caught.value)


def test_saved_tables_reveal_another_encoding_without_metadata():
    state = dict(torch.load(SAVED / "persistent.pt"))
    assert {name: tuple(table.shape) for name, table in state.items()} == {"cos": (3, 2), "sin": (3, 2)}
    layer, other = (
        RotaryEmbedding(Rotary(head_dim=4, layout="half", base=base), persistent=True) for base in (1e4, 99.0)
    )
    layer.load_state_dict(state)
    with pytest.raises(RuntimeError, match="cos: other numbers than Rotary"):
        other.load_state_dict(state)


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("role", ["pickle", "json"])
def test_saved_encodings_are_equal(name, role):
    if role == "pickle":
        loaded = pickle.loads((SAVED / f"{name}.pickle").read_bytes())
    else:
        loaded = type(ENCODINGS[name]).from_dict(
            json.loads((SAVED / "encodings.json").read_text(encoding="utf-8"))[name]
        )
    assert loaded == ENCODINGS[name]
    assert type(loaded) is type(ENCODINGS[name])
    compare(name, tables(loaded), numbers(name)[1])


@pytest.mark.parametrize("name", WHOLE)
def test_a_pickled_module_gives_the_same_numbers(name):
    layer = torch.load(SAVED / "whole_modules.pt", weights_only=False)[name]
    assert type(layer) is type(WHOLE[name]())
    inputs, wanted = numbers(name)
    compare(name, call(layer, inputs), wanted)
