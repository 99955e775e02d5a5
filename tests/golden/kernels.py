"""Golden numbers for kernels: queries and keys in the shapes of models, rotated exactly and rounded once to float64."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import mpmath as mp
from numbers_of import rounded
from rope import angles_of, channels, scaled

YARN = {"kind": "YaRN", "factor": 40.0, "original_max_position_embeddings": 4096}
LLAMA3 = {"kind": "Llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8192}
SECONDS = [0.0, 1.5, 3.0]  # when each frame of a video begins
FAR = [1048576, 16777217, 2147483647]  # the last is 2**31 - 1; float32 does not have the second


def kernels() -> Iterator[dict[str, Any]]:
    """Yield rotations of queries and keys, `(batch, heads, length, head_dim)`, at positions as models have them."""
    numbers = random.Random(20261123)
    half = {"kind": "Rotary", "head_dim": 64, "layout": "half"}
    wide, interleaved = half | {"head_dim": 128}, half | {"layout": "interleaved"}
    mla = interleaved | {"head_dim": 192, "rotary_dim": 64, "placement": "trail"}
    mla["scaling"] = YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}
    text_and_images = {"kind": "MultimodalRotary", "head_dim": 128, "layout": "half", "base": 1000000}
    for name, encoding, heads, positions in (
        ("prefill-half-64", half, (2, 1), [0, 1, 2]),
        ("prefill-half-128-base-500000", wide | {"base": 500000}, (4, 2), [0, 1]),
        ("prefill-interleaved-64", interleaved, (2, 1), [0, 1, 2]),
        ("prefill-interleaved-128", interleaved | {"head_dim": 128}, (2, 2), [7, 8]),
        ("interleaved-to-half-64", half | {"layout": "interleaved_to_half"}, (2, 1), [5, 6]),
        ("one-token-per-row-half-64", half, (2, 1), [[17], [4095], [131071]]),
        ("one-token-per-row-interleaved-64", interleaved, (2, 1), [[17], [4095], [131071]]),
        ("rows-of-their-own-half-64", half, (2, 1), [[3, 4], [1000, 1001]]),
        ("unsorted-and-repeated-half-64", half, (2, 1), [9, 2, 9, 0]),
        ("far-half-64", half, (2, 1), FAR),
        ("far-interleaved-64", interleaved, (2, 1), FAR),
        ("far-half-128-base-1000000", wide | {"base": 1000000}, (1, 1), FAR),
        (
            "linear-partial-half-64",
            half | {"rotary_dim": 32, "scaling": {"kind": "Linear", "factor": 4.0}},
            (2, 1),
            [3, 9000],
        ),
        ("llama3-half-128", wide | {"base": 500000, "scaling": LLAMA3}, (4, 1), [8191, 131071]),
        ("yarn-half-128", wide | {"scaling": YARN}, (2, 1), [4096, 163839]),
        ("yarn-partial-interleaved-64", interleaved | {"rotary_dim": 32, "scaling": YARN}, (2, 1), [5, 163839]),
        ("partial-trail-interleaved-64", interleaved | {"rotary_dim": 16, "placement": "trail"}, (2, 1), [5, 65537]),
        ("inverse-half-64", half | {"direction": "inverse"}, (2, 1), [5, 65537]),
        ("packed-half-64", half, (2, 1), [0, 1, 0, 1, 2, 0]),
        ("context-parallel-zigzag-half-64", half, (2, 1), [0, 1, 14, 15]),
        ("multimodal-chunked-128", text_and_images | {"sections": [16, 24, 24]}, (1, 1), image_in_text(2, 2)),
        (
            "multimodal-interleaved-128",
            text_and_images | {"sections": [24, 20, 20], "arrangement": "interleaved", "base": 5000000},
            (1, 1),
            image_in_text(2, 2),
        ),
        (
            "image-axial-64",
            {"kind": "AxialRotary", "head_dim": 64, "layout": "half", "axes_dims": [32, 32]},
            (1, 1),
            grid(2, 3),
        ),
        ("indexer-half-128", wide | {"rotary_dim": 64}, (2, 1), [5, 65537]),  # of DeepSeek-V3.2
        ("indexer-interleaved-128", interleaved | {"head_dim": 128, "rotary_dim": 64}, (2, 1), [5, 65537]),  # GLM-5
        ("mla-nope-rope-interleaved-192", mla, (2, 1), [5, 65537]),  # 128 channels of no pair, then 64: DeepSeek-V3
        ("mla-nope-rope-interleaved-to-half-192", mla | {"layout": "interleaved_to_half"}, (2, 1), [5, 65537]),
        ("video-time-stamps-128", text_and_images | {"sections": [16, 24, 24]}, (1, 1), video_in_text(1, 2)),
    ):
        yield (
            {"name": name, "encoding": encoding}
            | rotated(encoding, heads, positions, numbers)
            | ({"seconds": SECONDS, "positions_per_second": 2} if name.startswith("video") else {})
        )
    past = {"name": "past-the-table-half-64", "encoding": half} | rotated(half, (2, 1), [4095, 4096, 99999], numbers)
    yield past | {"table_length": 4096}  # rows, which end between the first token and the second


def image_in_text(height: int, width: int) -> list[list[int]]:
    """Return positions of two tokens of text, an image and a token of text, `(3, length)`: Wang et al. 2024."""
    after = 2 + max(height, width)
    rows, columns = grid(height, width)
    return [
        [0, 1, *[2] * len(rows), after],
        [0, 1, *(2 + row for row in rows), after],
        [0, 1, *(2 + column for column in columns), after],
    ]


def video_in_text(height: int, width: int) -> list[list[int]]:
    """Return positions of a token of text, a video and a token of text, `(3, length)`, two to a second: Qwen2.5-VL."""
    rows, columns = grid(height, width)
    frames = [1 + int(2 * second) for second in SECONDS for _ in rows]
    after = max(frames) + 1
    rows, columns = (count * len(SECONDS) for count in (rows, columns))
    return [
        [0, *frames, after],
        [0, *(1 + row for row in rows), after],
        [0, *(1 + column for column in columns), after],
    ]


def grid(height: int, width: int) -> list[list[int]]:
    """Return the row and the column of each patch, `(2, height * width)`."""
    return [[i for i in range(height) for _ in range(width)], [j for _ in range(height) for j in range(width)]]


def rotated(encoding: dict[str, Any], heads: tuple[int, int], positions: Any, numbers: random.Random) -> dict[str, Any]:
    """Return tokens that every dtype represents, their positions, and both rotated."""
    rows = places(encoding, positions)
    batch, length = len(rows), len(rows[0])
    case: dict[str, Any] = {"positions": positions}
    for name, count in zip(("q", "k"), heads, strict=True):
        case[name] = [
            [[[drawn(numbers) for _ in range(encoding["head_dim"])] for _ in range(length)] for _ in range(count)]
            for _ in range(batch)
        ]
    for name in ("q", "k"):
        case[f"rotated_{name}"] = [
            [[row_of(encoding, x, place) for x, place in zip(head, row, strict=True)] for head in tokens]
            for tokens, row in zip(case[name], rows, strict=True)
        ]
    return case


def drawn(numbers: random.Random) -> float:
    """Return a number that float32, bfloat16 and float16 have alike."""
    return numbers.choice((-1, 1)) * numbers.randint(1, 255) / 64


def places(encoding: dict[str, Any], positions: Any) -> list[list[tuple[int, ...]]]:
    """Return the position of each token on each axis, for each batch row."""
    if encoding["kind"] != "Rotary":
        return [list(zip(*positions, strict=True))]
    return [[(p,) for p in row] for row in (positions if isinstance(positions[0], list) else [positions])]


def row_of(encoding: dict[str, Any], x: list[float], place: tuple[int, ...]) -> list[float]:
    """Return one token rotated, each number rounded once to float64."""
    return list(map(float, rotated_row(encoding, x, place)))


def rotated_row(encoding: dict[str, Any], x: list[Any], place: tuple[int, ...]) -> list[Any]:
    """Return one token rotated: Su et al. 2021, equation 34."""
    if encoding["kind"] == "Rotary":
        dim = encoding.get("rotary_dim") or encoding["head_dim"]
        frequencies, factor = scaled(dim, encoding.get("base", 10000), encoding.get("scaling") or {})
        pairs = [(frequency, 0) for frequency in frequencies]
    else:
        pairs, factor = angles_of(encoding), mp.mpf(1)
    sign = -1 if encoding.get("direction") == "inverse" else 1
    result = list(x)
    for (frequency, axis), (a, b, to_a, to_b) in zip(pairs, channels(encoding, len(pairs)), strict=True):
        angle = place[axis] * frequency
        cos, sin = factor * mp.cos(angle), sign * factor * mp.sin(angle)
        result[to_a], result[to_b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
    return result


def qk_norm() -> Iterator[dict[str, Any]]:
    """Yield queries normalized by their root mean square and rotated, in both orders, and the scale of their FP8."""
    numbers = random.Random(20261127)
    half = {"kind": "Rotary", "head_dim": 64, "layout": "half"}
    usual = {"epsilon": 1e-6, "offset": 0.0, "order": "norm_first", "head_axis": None, "weight": True}
    after = {"order": "rope_first"}
    for name, encoding, options in (
        ("norm-first-half-128", half | {"head_dim": 128, "base": 1000000}, {}),  # Qwen3
        ("norm-first-offset-half-64", half, {"offset": 1.0}),  # Gemma 3
        ("norm-first-of-rows-half-64", half | {"base": 500000}, {"head_axis": -3}),  # OLMo 2
        ("norm-first-large-epsilon-interleaved-64", half | {"layout": "interleaved"}, {"epsilon": 0.25}),
        ("norm-first-partial-half-64", half | {"rotary_dim": 16}, {}),
        ("rope-first-half-64", half, after),  # HunYuan
        (
            "rope-first-without-weight-inverse-64",
            half | {"direction": "inverse"},
            after | {"weight": False},
        ),  # nanochat
        ("rope-first-partial-interleaved-64", half | {"layout": "interleaved", "rotary_dim": 16}, after),
    ):
        yield {"name": name, "encoding": encoding} | _normalized_and_rotated(encoding, usual | options, numbers)


def _normalized_and_rotated(encoding: dict[str, Any], norm: dict[str, Any], numbers: random.Random) -> dict[str, Any]:
    heads, width, positions = 2, encoding["head_dim"], [0, 7, 131071]
    q = [[[drawn(numbers) for _ in range(width)] for _ in positions] for _ in range(heads)]
    channels = width * (1 if norm["head_axis"] is None else heads)
    weight = [numbers.randint(32, 127) / 64 for _ in range(channels)] if norm.pop("weight") else None
    gain = [norm["offset"] + mp.mpf(w) for w in weight] if weight else [mp.mpf(1)] * width

    def normalized(token: list[Any]) -> list[Any]:
        """Return the heads of a token, all normalized together if the norm is of rows."""
        groups = [token] if norm["head_axis"] else [[head] for head in token]
        result = []
        for group in groups:
            row = [x for head in group for x in head]
            r = 1 / mp.sqrt(mp.fsum(x * x for x in row) / len(row) + mp.mpf(norm["epsilon"]))
            row = [x * r * g for x, g in zip(row, gain, strict=True)]
            result += [row[i : i + width] for i in range(0, len(row), width)]
        return result

    tokens = []
    for t, place in enumerate(positions):
        token = [[mp.mpf(x) for x in head[t]] for head in q]
        token = normalized(token) if norm["order"] == "norm_first" else token
        token = [rotated_row(encoding, head, (place,)) for head in token]
        tokens.append(normalized(token) if norm["order"] == "rope_first" else token)
    rotated_q = [[[float(x) for x in token[h]] for token in tokens] for h in range(heads)]
    scale = rounded(max(abs(x) for head in rotated_q for row in head for x in row) / mp.mpf(448))
    case = {"positions": positions, **norm, "scale": scale, "q": [q], **({"weight": weight} if weight else {})}
    return case | {"rotated_q": [rotated_q]}


def packed_qkv() -> Iterator[dict[str, Any]]:
    """Yield queries, keys and values in one array, of which the first two are rotated in place."""
    numbers = random.Random(20261128)
    half, positions = {"kind": "Rotary", "head_dim": 64, "layout": "half"}, [3, 65537]
    for name, layout, axes, turns in (
        ("three-half-64", "half", (3, 2), lambda i, j: i < 2),  # flash-attention
        ("heads-half-64", "half", (6,), lambda i: i < 5),  # four heads of queries, one of keys, one of values: vLLM
        ("groups-interleaved-64", "interleaved", (2, 4), lambda i, j: j < 3),  # two queries, a key, a value: Megatron
    ):
        encoding = half | {"layout": layout}
        places = list(product(*map(range, axes)))
        rows = [[[drawn(numbers) for _ in range(64)] for _ in places] for _ in positions]
        after = [
            [row_of(encoding, x, (p,)) if turns(*place) else x for x, place in zip(token, places, strict=True)]
            for token, p in zip(rows, positions, strict=True)
        ]
        case = {"name": name, "encoding": encoding, "positions": positions}
        yield case | {
            key: [[_folded(token, axes) for token in x]] for key, x in (("qkv", rows), ("rotated_qkv", after))
        }


def _folded(heads: list[Any], axes: tuple[int, ...]) -> list[Any]:
    """Return a list of heads with these axes."""
    if len(axes) == 1:
        return heads
    size = len(heads) // axes[0]
    return [_folded(heads[i : i + size], axes[1:]) for i in range(0, len(heads), size)]
