"""Modes: what users of array-api-strict do with a layer."""

from __future__ import annotations

from posenc_backends.conformance.tooling import copied, pickled

MODES = {"copied": copied, "pickled": pickled}
GRADIENT_MODES: dict[str, object] = {}
