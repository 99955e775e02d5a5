"""The golden vectors of kernels as models and data for tests of ONNX runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from posenc_backends.conformance.cases import golden
from posenc_core.encodings import Encoding, Rotary

OPSET, IR_VERSION = 23, 10  # the first with RotaryEmbedding, and the format of files of that release


def write_onnx(folder: Path) -> int:
    """Write a folder for each rotation that the operator RotaryEmbedding has, and return their number.

    Each has `model.onnx` and `test_data_set_0`, with the tokens, cosines and sines as inputs and the rotated tokens in
    float32 as output, as in the tests of ONNX itself.

    Args:
        folder: the folder to write to; it is created if it does not exist.
    Raises:
        OSError: if a file cannot be written.
    Source: ONNX, operator RotaryEmbedding, version 23.
    """
    count = 0
    for case in golden("kernels"):
        encoding: Any = Encoding.from_dict(case["encoding"])
        if encoding.plain_rope() is None or (encoding.placement, encoding.direction) != ("lead", "forward"):
            continue
        if encoding.layout == "interleaved_to_half":
            continue
        count += 1
        q, wanted = (np.array(case[name], np.float32) for name in ("q", "rotated_q"))
        tables = [np.asarray(table, np.float32) for table in encoding.cos_sin(np.array(case["positions"]))]
        cos, sin = (np.broadcast_to(table, (len(q), *table.shape[-2:])) for table in tables)
        data = folder / case["name"] / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        onnx.save(_model(encoding, {"x": q, "cos": cos, "sin": sin}, wanted), data.parent / "model.onnx")
        for number, (name, array) in enumerate((("x", q), ("cos", cos), ("sin", sin))):
            _write(data / f"input_{number}.pb", name, array)
        _write(data / "output_0.pb", "y", wanted)
    return count


def _model(encoding: Rotary, inputs: dict[str, Any], output: Any) -> Any:
    """Return a model of the operator alone."""
    attributes = {"interleaved": int(encoding.layout == "interleaved")}
    if encoding.rotary_dim is not None:
        attributes["rotary_embedding_dim"] = encoding.rotary_dim
    node = helper.make_node("RotaryEmbedding", list(inputs), ["y"], **attributes)
    described = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, output.shape)
    graph = helper.make_graph([node], "rope", described, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _write(path: Path, name: str, array: Any) -> None:
    path.write_bytes(numpy_helper.from_array(np.ascontiguousarray(array), name).SerializeToString())
