"""List what each framework cannot do, with the reason: these cases of the suite are expected to fail, strictly.

A literal that imports nothing: the pages and the report read it without the framework.
"""

from __future__ import annotations

from collections.abc import Iterable

# By backend, then by environment ("": in all): a case, its check, its dtype or its encoding, and the reason.
KNOWN_FAILURES: dict[str, dict[str, dict[str, str]]] = {
    "torch": {
        "": {
            "gradient, autocast: MultiHeadAttention": (
                "On its way back each product is rounded to bfloat16; no bound on what that adds up to is known here."
            ),
            "onnx: MultiHeadAttention, Rotary, head_dim 4, layout half, start about 2**16, bfloat16": (
                "onnxruntime multiplies no matrices in bfloat16 on a CPU."
            ),
        },
    },
    "keras": {
        "": {},
        "tensorflow": {
            "onnx": "`tf2onnx` takes a tensor that a `tf.function` captures, as each table is, for an input of the model.",
        },
        "jax": {
            "onnx": "Keras writes ONNX by way of `jax2onnx`, which is not tested here.",
        },
        "torch": {
            "compiled code in threads": (
                "Keras keeps `GLOBAL_STATE_TRACKER` by thread, and `torch.compile` guards on it: every thread compiles anew."
            ),
            "tf_saved_model": "Keras writes it by way of torch_xla. https://github.com/keras-team/keras/pull/20685",
        },
    },
    "paddle": {
        "": {
            "compiled code in threads": (
                "Where threads run one compiled program at the same time, that of a plain `Linear`, too, Paddle raises or ends "
                "the process; a native test tells when it no longer does."
            ),
            "predicted: LearnedSinusoidal": (
                "With oneDNN, its default on a CPU, Paddle Inference writes the cosine of these angles over their "
                "sine; `Config.disable_mkldnn` helps."
            ),
            "predicted: LearnedRotary": (
                "With oneDNN, its default on a CPU, Paddle Inference writes the cosine of these angles over their "
                "sine; `Config.disable_mkldnn` helps."
            ),
            "cast: MultiHeadAttention": (
                "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
            ),
            "autocast: MultiHeadAttention": (
                "Compiled in half precision on a CPU, Paddle's `Linear` ends the process, by itself, too; a native test tells "
                "when it no longer does."
            ),
            "MultiHeadAttention, Rotary, head_dim 4, layout half, start about 2**16, bfloat16": (
                "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
            ),
            "MultiHeadAttention, Alibi, start about 2**16, float16": (
                "Paddle's `Linear` has no half precision on a CPU. https://github.com/PaddlePaddle/Paddle/issues/78461"
            ),
            "states of another encoding, by `paddle.Model.load`": (
                "It compares shapes and asks no layer; `set_state_dict` of a layer or of its model tells by name."
            ),
        },
    },
    "mxnet": {
        "": {
            "first call of a hybridized parent in threads": "Gluon makes a graph in one thread alone: call a model once before "
            "threads share it. A layer by itself waits for the others. https://github.com/apache/mxnet/issues/13199",
            "float16 tokens in a hybridized parent of float32": "Symbols do not tell their dtype, and the result is float32: `cast` "
            "the parent to the dtype of its inputs, as for Gluon's own blocks.",
            "functions of the core in a hybridized block": "Symbols tell neither their dtype nor their axes, so that `from_mask` and "
            "the like take arrays alone: make positions before, and give them to the block. Layers take symbols.",
            "bfloat16": "`mxnet.np` has no bfloat16; MXNet 1 has it in `mxnet.nd` alone, as a type of its own. "
            "https://github.com/apache/mxnet/pull/17265",
        },
    },
    "jax": {
        "": {},
        "without x64": {
            "float64": "JAX has float64 only where `jax_enable_x64` is set.",
        },
    },
    "numpy": {
        "": {
            "gradient": "NumPy has no automatic differentiation.",
            "compiled": "NumPy has no compiler.",
            "saved": "The layers of this room have no file format; an encoding is saved by `to_dict`.",
            "bfloat16": "NumPy has no bfloat16.",
        },
    },
    "strict": {
        "": {
            "gradient": "The array API standard has no automatic differentiation.",
            "compiled": "The array API standard has no compiler.",
            "saved": "The layers of this room have no file format; an encoding is saved by `to_dict`.",
            "bfloat16": "The array API standard has no bfloat16.",
            "float16": "The array API standard has no float16.",
        },
    },
}


def known_failures(backend: str, environments: Iterable[str] = ("",)) -> dict[str, str]:
    """Return what a backend cannot do in these of its environments: case, check, dtype or encoding, and the reason."""
    return {key: why for name in environments for key, why in KNOWN_FAILURES.get(backend, {}).get(name, {}).items()}
