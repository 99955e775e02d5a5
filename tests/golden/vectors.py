"""Write the golden vectors into the folder `vectors` of the repository, which packages of other languages hold.

    python tests/golden/vectors.py           # writes the files
    python tests/golden/vectors.py --check   # exits with 1 if they would change

Mistakes are four fifths of the bytes of `posenc golden`, so the folder has those of few cases. The models of its folder
`onnx` are written where the package `onnx` is installed; `tests/backends/torch/test_onnx_runtime.py` compares them.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from posenc_backends.cli.golden.publish import write_sets

FOLDER = Path(__file__).parents[2] / "vectors"
MISTAKEN = ("prefill-half-64", "prefill-interleaved-64", "rows-of-their-own-half-64", "yarn-partial-interleaved-64")
MISTAKEN += ("partial-trail-interleaved-64", "indexer-interleaved-128")


def changed(folder: Path) -> list[str]:
    """Write the files into a folder and return the names of those that differ in `vectors`."""
    write_sets(folder, mistakes_of=MISTAKEN)
    ours = [(path, FOLDER / path.name) for path in sorted(folder.iterdir())]
    return [path.name for path, other in ours if not other.exists() or path.read_bytes() != other.read_bytes()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        names = changed(Path(temporary))
        if "--check" not in sys.argv[1:]:
            FOLDER.mkdir(exist_ok=True)
            for name in names:
                (FOLDER / name).write_bytes((Path(temporary) / name).read_bytes())
            if find_spec("onnx"):
                from posenc_backends.cli.golden.onnx_models import write_onnx

                write_onnx(FOLDER / "onnx")
            else:
                print("onnx is not installed, so the models for ONNX stay as they are")
    print("changed:", ", ".join(names) or "nothing")
    sys.exit("--check" in sys.argv[1:] and bool(names))
