"""Write the measurements on a GPU, of `benchmarks/gpu.py`, or that there are none."""

from __future__ import annotations

from typing import Any

from drawn import circumstances, results, table

COMMAND = "`nox -s bench -- torch gpu`"


def on_gpu() -> str:
    """Return a table for each result, as Markdown."""
    found = [result for _, result in results("gpu-")]
    if not found:
        return (
            f"Not measured: {COMMAND} needs a machine with a GPU, and has not been run on one. It compares us with "
            "transformers, Liger, flash-attn and FlashInfer, each where it installs, and with a copy of the same bytes "
            "on the device.\n"
        )
    return "\n".join(map(_part, found))


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
