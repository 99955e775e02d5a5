"""What MXNet cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
    "": {
        "first call of a hybridized parent in threads": "Gluon makes a graph in one thread alone: call a model once before "
        "threads share it. A layer by itself waits for the others. https://github.com/apache/mxnet/issues/13199",
        "float16 tokens in a hybridized parent of float32": "Symbols do not tell their dtype, and the result is float32: `cast` "
        "the parent to the dtype of its inputs, as for Gluon's own blocks.",
        "bfloat16": "`mxnet.np` has no bfloat16; MXNet 1 has it in `mxnet.nd` alone, as a type of its own. "
        "https://github.com/apache/mxnet/pull/17265",
    },
}
