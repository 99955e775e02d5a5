"""RoPE by ONNX Runtime: `posenc check rope_onnx.py:rope --longest 4096`."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

WIDTH, LENGTH = 64, 4096  # channels of a head, positions in the tables

angles = np.outer(
    np.arange(LENGTH), 10000.0 ** (-np.arange(WIDTH // 2) / (WIDTH // 2))
)  # put your own here
tables = [
    helper.make_tensor(
        name, TensorProto.FLOAT, angles.shape, table.astype(np.float32).ravel()
    )
    for name, table in (("cos", np.cos(angles)), ("sin", np.sin(angles)))
]
graph = helper.make_graph(
    [
        helper.make_node(
            "RotaryEmbedding", ["x", "cos", "sin", "positions"], ["y"]
        )
    ],
    "rope",
    [
        helper.make_tensor_value_info(
            "x", TensorProto.FLOAT, ["batch", "heads", "length", WIDTH]
        ),
        helper.make_tensor_value_info(
            "positions", TensorProto.INT64, ["batch", "length"]
        ),
    ],
    [
        helper.make_tensor_value_info(
            "y", TensorProto.FLOAT, ["batch", "heads", "length", WIDTH]
        )
    ],
    tables,
)
model = helper.make_model(
    graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10
)
session = onnxruntime.InferenceSession(model.SerializeToString())


def rope(q, k, positions):
    """Return queries and keys rotated, `(batch, heads, length, 64)`."""
    rows = np.broadcast_to(positions, (len(q), positions.shape[-1]))
    q, k = (session.run(None, {"x": x, "positions": rows})[0] for x in (q, k))
    return q, k
