"""Compile the kernel for a GPU, without one; print as JSON which instructions each variant has.

It needs a process of its own, as `TRITON_INTERPRET=1` replaces the compiler.
"""

import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from posenc_backends.torch.triton_kernel import rotate_kernel

POINTERS = ("q", "q_out", "k", "k_out")
TYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
LAYOUTS = (("half", "half"), ("interleaved", "interleaved"), ("interleaved", "half"), ("half", "interleaved"))
BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def compiled(target, dtype, split, join, find="positions", placement="lead", width=128, axes=False, wide_strides=False):
    """Return one variant compiled: contiguous channels, 64 pairs or, in wider heads, fewer than all."""
    constants = {
        "FIND": find, "HAS_AXES": axes, "BACK": False, "BOTH": True, "WIDTH": width, "PAIRS": 64, "BLOCKS": 1,
        "PLACEMENT": placement, "SPLIT": split, "JOIN": join, "TOKENS": 8, "HEADS": 4, "COLUMNS": 64,
        "REST": width - 128, "BY_BITS": False,
    }  # fmt: skip
    constants |= {"q_channel": 1, "q_out_channel": 1, "k_channel": 1, "k_out_channel": 1}
    constants |= {"cos_column": 1, "sin_column": 1}
    signature = {}
    for name in rotate_kernel.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        elif name in POINTERS:
            signature[name] = f"*{TYPES[dtype]}"
        elif name in ("cos", "sin"):
            signature[name] = "*fp32"
        elif name in ("given", "axes"):
            signature[name] = "*i64"
        else:
            signature[name] = "i64" if wide_strides else "i32"
    aligned = [i for i, name in enumerate(rotate_kernel.arg_names) if name not in constants and not name[0] == "n"]
    aligned = [i for i in aligned if rotate_kernel.arg_names[i] not in ("q_heads", "k_heads", "tokens", "length")]
    source = ASTSource(
        rotate_kernel,
        signature,
        {(rotate_kernel.arg_names.index(name),): value for name, value in constants.items()},
        {(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    return triton.compile(source, target=target, options={"enable_fp_fusion": False, "num_warps": 4})


k = compiled(GPUTarget("cuda", 90, 32), "bfloat16", "half", "half")
print(k.asm.keys(), k.metadata)
open("/tmp/k.ptx", "w").write(k.asm["ptx"])
open("/tmp/k.cubin", "wb").write(k.asm["cubin"])
