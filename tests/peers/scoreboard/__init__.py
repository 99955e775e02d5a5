"""The classes of precision that implementations of other libraries reach, see `posenc_backends.check`."""
