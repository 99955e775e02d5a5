"""Run the checks of a file in several processes of PyTorch: `python processes.py FILE COUNT FOLDER`."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from datetime import timedelta
from pathlib import Path


def faults_of(file, names, count, folder):
    """Return the error of each check, run once in `count` communicating processes; "" if it passed in all."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, str(file), str(count), str(folder)]
    errors = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600).stderr
    paths = [Path(folder, f"{rank}.json") for rank in range(count)]
    passed = [json.loads(path.read_text(encoding="utf-8")) if path.exists() else [] for path in paths]
    return {name: "" if all(name in each for each in passed) else errors for name in names}


def checks_of(file):
    sys.path.append(str(Path(__file__).parents[1]))  # for `tests`; an installed package comes before
    return runpy.run_path(file, run_name="checks")["CHECKS"]


def work(rank, file, count, folder):
    """Run the checks of the file in order; stop at the first failure, as the other processes would wait in vain."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    ranks, sizes = dict.fromkeys(("RANK", "LOCAL_RANK"), rank), dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), count)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0}  # which nobody connects to: there is a group already
    os.environ |= {name: str(value) for name, value in (ranks | sizes | address).items()}  # for engines
    store, late = f"file://{folder}/store", timedelta(seconds=100)
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=count, timeout=late)
    mesh = distributed.init_device_mesh("cpu", (count,), mesh_dim_names=("processes",))
    passed = []
    try:
        for name, check in checks_of(file).items():
            torch.manual_seed(0)
            check(mesh)
            passed.append(name)
    finally:
        Path(folder, f"{rank}.json").write_text(json.dumps(passed), encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    from torch.multiprocessing import start_processes

    file, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if sys.platform == "linux":
        checks_of(file)  # each process has then imported what it needs
    start_processes(work, (file, count, folder), count, start_method="fork" if sys.platform == "linux" else "spawn")
