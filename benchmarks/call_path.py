"""Count the Python functions of ours that a call passes through, and in how many files they stand."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from counting import PACKAGES

# No function of its own in newer versions of Python.
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
LLAMA3 = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 131_072,
    "rope_theta": 500_000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}


class CallCounter:
    """Collect the Python functions that are entered, as a profile function.

    Comprehensions and generator expressions are left out, and a generator counts once, however often it is resumed.

    Attributes:
        modules: names of the modules of ours, in the order in which their functions were entered.
        codes: the functions of ours.
        total: how many functions were entered, those of all other packages included.
    """

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.codes: set[CodeType] = set()
        self.total = 0
        self._generators: dict[int, FrameType] = {}  # keeps the frames, so that no other one gets the same id

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a function that is entered."""
        code = frame.f_code
        if event != "call" or code.co_name in COMPREHENSIONS or id(frame) in self._generators:
            return
        if code.co_flags & inspect.CO_GENERATOR:
            self._generators[id(frame)] = frame
        self.total += 1
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in PACKAGES:
            self.modules.append(module)
            self.codes.add(code)

    def counts(self) -> dict[str, Any]:
        """Return the counts; a module is a file, and functions that `dataclass` writes count where the class stands."""
        changes = sum(one != other for one, other in zip(self.modules, self.modules[1:], strict=False))
        by_file = Counter(self.modules)
        return {
            "calls": len(self.modules),
            "calls, all packages": self.total,
            "functions": len(self.codes),
            "files": len(by_file),
            "changes of file": changes,
            "calls by file": dict(by_file.most_common()),
        }


def count_calls(call: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    """Count the Python functions that one call passes through, after two calls that fill caches; return the counts."""
    for _ in range(2):
        call(*arguments, **options)
    counter, before = CallCounter(), sys.getprofile()
    sys.setprofile(counter)
    try:
        call(*arguments, **options)
    finally:
        sys.setprofile(before)
    return counter.counts()


def way() -> dict[str, dict[str, Any]]:
    """Return the counts of each call, by its name."""
    return layers() | loaders()


def layers() -> dict[str, dict[str, Any]]:
    """Return the counts of the layers of PyTorch."""
    import torch

    from posenc_backends.torch import (
        AttentionBias,
        MultiHeadAttention,
        PositionalEncoding,
        QueryScaling,
        RotaryEmbedding,
    )
    from posenc_core import Alibi, QueryScale, Rotary, T5Bias

    rope = RotaryEmbedding(Rotary(head_dim=64, layout="half"))
    addition, q, x = PositionalEncoding(64), torch.ones(1, 8, 16, 64), torch.ones(2, 16, 64)
    of_rows = torch.tensor([range(16), range(1, 17)])
    positions = {
        "": None,
        ", position=Rotary": Rotary(head_dim=16, layout="half"),
        ", position=Alibi": Alibi(num_heads=4),
    }
    biases = {"Alibi": Alibi(num_heads=8), "T5Bias": T5Bias(num_heads=8)}
    return (
        {
            "rope(q)": count_calls(rope, q),
            "rope(q), one token": count_calls(rope, torch.ones(1, 8, 1, 64)),
            "rope(q, k, positions=tensor)": count_calls(rope, q, torch.ones(1, 8, 16, 64), positions=torch.arange(16)),
            "rope(q, k, positions=rows)": count_calls(rope, *[torch.ones(2, 8, 16, 64)] * 2, positions=of_rows),
            "PositionalEncoding(64)(x)": count_calls(addition, x),
            "PositionalEncoding(64)(x), one token": count_calls(addition, torch.ones(1, 1, 64)),
            "QueryScaling(QueryScale)(q)": count_calls(QueryScaling(QueryScale(length=8, scale=0.1)), q),
        }
        | {
            f"MultiHeadAttention(64, 4{name})(x, x, x)": count_calls(MultiHeadAttention(64, 4, position=one), x, x, x)
            for name, one in positions.items()
        }
        | {
            f"AttentionBias({name})(scores)": count_calls(AttentionBias(one), torch.zeros(1, 8, 16, 16))
            for name, one in biases.items()
        }
    )


def loaders() -> dict[str, dict[str, Any]]:
    """Return the counts of the calls that read a config; no framework is imported."""
    from posenc_core.huggingface import load_rope

    return {"load_rope(Llama 3)": count_calls(load_rope, LLAMA3)}
