"""Write the scoreboard: `python -m tests.peers.scoreboard`."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from posenc_backends.check import budget, check

from .peers import peers

RESULTS = Path(__file__).with_name("scoreboard.json")


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


def main():
    budget.TIMED = False
    rows = []
    for peer in peers():
        rows.append(row(peer))
        sys.stdout.write(f"{json.dumps(rows[-1])}\n")
        sys.stdout.flush()
    packages = sorted({one["package"] for one in rows} | {"torch"})
    lines = ",\n".join(json.dumps(one) for one in rows)
    versions = json.dumps({package: version(package) for package in packages})
    RESULTS.write_text(f'{{"versions": {versions}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
