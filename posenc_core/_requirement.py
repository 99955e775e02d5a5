"""The argument of `pip install` that adds an extra to this installation."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


def requirement(extra: str) -> str:
    """Return the requirement of posenc with an extra, from where this installation came.

    That is a folder, a file, or a commit of a repository as pip recorded it (PEP 610). An index is named only to those
    who installed posenc from one: elsewhere the name may belong to somebody else.
    """
    try:
        recorded = distribution("posenc").read_text("direct_url.json")
    except PackageNotFoundError:
        return f"posenc[{extra}] @ {Path(__file__).parents[1].as_uri()}"
    if recorded is None:
        return f"posenc[{extra}]"
    origin = json.loads(recorded)
    vcs = origin.get("vcs_info")
    return f"posenc[{extra}] @ " + (f"{vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else origin["url"])
