"""What Paddle cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
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
}
