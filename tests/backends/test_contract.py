"""The contract of a backend: names, hooks, and no method of the core that an adapter overrides."""

import inspect

import pytest

from posenc_core import Alibi, Backend, Rotary, layers
from posenc_core.layers.base import AdapterLayer, AdapterTables

LAYERS = ("PositionalEncoding", "RotaryEmbedding", "AttentionBias", "QueryScaling", "MultiHeadAttention")
OVERRIDDEN = {"mxnet": {"values", "cos_sin"}}  # second methods that a block inside a graph calls with symbols
MORE = {"torch": ("score_mod",), "jax": ("to_state", "from_state"), "mlx": ("to_state", "from_state")}


def test_a_backend_has_its_public_names(backend):
    name = backend.__name__.rpartition(".")[2]
    wanted = (*LAYERS, "from_numpy", "to_numpy", "is_traced", "namespace", *MORE.get(name, ()))
    assert [each for each in wanted if not hasattr(backend, each)] == []


def test_a_layer_has_a_backend_and_all_hooks(on, backend):
    for layer in (
        backend.RotaryEmbedding(Rotary(head_dim=4, layout="half")),
        backend.AttentionBias(Alibi(num_heads=2)),
    ):
        assert isinstance(layer.backend, Backend)
        assert not inspect.isabstract(type(layer.backend))
        assert isinstance(layer, AdapterTables)
    assert isinstance(backend.MultiHeadAttention(8, 2), AdapterLayer)


@pytest.mark.parametrize("name", LAYERS)
def test_adapters_override_no_method_of_the_core(backend, name):
    own, core = set(), set()
    for cls in getattr(backend, name).__mro__:
        if cls.__module__.startswith("posenc_"):
            names = {each for each, value in vars(cls).items() if callable(value) or isinstance(value, property)}
            (core if cls.__module__.startswith("posenc_core") else own).update(names)
    overridden = {each for each in own & core if not each.startswith("__")}
    assert overridden <= OVERRIDDEN.get(backend.__name__.rpartition(".")[2], set())


@pytest.mark.parametrize("name", LAYERS)
def test_signature_and_docstring_are_the_cores(backend, name):
    assert inspect.getdoc(getattr(backend, name)) == inspect.getdoc(getattr(layers, name)) or backend.__name__.endswith(
        "strict"
    )
