"""Run the checks of a file in one of two processes: `python workers.py FILE RANK FOLDER`."""

import json
import runpy
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed


def main(file, rank, folder):
    """Run the checks of the file in order; stop at the first failure, as the other process would wait in vain."""
    sys.path.append(str(Path(__file__).parents[3]))  # for `tests`; an installed package comes before
    torch.set_num_threads(1)
    store, late = f"file://{folder}/store", timedelta(seconds=20)
    distributed.init_process_group("gloo", init_method=store, rank=int(rank), world_size=2, timeout=late)
    mesh = distributed.init_device_mesh("cpu", (2,), mesh_dim_names=("processes",))
    checks = runpy.run_path(file, run_name="checks")["CHECKS"]
    passed = []
    try:
        for name, check in checks.items():
            torch.manual_seed(0)
            check(mesh)
            passed.append(name)
    finally:
        Path(folder, f"{rank}.json").write_text(json.dumps(passed), encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
