"""Write a board: `python -m tests.peers.scoreboard [peers|jax]`, in the environment that has its libraries."""

import sys
from importlib import import_module

from .boards import BOARDS, write

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "peers"
    module = import_module(f".{BOARDS[name]}", __package__)
    write(name, module.peers(), module.FRAMEWORK)
