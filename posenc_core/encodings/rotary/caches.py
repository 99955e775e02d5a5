"""The tables of an encoding as programs for inference and training take them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np

from ..._array_api.checks import check_integer, check_known, shown
from ...positions.sequences import LIMIT, sequence
from ...rotation import per_channel
from ...tables._fixed_point import high_precision
from ...tables.frequencies import geometric
from ...tables.sincos import Table, angles_of_float32
from ...tables.wrapped_angles import angles_in_turn

CacheKind: TypeAlias = Literal["vllm", "flashinfer", "transformer_engine", "onnx", "ggml"]
KINDS = ("vllm", "flashinfer", "transformer_engine", "onnx", "ggml")
STILL = 1e30  # the divisor by which ggml stops a pair, as in files of Gemma 4


def cache_of(encoding: Any, kind: CacheKind, max_len: int) -> dict[str, Any]:
    """Return `as_cache` of a `RotaryEncoding`."""
    check_known("kind", kind, KINDS)
    rows = check_integer("max_len", max_len, maximum=LIMIT)
    _check_expressible(encoding, kind)
    if encoding.max_seq_len is not None and rows > encoding.max_seq_len:
        raise ValueError(
            f"`max_len` must be at most {encoding.max_seq_len}, as these frequencies of {shown(encoding)} are for "
            f"sequences of that length, got {rows}; use `encoding.at({rows})`."
        )
    if kind == "ggml":
        return _ggml(encoding, rows)
    is_half = encoding.pairing.split == "half"
    if kind == "transformer_engine":
        return {"freqs": _angles(encoding, rows)[:, None, None, :], "interleaved": not is_half}
    cos, sin = _whole(encoding, *encoding.rows(sequence(rows)).values())
    if kind == "onnx":
        width = 2 * cos.shape[-1]
        rotated = 0 if width == encoding.head_dim else width
        return {"cos_cache": cos, "sin_cache": sin, "interleaved": int(not is_half), "rotary_embedding_dim": rotated}
    both = {"cos_sin_cache": np.concatenate([cos, sin], axis=-1), "head_size": encoding.head_dim}
    if kind == "flashinfer":
        return {**both, "is_neox": is_half}
    return {**both, "rotary_dim": 2 * cos.shape[-1], "is_neox_style": is_half}


def _check_expressible(encoding: Any, kind: str) -> None:
    """Raise unless the program of this kind rotates as the encoding does."""
    name = shown(encoding)
    if encoding.num_axes > 1 or encoding.needs_positions:
        raise ValueError(f"`kind` {kind!r} has one row per position, got {name}, whose positions have axes.")
    if encoding.keys_differ:
        raise ValueError(f"`kind` {kind!r} has one table for queries and keys, got {name}, which has two.")
    if encoding.computes_rows:
        raise ValueError(
            f"`kind` {kind!r} needs frequencies that are known, got {name}; give learned ones to "
            "`Rotary(frequencies=…)`."
        )
    if encoding.mixes_rows:
        raise ValueError(f"`kind` {kind!r} needs a table that is known, got {name}; ask its layer for `cos_sin`.")
    pairing, factor = encoding.pairing, encoding.attention_factor
    if pairing.split != pairing.join:
        raise ValueError(
            f"`layout` must be 'half' or 'interleaved' for {kind!r}, got {encoding.layout!r}; with 'interleaved' for "
            "queries and keys, scores are the same."
        )
    if pairing.placement == "trail":
        raise ValueError(
            f"`placement` must be 'lead' or 'spread' for {kind!r}, got 'trail'; pass the last "
            f"{encoding.rotary_channels} channels alone, with a `head_dim` of {encoding.rotary_channels}."
        )
    if kind == "transformer_engine" and factor != 1:
        raise ValueError(
            f"`attention_factor` must be 1 for {kind!r}, which computes cosine and sine itself, got {factor:g}; "
            "multiply the channels that rotate by it."
        )
    if kind == "ggml" and pairing.placement == "spread" and factor != 1:
        raise ValueError(
            f"`attention_factor` must be 1 for 'ggml' with the placement 'spread', got {factor:g}: it would multiply "
            "the channels that do not rotate."
        )


def _whole(encoding: Any, cos: Table, sin: Table) -> tuple[Table, Table]:
    """Return tables with columns for the pairs of the whole head, where those that rotate are spread over it."""
    rest = encoding.head_dim // 2 - cos.shape[-1] if encoding.pairing.placement == "spread" else 0
    still = np.zeros((len(cos), rest), np.float32)
    return np.concatenate([cos, still + 1], axis=-1), np.concatenate([sin, still], axis=-1)


def _angles(encoding: Any, rows: int) -> Table:
    """Return the angle of each channel; in float32 as models compute it, or minus whole turns."""
    compute = angles_of_float32 if encoding.precision == "float32" else angles_in_turn
    angles = compute(sequence(rows), encoding.exact_frequencies()[: encoding.pairs])
    angles = -angles if encoding.direction == "inverse" else angles
    table: Table = per_channel(angles, encoding.pairing, encoding.head_dim, 0.0)
    return table


def _ggml(encoding: Any, rows: int) -> dict[str, Any]:
    """Return the arguments of `ggml_rope_ext`, which computes the angles from the base and a divisor of each pair."""
    spread, sign = encoding.pairing.placement == "spread", -1 if encoding.direction == "inverse" else 1
    channels = encoding.head_dim if spread else encoding.rotary_channels
    wanted = encoding.exact_frequencies()[: encoding.pairs]
    plain = geometric(channels, base=encoding.base)
    with high_precision():
        ratios = [one / other if other else Decimal(STILL) for one, other in zip(plain, wanted, strict=False)]
    divisors = [sign * min(float(ratio), STILL) for ratio in ratios] + [STILL] * (len(plain) - len(wanted))
    return {
        "freq_factors": None if set(divisors) == {1.0} else np.array(divisors, np.float32),
        "n_dims": channels,
        "mode": 2 if encoding.pairing.split == "half" else 0,
        "n_ctx_orig": rows,
        "freq_base": float(encoding.base),
        "freq_scale": 1.0,
        "ext_factor": 0.0,
        "attn_factor": encoding.attention_factor,
        "beta_fast": 0.0,
        "beta_slow": 0.0,
    }
