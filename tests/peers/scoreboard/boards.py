"""The boards: where each is written, and how a row of it is measured."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from posenc_backends.check import check

BOARDS = {  # by the environment that has the libraries: the module of its implementations
    "peers": "peers",
    "jax": "of_jax",
}


class Peer(NamedTuple):
    """An implementation as a callable, and the encoding it promises."""

    package: str
    name: str
    make: Any
    spec: Any
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def results(name):
    """Return the file of a board."""
    return Path(__file__).with_name(f"{name}.json")


def row(peer):
    """Return the class of a peer, its named mistakes, and the first position that is off."""
    result = check(peer.make(), peer.spec, **({"framework": "torch"} | peer.options))
    return {
        "package": peer.package,
        "name": peer.name,
        "spec": repr(peer.spec),
        "class": "failed" if result.status == 2 else result.precision,
        "first_off": result.first_off,
        "mistakes": list(result.names),
        "failure": result.failure,
    }


def write(name, peers, framework):
    """Measure all rows of a board, and write it with the versions of the packages and of the framework."""
    rows = []
    for peer in peers:
        rows.append(row(peer))
        print(json.dumps(rows[-1]), flush=True)  # noqa: T201
    packages = sorted({one["package"] for one in rows} | {framework})
    lines = ",\n".join(json.dumps(one) for one in rows)
    versions = json.dumps({package: version(package) for package in packages})
    results(name).write_text(f'{{"versions": {versions}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def check_board(name, peers):
    """Raise `AssertionError` unless a board is of the installed versions and has a row for each peer."""
    board = json.loads(results(name).read_text(encoding="utf-8"))
    assert all(version(package) == number for package, number in board["versions"].items())
    assert [(one["package"], one["name"]) for one in board["rows"]] == [(peer.package, peer.name) for peer in peers]
    return board["rows"]
