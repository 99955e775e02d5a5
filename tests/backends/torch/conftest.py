"""Two processes of PyTorch, started once for a file of tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = Path(__file__).with_name("workers.py")


@pytest.fixture(scope="module")
def faults(request, tmp_path_factory):
    """What went wrong in each check of the module's `CHECKS`, in two processes that talk to each other; "" if nothing."""
    folder = tmp_path_factory.mktemp("processes")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    commands = [[sys.executable, str(WORKERS), str(request.path), str(rank), str(folder)] for rank in range(2)]
    both = [subprocess.Popen(each, env=environment, stderr=subprocess.PIPE, text=True) for each in commands]
    errors = "\n".join(process.communicate(timeout=120)[1] for process in both)
    found = [Path(folder, f"{rank}.json") for rank in range(2)]
    passed = [json.loads(path.read_text(encoding="utf-8")) if path.exists() else [] for path in found]
    return {name: "" if all(name in each for each in passed) else errors for name in request.module.CHECKS}
