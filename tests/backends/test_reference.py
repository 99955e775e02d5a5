"""The reference page of the backend: its example, and its signatures, which are read from sources."""

import inspect
import re
import runpy
from pathlib import Path

import pytest

from ..pages import run

DOCS = Path(__file__).parents[2] / "docs"
KERAS_OWN = ("visible", "keys_mask", "training", "options")  # which Keras gives itself, or calls `mask`
LAYERS = ("PositionalEncoding", "RotaryEmbedding", "AttentionBias", "MultiHeadAttention")


@pytest.fixture
def name(request):
    name = request.config.getoption("--backend")
    if name == "strict":
        pytest.skip("There is no page for this backend.")
    return name


def test_the_example_prints_what_the_page_shows(name):
    run(DOCS / "reference" / f"{name}.md", name)


@pytest.mark.parametrize("layer", LAYERS)
def test_signatures_are_those_of_the_layer(name, backend, layer):
    """Every argument is described, and is one of the class or the call; `native` stands for the framework's own."""
    made, called = runpy.run_path(str(DOCS / "backends.py"))["layer"](name, layer)
    cls = getattr(backend, layer)
    for documented, real in ((made, cls), (called, getattr(cls, called.name))):
        arguments = inspect.signature(real).parameters
        is_open = any(each.kind is each.VAR_KEYWORD for each in arguments.values())
        missing = documented.signature.parameters.keys() - arguments.keys()
        assert not missing or is_open or (name, layer) == ("keras", "MultiHeadAttention")  # its `mask` is `__call__`'s
        assert arguments.keys() - documented.signature.parameters.keys() <= {"self", "native", "unknown", *KERAS_OWN}
        for argument in documented.signature.parameters:
            assert re.search(rf"^    .*\b{argument}\b.*: ", documented.text, re.MULTILINE), argument


def test_compilers_find_no_argument_of_the_constructor_in_a_call(backend):
    """`tf.function` and `jax.jit` read the signature of a layer, and give what has a default there."""
    cls = backend.PositionalEncoding
    assert {"num_hiddens", "encoding"} <= inspect.signature(cls).parameters.keys()
    assert not {"num_hiddens", "encoding"} & inspect.signature(cls(8)).parameters.keys()


def test_unknown_functions_are_refused(name):
    with pytest.raises(ValueError, match="exports no"):
        runpy.run_path(str(DOCS / "backends.py"))["function"](name, "nothing")
