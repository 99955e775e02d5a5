"""Inputs that `nox -s fuzz` found; each ended in something else than a result or one sentence."""

FOUND = [
    "from_notation('Normalized(dim=30 length=7)')",  # the second sentence of Python's: "Perhaps you forgot a comma?"
    "function('causal', key_positions=array((3, 3), 'float64'), query_positions=array((0, 0), 'float64'))",
]
OF_BACKENDS = [  # calls of layers, and of functions with arrays of a framework
    "function('counted_from', length='half')",  # of MXNet
]
