"""Run the suite for one backend and print its results as JSON lines: `python -m posenc_backends.conformance torch`."""

import json
import sys

from .cases import results

if __name__ == "__main__":
    for result in results(sys.argv[1], modes="--modes" in sys.argv[2:]):
        print(json.dumps(result), flush=True)  # noqa: T201
