"""The JSON Schema of `golden.json`."""

from __future__ import annotations

from typing import Any

from posenc_backends.check.program import STORED
from posenc_core.normalization import ORDERS


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": required | optional,
    }


_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_NAME = {"type": "string", "pattern": "^[A-Za-z0-9.=_+-]+$"}
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_FILE = {"type": "string", "pattern": r"^[a-z_]+\.safetensors$"}
_NUMBER = {"type": ["number", "null"]}
_TENSOR = {
    "tensor": {"type": "string", "pattern": "^[A-Za-z0-9.=_+-]+/[A-Za-z0-9._-]+$"},
    "dtype": {"enum": list(STORED)},
    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    "sha256": _DIGEST,
}
_TOLERANCE = _object(
    {
        "class": {"enum": ["exact", "rounded once"]},
        "ulp": {"type": "number", "exclusiveMinimum": 0},
        "dtype": {"enum": ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"]},
        "of": {"enum": ["entry", "pair", "largest"]},
    }
)
_OUTPUT = _object(_TENSOR | {"meaning": {"enum": ["truth", "formula"]}, "tolerance": _TOLERANCE})
_MISTAKE = _object(_TENSOR | {"meaning": {"const": "mistake"}, "mistake": _TEXT, "description": _TEXT, "of": _NAME})
_OPTIONS = {"seq_len": {"type": ["integer", "null"]}, "attention_factor": _NUMBER, "start": {"type": "integer"}}
_OPTIONS |= {key: {"type": "integer"} for key in ("positions_per_second", "table_length")}
_OPTIONS |= {key: {"type": "number"} for key in ("epsilon", "offset", "scale")}
_OPTIONS |= {"order": {"enum": list(ORDERS)}, "head_axis": {"enum": [-3, None]}}


def _named(values: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z0-9._-]+$"},
        "additionalProperties": values,
        "minProperties": least,
    }


_CASE = _object(
    {
        "name": _NAME,
        "spec": {"type": "object", "required": ["kind"], "properties": {"kind": _TEXT}},
        "file": _FILE,
        "inputs": _named(_object(_TENSOR)),
        "outputs": _named(_OUTPUT, least=1),
        "mistakes": _named(_MISTAKE),
        "options": _object({}, **_OPTIONS, causal={"type": "boolean"}),
    }
)
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Golden vectors of posenc",
    **_object(
        {
            "version": {"type": "string", "pattern": r"^1\.\d+\.\d+$"},
            "licence": {"const": "MIT-0"},
            "meanings": _object({"truth": _TEXT, "formula": _TEXT, "mistake": _TEXT}),
            "files": {"type": "object", "propertyNames": _FILE, "additionalProperties": _DIGEST},
            "cases": {"type": "array", "items": _CASE, "minItems": 1},
        }
    ),
}
