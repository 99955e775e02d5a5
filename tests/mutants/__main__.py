"""Change the core in small ways, and print the changes that no test notices: `nox -s mutants`.

Operators, numbers, words, and in C the same. Each mutant runs the tests that run the changed line, until one fails, in
a copy of the project; one in C, after it is compiled, the tests of the kernel. What is printed last is the score: the
share of mutants that a test noticed. The exit status is 1 if it is below 90 %.

`--only posenc_backends/torch --backend torch`, in the environment of a framework, changes its adapter;
`--only posenc_backends/_kernels` the kernel, `--only posenc_backends/check` what judges functions.

Lines of `equivalent.txt` say which mutants no test can notice, and why; a line that fits no mutant is an error.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from .operators import Mutant, mutants_of
from .running import KERNEL, XLA, Suite, files_pass, forget, passes, preload, recorded, suite_of

ROOT = Path(__file__).parents[2]
PACKAGE = "posenc_core"
LEAST = 0.9  # of the mutants are noticed
EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def main() -> None:
    """Read the command line, test the mutants, and print survivors and the score."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--count", type=int, default=200, help="how many mutants are tested")
    parser.add_argument("--only", default=PACKAGE, help="a file or a folder of the packages")
    parser.add_argument("--backend", default="numpy", help="the backend that the tests run on")
    parser.add_argument("--tests", nargs="+", help="the files and folders of tests to run, by default all of a backend")
    parser.add_argument("--seconds", type=float, default=20, help="of tests, for each mutant")
    parser.add_argument("--recorded", type=Path, help="a file that keeps which tests run which lines, for the next run")
    options = parser.parse_args()
    paths = [path for ending in ("py", "c", "h") for path in (ROOT / options.only).rglob(f"*.{ending}")]
    files = sorted(str(path.relative_to(ROOT)) for path in paths) or [options.only]
    mutants = [mutant for file in files for mutant in mutants_of(ROOT, file)]
    mutants = noticeable(mutants, is_whole=options.only == PACKAGE)
    sample = random.Random(options.seed).sample(mutants, min(options.count, len(mutants)))
    record = options.recorded.absolute() if options.recorded else None
    with tempfile.TemporaryDirectory() as folder:
        copy_project(Path(folder))
        os.chdir(folder)
        sys.path[:] = [folder, *(path for path in sys.path if path not in ("", str(ROOT)))]
        os.environ["PYTHONPATH"] = folder
        preload()
        print(f"{len(sample)} of {len(mutants)} mutants", flush=True)
        chosen, suite = tuple(options.tests or suite_of(options.backend)), Suite({}, {}, {})
        if any(mutant.path.endswith(".py") for mutant in sample):
            suite = recorded(Path(folder), record or Path(folder, "recorded.json"), options.backend, chosen)
        found = {mutant: survives(Path(folder), mutant, suite, options.seconds, options.backend) for mutant in sample}
    tested = [mutant for mutant, survived in found.items() if survived is not None]
    sys.exit(int(print_score(tested, [mutant for mutant in tested if found[mutant]]) < LEAST))


def noticeable(mutants: list[Mutant], *, is_whole: bool) -> list[Mutant]:
    """Return the mutants that a test can notice: those that no line of `equivalent.txt` fits.

    Raises:
        SystemExit: if a line fits none of the mutants of the whole core.
    """
    lines = [line for line in EQUIVALENT.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    for line in lines:
        name = re.compile(re.escape(line.split(" # ")[0]).replace(r"\*", ".*"))
        others = [mutant for mutant in mutants if not name.fullmatch(mutant.name)]
        if is_whole and line.startswith(PACKAGE) and len(others) == len(mutants):
            raise SystemExit(f"{EQUIVALENT.name} has a line that fits no mutant: {line}")
        mutants = others
    return mutants


def copy_project(folder: Path) -> None:
    """Copy what git knows, and the compiled kernel, into a folder."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    kernels = [str(path.relative_to(ROOT)) for path in ROOT.glob("posenc_backends/_kernels/*.so")]
    for name in {*listed.stdout.splitlines(), *kernels}:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def survives(folder: Path, mutant: Mutant, suite: Suite, budget: float, backend: str) -> bool | None:
    """Return whether all tests pass on the changed file, and print it; None for C that does not compile."""
    path, limit, is_c = folder / mutant.path, 10 + 5 * budget, not mutant.path.endswith(".py")
    tests = [*(XLA if backend == "jax" else KERNEL)]
    if not is_c:
        tests = suite.tests_of(mutant.path, mutant.lines, budget, mutant.entry)
    changed = (path, *(folder.glob("posenc_backends/_kernels/*.so") if is_c else ()))
    sources = [each.read_bytes() for each in changed]
    try:
        forget(path)
        path.write_bytes(mutant.apply(sources[0]))
        if is_c and not builds(folder):
            return None
        survived = not tests or (files_pass if is_c else passes)(tests, limit, backend)
    finally:
        for each, source in zip(changed, sources, strict=True):  # the library last: an older one is not loaded
            each.write_bytes(source)
        forget(path)
    if survived:
        print(f"{mutant.path}:{mutant.lines[0]} {mutant.name.partition(' ')[2]} ({len(tests)} tests)", flush=True)
    return survived


def builds(folder: Path) -> bool:
    """Compile the kernel, which the next process loads, and return whether that was possible."""
    command, environment = [sys.executable, "hatch_build.py"], os.environ | {"POSENC_BUILD_KERNEL": "required"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0


def print_score(sample: list[Mutant], survivors: list[Mutant]) -> float:
    """Print for each file how many mutants were killed, and the score over all; return the score."""
    tested, alive = (Counter(mutant.path for mutant in some) for some in (sample, survivors))
    for path, count in sorted(alive.items(), key=lambda item: -item[1]):
        print(f"{tested[path] - count:4} of {tested[path]:4} killed in {path}")
    killed = len(sample) - len(survivors)
    score = killed / max(len(sample), 1)
    print(f"{killed} of {len(sample)} mutants killed: {score:.1%}")
    return score


if __name__ == "__main__":
    main()
