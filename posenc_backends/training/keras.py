"""Training in Keras: that of the framework that Keras runs on."""

from __future__ import annotations

from importlib import import_module

import keras

from ..keras import backend as arrays  # refuses the backends that are unknown

__all__ = ["Trainer", "arrays"]

Trainer = import_module(f"posenc_backends.training.{keras.backend.backend()}").Trainer
