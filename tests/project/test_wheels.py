"""Distributions with the compiled kernel, and without a compiler; a library that cannot be used."""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from numpy.random import mtrand

from posenc_backends._kernels import library

ROOT = Path(__file__).parents[2]
FOLDER = "posenc_backends/_kernels"
NAME = library.PATH.name
NONE = "posenc is built without its kernel, so rotates more slowly on CPUs: "
COMPILER = "import shutil, sys; open(sys.argv[1], 'a').write(f'{sys.argv}\\n'); shutil.copy(sys.argv[2], sys.argv[-1])"
ROTATION = """
import numpy, posenc_backends.numpy
from posenc_core import rotate
from posenc_backends import _kernels
rotate(numpy.ones((2, 4), numpy.float32), numpy.ones(2, numpy.float32), numpy.zeros(2, numpy.float32), layout="half")
print(_kernels.describe())
"""


def build(source, folder, target, **variables):
    """Build from a folder as installers do; return the file, and what the build printed."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "POSENC_BUILD_KERNEL"}
    done = subprocess.run(command, cwd=source, env=environment | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made, done.stderr


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info for info in archive.infolist()}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The unpacked source distribution, to which a library was added that some other source was compiled into."""
    archive, _ = build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    sources = {path.name for path in (ROOT / FOLDER).glob("*.[ch]")}
    assert {path.name for path in (unpacked / FOLDER).iterdir() if path.suffix != ".py"} == sources > {"rotate.c"}
    (unpacked / FOLDER / NAME).write_bytes(b"stale")
    return unpacked


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """The command of a compiler that copies the installed library, and a file of the commands it was run by."""
    folder = tmp_path_factory.mktemp("compiler")
    (folder / "compiler.py").write_text(COMPILER)
    return f"{sys.executable} {folder / 'compiler.py'} {folder / 'log'} {library.PATH}", folder / "log"


@pytest.fixture(scope="module")
def wheel(source, compiler, tmp_path_factory):
    """A wheel with the kernel, from the source distribution; `nox -s wheels` compiles it."""
    folder = tmp_path_factory.mktemp("wheel")
    made, printed = build(source, folder, "wheel", POSENC_BUILD_KERNEL="required", CC=compiler[0])
    assert NONE not in printed
    return made


def test_the_wheel_has_the_kernel_of_its_platform(wheel):
    name, version, *tag = wheel.stem.split("-")
    assert (name, *tag[:2]) == ("posenc", "py3", "none")
    assert tag[2].endswith(platform.machine().lower().replace("-", "_"))
    files = contents(wheel)
    kernel = {path: info for path, info in files.items() if path.startswith(FOLDER) and not path.endswith(".py")}
    assert set(kernel) == {f"{FOLDER}/{NAME}"}
    assert 10_000 < kernel[f"{FOLDER}/{NAME}"].compress_size < 100_000
    with zipfile.ZipFile(wheel) as archive:
        assert f"Tag: {'-'.join(tag)}\n" in archive.read(f"{name}-{version}.dist-info/WHEEL").decode()


def test_the_kernel_of_the_wheel_runs(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-W", "error", "-c", ROTATION]
    for chosen, level in (("", library.LEVELS), ("baseline", ["baseline"]), ("off", ["off (POSENC_KERNEL=off)"])):
        variables = os.environ | {"PYTHONPATH": str(tmp_path), "POSENC_KERNEL": chosen}
        done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.stdout.strip().partition(":")[0] in level, done.stderr


def test_a_zip_file_is_imported_without_the_kernel(wheel, tmp_path):
    variables = os.environ | {"PYTHONPATH": str(wheel), "POSENC_KERNEL": ""}
    command = [sys.executable, "-W", "error", "-c", ROTATION]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("off (no library in this installation): the numbers are the same"), done.stderr


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"CC": f"{sys.executable} -c 1/0"}, "ZeroDivisionError"),
        ({"CC": "no-such-compiler"}, "no-such-compiler"),
        ({"CC": "", "PATH": ""}, "no C compiler was found; install one, or name it in `CC`."),
        ({"POSENC_BUILD_KERNEL": "off"}, "`POSENC_BUILD_KERNEL` is 'off'."),
    ],
    ids=["it fails", "it is not there", "there is none", "off"],
)
def test_without_a_compiler_the_wheel_is_of_python_alone(source, variables, why, tmp_path):
    made, printed = build(source, tmp_path, "wheel", **variables)
    assert made.name.endswith("-py3-none-any.whl")
    assert all(path.endswith((".py", "py.typed")) for path in contents(made) if path.startswith("posenc_backends/_k"))
    assert NONE in printed
    assert why in printed


