"""Complete the metadata for a package index: `hatchling` runs this.

`POSENC_REPOSITORY` is the web address of the repository, such as https://github.com/OWNER/posenc. With it, the package
has links to the repository, and its readme shows pictures and links outside the repository as well. Without it, the
readme is the file as it is, and the package has no links. `POSENC_PAGES` is the web address of the pages, if they are
published.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "POSENC_REPOSITORY"
PLACEHOLDER = "https://github.com/OWNER/posenc"  # in the line of the readme that clones
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<path>[^)\s]+)\)")


class CompleteMetadata(MetadataHookInterface):
    """Set the readme and the links of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = {}
        if address := os.environ.get(VARIABLE, "").rstrip("/"):
            if not re.fullmatch(r"https://[^\s/]+/[^\s/]+/[^\s/]+", address):
                raise ValueError(f"`{VARIABLE}` must be like {PLACEHOLDER}, got {address!r}.")
            release = f"v{metadata['version']}"
            text = LINK.sub(lambda found: _outside(found, address, release), text.replace(PLACEHOLDER, address))
            metadata["urls"] = {
                "Repository": address,
                "Documentation": os.environ.get("POSENC_PAGES") or f"{address}/tree/{release}/docs",
                "Changelog": f"{address}/blob/{release}/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def _outside(found: re.Match[str], address: str, release: str) -> str:
    """Return a link into the repository as a link from elsewhere: to a page, or to the file of a picture."""
    kind = "raw" if found["image"] else "blob"
    return f"{found['image']}[{found['text']}]({address}/{kind}/{release}/{found['path']})"
