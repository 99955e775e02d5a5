"""Check the form of the how-to pages, and run those that need no framework."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from ..pages import HOWTO, LIBRARIES, blocks, has_tabs
from . import test_pages as form

ROOT = Path(__file__).parents[2]
RUN = f"import sys; sys.path.append({str(ROOT)!r}); from tests.pages import run, Path; run(Path(sys.argv[1]))"
INDEX = ROOT / "docs" / "index.md"


@pytest.mark.parametrize("page", [*HOWTO, *LIBRARIES], ids=lambda page: page.stem)
def test_a_page_has_the_form_of_the_tutorial(page):
    found = list(blocks(page.read_text(encoding="utf-8")))
    assert {block.kind for block in found} <= {
        "python", "sh", "{code-block}", "{tab-set}", "{tab-item}", "{literalinclude}", "{interactive}",
    }  # fmt: skip
    if has_tabs(page):
        form.test_each_tab_set_has_all_frameworks_in_their_order(found)
    form.test_what_is_printed_is_shown_once_for_all_frameworks(found)
    form.test_code_is_no_wider_than_the_column_of_a_page(found)
    assert f"howto/{page.stem}\n" in INDEX.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in HOWTO if not has_tabs(page)], ids=lambda page: page.stem)
def test_the_cells_of_a_page_without_frameworks_print_what_it_shows(page, tmp_path):
    """Run each in its own process, since a page may define encodings and register arrays."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(page)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "line",
    [line for page in HOWTO for block in blocks(page.read_text("utf-8")) if block.kind == "sh"
     for line in block.content.splitlines()],
)  # fmt: skip
def test_the_commands_of_the_pages_run(line, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "head_dim": 8, "num_attention_heads": 1}))
    name = "model.layers.0.self_attn.q_proj.weight"
    save_file(
        dict.fromkeys((name, name.replace("q_", "k_")), np.zeros((8, 8), np.float32)), tmp_path / "model.safetensors"
    )
    assert line.startswith("posenc ")
    command = line.replace("posenc", f"{sys.executable} -m posenc_backends", 1)
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_commit_that_the_page_on_frameworks_names_is_found():
    page = (ROOT / "docs" / "howto" / "framework.md").read_text(encoding="utf-8")
    (command,) = re.findall("`(git .+?)`", page)
    if (ROOT / ".git" / "shallow").exists():
        pytest.skip("a clone of the last commits alone")
    done = subprocess.run(
        [*shlex.split(command), "--no-patch", "--format=%s"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "Add MLX\n", done.stderr
