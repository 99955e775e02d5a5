"""Golden numbers of what other libraries get wrong today."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath as mp
from numbers_of import DTYPES, rounded, sinusoidal_row
from rope import angles_of, channels, entry_of, table


def defects() -> Iterator[dict[str, Any]]:
    """Yield what other libraries get wrong, by number in the survey: right numbers, and the check that fails there."""
    rotary = {"kind": "Rotary", "head_dim": 64, "layout": "interleaved", "base": 10000, "rotary_dim": None}
    plain = rotary | {"scaling": None}
    half = plain | {"layout": "half"}
    for dtype in ("bfloat16", "float16"):
        yield _defect(1, f"the table after a {dtype} call", "after_half_precision", plain) | {"dtype": dtype}
        yield _rounded(_defect(11, f"the table of a layer cast to {dtype}", "cast", half), dtype)
    axial = {"kind": "AxialRotary", "head_dim": 8, "layout": "interleaved", "axes_dims": [4, 4]}
    grid = [[0, 0, 1, 1, 70000], [0, 1, 0, 1, 3]]
    yield {"name": "defect 2: a grid after another grid", "check": "after_another_grid", "positions": grid} | _grid(
        axial, grid
    )
    xpos = {"kind": "XPos", "head_dim": 8, "layout": "interleaved", "scale_base": 512}
    for number, title, check in ((3, "queries and keys one by one", "one_by_one"), (4, "a copy of XPos", "copied")):
        places = [(p,) for p in (0, 1, 128, 255)]
        golden_cases = [[entry_of(xpos, j, place) for j in range(4)] for place in places]
        queries = [[[float(v) for v in pair] for pair in row] for row in golden_cases]
        keys = [[[float(v) for v in _key_entry(xpos, j, place)] for j in range(4)] for place in places]
        name = f"defect {number}: {title}"
        yield {
            "name": name,
            "check": check,
            "encoding": xpos,
            "positions": [0, 1, 128, 255],
            "queries": queries,
            "keys": keys,
        }
    dynamic = {"kind": "DynamicNTK", "factor": 4.0, "original_max_position_embeddings": 2048}
    yield _defect(5, "dynamic NTK raises the base", "table", half | {"scaling": dynamic}, 8192)
    llama3 = {"kind": "Llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    llama3["original_max_position_embeddings"] = 8192
    yield _defect(6, "a layer read back", "read_back", half | {"base": 500000, "scaling": llama3})
    longrope = {"kind": "LongRoPE", "short_factor": [1.0, 1.5, 2.5, 4.0], "long_factor": [1.1, 3.5, 20.0, 64.5]}
    longrope |= {"original_max_position_embeddings": 4096, "factor": 32.0}
    narrow = half | {"head_dim": 8, "scaling": longrope}
    yield _defect(8, "positions of each row", "by_rows", narrow, 4097)
    yarn = {"factor": 40.0, "original_max_position_embeddings": 4096}
    flat = {"rope_type": "yarn", "rope_theta": 10000.0, **yarn}
    sizes = {"head_dim": 64, "max_position_embeddings": 163840}
    slowed = half | {"scaling": {"kind": "YaRN", **yarn}}
    yield _defect(9, "YaRN slows the slow and has a factor", "table", slowed) | _config(sizes, flat)
    nested = {
        "full_attention": flat | {"truncate": False},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    }
    untruncated = half | {"scaling": {"kind": "YaRN", **yarn, "truncate": False}}
    yield _defect(10, "truncate of a layer type", "table", untruncated) | _config(sizes, nested, "full_attention")
    partial = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    yield _defect(12, "a default that turns in part", "table", half | {"rotary_dim": 32}) | _config(sizes, partial)
    stated = flat | {"factor": 20.0}
    twenty = half | {"scaling": {"kind": "YaRN", **yarn, "factor": 20.0}}
    yield _defect(13, "a factor that is not L / L0", "table", twenty) | _config(sizes, stated)
    for title, seq_len in (("4096", 4096), ("4097", 4097), ("4096 again", 4096)):
        yield _defect(13, f"lists chosen anew at {title}", "table", narrow, seq_len)
    linear = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4}
    yield _defect(
        14, "an integer factor, past the length", "table", half | {"scaling": {"kind": "Linear", "factor": 4}}
    ) | _config(sizes, linear)
    sections = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 4, 4]}
    yield _defect(15, "sections that turn in part", "table", half | {"rotary_dim": 32}) | _config(sizes, sections)
    for s, high in ((32.0, 4.0), (16.0, 1.0)):
        other = llama3 | {"factor": s, "high_freq_factor": high}
        config = {"rope_type": "llama3", "rope_theta": 500000.0, **other}
        config.pop("kind")
        yield _defect(
            15, f"llama3 of {s:g} and {high:g}", "table", half | {"base": 500000, "scaling": other}
        ) | _config(sizes, config)
    yield _defect(16, "a sequence past the table", "past_the_table", plain)
    for number, dtype, fields in (
        (7, "bfloat16", {"dim": 8}),
        (7, "float16", {"dim": 8}),
        (17, "float32", {"dim": 2, "convention": "timestep"}),
        (17, "float32", {"dim": 2, "convention": "tensor2tensor"}),
        (18, "float16", {"dim": 4}),
    ):
        yield _sinusoidal_defect(number, dtype, fields)


def _rounded(golden_case: dict[str, Any], dtype: str) -> dict[str, Any]:
    values = [[[rounded(rounded(v), DTYPES[dtype]) for v in pair] for pair in row] for row in golden_case["cos_sin"]]
    return golden_case | {"dtype": dtype, "rounded": values}


def _sinusoidal_defect(number: int, dtype: str, fields: dict[str, Any]) -> dict[str, Any]:
    positions = [0, 1, 4095, 4096, 1048575]
    convention = fields.get("convention", "interleaved")
    rows = [sinusoidal_row(p, fields["dim"], 10000, convention) for p in positions]
    checks = {7: "half_sum", 17: "rows", 18: "other_tokens"}
    return {
        "name": f"defect {number}: sinusoids of {', '.join(map(str, fields.values()))} in {dtype}",
        "check": checks[number],
        "dtype": dtype,
        "encoding": {"kind": "Sinusoidal", **fields},
        "positions": positions,
        "table": [[float(value) for value in row] for row in rows],
        "result": [[rounded(rounded(value), DTYPES[dtype]) for value in row] for row in rows],
    }


def _defect(
    number: int, title: str, check: str, encoding: dict[str, Any], seq_len: int | None = None
) -> dict[str, Any]:
    return {"name": f"defect {number}: {title}", "check": check} | table(encoding, seq_len)


def _config(config: dict[str, Any], rope: dict[str, Any], layer_type: str | None = None) -> dict[str, Any]:
    return {"config": config | {"rope_parameters": rope}, "layer_type": layer_type}


def _key_entry(encoding: dict[str, Any], j: int, place: tuple[int]) -> tuple[Any, Any]:
    """Return the row of a key: the scale of a query at the opposite distance from the center, and the key's angle."""
    frequency, _ = angles_of(encoding)[j]
    zeta = (2 * mp.mpf(j) / encoding["head_dim"] + mp.mpf(4) / 10) / (mp.mpf(14) / 10)
    grown = mp.power(zeta, -mp.mpf(place[0]) / encoding["scale_base"])
    return tuple(mp.mpf(rounded(grown * f(place[0] * frequency))) for f in (mp.cos, mp.sin))


def _grid(encoding: dict[str, Any], positions: list[list[int]]) -> dict[str, Any]:
    frequencies = angles_of(encoding)
    angles = [[place[axis] * frequency for frequency, axis in frequencies] for place in zip(*positions, strict=True)]
    return {
        "encoding": encoding,
        "seq_len": None,
        "frequencies": [float(frequency) for frequency, _ in frequencies],
        "attention_factor": 1.0,
        "columns": list(range(len(frequencies))),
        "channels": channels(encoding, len(frequencies)),
        "cos_sin": [[[float(mp.cos(a)), float(mp.sin(a))] for a in row] for row in angles],
    }
