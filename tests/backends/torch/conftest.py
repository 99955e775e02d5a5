"""A fixture that starts two processes of PyTorch once per test file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = Path(__file__).with_name("workers.py")


@pytest.fixture(scope="module")
def faults(request, tmp_path_factory):
    """The error of each check in the module's `CHECKS`, run in two communicating processes; "" if it passed."""
    folder = tmp_path_factory.mktemp("processes")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    commands = [[sys.executable, str(WORKERS), str(request.path), str(rank), str(folder)] for rank in range(2)]
    both = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = "\n".join(process.communicate(timeout=600)[1] for process in both)
    paths = [Path(folder, f"{rank}.json") for rank in range(2)]
    passed = [json.loads(path.read_text(encoding="utf-8")) if path.exists() else [] for path in paths]
    return {name: "" if all(name in command for command in passed) else errors for name in request.module.CHECKS}
