"""Golden numbers of rotary encodings: scaled frequencies, tables, and rotations of every layout, placement and axis."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mpmath as mp
from numbers_of import DTYPES, drawn, rounded
from scaled import scaled

HERE = Path(__file__).parent
POSITIONS = [0, 1, 255, 4097, 131071, 1048575]


KINDS = {
    "linear": "Linear",
    "dynamic": "DynamicNTK",
    "yarn": "YaRN",
    "llama3": "Llama3",
    "longrope": "LongRoPE",
    "proportional": "Proportional",
}


def rope_models() -> Iterator[dict[str, Any]]:
    """Yield every model of `models.json`."""
    for model in json.loads((HERE / "models.json").read_text(encoding="utf-8")):
        config = model["config"]
        rope = dict(config["rope_parameters"])
        kind = KINDS.get(rope.pop("rope_type", None) or rope.pop("type"))
        base = rope.pop("rope_theta")
        share = 1.0 if kind == "Proportional" else rope.pop("partial_rotary_factor", 1.0)
        if "alpha" in rope:
            kind, rope = "NTKAlpha", {"alpha": rope["alpha"]}
        if kind == "DynamicNTK":
            rope["original_max_position_embeddings"] = config["max_position_embeddings"]
        if kind == "LongRoPE":
            rope.setdefault("factor", config["max_position_embeddings"] / rope["original_max_position_embeddings"])
        encoding = {"kind": "Rotary", "head_dim": config["head_dim"], "layout": model["layout"], "base": base}
        encoding["rotary_dim"] = None if share == 1 else int(config["head_dim"] * share)
        encoding["scaling"] = {"kind": kind, **rope} if kind else None
        yield model | table(encoding, model["seq_len"])


def table(encoding: dict[str, Any], seq_len: int | None = None) -> dict[str, Any]:
    """Return frequencies, attention factor, and cosine and sine of four columns with the channels that they rotate."""
    dim = encoding["rotary_dim"] or encoding["head_dim"]
    frequencies, factor = scaled(dim, encoding["base"], (encoding["scaling"] or {}) | {"seq_len": seq_len})
    pairs = len(frequencies)
    columns = sorted({0, 1 % pairs, pairs // 2, pairs - 1})
    return {
        "encoding": encoding,
        "seq_len": seq_len,
        "frequencies": [float(frequency) for frequency in frequencies],
        "attention_factor": float(factor),
        "positions": POSITIONS,
        "columns": columns,
        "channels": [channels(encoding, pairs)[j] for j in columns],
        "cos_sin": [
            [[float(factor * f(p * frequencies[j])) for f in (mp.cos, mp.sin)] for j in columns] for p in POSITIONS
        ],
    }


def channels(encoding: dict[str, Any], pairs: int) -> list[list[int]]:
    """Return for each pair its two input channels and its two output channels."""
    width, layout = encoding["head_dim"], encoding["layout"]
    start = width - 2 * pairs if encoding.get("placement") == "trail" else 0
    apart = width // 2 if encoding.get("placement") == "spread" else pairs
    interleaved = [[start + 2 * i, start + 2 * i + 1] for i in range(pairs)]
    half = [[start + i, start + i + apart] for i in range(pairs)]
    if encoding.get("arrangement") == "blocks":
        size = pairs // len(encoding["axes_dims"])
        half = [[2 * size * (i // size) + i % size + k * size for k in (0, 1)] for i in range(pairs)]
    ways = {"interleaved": (interleaved,) * 2, "half": (half,) * 2, "interleaved_to_half": (interleaved, half)}
    return [came + went for came, went in zip(*ways[layout], strict=True)]


def scalings() -> Iterator[dict[str, Any]]:
    """Yield scalings at their edges: equal bounds, single factors, lengths on either side of a switch, one pair."""
    yarn = {"kind": "YaRN", "factor": 40.0, "original_max_position_embeddings": 4096}
    llama3 = {"kind": "Llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
    lists = {"short_factor": [1.0, 1.5, 2.5, 4.0], "long_factor": [1.1, 3.5, 20.0, 64.5]}
    longrope = {"kind": "LongRoPE", **lists, "original_max_position_embeddings": 4096}
    dynamic = {"kind": "DynamicNTK", "factor": 2.0, "original_max_position_embeddings": 2048}
    dype = {"kind": "DyPE", "factor": 3.5, "original_max_position_embeddings": 64}
    for head_dim, rule, seq_len in (
        (64, {"kind": "Linear", "factor": 2.5}, None),
        (128, {"kind": "NTK", "factor": 8.0}, None),
        (2, {"kind": "NTK", "factor": 8.0}, None),
        (64, {"kind": "NTKAlpha", "alpha": 1000.0}, None),
        (64, dynamic, 2048),
        (64, dynamic, 2049),
        (2, dynamic, 8192),
        (64, yarn, None),
        (64, yarn | {"truncate": False}, None),
        (64, yarn | {"beta_fast": 4, "beta_slow": 4}, None),
        (64, yarn | {"beta_fast": 4, "beta_slow": 4, "truncate": False}, None),
        (64, yarn | {"mscale": 1.0}, None),
        (64, yarn | {"mscale": 0.707, "mscale_all_dim": 0.707}, None),
        (64, yarn | {"mscale": 1.0, "mscale_all_dim": 0.5}, None),
        (64, yarn | {"attention_factor": 0.8, "mscale": 1.0, "mscale_all_dim": 0.5}, None),
        (8, yarn | {"original_max_position_embeddings": 65536, "beta_slow": 0.001}, None),
        (64, yarn | {"factor": 1.0}, None),
        (128, llama3 | {"low_freq_factor": 1.0, "high_freq_factor": 4.0}, None),
        (128, llama3 | {"low_freq_factor": 1.0, "high_freq_factor": 1.0}, None),
        (8, longrope | {"factor": 32.0}, 4096),
        (8, longrope | {"factor": 32.0}, 4097),
        (8, longrope | {"factor": 32.0, "attention_factor": 1.3}, 5000),
        (8, longrope | {"short_mscale": 1.1, "long_mscale": 1.25}, 4096),
        (8, longrope | {"short_mscale": 1.1, "long_mscale": 1.25}, 4097),
        (64, {"kind": "Proportional", "partial_rotary_factor": 0.3, "factor": 2.0}, None),
        (16, {"kind": "RIFLEx", "k": 4, "length": 66}, None),
        (16, {"kind": "RIFLEx", "k": 8, "length": 50, "fraction": 1}, None),
        *((56, dype | {"kappa": kappa}, None) for kappa in (1, 0.25, 0.001, 0)),
    ):
        encoding = {"kind": "Rotary", "head_dim": head_dim, "layout": "half", "base": 500000, "rotary_dim": None}
        settings = ", ".join(
            f"{name} {value}" for name, value in rule.items() if name != "kind" and value not in lists.values()
        )
        name = f"{rule['kind']}, {head_dim} channels, {settings}, seq_len {seq_len}"
        yield {"name": name} | table(encoding | {"scaling": rule}, seq_len)


def turns() -> Iterator[dict[str, Any]]:
    """Yield rotations and their gradients: the less common layouts, placements, directions, axes and envelopes."""
    numbers = random.Random(20240912)
    line = [5, 0, 1000, 65537, 1048576, -3, 1048576]
    grid = [[0, 3, 70000, -2, 1048576], [1, -3, 5, 65537, 0], [-2, 3, 0, 11, 1048575]]
    near = [[0, 0, 1, 1, 2], [0, 1, 0, 1, 7], [0, 2, 5, 3, 1]]
    real = [[-0.5, 0.5, 0.25, -0.875], [0.75, -0.25, 0.0, 0.125]]
    rotary = {"kind": "Rotary", "head_dim": 12, "layout": "half"}
    text_and_images = {"kind": "MultimodalRotary", "head_dim": 12, "layout": "half", "sections": [2, 2, 2]}
    axial = {"kind": "AxialRotary", "head_dim": 12, "layout": "half", "axes_dims": [4, 4, 4]}
    yarn = {"kind": "YaRN", "factor": 4.0, "original_max_position_embeddings": 64}
    dype, riflex = yarn | {"kind": "DyPE", "kappa": 0.25}, {"kind": "RIFLEx", "k": 2, "length": 66}
    four_axes = {key: text_and_images[key] for key in ("kind", "head_dim", "layout")} | {
        "arrangement": [0, 0, 1, 1, 2, 3]
    }
    for encoding, positions in (
        (rotary | {"layout": "interleaved_to_half"}, line),
        (rotary | {"layout": "interleaved_to_half", "rotary_dim": 8}, list(range(7))),
        (rotary | {"layout": "interleaved_to_half", "rotary_dim": 8, "placement": "trail"}, line),
        (rotary | {"rotary_dim": 8, "placement": "trail"}, line),
        (rotary | {"rotary_dim": 8, "placement": "trail"}, list(range(7))),
        (rotary | {"rotary_dim": 8, "placement": "spread"}, line),
        (rotary | {"rotary_dim": 8, "placement": "spread"}, list(range(7))),
        (rotary | {"layout": "interleaved", "rotary_dim": 8, "placement": "trail"}, line),
        (rotary | {"direction": "inverse"}, line),
        (rotary | {"direction": "inverse"}, list(range(7))),
        (rotary | {"scaling": {"kind": "Proportional", "partial_rotary_factor": 0.5}}, list(range(7))),
        (rotary | {"frequencies": [1.0, 0.75, 0.5, 0.3, 0.1, 0.001]}, line),
        (rotary | {"precision": "float32"}, line),
        (rotary | {"kind": "XPos", "scale_base": 50, "center": 20}, [5, 0, 1000, -3, 20, 7]),
        (rotary | {"kind": "XPos"}, list(range(7))),
        (text_and_images, grid),
        (text_and_images | {"arrangement": "interleaved"}, grid),
        (text_and_images | {"arrangement": "ernie", "layout": "interleaved"}, grid),
        (text_and_images | {"arrangement": "interleaved"}, near),
        (axial, grid),
        (axial | {"arrangement": "alternating", "layout": "interleaved", "base": [100, 1000, 10000]}, near),
        (axial | {"arrangement": "blocks"}, near),
        (axial | {"series": "dealt", "base": 100}, grid),
        (axial | {"axes_dims": [2, 4, 4], "placement": "trail"}, near),
        (axial | {"axes_dims": [6, 6], "unit": "turn", "base": 100}, real),
        (four_axes, [[7, 1, 70000, 3, 2], *near]),
        (four_axes | {"arrangement": [3, 0, 1, 2, 1, 0], "layout": "interleaved"}, [[5, 0, -3, 1048576, 0], *grid]),
        (axial | {"axes_dims": [6, 4, 2], "arrangement": [1, 0, 2, 0, 0, 1], "base": [100, 1000, 10000]}, near),
        (axial | {"scaling": [riflex, yarn, dype]}, grid),
        (axial | {"scaling": {"kind": "Linear", "factor": 2.0}, "base": [100, 1000, 10000]}, near),
        (axial | {"scaling": [None, {"kind": "NTK", "factor": 2.0}, yarn], "arrangement": "alternating"}, near),
        (axial | {"axes_dims": [6, 6], "series": "dealt", "scaling": yarn, "layout": "interleaved"}, grid[:2]),
    ):
        for dtype in ("float32", "bfloat16"):
            yield _turned(encoding, positions, dtype, numbers)


def _turned(encoding: dict[str, Any], positions: Any, dtype: str, numbers: random.Random) -> dict[str, Any]:
    width, bits = encoding["head_dim"], DTYPES[dtype]
    tokens = list(zip(*positions, strict=True)) if isinstance(positions[0], list) else [(p,) for p in positions]
    x, weights = ([[drawn(numbers, bits) for _ in range(width)] for _ in tokens] for _ in "xw")
    cos_sin = [[entry_of(encoding, j, place) for j in range(len(angles_of(encoding)))] for place in tokens]
    ways = channels(_spread(encoding), sum(f != 0 for f, _ in angles_of(encoding)))
    settings = {name: value for name, value in encoding.items() if name not in ("kind", "head_dim")}
    label = ", ".join(f"{name} {_label(value)}" for name, value in settings.items())
    far = max(max(place) for place in tokens)
    return {
        "name": f"{encoding['kind']}, {label}, {dtype}, positions to {far:g}",
        "encoding": encoding,
        "dtype": dtype,
        "positions": positions,
        "x": x,
        "weights": weights,
        "result": [[rounded(v, bits) for v in turned_row(*both, ways)] for both in zip(x, cos_sin, strict=True)],
        "gradient": [
            [rounded(v, bits) for v in turned_back(*both, ways)] for both in zip(weights, cos_sin, strict=True)
        ],
    }


def _label(value: Any) -> Any:
    if isinstance(value, list):
        return [_label(each) for each in value]
    return value["kind"] if isinstance(value, dict) else value


def _spread(encoding: dict[str, Any]) -> dict[str, Any]:
    """Return the encoding, with placement "spread" if it is scaled: a share of its pairs stays unrotated."""
    is_scaled = encoding.get("scaling") and encoding["kind"] == "Rotary"
    return encoding | {"placement": "spread"} if is_scaled else encoding


def angles_of(encoding: dict[str, Any]) -> list[tuple[Any, int]]:
    """Return the frequency and the axis of each pair."""
    kind, dims = encoding["kind"], encoding.get("axes_dims")
    if kind != "AxialRotary":
        dim = encoding.get("rotary_dim") or encoding["head_dim"]
        f = encoding.get("frequencies") or scaled(dim, encoding.get("base", 10000), encoding.get("scaling") or {})[0]
        return [(mp.mpf(frequency), axis) for frequency, axis in zip(f, _axes(encoding, len(f)), strict=True)]
    base = encoding.get("base", 10000)
    bases = base if isinstance(base, list) else [base] * len(dims)
    unit = 2 * mp.pi if encoding.get("unit") == "turn" else 1
    own = [
        [(unit * f, a) for f in scaled(dim, b, rule)[0]]
        for a, (b, dim, rule) in enumerate(zip(bases, dims, _rules(encoding), strict=True))
    ]
    if encoding.get("series") == "dealt":
        f = scaled(sum(dims), base, _rules(encoding)[0])[0]
        own = [[(frequency, a) for frequency in f[a :: len(dims)]] for a in range(len(dims))]
    if isinstance(encoding.get("arrangement"), list):
        series = [iter(one) for one in own]
        return [next(series[axis]) for axis in encoding["arrangement"]]
    if encoding.get("arrangement") == "alternating":
        return [pair for together in zip(*own, strict=True) for pair in together]
    return [pair for series in own for pair in series]


def _rules(encoding: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the scaling of each axis."""
    given, count = encoding.get("scaling"), len(encoding.get("axes_dims", [0]))
    return [rule or {} for rule in given] if isinstance(given, list) else [given or {}] * count


