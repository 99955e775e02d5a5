"""The command `posenc`: one module or package for each subcommand, with `HELP`, `add_arguments` and `run`."""
