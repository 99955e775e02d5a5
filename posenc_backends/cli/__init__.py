"""The command `posenc`: one module or package for each subcommand, with `add_parser` and `run`."""
