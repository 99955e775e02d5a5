"""The program of the page on context parallelism, on several devices."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[3] / "docs" / "howto" / "context_jax.py"


def test_several_devices_agree_with_one():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_ENABLE_X64": "0"}
    completed = subprocess.run(
        [sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert completed.stdout == "4 devices: the same\n", completed.stderr
