"""What MXNet cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
    "": {
        "bfloat16": "`mxnet.np` has no bfloat16; MXNet 1 has it in `mxnet.nd` alone, as a type of its own. "
        "https://github.com/apache/mxnet/pull/17265",
    },
}
