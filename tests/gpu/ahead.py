"""Compile the kernel for a GPU without one, and print as JSON what each variant is made of.

A process of its own, as `TRITON_INTERPRET=1` replaces the compiler.
"""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from posenc_backends.torch.rotation.triton_kernel import rotate_kernel

HOPPER, AMPERE, TURING = (GPUTarget("cuda", level, 32) for level in (90, 80, 75))
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}
LAYOUTS = (("half", "half"), ("interleaved", "interleaved"), ("interleaved", "half"), ("half", "interleaved"))
FINDS = ("rows", "positions", "starts", "packed", "axes")
ONES = ("q_channel", "q_out_channel", "k_channel", "k_out_channel", "cos_column", "sin_column")
NOT_SPECIALIZED = ("q_heads", "k_heads", "tokens", "length", "num_bounds")
DISASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def compiled(target, dtype, layout, find, placement, back):
    """Compile for contiguous channels and strides that 16 divides: 128 channels, or 160 of which 128 rotate."""
    width = 128 if placement == "lead" else 160
    constants = dict.fromkeys(ONES, 1) | {
        "FIND": "positions" if find == "axes" else find, "HAS_AXES": find == "axes", "BACK": back, "BOTH": True,
        "WIDTH": width, "PAIRS": 64, "BLOCKS": 1, "PLACEMENT": placement, "SPLIT": layout[0], "JOIN": layout[1],
        "TOKENS": 8, "HEADS": 4, "COLUMNS": 64, "REST": width - 128, "BY_BITS": False,
    }  # fmt: skip
    pointers = dict.fromkeys(("q", "q_out", "k", "k_out"), f"*{TYPES[dtype]}")
    pointers |= {"cos": "*fp32", "sin": "*fp32", "given": "*i32", "axes": "*i64"}
    names = rotate_kernel.arg_names
    signature = {name: "constexpr" if name in constants else pointers.get(name, "i32") for name in names}
    divisible = [i for i, name in enumerate(names) if name not in constants and name not in NOT_SPECIALIZED]
    source = ASTSource(
        rotate_kernel,
        signature,
        {(names.index(name),): value for name, value in constants.items()},
        {(i,): [["tt.divisibility", 16]] for i in divisible},
    )
    return triton.compile(source, target=target, options={"enable_fp_fusion": False, "num_warps": 4})


def variants():
    """Yield all layouts in all dtypes, then all other choices once."""
    for dtype, layout in itertools.product(TYPES, LAYOUTS):
        yield HOPPER, dtype, layout, "positions", "lead", False
    for find, placement in itertools.zip_longest(FINDS, ("trail", "spread"), fillvalue="lead"):
        yield AMPERE, "bfloat16", ("half", "half"), find, placement, True
    yield TURING, "float16", ("half", "half"), "positions", "lead", False


def described(kernel, folder):
    """Return the instructions that matter of a compiled kernel."""
    folder.joinpath("cubin").write_bytes(kernel.asm["cubin"])
    machine = subprocess.run([DISASSEMBLER, "-sass", folder / "cubin"], capture_output=True, text=True, check=True)
    ptx, ttir = kernel.asm["ptx"], kernel.asm["ttir"]
    return {
        "fused": re.findall(r"\bfma\.\S+f(?:32|64)\S*", ptx) + re.findall(r"\b[FD]FMA\b", machine.stdout),
        "products": len(re.findall(r"\bmul\.(?:rn\.)?f(?:32|64)", ptx)),
        "offsets": sorted(set(re.findall(r"tt\.addptr .*?(i\d+)>?(?: loc.*)?$", ttir, re.MULTILINE))),
        "narrow_products": re.findall(r"arith\.muli .*\bi32\b.*", ttir),
        "roundings": sorted(set(re.findall(r"\bcvt\.\S+\.(?:bf16|bf16x2|f16|f16x2)\.f32", ptx))),
        "spilled": re.findall(r"\b(?:LDL|STL)\S*", machine.stdout),
        "widest_store": max(map(int, re.findall(r"st\.global\.v(\d)", ptx)), default=1),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print(json.dumps([["/".join(map(str, one)), described(compiled(*one), folder)] for one in variants()]))  # noqa: T201
