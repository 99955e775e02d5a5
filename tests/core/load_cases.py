"""Cases that are data: configs, and the encodings or the errors that they mean."""

import json
from pathlib import Path

from ..catalogue import VALUES

FOLDER = Path(__file__).with_name("cases")


def load_cases(name):
    """Return the tables of `NAME.json`, with an encoding or a scaling in place of each dict that has a `kind`."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"), object_hook=_built)


def _built(fields):
    return VALUES[fields.pop("kind")](**fields) if "kind" in fields else fields
