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
IN_PLACE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class Passed:
    """Collect the Python functions that are entered, as a profile function.

    Comprehensions and generator expressions are left out, and a generator counts once, however often it is resumed.

    Attributes:
        modules: names of the modules of ours, in the order in which their functions were entered.
        codes: the functions of ours.
        every: how many functions were entered, those of all other packages included.
    """

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.codes: set[CodeType] = set()
        self.every = 0
        self._generators: dict[int, FrameType] = {}  # keeps the frames, so that no other one gets the same id

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a function that is entered."""
        code = frame.f_code
        if event != "call" or code.co_name in IN_PLACE or id(frame) in self._generators:
            return
        if code.co_flags & inspect.CO_GENERATOR:
            self._generators[id(frame)] = frame
        self.every += 1
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in PACKAGES:
            self.modules.append(module)
            self.codes.add(code)

    def counted(self) -> dict[str, Any]:
        """Return the counts; a module is a file, and functions that `dataclass` writes count where the class stands."""
        changes = sum(one != other for one, other in zip(self.modules, self.modules[1:], strict=False))
        by_file = Counter(self.modules)
        return {
            "calls": len(self.modules),
            "calls, all packages": self.every,
            "functions": len(self.codes),
            "files": len(by_file),
            "changes of file": changes,
            "calls by file": dict(by_file.most_common()),
        }


def passed(call: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
    """Count the Python functions that one call passes through, after two calls that fill caches; return the counts."""
    for _ in range(2):
        call(*arguments, **options)
    found, before = Passed(), sys.getprofile()
    sys.setprofile(found)
    try:
        call(*arguments, **options)
    finally:
        sys.setprofile(before)
    return found.counted()


def way() -> dict[str, dict[str, Any]]:
    """Return the counts of each call, by its name."""
    import torch

    from posenc_backends.torch import AttentionBias, MultiHeadAttention, PositionalEncoding, RotaryEmbedding
    from posenc_core import Alibi, Rotary

    def rotary(head_dim: int) -> Rotary:
        return Rotary(head_dim=head_dim, layout="half")

    rope, q, x = RotaryEmbedding(rotary(64)), torch.ones(1, 8, 16, 64), torch.ones(2, 16, 64)
    attention, bias = MultiHeadAttention(64, 4, position=rotary(16)), AttentionBias(Alibi(num_heads=8))
    addition = PositionalEncoding(64)
    return {
        "rope(q)": passed(rope, q),
        "rope(q), one token": passed(rope, torch.ones(1, 8, 1, 64)),
        "rope(q, k, positions=tensor)": passed(rope, q, torch.ones(1, 8, 16, 64), positions=torch.arange(16)),
        "PositionalEncoding(64)(x)": passed(addition, x),
        "PositionalEncoding(64)(x), one token": passed(addition, torch.ones(1, 1, 64)),
        "MultiHeadAttention(64, 4, position=Rotary)(x, x, x)": passed(attention, x, x, x),
        "AttentionBias(Alibi)(scores)": passed(bias, torch.zeros(1, 8, 16, 16)),
    }
