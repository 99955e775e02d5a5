"""Inputs that `nox -s fuzz` found; each ended in something else than a result or one sentence."""

FOUND = [
    "from_notation('Normalized(dim=30 length=7)')",  # the second sentence of Python's: "Perhaps you forgot a comma?"
    "function('causal', key_positions=array((3, 3), 'float64'), query_positions=array((0, 0), 'float64'))",
    "load_diffusers({'_class_name': []})",
    "load_diffusers({'_class_name': 'FluxTransformer2DModel', 'axes_dims_rope': [None, None, None]})",
]
OF_BACKENDS = [  # calls of layers, and of functions with arrays of a framework
    "function('counted_from', length='half')",  # of MXNet
    "function('counted_from', length=[])",  # of MXNet and TensorFlow
    "function('counted_from', length=of(array((3,), 'float64')))",  # of PyTorch, as the next ones
    "layer('MultiHeadAttention', dict(query_scale=of(array((3,), 'float64'))))",  # of MLX
    "function('same_sequence', key_ids=array((3,), 'float64'))",
    "function('same_sequence', query_ids=of(array((3,), 'uint64')))",
    "function('causal', key_positions=of(array((3,), 'uint64')))",
    "function('padding', tokens=of(array((2, 3), 'uint64')))",
    "function('from_mask', mask=of(array((2, 3), 'uint64')))",
    "function('rotate', blocks=1)",  # of JAX, whose arrays cannot be written to
]
