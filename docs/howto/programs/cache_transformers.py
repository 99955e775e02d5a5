"""Caches of transformers: `posenc check --cache FILE:Llama`."""

import torch
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    MistralConfig,
    StaticCache,
)

from posenc_core import rerotate
from posenc_core.huggingface import load_rope

SIZES = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.4,
}


class Llama:
    """A model whose cache grows."""

    config = LlamaConfig(**SIZES)
    vocabulary = 32

    def __init__(self):
        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_config(self.config).eval()

    def cache(self):
        return DynamicCache(config=self.config)

    def prefill(self, tokens, mask):
        return self.run(tokens, self.cache(), mask, 0)

    def decode(self, tokens, state):
        cache, mask, moved = state
        new = torch.ones_like(tokens, dtype=torch.bool)
        return self.run(tokens, cache, torch.cat([mask, new], dim=1), moved)

    @torch.no_grad()
    def run(self, tokens, cache, mask, moved):
        positions = (mask.cumsum(1) - 1).clamp(0)[:, -tokens.shape[1] :]
        out = self.model(
            tokens,
            attention_mask=mask.long(),
            position_ids=positions + moved,
            past_key_values=cache,
        )
        return out.logits, (cache, mask, moved)

    def trim(self, state, count):
        cache, mask, moved = state
        cache.crop(-count)
        return cache, mask[:, :-count], moved

    def reorder(self, state, rows):
        cache, mask, moved = state
        cache.reorder_cache(rows)
        return cache, mask[rows], moved

    def move(self, state, by):
        cache, mask, moved = state
        rotary, count = load_rope(self.config), mask.shape[1]
        for layer in cache.layers:
            layer.keys = rerotate(
                layer.keys, range(count), range(by, count + by), rotary=rotary
            )
        return cache, mask, moved + by

    @torch.no_grad()
    def full(self, tokens, positions, visible):
        out = self.model(
            tokens,
            attention_mask=visible[:, None],
            position_ids=positions,
            use_cache=False,
        )
        return out.logits


class Static(Llama):
    """The same model with a cache of a fixed size."""

    trim = move = None  # a StaticCache has no `crop`

    def cache(self):
        return StaticCache(config=self.config, max_cache_len=32)


class Mistral(Llama):
    """A model of sliding windows."""

    config = MistralConfig(**SIZES, sliding_window=8)
    window = 8
    move = None  # the window has lost some keys
