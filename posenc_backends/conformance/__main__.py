"""Run the suite for one backend and print its results as JSON lines: `python -m posenc_backends.conformance torch`."""

import argparse
import json

from .cases import results

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m posenc_backends.conformance", description=__doc__)
    parser.add_argument("backend", help="the backend to run")
    parser.add_argument("--modes", action="store_true", help="also run each layer in each mode of the framework")
    parser.add_argument("--device", help="the device of all arrays, such as cuda; by default that of the framework")
    options = parser.parse_args()
    try:
        for result in results(options.backend, modes=options.modes, device=options.device):
            print(json.dumps(result), flush=True)  # noqa: T201
    except ValueError as error:
        parser.error(str(error))
