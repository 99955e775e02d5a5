"""The folder `vectors`: the golden vectors as files of the repository, and the packages that hold only them."""

import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from posenc_backends.cli.golden.publish import VERSION

from ..golden.vectors import FOLDER, changed

OF_PACKAGES = {"package.json", "Cargo.toml", "lib.rs", "go.mod", "vectors.go"}
LARGEST = 5 * 2**20  # bytes of the folder


def test_the_folder_has_what_the_command_writes(tmp_path):
    assert changed(tmp_path) == [], "run `python tests/golden/vectors.py`"
    ours = {path.name for path in FOLDER.iterdir()}
    assert ours == {path.name for path in tmp_path.iterdir()} | OF_PACKAGES | {"onnx"}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < LARGEST


def test_the_bugs_name_sets_and_link_to_threads():
    text = (FOLDER / "BUGS.md").read_text(encoding="utf-8")
    cases = json.loads((FOLDER / "golden.json").read_text(encoding="utf-8"))["cases"]
    known = {case["name"] for case in cases} | {case["file"].partition(".")[0] for case in cases}
    known |= {key for case in cases for key in case["outputs"]}
    for name in re.findall(r"`([a-z][a-z0-9_*.-]*|\*[a-z0-9.*-]+)`", text):
        pattern = re.compile(re.escape(name).replace(r"\*", ".*"))
        assert name in {"README.md", "kernels", "rotary_dim"} or any(map(pattern.fullmatch, known)), name
    for repository, number, address in re.findall(r"\[([^\]#]+)#(\d+)\]\(([^)]+)\)", text):
        assert re.fullmatch(rf"https://github\.com/[\w.-]+/{re.escape(repository)}/(issues|pull)/{number}", address)


def npm(folder):
    """Pack the package, install it, and return the command that runs `main.js`."""
    run("npm", "pack", "--offline", "--silent", "--pack-destination", folder, FOLDER, cwd=folder)
    (folder / "package.json").write_text("{}", encoding="utf-8")
    run("npm", "install", "--offline", "--silent", f"./posenc-vectors-{VERSION}.tgz", cwd=folder)
    return "node", "main.js"


def crate(folder):
    """Pack the crate, unpack it, and return the command that runs `main.rs` with it."""
    source = shutil.copytree(FOLDER, folder / "source")  # Cargo writes a lock file beside the crate
    run("cargo", "package", "--offline", "--no-verify", "--quiet", "--target-dir", folder / "target", cwd=source)
    with tarfile.open(folder / "target" / "package" / f"posenc-vectors-{VERSION}.crate") as packed:
        packed.extractall(folder, filter="data")
    manifest = '[package]\nname = "use"\nedition = "2021"\n[[bin]]\nname = "use"\npath = "main.rs"\n[dependencies]\n'
    manifest += f'posenc-vectors = {{ path = "posenc-vectors-{VERSION}" }}\n'
    (folder / "Cargo.toml").write_text(manifest, encoding="utf-8")
    return "cargo", "run", "--offline", "--quiet"


def module(folder):
    """Return the command that runs `main.go` with the module of the folder."""
    name = "posenc.invalid/vectors"
    text = f"module use\n\ngo 1.19\n\nrequire {name} v{VERSION}\n\nreplace {name} => {FOLDER}\n"
    (folder / "go.mod").write_text(text, encoding="utf-8")
    return "go", "run", "."


@pytest.mark.parametrize(("build", "language"), [(npm, "js"), (crate, "rust"), (module, "go")])
def test_a_package_has_the_files_and_runs_the_program_of_the_readme(build, language, tmp_path):
    """Without its tool, a package is skipped by name; machines of the CI have all three."""
    tool = {npm: "npm", crate: "cargo", module: "go"}[build]
    if shutil.which(tool) is None:
        pytest.skip(f"this machine has no {tool}")
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(rf"^```{language}\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (tmp_path / f"main.{language.replace('rust', 'rs')}").write_text(program, encoding="utf-8")
    assert run(*build(tmp_path), cwd=tmp_path).split() == re.findall(r"prints `(prefill.*?)`", readme)[0].split()


def run(*command, cwd):
    """Run a command without the network and return what it prints."""
    alone = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "npm_config_update_notifier": "false"}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | alone)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("file", ["package.json", "Cargo.toml"])
def test_packages_have_the_version_of_the_vectors(file):
    text = (FOLDER / file).read_text(encoding="utf-8")
    assert re.search(r'^\s*"?version"?\s*[:=]\s*"(.*?)"', text, re.MULTILINE)[1] == VERSION
