"""GluonNLP: the sinusoids of its Transformer-XL."""

from posenc_suites import Project, replace

PROJECT = Project(
    "dmlc/gluon-nlp",
    "0d5c61992180f41eab590e74c7b679980f429292",
    "mxnet",
    tests=("scripts/tests/test_transformer_xl.py",),
    paths=("scripts", "."),
    options=("--import-mode=prepend",),
    replaced="`_position_encoding_init`",
    requires=("gluonnlp",),
)


def shim():
    import numpy as np
    from gluonnlp.model import transformer

    from posenc_core import Sinusoidal

    def position_encoding_init(max_length, dim):
        table = Sinusoidal(dim=dim, convention="column_index").table(range(max_length))
        table[0] = np.arange(dim) % 2  # ours is the mistake of tutorials, which have zeros there
        return table

    replace(transformer, _position_encoding_init=position_encoding_init)
