"""The command `posenc`."""
