"""Write the table of mistakes that `posenc check` names, from its hypotheses, each with where it was met."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from drawn import table

from posenc_backends.check.cache.faults import FAULTS
from posenc_backends.check.cache.result import MOVED, PART
from posenc_backends.check.mistakes import mistakes_of_encoding
from posenc_backends.check.mistakes.application import mistakes_of_views
from posenc_backends.check.mistakes.positions import mistakes_at_the_end
from posenc_backends.check.mistakes.rounding import mistakes_of_rounding
from posenc_backends.check.sample_calls import Caller
from posenc_backends.check.signatures import signature_of
from posenc_core import (
    Alibi,
    AxialRotary,
    DualChunk,
    Learned,
    PoPE,
    QueryScale,
    Rotary,
    SelfExtend,
    Sinusoidal,
    Timestep,
    YaRN,
)
from posenc_core.encodings import Encoding

YARN = YaRN(factor=4.0, original_max_position_embeddings=4096)
ENCODINGS: tuple[Encoding, ...] = (
    Rotary(head_dim=64, layout="half", rotary_dim=32, base=500000.0),
    Rotary(head_dim=64, layout="half", scaling=YARN),
    AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)),
    PoPE(head_dim=64, num_heads=8),
    Sinusoidal(dim=8),
    Timestep(dim=8),
    Learned(dim=8, length=64),
    QueryScale(length=8192, scale=0.1),
    Alibi(num_heads=8, max_bias=16),
    SelfExtend(rotary=Rotary(head_dim=64, layout="half"), window=1024, group_size=4),
    DualChunk(rotary=Rotary(head_dim=64, layout="half"), chunk_size=4096, local_size=512),
)
OTHERS = {  # mistakes that no single call shows, that are measured, or that are not in the numbers
    "wrong frequencies": "frequencies are other ones, which the check measures",
    "wrong factor": "results are multiplied by a number, which the check measures",
    "wrong slopes": "the slopes of ALiBi are other ones, which the check measures",
    "wrong buckets": "the buckets of T5 are other ones, which the check measures",
    "table grown wrongly": "the rows by which a table grows are counted from 0",
    "offset ignored after the first call": "the rows are those of an earlier call of the same length",
    "stale cache": "the rows are those of another call or another dtype",
    "wrong gradient": "the numbers are right, but there is no gradient, or a wrong one, of any array in any dtype",
    "wrong dtype": "the result has another dtype than the tokens",
    "arguments changed": "the call writes into tokens or positions",
    "not thread-safe": "two threads at once get other numbers",
    "wrong when compiled": "compiled code gives other numbers",
    "not finite": "it returns infinity or NaN at a position or size that it should take",
    "NoPE ignored": "a layer of a model rotates, whose config says that it has no RoPE",
    "buffer not computed": "frequencies of a model are memory that was not filled, as after `to_empty`",
    "wrong head_dim": "queries and keys of a model have fewer channels than its encoding",
    "fails at some sizes": "it raises at a batch, number of heads or length that it should take",
}
MET = {  # a thread or a released library
    "layout swapped": "pe_audio of transformers; TensorRT-LLM#16378",
    "table and rotation of different layouts": "transformers#47328, ERNIE-Image#6",
    "rotated twice": "TensorRT-LLM#16378",
    "only the first row of the batch": "mlx#3494, #3496, #3795, #3949",
    "not rotated past the end of a table": "flash-attention, `ops/triton/rotary.py`",
    "positions of the first row": "vllm-omni#4043",
    "rotary_dim ignored": "transformers 5.23, Llama with `partial_rotary_factor`",
    "truncate ignored": "transformers 5.23, YaRN of one layer type",
    "wrong scaling": "keras-hub 0.32, dynamic",
    "base ignored": "DeepSpeed#8345, vllm#28542",
    "scaling ignored": "mlx-vlm#1709, Megatron-Bridge#5097",
    "axes swapped": "pytorch-image-models#2692",
    "float32 angles": "transformers, torchtune, x-transformers, keras-hub",
    "float32 positions": "transformers 5.23, past position 2^24",
    "bfloat16 positions": "rotary-embedding-torch 0.9",
    "float16 positions": "rotary-embedding-torch 0.9",
    "bfloat16 frequencies": "transformers 5.23, `model.to(bfloat16)`",
    "bfloat16 angles": "keras-hub 0.32, sinusoids",
    "float16 angles": "keras-hub 0.32, sinusoids",
    "offset ignored after the first call": "rotary-embedding-torch 0.9, axial",
    "stale cache": "rotary-embedding-torch 0.9, positional-encodings 6",
    "wrong gradient": "apex#1750; transformers' hub kernel, for inference only",
    "arguments changed": "Liger-Kernel, unsloth#5001",
    "not relative": "Bloom and MPT: a softmax over all keys cancels the difference",
    "wrong when compiled": "yalis#54",
    "channels in another order": "PoPE-pytorch",
}


MET_IN_CACHES = {
    "keys rotated twice": "shainet#110",
    "positions of the first row": "unsloth#3699, reasoning-from-scratch#33",
    "padding counted as positions": "ComfyUI#15698",
    "sinks not moved": "transformers#33691, #35350",
    "trim keeps keys": "claude-code-local#47, mlx-swift-lm#584",
    "reorder ignored": "transformers#46612",
}


def mistakes() -> str:
    """Return the names, what each means, and where it was met, as Markdown."""
    return table(("mistake", "what the function does", "met in"), list(_rows()))


def mistakes_of_caches() -> str:
    """Return the names of mistakes of decoders with a cache, as Markdown."""
    rows = ((one.name, one.description, MET_IN_CACHES.get(one.name, "our own tests")) for one in FAULTS)
    other = (PART, MOVED, MET_IN_CACHES.get(PART, "our own tests"))
    return table(("mistake", "what the decoder does", "met in"), [*rows, other])


def _rows() -> Iterator[tuple[str, str, str]]:
    meanings: dict[str, str] = {}
    for encoding in ENCODINGS:
        for one in (*mistakes_of_encoding(encoding), *mistakes_of_rounding(encoding)):
            if ", " not in one.name:
                meanings.setdefault(one.name, one.description)
    caller = Caller(ENCODINGS[0], signature_of(lambda q, k, positions: (q, k), ENCODINGS[0], None), {})
    near, far = (caller.call("", "float32", np.arange(first, first + 4)) for first in (0, 4096))
    for one in (*mistakes_at_the_end(far, [near]), *mistakes_of_views()):
        meanings.setdefault(one.name, one.description)
    for name, meaning in (meanings | OTHERS).items():
        yield name, meaning, MET.get(name, "our own tests")
