"""What PyTorch cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
    "": {
        "gradient, autocast: MultiHeadAttention": (
            "On its way back each product is rounded to bfloat16; no bound on what that adds up to is known here."
        ),
        "onnx: MultiHeadAttention, Rotary, head_dim 4, layout half, start about 2**16, bfloat16": (
            "onnxruntime multiplies no matrices in bfloat16 on a CPU."
        ),
    },
}
