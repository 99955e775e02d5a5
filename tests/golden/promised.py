"""Write into `promised.txt` the SHA-256 of each tensor that a version of the golden vectors has: they stay for good.

python tests/golden/promised.py   # adds lines for tensors that are new
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from posenc_backends.cli.golden.publish import VERSION, publish

FILE = Path(__file__).with_suffix(".txt")


def promised() -> dict[str, str]:
    """Return the digest of each tensor that was published, by file and name."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return {name: digest for name, digest, _ in (line.split("\t") for line in lines)}


def published(folder: Path) -> dict[str, str]:
    """Return the first 16 digits of the SHA-256 of each input and output in a folder, by file and name."""
    cases = json.loads((folder / "golden.json").read_text(encoding="utf-8"))["cases"]
    return {
        f"{case['file']}/{one['tensor']}": one["sha256"][:16]
        for case in cases
        for part in ("inputs", "outputs")
        for one in case[part].values()
    }


def main() -> int:
    """Add what is new; return 1 if a tensor was changed or removed."""
    with tempfile.TemporaryDirectory() as folder:
        publish(Path(folder))
        now, before = published(Path(folder)), promised()
    if broken := [name for name, digest in before.items() if now.get(name) != digest]:
        print("changed or removed:", *broken, sep="\n")
        return 1
    with FILE.open("a", encoding="utf-8") as file:
        file.writelines(f"{name}\t{digest}\t{VERSION}\n" for name, digest in now.items() if name not in before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
