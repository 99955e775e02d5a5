"""Golden numbers of vision towers: their encoding, the positions of their tokens in order, and tables at these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath as mp
from numbers_of import power

SOURCE = "transformers 5.23: the defaults of {}, and the code of its tower"


def vision_models() -> Iterator[dict[str, Any]]:
    """Yield a tower of each kind: its config, the grids of its images, and what it makes of them."""
    blocks = [(8, 8), (8, 4), (4, 8), (4, 4)]  # windows of 12 × 12 patches, each of 8 × 8 and what is left of 12 × 12
    corners = [(0, 0), (0, 8), (8, 0), (8, 8)]
    windows = [
        (top + 2 * r + i, left + 2 * c + j)
        for (top, left), (rows, columns) in zip(corners, blocks, strict=True)
        for r in range(rows // 2)
        for c in range(columns // 2)
        for i in range(2)
        for j in range(2)
    ]
    yield _tower(
        "Qwen2_5_VLVisionConfig",
        {"model_type": "qwen2_5_vl_vision", "hidden_size": 3584, "num_heads": 16, "patch_size": 14, "window_size": 112}
        | {"spatial_merge_size": 2, "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0}},
        [[1, 12, 12]],
        {"head_dim": 224, "layout": "half", "axes_dims": [112, 112]},
        windows,
    )
    yield _tower(
        "PixtralVisionConfig",
        {"model_type": "pixtral", "hidden_size": 1024, "num_attention_heads": 16, "head_dim": 64, "patch_size": 16}
        | {"rope_theta": 10000.0},
        [[1, 2, 3]],
        {"head_dim": 64, "layout": "half", "axes_dims": [32, 32], "series": "dealt"},
        [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)],
    )
    yield _tower(
        "Kimi_K25VisionConfig",
        {"model_type": "kimi_k25_vision", "hidden_size": 1152, "num_attention_heads": 16, "patch_size": 14},
        [[2, 1, 3]],
        {"head_dim": 72, "layout": "half", "axes_dims": [36, 36], "arrangement": "alternating"},
        [(0, 0), (1, 0), (2, 0)] * 2,
    )
    yield _tower(
        "Llama4VisionConfig",
        {"model_type": "llama4_vision_model", "hidden_size": 768, "num_attention_heads": 16, "patch_size": 14}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        [[1, 2, 2]],
        {"head_dim": 48, "layout": "interleaved", "axes_dims": [24, 24]},
        [(1, 1), (2, 1), (1, 2), (2, 2), (0, 0)],
    )
    yield _tower(
        "MiniMaxM3VLVisionConfig",
        {"model_type": "minimax_m3_vl_vision", "hidden_size": 1280, "num_attention_heads": 16, "patch_size": 14}
        | {"spatial_merge_size": 2, "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0}},
        [[2, 2, 4]],
        {"head_dim": 80, "layout": "half", "axes_dims": [26, 26, 26]},
        [(t, i, 2 * c + j) for t in range(2) for c in range(2) for i in range(2) for j in range(2)],
    )
    yield _tower(
        "Gemma4VisionConfig",
        {"model_type": "gemma4_vision", "hidden_size": 768, "num_attention_heads": 12, "head_dim": 64, "patch_size": 16}
        | {"rope_parameters": {"rope_type": "axial", "rope_theta": 100.0}},
        [[1, 2, 2]],
        {"head_dim": 64, "layout": "half", "axes_dims": [32, 32], "base": 100.0, "arrangement": "blocks"},
        [(0, 0), (1, 0), (0, 1), (1, 1)],
    )
    yield _tower(
        "DINOv3ViTConfig",
        {"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6, "patch_size": 16}
        | {"num_register_tokens": 1, "rope_theta": 100.0},
        [[1, 2, 3]],
        {"head_dim": 64, "layout": "half", "axes_dims": [32, 32], "base": 100.0, "unit": "turn"},
        [(0, 0), (0, 0), *((mp.mpf(2 * h - 1) / 2, mp.mpf(2 * w - 2) / 3) for h in range(2) for w in range(3))],
    )


def _tower(name: str, config: dict[str, Any], grids: Any, encoding: dict[str, Any], tokens: Any) -> dict[str, Any]:
    """Return the case of a tower whose tokens have these positions."""
    frequencies = [_frequency(encoding, j) for j in range(sum(encoding["axes_dims"]) // 2)]
    columns = sorted({0, 1, len(frequencies) // 2, len(frequencies) - 1})
    angles = [[token[axis] * frequency for axis, frequency in (frequencies[j] for j in columns)] for token in tokens]
    is_real = encoding.get("unit") == "turn"
    return {
        "name": name.removesuffix("Config"),
        "source": SOURCE.format(name),
        "config": config,
        "grid_thw": grids,
        "encoding": {"kind": "AxialRotary", **encoding},
        "positions": [[float(one) if is_real else int(one) for one in axis] for axis in zip(*tokens, strict=True)],
        "columns": columns,
        "frequencies": [float(frequency) for _, frequency in frequencies],
        "cos_sin": [[[float(f(angle)) for f in (mp.cos, mp.sin)] for angle in row] for row in angles],
    }


def _frequency(encoding: dict[str, Any], j: int) -> tuple[int, Any]:
    """Return the axis that rotates a pair, and its radians per position."""
    axes, pairs = len(encoding["axes_dims"]), encoding["axes_dims"][0] // 2
    axis, i = (j % axes, j // axes) if encoding.get("arrangement") == "alternating" else divmod(j, pairs)
    index, count = (axes * i + axis, axes * pairs) if encoding.get("series") == "dealt" else (i, pairs)
    frequency = power(encoding.get("base", 10000), index, count)
    return axis, frequency * 2 * mp.pi if encoding.get("unit") == "turn" else frequency
