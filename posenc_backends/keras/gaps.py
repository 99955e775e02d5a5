"""What Keras cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
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
}
