"""Compile the kernel for GPUs without one, and print as JSON what the machine code of each variant is made of.

    python tests/gpu/ahead.py [--all]

A process of its own, as `TRITON_INTERPRET=1` replaces the compiler. What is compiled is what a launch would compile:
its plan is made for tensors without memory, 32 heads of queries and 8 of keys, in place: channels of no pair are not
copied. With `--all`, for all widths, layouts and orders of axes, as a table in Markdown.
"""

import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from posenc_backends.torch.rotation.spec import RotationSpec, Rows
from posenc_backends.torch.rotation.triton_launch import plan_of
from posenc_backends.torch.rotation.triton_qk_norm import plan_of_forward, plan_of_gradient
from posenc_core.normalization import Norm
from posenc_core.rotation import pairing_of

TARGETS = {f"sm_{level}": GPUTarget("cuda", level, 32) for level in (75, 80, 90, 100)} | {
    "gfx942": GPUTarget("hip", "gfx942", 64)
}
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64", "int32": "i32", "int64": "i64"}
LAYOUTS = ("half", "interleaved", "interleaved_to_half")
FINDS = ("rows", "positions", "starts", "packed", "axes")
WIDTHS = (64, 72, 80, 96, 128, 192, 256)
TOKENS, ROWS, HEADS = 4096, 8192, (32, 8)
DISASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


@dataclass(frozen=True)
class Variant:
    """What is compiled: `order` has the axes as they lie in memory, heads (H) before tokens (S) or behind them.

    `together` takes one mean of all heads of a token; unless `in_place`, channels of no pair are copied.
    """

    target: str = "sm_90"
    dtype: str = "bfloat16"
    layout: str = "half"
    width: int = 128
    find: str = "rows"
    placement: str = "lead"
    back: bool = False
    order: str = "BSHD"
    tokens: int = TOKENS
    tables: str = "float32"
    norm: str = ""
    weight: str = "bfloat16"
    together: bool = False
    in_place: bool = True


