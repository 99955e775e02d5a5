"""Run the command `posenc`: `python -m posenc_backends`."""

import sys

from posenc_backends.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
