"""Write how each class of other libraries compares: `python -m tests.peers.coverage [LIBRARY ...]`, by default all."""

import argparse
import json
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from . import of_diffusers, of_published, of_timm, of_transformers

# Modules with `rows()` and the `PACKAGES` whose versions are written.
SOURCES = {
    "diffusers": of_diffusers, "published": of_published, "timm": of_timm, "transformers": of_transformers,
}  # fmt: skip
FOLDER = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", choices=(*SOURCES, []), metavar="LIBRARY")
    for name in parser.parse_args().libraries or SOURCES:
        rows = [row._asdict() for row in SOURCES[name].rows()]
        content = {"versions": {package: version(package) for package in SOURCES[name].PACKAGES}, "rows": rows}
        (FOLDER / f"{name}.json").write_text(_written(content), encoding="utf-8")
        counts = Counter(row["verdict"] for row in rows)
        sys.stdout.write(f"{name}: {', '.join(f'{verdict} {count}' for verdict, count in counts.items())}.\n")


def _written(content):
    """Return the content as JSON with a line for each row."""
    rows = ",\n".join(json.dumps(row) for row in content["rows"])
    return f'{{"versions": {json.dumps(content["versions"])}, "rows": [\n{rows}\n]}}\n'


if __name__ == "__main__":
    main()
