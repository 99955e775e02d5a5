#!/usr/bin/env -S python
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Every check of the project: `nox` runs them, `nox -s "room(torch)"` one room, `nox -s slow` what is slow; `nox -l` lists them."""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = True

PROJECT = nox.project.load_toml("pyproject.toml")
EXTRAS = PROJECT["project"]["optional-dependencies"]
KERAS_BACKENDS = {"tensorflow": "tensorflow-cpu"} | {name: name for name in ("jax", "torch") if name in EXTRAS}
ENVIRONMENTS = {  # in which a room is tested, and which part of the tests that all rooms have; `slow` runs the others
    "jax": [("1/6", {}), ("5/6", {"JAX_ENABLE_X64": "1"})],
    "keras": [
        (share, {"KERAS_BACKEND": name}) for share, name in zip(("1/1", "2/6", "5/6"), KERAS_BACKENDS, strict=False)
    ],
}
TWO = ("-n", "2", "--dist", "worksteal", "--timeout", "300")  # processes: the machines of CI have as many cores
WHOLE_FILES = ("--dist", "loadfile")  # whose trainings are for all their tests
ONCE = (
    "test_book",
    "test_training",
    "test_resizing",
    "test_properties",
    "jax/test_modes",
)  # no environment changes them
ELSEWHERE = [f"--ignore=tests/backends/{part}.py" for part in ONCE]
ORIGINALS = {"mxnet": ("d2l", "gluonnlp")}  # by default d2l; without what they ask for, which is drawing, and old
BESIDE = {  # what a room's framework runs on or with
    "jax": ("flax", "optax", "flatbuffers"),
    "keras": tuple(KERAS_BACKENDS.values()),
    "torch": ("onnx", "onnxruntime", "onnxscript"),
}
CHINESE_PAGES = ("-t", "translated", "-D", "language=zh_CN", "docs", "docs/_build/zh")  # after the English ones
LONE_PEERS = ("keras-hub", "timm", "torchtune")  # their rotary parts do without TensorFlow, torchvision, torchao
BENCHED = {"torch": LONE_PEERS, "keras": ("keras-hub",)}  # beside the group of peers
BACKEND_NAMES = [name for name in EXTRAS if name not in ("explore", "fast", "plots", "report", "strict")]


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting, lint and spelling."""
    session.install("-c", "constraints/core.txt", *dependencies("lint"))
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")
    session.run("codespell")


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly; frameworks count as untyped here."""
    install(session, "plots", "report", "strict", constraints="core", group="types")
    session.run("mypy")


@nox.session
def core(session: nox.Session) -> None:
    """Core and house, the NumPy and the strict room; the golden numbers made again. Needs a C compiler."""
    install(session, "fast", "plots", "report", "strict", "jsonschema", "safetensors", constraints="core")
    session.run("python", "tests/golden/generate.py", "--check")
    session.run("pytest", "tests/core", "tests/project", *TWO, *session.posargs)
    for name in ("numpy", "strict"):
        session.run("pytest", "tests/backends", "--backend", name, *TWO, *session.posargs)


@nox.session
def old_numpy(session: nox.Session) -> None:
    """The core on NumPy 1.26: the same bytes. The room of MXNet does this on 1.23.5."""
    install(session, "report", "strict", "safetensors", constraints="old_numpy")
    session.run("pytest", "tests/core", "--ignore", "tests/core/test_bad_values.py", *TWO, *session.posargs)


@nox.session
@nox.parametrize(
    ("python", "name"), [("3.11" if name == "mxnet" else None, name) for name in BACKEND_NAMES], ids=BACKEND_NAMES
)
def backend(session: nox.Session, name: str) -> None:
    """A framework's room in an environment of its own: the exact tables, the suite, examples, originals."""
    prepare(session, name)
    session.install("--no-deps", "-c", f"constraints/{name}.txt", *ORIGINALS.get(name, ("d2l",)))
    session.run("pytest", "tests/core/test_tables.py", "-k", "bytes", *session.posargs)
    first = test(session, name)
    session.run("pytest", "--pyargs", f"posenc_backends.{name}", "--backend", name, env=first)
    session.run("pytest", "tests/d2l", "--backend", name, *TWO, *WHOLE_FILES, *session.posargs, env=first)


