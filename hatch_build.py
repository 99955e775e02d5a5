"""Compile the kernel into the wheel: `hatchling` runs this, and `python hatch_build.py` compiles it beside its source.

`POSENC_BUILD_KERNEL=required` makes a missing compiler an error, `off` builds a wheel of Python alone, as a missing
compiler does by default.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).parent / "posenc_backends" / "_kernels"
NAME = "posenc_rotate.dll" if sys.platform == "win32" else "posenc_rotate.so"
# The last ones win over what a user's compiler command says: products and sums must stay apart, loops become vectors.
FLAGS = ("-std=c11", "-fPIC", "-shared", "-fvisibility=hidden", "-g0", "-O3", "-ffp-contract=off", "-fno-fast-math")
VARIABLE = "POSENC_BUILD_KERNEL"


class CompileKernel(BuildHookInterface[Any]):
    """Compile the kernel where there is a C compiler; else build a wheel of Python alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        library = compile_kernel(FOLDER / NAME)
        if library is None:
            self.app.display_warning("posenc is built without its compiled kernel: rotations on the CPU are slower.")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["force_include"][str(library)] = f"posenc_backends/_kernels/{NAME}"


def compile_kernel(library: Path) -> Path | None:
    """Compile `rotate.c` into `library` and return that; None where no compiler can, or none is wanted.

    Raises:
        RuntimeError: if `POSENC_BUILD_KERNEL` is "required", and it cannot be compiled.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "off":
        library.unlink(missing_ok=True)
        return None
    baseline = ["-march=x86-64"] if sysconfig.get_platform().endswith("x86_64") else []
    failures = []
    for command in _compilers():
        arguments = [*command, *FLAGS, *baseline, str(FOLDER / "rotate.c"), "-o", str(library)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return library
        failures.append(f"{shlex.join(arguments)}\n{done.stderr}")
    library.unlink(missing_ok=True)
    if wanted == "required":
        raise RuntimeError("\n".join(["The kernel cannot be compiled.", *failures]))
    return None


def _compilers() -> list[list[str]]:
    """Return the commands of C compilers that are installed: that of the user, that of Python, then usual names."""
    names = (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang")
    commands = [shlex.split(name) for name in names if name]
    return [command for command in commands if shutil.which(command[0])]


if __name__ == "__main__":
    sys.exit(compile_kernel(FOLDER / NAME) is None)