def compiled(variant):
    """Return the compiled kernel, and how many channels a thread rotates."""
    pairs = variant.width // 2 if variant.placement == "lead" else 64

    def empty(*sizes, dtype):
        return torch.empty(sizes, dtype=getattr(torch, dtype), device="meta")

    def tokens(heads):
        if variant.order == "BHSD":
            return empty(1, heads, variant.tokens, variant.width, dtype=variant.dtype)
        return empty(1, variant.tokens, heads, variant.width, dtype=variant.dtype).transpose(1, 2)

    q, k = map(tokens, HEADS)
    cos = sin = empty(ROWS, pairs, dtype=variant.tables)
    sizes = {"rows": None, "starts": (1,), "packed": (9,), "axes": (3, 1, variant.tokens)}
    sizes = sizes.get(variant.find, (1, 1, variant.tokens))
    given = None if sizes is None else empty(*sizes, dtype="int32")
    axes = empty(pairs, dtype="int64") if variant.find == "axes" else None
    rows = Rows("positions" if axes is not None else variant.find, given, axes)
    pairing = pairing_of(variant.layout, variant.placement)
    spec = RotationSpec(pairing.inverse if variant.back else pairing, variant.back, -2)
    both, tables = [(q, q), (k, k)], (cos, sin)
    weight = empty(variant.width, dtype=variant.weight) if variant.norm else None
    norm = Norm(order="rope_first" if variant.norm == "rope_first" else "norm_first")
    normalized = spec._replace(norm=norm._replace(head_axis=-3 if variant.together else None))
    if variant.norm == "gradient":
        plan = plan_of_gradient([(q, q), (q, q)], tables, rows, normalized)
        tensors = q, q, q, empty(9, variant.width, dtype="float32"), *tables, given, axes, 0, weight
    elif variant.norm:
        plan = plan_of_forward(both, tables, rows, normalized)
        tensors = q, q, k, k, *tables, given, axes, 0, weight, weight
    else:
        plan, tensors = plan_of(both, tables, rows, spec, variant.in_place), (q, q, k, k, *tables, given, axes, 0)
    kernel = plan.kernel
    values = dict(zip(kernel.arg_names, (*tensors, *plan.numbers), strict=True))
    fixed = {param.name for param in kernel.params if param.is_constexpr}
    ones = {param.name for param in kernel.params if not param.do_not_specialize}
    constants = {
        name: value
        for name, value in values.items()
        if value is None or name in fixed or (name in ones and type(value) is int and value == 1)
    }
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    pointers = {name: "*" + TYPES[str(x.dtype).removeprefix("torch.")] for name, x in tensors.items()}
    names, target = [*values], TARGETS[variant.target]
    source = ASTSource(
        kernel,
        {name: "constexpr" if name in constants else pointers.get(name, "i32") for name in names},
        {(names.index(name),): value for name, value in constants.items()},
        {(names.index(name),): [["tt.divisibility", 16]] for name in tensors},
    )
    options = plan.options
    if target.backend == "hip":
        options = {"enable_fp_fusion": False, "num_warps": 32 * options["num_warps"] // target.warp_size}
    parts = -(-pairs // values["COLUMNS"])
    channels = 2 * pairs * values["ROWS"] * values["REPEATS"] / parts
    return triton.compile(source, target=target, options=options), channels / (32 * plan.options["num_warps"])


def described(variant, folder):
    """Return what matters of the machine code."""
    kernel, channels = compiled(variant)
    of_target = _described_amd(kernel) if "amdgcn" in kernel.asm else _described_nvidia(kernel, folder)
    instructions, ttir = of_target.pop("instructions"), kernel.asm["ttir"]
    return {
        **of_target,
        "per channel": round(instructions / channels, 1),
        "offsets": sorted(set(re.findall(r"tt\.addptr .*?(i\d+)>?(?: loc.*)?$", ttir, re.MULTILINE))),
        # whatever is multiplied by a number that is known is an index within a tile, or below 2**31
        "narrow products": re.findall(r"arith\.muli %\w+, %(?!c\d+_i32)\w+ : (?:tensor<\w+x)?i32\b", ttir),
    }


def _described_nvidia(kernel, folder):
    cubin, ptx = Path(folder, "cubin"), kernel.asm["ptx"]
    cubin.write_bytes(kernel.asm["cubin"])
    command = [DISASSEMBLER, "-sass", "-res-usage", cubin]
    machine = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+\s+)?(\S+)", machine, re.MULTILINE)
    lines = lines[: max(i for i, line in enumerate(lines) if line.startswith("EXIT")) + 1]
    memory = [line for line in lines if re.match("LDG|STG", line)]
    sizes = [int((re.findall(r"\.[US]?(8|16|64|128)\b", line) or [32])[0]) // 8 for line in memory]
    kinds = ["load" if line.startswith("LDG") else "other" for line in lines if re.match("LDG|STG|FMUL|DMUL", line)]
    return {
        "registers": int(re.findall(r"REG:(\d+)", machine)[0]),
        "spilled": [line for line in lines if re.match("LDL|STL", line)],
        "barriers": sum(line.startswith("BAR") for line in lines),
        "accesses": dict(Counter(f"{line[:3].lower()} {size}" for line, size in zip(memory, sizes, strict=True))),
        "waves": sum(kind == "load" for kind, _ in itertools.groupby(kinds)),
        "instructions": len(lines),
        "fused": re.findall(r"\bfma\.\S+f(?:32|64)\S*", ptx) + [line for line in lines if re.match("[FD]FMA", line)],
        "products": len(re.findall(r"\bmul\.(?:rn\.)?f(?:32|64)", ptx)),
        "roundings": sorted(set(re.findall(r"\bcvt\.\S+\.(?:bf16|bf16x2|f16|f16x2)\.f32", ptx))),
    }


def _described_amd(kernel):
    code = kernel.asm["amdgcn"]
    lines = re.findall(r"^\s+([sv]_\w+|global_\w+|buffer_\w+|ds_\w+|flat_\w+)", code, re.MULTILINE)
    memory = re.findall(r"(?:global|buffer)_(load|store)_(\w+)", code)
    size = {"dwordx4": 16, "dwordx2": 8, "dword": 4}
    kinds = ["load" if re.match("(global|buffer)_load", line) else "other"
             for line in lines if re.match("(global|buffer)_|v_(pk_)?mul_f", line)]  # fmt: skip
    return {
        "registers": int(re.findall(r"\.vgpr_count:\s+(\d+)", code)[0]),
        "spilled": [count for count in re.findall(r"vgpr_spill_count:\s+(\d+)", code) if count != "0"],
        "barriers": lines.count("s_barrier"),
        "accesses": dict(Counter(f"{'ldg' if kind == 'load' else 'stg'} {size.get(w, 2)}" for kind, w in memory)),
        "waves": sum(kind == "load" for kind, _ in itertools.groupby(kinds)),
        "instructions": len(lines),
        "fused": re.findall(r"\bv_(?:pk_)?(?:fma|mac|fmac)\w*f(?:32|64)\b", code),
        "products": len(re.findall(r"\bv_(?:pk_)?mul_f(?:32|64)", code)),
        "roundings": [],
    }


def variants():
    """Yield what the tests look at: each dtype, layout, target, and way to find a row at least once."""
    first = Variant()
    for layout, back in itertools.product(LAYOUTS, (False, True)):
        yield replace(first, layout=layout, back=back)
    for layout in ("half", "interleaved"):
        yield replace(first, width=72, layout=layout, order="BHSD")
    for number, (width, layout) in enumerate(itertools.product((64, 72, 80, 96, 192, 256), LAYOUTS)):
        find, order = FINDS[(number + number // 3) % 3], ("BSHD", "BHSD")[number // 2 % 2]
        yield replace(first, width=width, layout=layout, find=find, order=order, back=number % 2 == 1)
    for dtype in ("float16", "float32", "float64"):
        yield replace(first, dtype=dtype, layout="interleaved")
    for find, placement in itertools.zip_longest(FINDS[1:], ("trail", "spread"), fillvalue="lead"):
        yield replace(first, target="sm_80", find=find, placement=placement, width=128 if placement == "lead" else 160)
    yield replace(first, target="sm_75", dtype="float16", find="positions")
    yield replace(first, target="sm_100", tokens=1)
    yield replace(first, target="gfx942", tables="bfloat16")
    yield replace(first, norm="norm_first")
    yield replace(first, norm="norm_first", width=72, layout="interleaved", find="positions", target="sm_80")
    yield replace(first, norm="rope_first", width=256, dtype="float32", weight="float32")
    yield replace(first, norm="gradient", layout="interleaved")
    yield replace(first, norm="gradient", width=72, find="starts", target="sm_100")
    yield replace(first, norm="norm_first", target="gfx942")
    for norm in ("norm_first", "gradient"):
        yield replace(first, norm=norm, together=True)
    yield replace(first, in_place=False, placement="trail", width=192)
    yield replace(first, in_place=False, placement="spread", width=160, layout="interleaved", target="sm_80")


def all_variants():
    """Yield what the page shows: all widths, layouts and orders, and each way to find a row, on all devices."""
    for width, layout, order in itertools.product(WIDTHS, LAYOUTS, ("BSHD", "BHSD")):
        yield Variant(width=width, layout=layout, order=order)
    for width, layout, find in itertools.product(WIDTHS, LAYOUTS, FINDS[1:]):
        yield Variant(width=width, layout=layout, find=find, back=True)
    for target, layout, back in itertools.product(("sm_80", "sm_100", "gfx942"), LAYOUTS, (False, True)):
        yield Variant(target, layout=layout, back=back)
        yield Variant(target, layout=layout, back=back, width=72)
    for target, find in itertools.product(("sm_80", "sm_90", "sm_100", "gfx942"), FINDS[1:]):
        yield Variant(target, find=find)
    for dtype, layout in itertools.product(("float16", "float32", "float64"), LAYOUTS):
        yield Variant(dtype=dtype, layout=layout)
    for norm, layout, width in itertools.product(("norm_first", "rope_first", "gradient"), LAYOUTS, (72, 128, 256)):
        yield Variant(norm=norm, layout=layout, width=width)
    yield Variant(tokens=1)
    yield Variant(tables="bfloat16")


def rows():
    """Yield the lines of a table of all variants in Markdown."""
    heads = ("variant", "registers", "barriers", "accesses, bytes", "waves", "instructions per channel")
    yield from ("| " + " | ".join(heads) + " |", "|---" * len(heads) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for one in all_variants():
            found, usual = described(one, folder), asdict(Variant())
            name = ", ".join(str(value) for key, value in asdict(one).items() if value != usual[key]) or "usual"
            accesses = ", ".join(f"{count} × {kind}" for kind, count in found["accesses"].items())
            numbers = found["registers"], found["barriers"], accesses, found["waves"], found["per channel"]
            yield "| " + " | ".join(map(str, (name, *numbers))) + " |" + " SPILLED" * bool(found["spilled"])


def main():
    """Print what the variants are made of: as JSON, or as a table of all of them."""
    if sys.argv[1:] == ["--all"]:
        for row in rows():
            print(row, flush=True)  # noqa: T201
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([[asdict(one), described(one, folder)] for one in variants()]))  # noqa: T201


if __name__ == "__main__":
    main()