def test_a_library_that_this_python_cannot_load_is_left_out(source, compiler, tmp_path):
    command, log = compiler
    (tmp_path / "of another processor").write_bytes(b"not a library")
    words = [*command.split()[:-1], f"'{tmp_path / 'of another processor'}'"]
    made, printed = build(source, tmp_path / "dist", "wheel", CC=" ".join(words))
    assert made.name.endswith("-py3-none-any.whl")
    assert NONE in printed
    assert "of another processor" in log.read_text()


def test_only_our_options_are_in_effect(source, compiler, tmp_path):
    command, log = compiler
    made, _ = build(source, tmp_path / "dist", "wheel", CC=f"{command} -Ofast", CFLAGS="-march=native -ffast-math")
    assert f"{FOLDER}/{NAME}" in contents(made)
    assert "native" not in log.read_text()
    assert re.search("-Ofast.* -O3.* -ffp-contract=off.* -fno-fast-math", log.read_text().replace("', '", " "))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("required", "posenc: the kernel cannot be compiled: no-such-compiler"),
        ("of", "posenc: `POSENC_BUILD_KERNEL` must be 'off', 'required' or empty, got 'of'."),
    ],
)
def test_a_build_can_be_refused(source, value, message, tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    variables = os.environ | {"CC": "no-such-compiler", "POSENC_BUILD_KERNEL": value}
    done = subprocess.run(command, cwd=source, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert "Traceback" not in done.stderr
    assert not [*tmp_path.iterdir()]


def test_an_editable_installation_has_the_library_beside_its_source(source, compiler, tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(source, checkout)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(checkout)]
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all")):
        subprocess.run([*git, *arguments], check=True)
    made, _ = build(checkout, tmp_path / "dist", "wheel:editable", CC=compiler[0])
    assert not [path for path in contents(made) if path.startswith(FOLDER)]
    loaded, why_off = library.load(checkout / FOLDER / NAME)
    assert (loaded is not None, why_off) == (True, "")
    status = subprocess.run([*git, "status", "--porcelain"], stdout=-1, text=True, check=True)
    assert status.stdout == ""
    _, printed = build(checkout, tmp_path / "again", "wheel:editable", CC="no-such-compiler")
    assert NONE in printed
    assert not (checkout / FOLDER / NAME).exists()


@pytest.fixture
def hook():
    """The module `hatch_build`."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("system", "host", "machine", "archflags", "given", "left_out", "native"),
    [
        ("linux", "linux-x86_64", "x86_64", "", "-fPIC -march=x86-64", "-arch", True),
        ("linux", "linux-aarch64", "aarch64", "", "-fPIC", "-march", True),
        ("linux", "linux-aarch64", "x86_64", "", "-fPIC", "-march", False),
        ("win32", "win-amd64", "AMD64", "", "-static-libgcc -march=x86-64", "-fPIC", True),
        ("win32", "win-arm64", "ARM64", "", "-static-libgcc", "-fPIC -march", True),
        ("darwin", "macosx-11.0-arm64", "arm64", "", "-fPIC", "-march", True),
        ("darwin", "macosx-10.13-universal2", "x86_64", "", "-fPIC", "-march", True),
        ("darwin", "macosx-11.0-arm64", "arm64", "-arch x86_64", "-fPIC -arch x86_64", "-march", False),
        (
            "darwin",
            "macosx-11.0-arm64",
            "arm64",
            "-arch arm64 -arch x86_64",
            "-arch arm64 -arch x86_64",
            "-march",
            True,
        ),
    ],
)
def test_options_are_those_of_the_platform(  # noqa: PLR0913, PLR0917
    hook, monkeypatch, system, host, machine, archflags, given, left_out, native
):
    monkeypatch.setattr(hook.sys, "platform", system)
    monkeypatch.setattr(hook.sysconfig, "get_platform", lambda: host)
    monkeypatch.setattr(hook.platform, "machine", lambda: machine)
    monkeypatch.setenv("ARCHFLAGS", archflags)
    flags = " ".join(hook._flags()[0])
    assert flags.endswith(given)
    assert not any(option in flags for option in left_out.split())
    assert hook._is_native() is native


def test_a_library_that_cannot_be_loaded_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.delenv("POSENC_KERNEL", raising=False)
    broken = tmp_path / NAME
    broken.write_bytes(b"not a library")
    with pytest.warns(UserWarning, match="posenc's kernel cannot be loaded, .*; install posenc again: ") as warned:
        loaded, why_off = library.load(broken)
    assert len(warned) == 1
    assert loaded is None
    assert why_off.startswith("the library cannot be loaded: ")
    with pytest.warns(UserWarning, match="posenc_interface"):
        assert library.load(Path(mtrand.__file__))[0] is None


def test_a_library_of_another_version_is_not_loaded(monkeypatch):
    monkeypatch.delenv("POSENC_KERNEL", raising=False)
    monkeypatch.setattr(library, "INTERFACE", library.INTERFACE + 1)
    with pytest.warns(UserWarning, match="belongs to another version of posenc"):
        assert library.load()[0] is None


def test_the_interface_has_a_number_that_changes_with_it():
    text = "".join(path.read_text("utf-8") for path in sorted((ROOT / FOLDER).glob("*.[ch]")))
    functions, structures = r"^EXPORT (?!int posenc_interface).*?(?=^\{)", r"^typedef struct.*?^\}.*?;$"
    declared = re.findall(f"{functions}|{structures}", text, re.DOTALL | re.MULTILINE)
    assert zlib.crc32("".join(declared).encode()) >> 1 == library.INTERFACE


@pytest.mark.parametrize("share", [0, 0.0001, 0.0004, 0.002, 0.1, 0.5, 0.8])
def test_a_cut_library_is_not_loaded(share, tmp_path, monkeypatch):
    monkeypatch.delenv("POSENC_KERNEL", raising=False)
    content = library.PATH.read_bytes()
    (tmp_path / NAME).write_bytes(content[: int(len(content) * share)])
    with pytest.warns(UserWarning, match="posenc's kernel cannot be loaded"):
        assert library.load(tmp_path / NAME)[0] is None


def test_a_library_older_than_its_source_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.delenv("POSENC_KERNEL", raising=False)
    shutil.copy2(library.PATH, tmp_path)
    assert library.load(tmp_path / NAME)[1] == ""
    (tmp_path / "rotate.c").touch()
    os.utime(tmp_path / NAME, (0, 0))
    with pytest.warns(UserWarning, match="is older than its source"):
        assert library.load(tmp_path / NAME)[0] is None


def test_an_unknown_level_is_an_error(monkeypatch):
    monkeypatch.setenv("POSENC_KERNEL", "avx")
    with pytest.raises(ValueError, match="`POSENC_KERNEL` must be 'off' or one of 'baseline', 'avx2', got 'avx'"):
        library.load()


def test_a_missing_library_is_not_a_warning(tmp_path, monkeypatch):
    monkeypatch.delenv("POSENC_KERNEL", raising=False)
    assert library.load(tmp_path / NAME) == (None, "no library in this installation")
