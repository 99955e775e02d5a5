"""The programs of the page on context parallelism, on several devices; the page's models of linen and Haiku."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

from ...pages import run
from .plain import tokens

DOCS = Path(__file__).parents[3] / "docs"
X, WANTED = tokens(2, 5, 16), tokens(2, 5, 16, seed=1)


@pytest.mark.parametrize("program", ["context_jax.py", "ring_jax.py"])
def test_several_devices_agree_with_one(program):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_ENABLE_X64": "0"}
    completed = subprocess.run(
        [sys.executable, str(DOCS / "howto" / program)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert completed.stdout == "4 devices: the same\n", completed.stderr


@pytest.mark.parametrize("library", ["linen", "haiku"])
def test_models_of_older_libraries_compute_as_the_layer_and_learn(library):
    shown = run(DOCS / "reference" / "jax.md", "jax")
    model = shown["LinenBlock"]() if library == "linen" else shown["model"]
    parameters = model.init(jax.random.key(0), X)
    if library == "linen":
        layer = parameters["params"]["attention"]
    else:
        leaves, tree = jax.tree.flatten_with_path(shown["attention"](jax.random.key(3)))
        (arrays,) = parameters.values()
        layer = tree.unflatten([arrays[jax.tree_util.keystr(path)] for path, _ in leaves])
    np.testing.assert_array_equal(model.apply(parameters, X), X + layer(X, X, X, causal=True))

    @jax.jit
    def step(parameters, state):
        value, gradient = jax.value_and_grad(lambda these: ((model.apply(these, X) - WANTED) ** 2).mean())(parameters)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(parameters, updates), state, value

    optimizer, before = optax.adam(0.02), parameters
    state, values = optimizer.init(parameters), []
    for _ in range(20):
        parameters, state, value = step(parameters, state)
        values.append(float(value))
    assert values[-1] < 0.8 * values[0]
    moved = jax.tree.map(lambda new, old: np.abs(new - old).max() > 0, parameters, before)
    assert all(jax.tree.leaves(moved))
