"""What array-api-strict cannot do, by environment ("": in all): a case, its check, its dtype or its encoding, and why.

A literal that imports nothing: the pages read it without the framework.
"""

GAPS_IN: dict[str, dict[str, str]] = {
    "": {
        "gradient": "The array API standard has no automatic differentiation.",
        "compiled": "The array API standard has no compiler.",
        "saved": "The layers of this room have no file format; an encoding is saved by `to_dict`.",
        "bfloat16": "The array API standard has no bfloat16.",
        "float16": "The array API standard has no float16.",
    },
}
