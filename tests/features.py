"""Print what NumPy is not to use of this processor: `python tests/features.py LEVEL`.

NumPy's loops of float32 have other last digits on other processors. With the features that this prints in
`NPY_DISABLE_CPU_FEATURES`, it computes as on a processor of the level: `avx2`, without AVX-512, or `baseline`, with
what NumPy requires alone. NumPy warns of a name that it does not know or cannot disable, so the names are its own.
"""

import sys

try:
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
except ImportError:  # NumPy 1
    from numpy.core._multiarray_umath import __cpu_dispatch__, __cpu_features__

LEVELS = {"avx2": lambda name: name.startswith(("AVX512", "X86_V4")), "baseline": lambda name: True}

if __name__ == "__main__":
    print(*(name for name in __cpu_dispatch__ if __cpu_features__[name] and LEVELS[sys.argv[1]](name)))  # noqa: T201
