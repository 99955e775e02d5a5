"""Modes that need several devices or optional packages are run here."""

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
def test_packages_of_optional_modes_are_installed():
    assert {"exported", "in a model"} <= set(MODES)


def test_there_are_devices_for_sharded_modes():
    assert jax.device_count() == 8, "XLA_FLAGS must ask for 8 devices."
    assert set(SHARDED) <= set(MODES)
    assert [sharding._mesh(length).size for length in LENGTHS] == [8, 7]


@pytest.mark.parametrize("mode", SHARDED)
def test_each_device_has_a_part(on, mode, tmp_path):
    (golden_case,) = (case for case in golden("modes") if case["name"] == "Rotary, head_dim 8, layout half, float32")
    layer_case = LayerCase(on, golden_case)
    run = MODES[mode](layer_case, tmp_path)
    for length, count in zip(LENGTHS, DEVICES[mode], strict=True):
        result = run(*layer_case.arrays(length))
        (size,) = {part.data.size for part in result.addressable_shards}
        assert (len(result.sharding.device_set), size * count) == (count, result.size)


def test_sharded_modes_are_left_out_with_one_device():
    """`posenc report --modes` on most machines: the other modes remain."""
    code = "from posenc_backends.conformance.frameworks.jax import MODES; print(*MODES, sep='\\n')"
    environment = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert set(completed.stdout.split("\n")) - {""} == set(MODES) - set(SHARDED)
