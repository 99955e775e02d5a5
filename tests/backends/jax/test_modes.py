"""Whether the modes of several devices, and of what may be installed, are really tried here."""

import os
import subprocess
import sys

import jax
import pytest

from posenc_backends.conformance.cases import golden
from posenc_backends.conformance.frameworks import jax_sharding as sharding
from posenc_backends.conformance.frameworks.jax import LENGTHS, MODES
from posenc_backends.conformance.tooling import LayerCase

SHARDED = ("sharded over sequence", "sharded over heads", "shard_map")
DEVICES = {
    "sharded over sequence": [8, 7],
    "shard_map": [8, 7],
    "sharded over heads": [2, 2],
}  # for tokens of two heads


@pytest.mark.mode
def test_what_modes_ask_for_is_installed():
    assert {"exported", "in a model"} <= set(MODES)


def test_there_are_devices_for_those_that_ask_for_some():
    assert jax.device_count() == 8, "XLA_FLAGS asks for another number of devices than 8."
    assert set(SHARDED) <= set(MODES)
    assert [sharding._mesh(length).size for length in LENGTHS] == [8, 7]


@pytest.mark.parametrize("mode", SHARDED)
def test_each_device_has_a_part(on, mode, tmp_path):
    (golden_case,) = (each for each in golden("modes") if each["name"] == "Rotary, head_dim 8, layout half, float32")
    layer_case = LayerCase(on, golden_case)
    run = MODES[mode](layer_case, tmp_path)
    for length, count in zip(LENGTHS, DEVICES[mode], strict=True):
        result = run(*layer_case.arrays(length))
        (size,) = {part.data.size for part in result.addressable_shards}
        assert (len(result.sharding.device_set), size * count) == (count, result.size)


def test_where_there_is_one_device_these_are_not_tried():
    """As `posenc report --modes` finds it on most machines: what is left are the modes that one device can try."""
    code = "from posenc_backends.conformance.frameworks.jax import MODES; print(*MODES, sep='\\n')"
    environment = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert set(told.stdout.split("\n")) - {""} == set(MODES) - set(SHARDED)
