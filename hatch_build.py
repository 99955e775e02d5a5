"""Compile the kernel into the wheel, and add the golden numbers: `hatchling` runs this.

`python hatch_build.py` compiles the kernel beside its source.

`CC` names the compiler: GCC, clang or `zig cc`, also on Windows, where MSVC does not know these options. Without one,
the wheel is of Python alone; `POSENC_BUILD_KERNEL=required` makes that an error, and `off` asks for it.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
FOLDER = ROOT / "posenc_backends" / "_kernels"
GOLDEN = ROOT / "tests" / "golden"
TESTS_ALONE = frozenset({"models.json", "vision_models.json"})  # golden files that `posenc report` does not read
NAME = "posenc.kernel.dll" if sys.platform == "win32" else "posenc.kernel.so"  # that of `library.PATH`
VARIABLE = "POSENC_BUILD_KERNEL"
# `CFLAGS` is left out: -march=native or -ffast-math would fuse products with sums, and change the last bits.
FLAGS = (
    "-std=c11",
    "-shared",
    "-fvisibility=hidden",
    "-g0",
    "-O3",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-math-errno",
)  # a root is one instruction
LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).posenc_level()"


class CompleteWheel(BuildHookInterface[Any]):
    """Add the golden numbers and, where there is a C compiler, the kernel; else build a wheel of Python alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            shipped = (path for path in sorted(GOLDEN.glob("*.json")) if path.name not in TESTS_ALONE)
            build_data["force_include"] |= {str(path): f"posenc_backends/golden/{path.name}" for path in shipped}
        self._folder = TemporaryDirectory()
        library = Path(FOLDER if version == "editable" else self._folder.name, NAME)
        if why_none := compile_kernel(library):
            self.app.display_warning(f"posenc is built without its kernel, so rotates more slowly on CPUs: {why_none}")
        elif version != "editable":
            system = self.build_config.builder.get_best_matching_tag().rpartition("-")[2]
            build_data.update(pure_python=False, tag=f"py3-none-{system}")
            build_data["force_include"][str(library)] = f"posenc_backends/_kernels/{NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()


def compile_kernel(library: Path) -> str:
    """Compile the kernel into a file; return why there is none, an empty string if there is one.

    Raises:
        SystemExit: if `POSENC_BUILD_KERNEL` is "required" and no compiler can, or if its value is unknown.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "off", "required"):
        sys.exit(f"posenc: `{VARIABLE}` must be 'off', 'required' or empty, got {wanted!r}.")
    library.unlink(missing_ok=True)
    if wanted == "off":
        return f"`{VARIABLE}` is 'off'."
    failures = []
    for command, flags in product(_compilers(), _flags()):
        failures.append(_run([*command, *flags, *map(str, sorted(FOLDER.glob("*.c"))), "-o", str(library)]))
        if not failures[-1] and _is_native():
            failures[-1] = _run([sys.executable, "-c", LOAD, str(library)])
        if not failures[-1]:
            return ""
        library.unlink(missing_ok=True)
    why_none = "\n".join(failures) or "no C compiler was found; install one, or name it in `CC`."
    if wanted == "required":
        sys.exit(f"posenc: the kernel cannot be compiled: {why_none}")
    return why_none


def _compilers() -> list[list[str]]:
    """Return the commands of the compilers to try: that of the user alone, or that of Python and usual names."""
    chosen = os.environ.get("CC")
    names = [chosen] if chosen else [sysconfig.get_config_var("CC"), "cc", "gcc", "clang"]
    commands = [shlex.split(name) for name in names if name]
    return [command for command in commands if chosen or shutil.which(command[0])]


def _flags() -> list[list[str]]:
    """Return the options to try, which come after those that are part of the compiler's command."""
    if sys.platform == "darwin":
        return [[*FLAGS, "-fPIC", *shlex.split(os.environ.get("ARCHFLAGS", ""))]]
    flags = [*FLAGS, "-static-libgcc" if sys.platform == "win32" else "-fPIC"]
    if _machines()[0] not in ("amd64", "x86_64"):
        return [flags]
    return [[*flags, f"-march={baseline}"] for baseline in ("x86-64", "x86_64")]  # the second is zig's spelling


def _is_native() -> bool:
    """Return whether the library is for the processor that compiles it, so that this Python has to load it."""
    return bool({platform.machine().lower(), "universal2"} & {*_machines()})


def _machines() -> list[str]:
    """Return the processors that the library is for: those of `ARCHFLAGS` on macOS, else that of this Python."""
    chosen = re.findall(r"-arch (\S+)", os.environ.get("ARCHFLAGS", "")) if sys.platform == "darwin" else []
    return chosen or [sysconfig.get_platform().rpartition("-")[2]]


def _run(command: list[str]) -> str:
    """Run a command; return how it failed, an empty string if it did not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{shlex.join(command)}: {error}"
    return f"{shlex.join(command)}: status {done.returncode}\n{done.stderr}" if done.returncode else ""


if __name__ == "__main__":
    sys.exit(compile_kernel(FOLDER / NAME) or None)
