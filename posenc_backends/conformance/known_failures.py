"""The known failures of each framework, with the reason: the suite expects these cases to fail (strict xfail).

A literal that imports nothing: the documentation and the report read it without the framework.
"""

from __future__ import annotations

from collections.abc import Iterable

_FLOAT64 = "Compiled code has tables of float32, also for tokens of float64; eager code has tables of float64."
COMPILED_FLOAT64 = {"compiled: Rotary, float64": _FLOAT64, "compiled: Sinusoidal, float64": _FLOAT64}
_ATTENTION_IN_HALF = (
    "MultiHeadAttention, Rotary, head_dim 4, layout half, start about 2**16, bfloat16",
    "MultiHeadAttention, Alibi, start about 2**16, float16",
    "MultiHeadAttention, PoPE, head_dim 4, start about 2**16, bfloat16",
)
# MXNet is retired, so its symbols are frozen: these encodings work in hybridized graphs, later ones need not.
IN_SYMBOLS = frozenset((
    "Alibi", "AxialRotary", "Binary", "Cope", "DebertaBias", "DecomposedBias", "DualChunk", "DynamicPositionBias",
    "Fire", "FoPE", "ForgettingBias", "FourierFeatures", "GridSinusoidal", "Integer", "Kerple", "LeakyReRoPE",
    "Learned", "LearnedQueryScale", "LearnedRotary", "LearnedSinusoidal", "MixedRotary", "MultimodalRotary",
    "Normalized", "PoPE", "QueryScale", "RandomFourierFeatures", "ReRoPE", "RelativeLogits", "Rotary", "Sandwich",
    "SelfExtend", "ShawBias", "Sine", "Sinusoidal", "SwinBias", "SwinV2Bias", "T5Bias", "Timestep",
    "TransformerXLBias", "XPos",
))  # fmt: skip
# By backend, then by environment ("": all of them): the keys of `Case.known_failure`, and the reason.
# Some keys name no case: a native test of the framework covers them.
KNOWN_FAILURES: dict[str, dict[str, dict[str, str]]] = {
    "torch": {
        "": {
            **COMPILED_FLOAT64,
            "gradient, autocast: MultiHeadAttention": (
                "The backward pass rounds each product to bfloat16; no bound on the sum of these errors is known."
            ),
            **dict.fromkeys(
                (f"onnx: {attention}" for attention in _ATTENTION_IN_HALF if "bfloat16" in attention),
                "onnxruntime multiplies no matrices in bfloat16 on a CPU.",
            ),
        },
    },
    "keras": {
        "": {**COMPILED_FLOAT64},
        "tensorflow": {
            "onnx": (
                "`tf2onnx` turns each tensor that a `tf.function` captures, such as a table, into an input of the "
                "model."
            ),
        },
        "jax": {"onnx": "Keras writes ONNX with `jax2onnx`, which is not tested here."},
        "torch": {
            "compiled code in threads": (
                "Keras keeps `GLOBAL_STATE_TRACKER` per thread, and `torch.compile` guards on it: every "
                "thread compiles again."
            ),
            "tf_saved_model": "Keras writes it with torch_xla. https://github.com/keras-team/keras/pull/20685",
        },
    },
    "paddle": {
        "": {
            **COMPILED_FLOAT64,
            "compiled code in threads": (
                "If threads run one compiled program at the same time, Paddle raises or ends the process, even for a "
                "plain `Linear`; a native test fails as soon as this works."
            ),
            **dict.fromkeys(
                ("predicted: LearnedSinusoidal", "predicted: LearnedRotary"),
                "With oneDNN, the default on a CPU, Paddle Inference overwrites the sine of these angles with their "
                "cosine; use `Config.disable_mkldnn`.",
            ),
            **dict.fromkeys(
                ("cast: MultiHeadAttention", *_ATTENTION_IN_HALF),
                "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461",
            ),
            "autocast: MultiHeadAttention": (
                "Compiled in half precision on a CPU, Paddle's `Linear` ends the process, even outside of a layer of "
                "ours; a native test fails as soon as this works."
            ),
            "states of another encoding, by `paddle.Model.load`": (
                "It compares shapes without asking the layer; `set_state_dict` of a layer or of its model raises "
                "an error."
            ),
        },
    },
    "mxnet": {
        "": {
            "an encoding that is not in `IN_SYMBOLS`, in a hybridized graph": (
                "MXNet is retired, and what its symbols can do is frozen: encodings that are added later run eagerly, "
                "and are not tested in graphs."
            ),
            "first call of a hybridized parent in threads": (
                "Gluon can build a graph in one thread only: call a model once before threads share it. A layer alone "
                "waits for the other threads. https://github.com/apache/mxnet/issues/13199"
            ),
            "float16 tokens in a hybridized parent of float32": (
                "Symbols have no dtype, and the result is float32: `cast` the parent to the dtype of its inputs, as "
                "you do with Gluon's own blocks."
            ),
            "functions of the core in a hybridized block": (
                "Symbols have neither a dtype nor a known number of axes, so that `from_mask` and the like take arrays "
                "only: make positions before, and pass them to the block. Layers take symbols."
            ),
            "bfloat16": "`mxnet.np` has no bfloat16; MXNet 1 has it in `mxnet.nd` only, as a separate type. "
            "https://github.com/apache/mxnet/pull/17265",
        },
    },
    "jax": {"": COMPILED_FLOAT64, "without x64": {"float64": "JAX has float64 only if `jax_enable_x64` is set."}},
    "mlx": {
        "": {
            **COMPILED_FLOAT64,
            "`mx.compile(…, shapeless=True)`": (
                "It would replay the rows of the first length for any other: MLX can slice no table there, and raises "
                "an error."
            ),
            "pending results in another thread": (
                "MLX computes an array in the thread that made it: call `mx.eval` or read the result there."
            ),
            "strided parameters in `mx.export_function`": (
                "MLX writes their numbers in the order of memory, even for a plain `Linear`: pass them through "
                "`mx.contiguous`."
            ),
        },
    },
    "numpy": {
        "": {
            "gradient": "NumPy has no automatic differentiation.",
            "compiled": "NumPy has no compiler.",
            "saved": "The layers of this backend have no file format; save the encoding with `to_dict`.",
            "bfloat16": "NumPy has no bfloat16.",
        },
    },
    "strict": {
        "": {
            "gradient": "The array API standard has no automatic differentiation.",
            "compiled": "The array API standard has no compiler.",
            "saved": "The layers of this backend have no file format; save the encoding with `to_dict`.",
            "bfloat16": "The array API standard has no bfloat16.",
            "float16": "The array API standard has no float16.",
        },
    },
}


def known_failures(backend: str, environments: Iterable[str] = ("",)) -> dict[str, str]:
    """Return the known failures of a backend in these environments: each key with the reason."""
    return {key: why for name in environments for key, why in KNOWN_FAILURES.get(backend, {}).get(name, {}).items()}
