"""The browser of `nox -s docs`: found, else installed, else asked for in one sentence. The PATH here is a fake one."""

import subprocess
import sys

import pytest

from ..browser import chromium
from ..errors import is_one_sentence


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Put shell scripts on the PATH, and nothing else: no Chromium, no package manager of this machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    monkeypatch.delenv(chromium.VARIABLE, raising=False)

    def write(name, script):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return write


@pytest.mark.parametrize("name", chromium.NAMES)
def test_a_chromium_on_the_path_is_found(name, programs):
    path = programs(name, "echo Chromium 140")
    assert chromium.ensure_chromium() == path


def test_one_that_does_not_start_is_passed_over(programs):
    programs("chromium", "echo libnss3.so is missing; exit 127")
    path = programs("google-chrome", "exit 0")
    assert chromium.find_chromium() == path


def test_the_variable_comes_first(programs, monkeypatch):
    programs("chromium", "exit 0")
    monkeypatch.setenv(chromium.VARIABLE, path := programs("mine", "exit 0"))
    assert chromium.find_chromium() == path
    monkeypatch.setenv(chromium.VARIABLE, "/nowhere/chromium")
    with pytest.raises(FileNotFoundError, match=r"`POSENC_CHROMIUM` .*'/nowhere/chromium'"):
        chromium.ensure_chromium()


@pytest.mark.parametrize("playwright", ["exit 1", "/bin/sleep 60", None], ids=["offline", "hangs", "missing"])
def test_the_package_manager_installs_what_playwright_cannot(playwright, programs, tmp_path, monkeypatch):
    monkeypatch.setattr(chromium, "INSTALLERS", [(name, run, 1) for name, run, _ in chromium.INSTALLERS])
    if playwright:
        programs("playwright", playwright)
    log, made = tmp_path / "log", tmp_path / "bin" / "chromium"
    make = f'echo "#!/bin/sh" > {made} && /bin/chmod +x {made}'
    programs("apt-get", f'echo "$*" >> {log}; if [ "$1" = install ]; then {make}; fi')
    assert chromium.ensure_chromium() == str(made)
    assert log.read_text(encoding="utf-8").splitlines() == ["update", "install -y chromium"]


def test_the_package_manager_is_not_asked_if_playwright_succeeds(programs, tmp_path):
    made = tmp_path / "bin" / "chromium"
    programs("playwright", f'[ "$*" = "install chromium" ] && echo "#!/bin/sh" > {made} && /bin/chmod +x {made}')
    programs("apt-get", f"echo asked > {tmp_path / 'log'}")
    assert chromium.ensure_chromium() == str(made)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("manager", "command"), [("apt-get", "apt-get install chromium"), ("other", "playwright install chromium")]
)
def test_nothing_to_be_had_is_one_sentence_with_the_command(manager, command, programs):
    programs(manager, "echo are you root? >&2; exit 100")
    with pytest.raises(FileNotFoundError) as raised:
        chromium.ensure_chromium()
    assert is_one_sentence(str(raised.value))
    assert f"`{command}`" in str(raised.value)
    assert "`POSENC_CHROMIUM`" in str(raised.value)


def test_the_command_of_the_session_fails_with_that_sentence_alone(programs):
    done = subprocess.run([sys.executable, chromium.__file__], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert is_one_sentence(done.stderr.strip())
    assert done.stdout == ""
