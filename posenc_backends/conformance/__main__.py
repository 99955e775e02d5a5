"""Run the suite for one backend and print its results as JSON lines."""

import json
import sys

from .cases import results

if __name__ == "__main__":
    for line in results(sys.argv[1], modes="--modes" in sys.argv[2:]):
        print(json.dumps(line), flush=True)  # noqa: T201
