#!/usr/bin/env -S python
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Every check of the project: `nox` runs them all, `nox -s "room(torch)"` one room, `nox -l` lists them."""

from __future__ import annotations

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.error_on_missing_interpreters = True

PROJECT = nox.project.load_toml("pyproject.toml")


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting and lint."""
    session.install("-c", "constraints/core.txt", *dependencies("lint"))
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly; frameworks count as untyped here."""
    install(session, "plots", "report", constraints="core", group="types")
    session.run("mypy")


@nox.session
def core(session: nox.Session) -> None:
    """Core and house, the NumPy and the strict room; the golden numbers made again."""
    install(session, "plots", "report", "strict", constraints="core")
    session.run("python", "tests/golden/generate.py", "--check")
    session.run("pytest", "tests/core", "tests/house", *session.posargs)
    for name in ("numpy", "strict"):
        suite(session, name)


@nox.session
def old_numpy(session: nox.Session) -> None:
    """The core on NumPy 1.26: the same bytes. The room of MXNet does this on 1.23.5."""
    install(session, constraints="old_numpy")
    session.run("pytest", "tests/core", *session.posargs)


@nox.session
@nox.parametrize("name", ["torch", "paddle", "jax"])
def room(session: nox.Session, name: str) -> None:
    """A framework's room, in an environment of its own."""
    install(session, name, constraints=name)
    suite(session, name)


@nox.session
def x64(session: nox.Session) -> None:
    """The room of JAX once more, with 64-bit numbers enabled."""
    install(session, "jax", constraints="jax")
    suite(session, "jax", env={"JAX_ENABLE_X64": "1"})


@nox.session
def keras(session: nox.Session) -> None:
    """The room of Keras on each of its backends."""
    install(session, "keras", "tensorflow-cpu", "jax", "torch", constraints="keras")
    for backend in ("tensorflow", "jax", "torch"):
        suite(session, "keras", env={"KERAS_BACKEND": backend})


@nox.session(python="3.11")
def mxnet(session: nox.Session) -> None:
    """The room of MXNet 1.9.1, with the NumPy of its time; the same tables there."""
    install(session, "mxnet", constraints="mxnet")
    session.run("pytest", "tests/core/test_tables.py", *session.posargs)
    suite(session, "mxnet")


def install(session: nox.Session, *extras: str, constraints: str, group: str = "test") -> None:
    """Install the project as a wheel, never editable, with what the tests need, at pinned versions."""
    known = PROJECT["project"]["optional-dependencies"]
    project = f".[{','.join(extra for extra in extras if extra in known)}]"
    others = [extra for extra in extras if extra not in known]
    session.install("-c", f"constraints/{constraints}.txt", project, *others, *dependencies(group))


def dependencies(group: str) -> tuple[str, ...]:
    """What a dependency group of `pyproject.toml` asks for."""
    return tuple(nox.project.dependency_groups(PROJECT, group))


def suite(session: nox.Session, name: str, env: dict[str, str] | None = None) -> None:
    """The suite on one room, and the examples in its docstrings."""
    session.run("pytest", "tests/rooms", "--backend", name, *session.posargs, env=env)
    if env is None or name == "jax" or "tensorflow" in env.values():
        session.run("pytest", "--pyargs", f"posenc_backends.{name}", "--backend", name, env=env)


if __name__ == "__main__":
    nox.main()
