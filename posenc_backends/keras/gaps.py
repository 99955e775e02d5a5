"""What Keras cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
    "": {},
    "tensorflow": {},
    "jax": {},
    "torch": {
        "exported: Cope": "`torch.export` does not get through its look-up where the length of the sequence is open.",
    },
}
