"""The tutorial's Transformer: `posenc check --cache FILE:Decoder`."""

import numpy as np

from posenc_core import Rotary
from posenc_core.transformer import Memory, Transformer, decode, read

ROTARY = Rotary(head_dim=8, layout="half")
MODEL = Transformer(
    vocabulary=12, max_len=40, position=ROTARY, num_hiddens=16, num_heads=2
)
WEIGHTS = MODEL.initial(seed=0) | MODEL.constants()


class Decoder:
    """Answers to the same question."""

    vocabulary = MODEL.vocabulary

    def prefill(self, tokens):
        question = np.full((len(tokens), 3), 5)
        return decode(MODEL, WEIGHTS, tokens, read(MODEL, WEIGHTS, question))

    def decode(self, tokens, state):
        return decode(MODEL, WEIGHTS, tokens, state)

    def trim(self, state, count):
        past = [(k[:, :, :-count], v[:, :, :-count]) for k, v in state.past]
        return state._replace(past=tuple(past))

    def reorder(self, state, rows):
        source, past = (
            tuple((k[rows], v[rows]) for k, v in pairs)
            for pairs in (state.source, state.past)
        )
        return Memory(state.visible[rows], source, past)
