"""Run the example of an extra that was installed alone: `python tests/installed.py EXTRA`, without pytest.

An extra that cannot run here is right if it says why in one sentence.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from backends.test_readme import TITLES, code_for

COMMANDS = {
    "completion": ["-m", "posenc_backends", "completion", "bash"],
    "explore": ["-c", "from posenc_backends.cli.explorer.app import make_app; make_app()"],
    "gpu": ["-c", "import torch; from posenc_backends.torch import apply_rotary"],
    "plots": ["-m", "posenc_backends", "plot", "Rotary(head_dim=32, layout='half')", "-o", "rotary.svg"],
    "report": ["-m", "posenc_backends", "report"],
}


def main(extra):
    """Return 0 if the example runs or is refused in one sentence, else 1."""
    name = extra if extra in (*TITLES, "torch") else "numpy"
    before = f"import posenc_backends.{name}\n" + "import mxnet; mxnet.npx.set_np()\n" * (name == "mxnet")
    command = COMMANDS.get(extra, ["-c", before + code_for(name)])
    with tempfile.TemporaryDirectory() as folder:  # where no folder has the name of the package
        ended = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
    last = ended.stderr.strip().rpartition("\n")[2]
    refused = last.startswith("ImportError: `") and last.endswith(".")
    said = "runs" if not ended.returncode else f"refused: {last}" if refused else ended.stderr
    sys.stdout.write(f"{Path(sys.executable).parents[1]} {extra or 'no extra'}: {said}\n")
    return 0 if not ended.returncode or refused else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
