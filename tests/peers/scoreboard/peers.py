"""The implementations of the scoreboard: how each is called, and the encoding that it promises."""

import diffusers.models.embeddings as of_diffusers
import mlx.core as mx
import numpy as np
import onnxruntime
import rotary_embedding_torch
import torch
from keras_hub.layers import RotaryEmbedding as KerasRotary
from keras_hub.layers import SinePositionEncoding
from keras_hub.src.models.llama.llama_rotary_embedding import LlamaRotaryEmbedding as KerasLlama
from onnx import TensorProto, helper
from positional_encodings.torch_encodings import PositionalEncoding1D
from x_transformers import x_transformers

from posenc_core import Llama3, Rotary, Sinusoidal

from ..importing import lone
from .boards import Peer
from .bodies import of_transformers

torchtune = lone("torchtune.modules.position_embeddings")
of_timm = lone("timm.layers.pos_embed_sincos")
HALF, PAIRS = Rotary(head_dim=64, layout="half"), Rotary(head_dim=32, layout="interleaved")
FRAMEWORK = "torch"
LLAMA3 = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)


def first_of(positions):
    """Return the first of consecutive positions; others are refused, as by those who take an offset alone."""
    if positions.ndim > 1 or (len(positions) > 1 and (positions[1:] - positions[:-1] != 1).any()):
        raise ValueError("only an offset is taken")
    return int(positions[0])


def torchtunes(cls, **fields):
    rope = cls(max_seq_len=4096, **fields)
    return lambda x, positions: rope(x.transpose(1, 2), input_pos=positions).transpose(1, 2)


def phi3():
    rope = lone("torchtune.models.phi3._position_embeddings").Phi3RotaryPositionalEmbeddings(dim=64, max_seq_len=4096)
    return lambda x, positions: rope(x.transpose(1, 2), input_pos=positions).transpose(1, 2)


def lucidrains():
    rope = rotary_embedding_torch.RotaryEmbedding(dim=32)
    return lambda x, positions: rope.rotate_queries_or_keys(x, offset=first_of(positions))


def lucidrains_uncached():
    rope = rotary_embedding_torch.RotaryEmbedding(dim=32, cache_if_possible=False)
    return lambda x, positions: rotary_embedding_torch.apply_rotary_emb(rope(positions), x)


def x_transformer():
    rope = x_transformers.RotaryEmbedding(dim=32)
    return lambda x, positions: x_transformers.apply_rotary_pos_emb(x, rope(positions)[0])


def diffuser(layout):
    interleaved = layout == "interleaved"

    def turn(x, positions):
        table = of_diffusers.get_1d_rotary_pos_embed(
            x.shape[-1], positions, use_real=True, repeat_interleave_real=interleaved
        )
        return of_diffusers.apply_rotary_emb(x, table, use_real_unbind_dim=-1 if interleaved else -2)

    return turn


def diffusers_timestep():
    return lambda positions: of_diffusers.get_timestep_embedding(
        positions, 32, flip_sin_to_cos=True, downscale_freq_shift=0
    )


def timm_concatenated():
    def turn(x, positions):
        frequencies = 10000.0 ** -(torch.arange(16) / 16)
        angles = (positions[..., None].float() * frequencies).repeat_interleave(2, dim=-1)
        return of_timm.apply_rot_embed(x, angles.sin(), angles.cos())

    return turn


def keras(cls, **fields):
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    ropes = {dtype: cls(sequence_axis=2, dtype=str(dtype)[6:], **fields) for dtype in dtypes}
    return lambda x, positions: ropes[x.dtype](x, positions=positions)


def keras_sine():
    layers = {
        dtype: SinePositionEncoding(dtype=str(dtype)[6:]) for dtype in (torch.float32, torch.bfloat16, torch.float16)
    }
    return lambda x, positions: x + layers[x.dtype](x, start_index=first_of(positions))


def tatp22():
    layer = PositionalEncoding1D(8)
    return lambda x, positions: x + layer(x.new_zeros(1, int(positions.max()) + 1, 8))[0, positions]


def x_sinusoid():
    layer = x_transformers.ScaledSinusoidalEmbedding(32)
    layer.scale.data.fill_(1.0)
    return lambda positions: layer(torch.zeros(1, len(positions), 32), pos=positions).detach()


