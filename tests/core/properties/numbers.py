"""Strategies for numbers of the sizes that encodings take."""

import numpy as np
from hypothesis import strategies as st

FAR = 2**20
POSITIONS = st.integers(0, FAR)
DISTANCES = st.integers(-FAR, FAR)
BASES = st.sampled_from([10000, 500000.0]) | st.floats(1.5, 1e8)
FACTORS = st.floats(1, 64)
LENGTHS = st.integers(2, FAR)
DIMS = st.integers(1, 12)
HEADS = st.integers(1, 5)
FRACTIONS = st.floats(0, 1)
RNGS = st.integers(0, 2**32 - 1).map(np.random.default_rng)
