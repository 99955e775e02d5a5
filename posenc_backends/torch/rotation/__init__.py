"""The rotation of queries and keys in PyTorch.

What rotates my tensor? The first line that fits. The formula is `posenc_core.rotation.rotate_reference`, by
operators of `torch/namespace.py`; all others have its bits, but for compilers, which may omit a rounding.

    the tensor, or the code around it                 is rotated by                           in
    ONNX export within `rotary_operator()`            ONNX's operator, where it fits          ../onnx.py
    a subclass (distributed, fake), the meta device   the formula
    compiled, few tokens, on a CPU                    a formula with fewer guards             compiled.py, dynamo.py
    `jit.trace`, `vmap`, `jvp`, forward mode, exports the formula
    a gradient reaches a table (learned frequencies)  the formula
    GPU with Triton, eager or compiled                a Triton kernel, `posenc::rotate`       gpu.py, triton_launch.py
    GPU without Triton                                the formula
    compiled, a result of 32 MiB or more              the C kernel, `posenc::rotate_large`    custom_op.py
    compiled, interleaved half precision, no AVX-512  the formula, in words of 32 bits        words.py
    compiled otherwise                                the formula
    eager, with the C kernel                          the C kernel, half precision as well    kernel.py
    eager, without it, more than 2**17 numbers        the formula's arithmetic, part by part  without_kernel.py
    eager, without it, few tokens                     the formula

The core asks `kernel.py` first. `apply_rotary.py` looks up rows itself; `spec.py` says what one rotation is.
"""
