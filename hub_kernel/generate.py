"""Write the Triton kernel as a folder of its own, in the form of Hugging Face's `kernel-builder`.

    python hub_kernel/generate.py FOLDER

It is what stands in `posenc-rotary`, with the kernel and its launch as they are in `posenc_backends/torch/rotation`:
but for their imports, as the folder may import nothing but PyTorch and Triton.
"""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
ROTATION = ROOT / "posenc_backends" / "torch" / "rotation"
NEEDED = {
    "triton_kernel.py": (ROTATION / "triton_kernel.py", ()),
    "triton_launch.py": (ROTATION / "triton_launch.py", ()),
    "spec.py": (ROTATION / "spec.py", ("RotationSpec", "Rows", "rows_of", "packed_positions")),
    "pairing.py": (ROOT / "posenc_core" / "rotation.py", ("Pairing",)),
}
IMPORTED = ("__future__", "typing", "torch", "posenc_core.rotation")  # of modules of which only parts are taken


def generate(folder: Path) -> None:
    """Write the sources of the kernel into a folder, which is created."""
    shutil.copytree(HERE / "posenc-rotary", folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "LICENSE", folder)
    package = folder / "torch-ext" / "posenc_rotary"
    for name, (source, definitions) in NEEDED.items():
        (package / name).write_text(_extract(source.read_text(encoding="utf-8"), definitions), encoding="utf-8")


def _extract(source: str, definitions: tuple[str, ...]) -> str:
    """Return a module, or these functions and classes and what they import, with `Pairing` from its own module."""
    nodes, parts = ast.parse(source).body, []
    for node in nodes if definitions else ():
        imported = (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        )
        is_import = isinstance(node, ast.Import | ast.ImportFrom) and imported[0] in IMPORTED
        if node is nodes[0] or is_import or getattr(node, "name", None) in definitions:
            parts.append(str(ast.get_source_segment(source, node)))
    text = "\n\n".join(parts) + "\n" if definitions else source
    return text.replace("from posenc_core.rotation import Pairing\n", "from .pairing import Pairing\n")


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