def mlx(traditional, width):
    def turn(x, positions):
        first = first_of(positions)
        return mx.fast.rope(x, width, traditional=traditional, base=10000.0, scale=1.0, offset=first)

    return turn


def onnx_operator(domain, opset):
    """Return a rotation of NumPy arrays by an operator of ONNX Runtime, with exact tables of 4,096 rows."""
    angles = np.outer(np.arange(4096), 10000.0 ** -(np.arange(32) / 32))
    tables = [
        helper.make_tensor(name, TensorProto.FLOAT, angles.shape, table.astype(np.float32).ravel())
        for name, table in (("cos", np.cos(angles)), ("sin", np.sin(angles)))
    ]
    order = ["x", "positions", "cos", "sin"] if domain else ["x", "cos", "sin", "positions"]
    float32, sizes = TensorProto.FLOAT, ["batch", "heads", "length", 64]
    graph = helper.make_graph(
        [helper.make_node("RotaryEmbedding", order, ["y"], domain=domain)],
        "rope",
        [
            helper.make_tensor_value_info("x", float32, sizes),
            helper.make_tensor_value_info("positions", TensorProto.INT64, ["batch", "length"]),
        ],
        [helper.make_tensor_value_info("y", float32, sizes)],
        tables,
    )
    opsets = [helper.make_opsetid("", 23), *([helper.make_opsetid(domain, opset)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def turn(x, positions):
        rows = np.ascontiguousarray(np.broadcast_to(positions, (len(x), positions.shape[-1])), np.int64)
        return session.run(None, {"x": np.ascontiguousarray(x), "positions": rows})[0]

    return turn


OTHERS = (
    Peer("torchtune", "RotaryPositionalEmbeddings", lambda: torchtunes(torchtune.RotaryPositionalEmbeddings, dim=32),
         PAIRS, {"longest": 4096}),
    Peer("torchtune", "Phi3RotaryPositionalEmbeddings", phi3, HALF, {"longest": 4096}),
    Peer("rotary-embedding-torch", "rotate_queries_or_keys", lucidrains, PAIRS),
    Peer("rotary-embedding-torch", "apply_rotary_emb", lucidrains_uncached, PAIRS),
    Peer("x-transformers", "RotaryEmbedding", x_transformer, PAIRS),
    Peer("x-transformers", "ScaledSinusoidalEmbedding", x_sinusoid, Sinusoidal(dim=32, convention="concatenated")),
    Peer("diffusers", "apply_rotary_emb, Flux", lambda: diffuser("interleaved"), PAIRS),
    Peer("diffusers", "apply_rotary_emb, Cosmos", lambda: diffuser("half"), HALF),
    Peer("diffusers", "get_timestep_embedding", diffusers_timestep, Sinusoidal(dim=32, convention="timestep")),
    Peer("timm", "apply_rot_embed", timm_concatenated, PAIRS),
    Peer("keras-hub", "RotaryEmbedding", lambda: keras(KerasRotary), HALF, {"framework": "keras"}),
    Peer("keras-hub", "LlamaRotaryEmbedding", lambda: keras(
        KerasLlama, frequency_adjustment_factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        pretraining_sequence_length=8192),
        Rotary(head_dim=64, layout="half", scaling=LLAMA3), {"framework": "keras"}),
    Peer("keras-hub", "SinePositionEncoding", keras_sine, Sinusoidal(dim=8), {"framework": "keras", "longest": 5000}),
    Peer("positional-encodings", "PositionalEncoding1D", tatp22, Sinusoidal(dim=8), {"longest": 5000}),
    Peer("mlx", "fast.rope", lambda: mlx(False, 64), HALF, {"framework": "mlx"}),
    Peer("mlx", "fast.rope, traditional", lambda: mlx(True, 32), PAIRS, {"framework": "mlx"}),
    Peer("onnxruntime", "RotaryEmbedding, opset 23, given tables", lambda: onnx_operator("", 23), HALF,
         {"framework": "numpy", "longest": 4096}),
    Peer("onnxruntime", "com.microsoft.RotaryEmbedding, given tables", lambda: onnx_operator("com.microsoft", 1), HALF,
         {"framework": "numpy", "longest": 4096}),
)  # fmt: skip


def peers():
    """Return all peers."""
    return [*(Peer("transformers", *one) for one in of_transformers()), *OTHERS]
