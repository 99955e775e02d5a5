"""Write the measurements on a GPU, of `benchmarks/gpu.py`, or that there are none."""

from __future__ import annotations

from collections import Counter
from typing import Any

from drawn import circumstances, results, table

COMMAND = "`nox -s bench -- torch gpu`"
TITLES = {
    "gpu_compiled": "Compiled code by an operator, by `triton_op` and by two formulas (formula, flip): a rotation, "
    "with gradients, and between a norm and a cache (step)",
    "gpu_jax": "JAX: a compiled rotation and its gradient, against a pass over the same bytes",
    "gpu_qk_norm": "QK-norm and RoPE in one pass (fused), and by others",
    "gpu_tiles": "Our kernel by dtype, layout, width, order of axes in memory, rows and direction",
}


def on_gpu() -> str:
    """Return a table for each result, as Markdown."""
    found = sorted((result for _, result in results("gpu-")), key=lambda result: result["benchmark"])  # "gpu" first
    if not found:
        return (
            f"Not measured: {COMMAND} needs a machine with a GPU, and has not been run on one. It compares us with "
            "transformers, Liger, flash-attn and FlashInfer, each where it installs, and with a copy of the same bytes "
            "on the device.\n"
        )
    return "\n".join(map(_described, found))


def _described(result: dict[str, Any]) -> str:
    """Return what a result is about, and its table."""
    script, cases = result["benchmark"], result["cases"]
    if script == "gpu":
        return _part(result)
    heads: tuple[str, ...] = ("case", "what", "time / copy", "µs of a call")
    rows: list[tuple[Any, ...]] = [row for case in cases for row in _ratios(case)]
    if script == "gpu_tiles":
        tile, _ = Counter(tuple(case["tile"]) for case in cases).most_common(1)[0]
        usual = [case for case in cases if tuple(case["tile"]) == tile]
        unique = {case["name"]: (*case["variant"].values(), f"{case['of a copy'][1]:.2f}") for case in usual}
        heads, rows = (*usual[0]["variant"], "speed / copy"), [*unique.values()]
    return f"{TITLES[script]}. {result['machine']['GPU']}; `python benchmarks/{script}.py`.\n\n{table(heads, rows)}"


def _ratios(case: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return a row for each implementation of a case."""
    calls = case.get("microseconds of a call", {})
    rows = case.get("of the copy", case.get("of the pass", {})).items()
    return [(case["name"], name, f"{ratio:.2f}", f"{calls[name]:.0f}" if name in calls else "") for name, ratio in rows]


def _part(result: dict[str, Any]) -> str:
    heads = ("case", "copy, GB/s", "ours", "launches", "fastest of others", "ours / it", "µs of a call, ours", "theirs")
    out = [f"{name} {why}" for name, why in result["left out"].items()]
    out += sorted({f"{name}: `{why}`" for case in result["cases"] for name, why in case["failed"].items()})
    left_out = f"Left out: {'; '.join(out)}.\n" if out else ""
    text = f"{result['machine']['GPU']}; {circumstances(result)} Measured by {COMMAND}.\n"
    return "\n".join([text, table(heads, [_row(case) for case in result["cases"]]), left_out])


def _row(case: dict[str, Any]) -> tuple[Any, ...]:
    """Return the case, our fastest and theirs, as ratios of time to the copy."""
    medians = {name: three[1] for name, three in case["ratios"].items()}
    mine = min((name for name in medians if name.startswith("posenc")), key=medians.__getitem__)
    theirs = min((name for name in medians if not name.startswith("posenc")), key=medians.__getitem__, default=None)
    calls = case["microseconds of a call"]
    other: tuple[Any, ...] = ("none", "", "")
    if theirs:
        other = (
            f"{medians[theirs]:.2f} ({theirs})",
            f"{case['ours over'][mine][theirs][1]:.2f}",
            f"{calls[theirs]:.0f}",
        )
    copied = f"{case['gigabytes per second of the copy']:.0f}"
    ours = f"{medians[mine]:.2f} ({mine})"
    return case["name"], copied, ours, case["launches"][mine], other[0], other[1], f"{calls[mine]:.0f}", other[2]