def _axes(encoding: dict[str, Any], pairs: int) -> list[int]:
    """Return for each pair whether its position is time (0), height (1) or width (2)."""
    arrangement, sections = encoding.get("arrangement", "chunked"), encoding.get("sections", [pairs])
    if isinstance(arrangement, list):
        return arrangement
    if arrangement == "chunked":
        return [axis for axis, section in enumerate(sections) for _ in range(section)]
    if arrangement == "ernie":
        height, width, time = sections
        return [1, 2] * min(height, width) + [0] * time
    axes = [0] * pairs
    for axis in (1, 2):
        axes[axis : 3 * sections[axis] : 3] = [axis] * len(axes[axis : 3 * sections[axis] : 3])
    return axes


def entry_of(encoding: dict[str, Any], j: int, place: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return cosine and sine of a pair, rounded to float32 as in a table."""
    frequency, axis = angles_of(encoding)[j]
    angle = mp.mpf(place[axis]) * frequency
    if encoding.get("precision") == "float32":
        angle = mp.mpf(rounded(rounded(frequency) * mp.mpf(rounded(place[axis]))))
    grown = mp.mpf(1)
    if encoding["kind"] == "AxialRotary":
        grown = scaled(encoding["axes_dims"][axis], 10000, _rules(encoding)[axis])[1]
    if encoding["kind"] == "XPos":
        dim = encoding["head_dim"]
        zeta = (2 * mp.mpf(j) / dim + mp.mpf(4) / 10) / (mp.mpf(14) / 10)
        grown = mp.power(zeta, (mp.mpf(place[0]) - encoding.get("center", 0)) / mp.mpf(encoding.get("scale_base", 512)))
    sign = -1 if encoding.get("direction") == "inverse" else 1
    return mp.mpf(rounded(grown * mp.cos(angle))), mp.mpf(rounded(sign * grown * mp.sin(angle)))


def turned_row(row: list[float], cos_sin: Any, ways: list[list[int]]) -> list[float]:
    turned = list(row)
    for (cos, sin), (a, b, to_a, to_b) in zip(cos_sin, ways, strict=False):
        turned[to_a], turned[to_b] = _pair(row[a], row[b], cos, sin)
    return turned


def turned_back(row: list[float], cos_sin: Any, ways: list[list[int]]) -> list[float]:
    """Return the transposed rotation: from output channels back to input channels, by the opposite angle."""
    return turned_row(row, [(cos, -sin) for cos, sin in cos_sin], [[c, d, a, b] for a, b, c, d in ways])


def _pair(a: float, b: float, cos: Any, sin: Any) -> tuple[float, float]:
    """Return a pair rotated in float32 arithmetic, every product and sum rounded."""
    first = mp.mpf(rounded(mp.mpf(a) * cos)) - mp.mpf(rounded(mp.mpf(b) * sin))
    return rounded(first), rounded(mp.mpf(rounded(mp.mpf(b) * cos)) + mp.mpf(rounded(mp.mpf(a) * sin)))


def learned_rotary() -> Iterator[dict[str, Any]]:
    """Yield results of learned frequencies as initialized, and the gradient of their parameters."""
    numbers = random.Random(20240325)
    for encoding in (
        {"kind": "LearnedRotary", "head_dim": 6, "layout": "half"},
        {"kind": "LearnedRotary", "head_dim": 8, "layout": "interleaved", "rotary_dim": 4, "direction": "inverse"},
    ):
        width, sign = encoding["head_dim"], -1 if "direction" in encoding else 1
        f = [frequency for frequency, _ in angles_of(encoding)]
        ways = channels(encoding, len(f))
        x, weights = ([[drawn(numbers, 24) for _ in range(width)] for _ in range(7)] for _ in "xw")
        result, gradient = [list(row) for row in x], [mp.mpf(0)] * len(f)
        for p, (row, weight) in enumerate(zip(x, weights, strict=True)):
            for j, (a, b, _, _) in enumerate(ways):
                cos, sin = mp.cos(p * f[j]), sign * mp.sin(p * f[j])
                result[p][a], result[p][b] = row[a] * cos - row[b] * sin, row[b] * cos + row[a] * sin
                gradient[j] += sign * p * f[j] * (weight[b] * result[p][a] - weight[a] * result[p][b])
        settings = ", ".join(f"{name} {value}" for name, value in encoding.items() if name != "kind")
        yield {
            "name": f"LearnedRotary, {settings}",
            "encoding": encoding,
            "x": x,
            "weights": weights,
            "result": [[float(value) for value in row] for row in result],
            "gradient": [float(value) for value in gradient],
        }
