"""The readme in the metadata, which a package index shows: its links and pictures lead outside the index."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from markdown_it import MarkdownIt

import posenc_core

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/someone/posenc"


def metadata(address):
    """Return the metadata that `hatchling` writes, as a publication with this address of the repository does."""
    command = [sys.executable, "-m", "hatchling", "metadata"]
    environment = os.environ | {"POSENC_REPOSITORY": address}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def targets(text):
    """Return the addresses of the links and of the pictures of a text in Markdown."""
    parts = [part for block in MarkdownIt().parse(text) for part in block.children or ()]
    links = [part.attrs["href"] for part in parts if part.type == "link_open"]
    return links, [part.attrs["src"] for part in parts if part.type == "image"]


def test_the_index_page_has_no_relative_link_or_picture():
    made = metadata(f"{REPOSITORY}/")
    release = f"v{posenc_core.__version__}"
    assert not re.search(r"<(a|img)\b", made["readme"]["text"])
    links, pictures = targets(made["readme"]["text"])
    relative, drawn = targets((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(relative) > 20
    assert links == [to if to.startswith("http") else f"{REPOSITORY}/blob/{release}/{to}" for to in relative]
    assert pictures == [f"{REPOSITORY}/raw/{release}/{to}" for to in drawn] != []
    assert all((ROOT / to.partition("#")[0]).exists() for to in [*relative, *drawn] if not to.startswith("http"))
    assert made["urls"]["Repository"] == REPOSITORY
    assert f"git clone {REPOSITORY} && cd posenc" in made["readme"]["text"]
    assert all(address.startswith(REPOSITORY) for address in made["urls"].values())


def test_without_an_address_the_readme_is_the_file():
    made = metadata("")
    assert made["readme"]["text"] == (ROOT / "README.md").read_text(encoding="utf-8")
    assert not made.get("urls")


def test_an_address_that_is_none_is_refused():
    command = [sys.executable, "-m", "hatchling", "metadata"]
    environment = os.environ | {"POSENC_REPOSITORY": "github.com/someone"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "`POSENC_REPOSITORY` must be like https://github.com/OWNER/posenc" in done.stdout + done.stderr


def test_links_between_the_pages_lead_to_files_of_the_repository():
    """As GitHub shows them: what the build of the documentation writes is not there."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [ROOT / name for name in tracked.stdout.splitlines()]
    files = {path for name in names for path in (name, *name.parents)}
    pages = [page for page in names if page.suffix == ".md" and "locale" not in page.parts]
    assert ROOT / "CHANGELOG.md" in pages
    for page in pages:
        links, pictures = targets(page.read_text(encoding="utf-8"))
        relative = [to.partition("#")[0] for to in (*links, *pictures) if not re.match(r"\w+:", to)]
        lost = [to for to in relative if to and (page.parent / to).resolve() not in files]
        assert not lost, f"{page.name}: {lost}"
