"""Write how each class of other libraries compares: `python -m tests.peers.coverage [LIBRARY ...]`, by default all."""

import argparse
import json
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from . import of_transformers

SOURCES = {"transformers": of_transformers}  # modules with `rows()` and the `PACKAGES` whose versions are written
FOLDER = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", choices=(*SOURCES, []), metavar="LIBRARY")
    for name in parser.parse_args().libraries or SOURCES:
        rows = [row._asdict() for row in SOURCES[name].rows()]
        content = {"versions": {package: version(package) for package in SOURCES[name].PACKAGES}, "rows": rows}
        lines = json.dumps(content, indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(f"{lines}\n", encoding="utf-8")
        counts = Counter(row["verdict"] for row in rows)
        sys.stdout.write(f"{name}: {', '.join(f'{verdict} {count}' for verdict, count in counts.items())}.\n")


if __name__ == "__main__":
    main()