@nox.session(default=False)
@nox.parametrize(
    ("python", "name"), [("3.11" if name == "mxnet" else None, name) for name in BACKEND_NAMES], ids=BACKEND_NAMES
)
def slow(session: nox.Session, name: str) -> None:
    """What `room` leaves out: other modes, other tests in other environments, trainings, one of them to its end."""
    prepare(session, name)
    first = test(session, name, "-m", "slow")
    session.run("posenc", "train", "dates", "--backend", name, env=first)


@nox.session
def peers(session: nox.Session) -> None:
    """Other libraries beside ours: the same numbers, or which of the two is right."""
    install(session, "torch", constraints="peers", group="peers")
    session.install("--no-deps", "-c", "constraints/peers.txt", *LONE_PEERS)
    session.run("pytest", "tests/peers", *TWO, *session.posargs)


@nox.session
def arrays(session: nox.Session) -> None:
    """Arrays of libraries without a room: dask, on a cluster of two workers too, ndonnx, bare JAX and PyTorch."""
    session.env["OMP_NUM_THREADS"] = "1"
    install(session, "strict", "jax", "torch", constraints="arrays", group="arrays")
    session.run("pytest", "tests/arrays", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The pages, warnings as errors, in `docs/_build`, those in Chinese in `zh` there, tried in Chromium with the explorer; `-- serve` shows them, `-- linkcheck` tries links."""
    install(session, "explore", "report", *dependencies("browser"), constraints="docs", group="docs")
    if session.posargs[:1] == ["serve"]:
        written = ("docs/_drawn/*", "docs/reference/support.md", "docs/locale/*.mo")
        ignored = [word for name in written for word in ("--ignore", name)]
        then = ("--post-build", " ".join(("sphinx-build", "-q", *CHINESE_PAGES)))
        session.run("sphinx-autobuild", *ignored, *then, "docs", "docs/_build", *session.posargs[1:])
    elif session.posargs[:1] == ["linkcheck"]:
        session.run("sphinx-build", "-q", "-b", "linkcheck", "docs", "docs/_build/linkcheck", *session.posargs[1:])
    else:
        strictly = ("sphinx-build", "-q", "-W", "--keep-going")
        session.run(*strictly, "-b", "html", "docs", "docs/_build", *session.posargs)
        session.run(*strictly, *CHINESE_PAGES)
        session.run("pytest", "tests/browser", *TWO)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """What a room costs beside its peers: `nox -s bench -- torch [rotation] [OPTION ...]`; MXNet asks for `-P 3.11`."""
    name, *arguments = session.posargs or ["numpy"]
    script = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "rotation"
    group = "peers" if name == "torch" else "test"
    constraints = {"numpy": "core", "torch": "peers"}.get(name, name)
    install(session, name, "fast", "report", *BESIDE.get(name, ()), constraints=constraints, group=group)
    if BENCHED.get(name):
        session.install("--no-deps", "-c", "constraints/peers.txt", *BENCHED[name])
    session.run("python", f"benchmarks/{script}.py", "--backend", name, *arguments)


def prepare(session: nox.Session, name: str) -> None:
    """Install a room and what it runs on or with."""
    session.env["OMP_NUM_THREADS"] = "1"  # arrays are small here: a second thread costs more than it gains
    install(session, name, "fast", "report", *BESIDE.get(name, ()), constraints=name)


def test(session: nox.Session, name: str, *selected: str) -> dict[str, str]:
    """Test a room in each of its environments; returns the first."""
    (_, first), *_ = environments = ENVIRONMENTS.get(name, [("1/1", {})])
    for share, environment in environments:
        again = [] if environment is first else ELSEWHERE
        arguments = ("--backend", name, "--share", share, *selected, *again, *TWO, *session.posargs)
        session.run("pytest", "tests/backends", *arguments, env=environment)
    return first


def install(session: nox.Session, *names: str, constraints: str, group: str = "test") -> None:
    """Install the project with extras as a wheel, never editable, and other packages, at pinned versions."""
    extras = ",".join(name for name in names if name in EXTRAS)
    others = [name for name in names if name not in (*EXTRAS, "numpy")]
    project = f".[{extras}]" if extras else "."
    session.install("-c", f"constraints/{constraints}.txt", project, *others, *dependencies(group))


def dependencies(group: str) -> tuple[str, ...]:
    """What a dependency group of `pyproject.toml` asks for."""
    return tuple(nox.project.dependency_groups(PROJECT, group))


if __name__ == "__main__":
    nox.main()
