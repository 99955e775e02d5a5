"""Find a Chromium for the tests of this folder, or install one: `python tests/browser/chromium.py`."""

import os
import shutil
import signal
import subprocess
import sys

VARIABLE = "POSENC_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALLERS = (  # programs, the arguments of their runs, and a limit in seconds for each run
    ("playwright", [("install", "chromium")], 240),
    ("apt-get", [("update",), ("install", "-y", "chromium")], 600),
)


def find_chromium() -> str | None:
    """Return the path of a Chromium that runs: `POSENC_CHROMIUM`, else on the PATH, else Playwright's; or None.

    Raises:
        FileNotFoundError: `POSENC_CHROMIUM` is set to something that does not run.
    """
    if given := os.environ.get(VARIABLE):
        if not runs(given):
            raise FileNotFoundError(f"`{VARIABLE}` must be the path of a Chromium that runs, got {given!r}.")
        return given
    candidates = [shutil.which(name) for name in NAMES] + [playwright_chromium()]
    return next((path for path in candidates if path and runs(path)), None)


def playwright_chromium() -> str | None:
    """Return where Playwright puts its own Chromium, installed or not; None without Playwright."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def runs(path: str) -> bool:
    """Return whether a program starts: one that lacks a shared library, or a stub that names a package, does not."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def ensure_chromium() -> str:
    """Return the path of a Chromium that runs; install one if there is none.

    Raises:
        FileNotFoundError: No installer brought one.
    """
    if found := find_chromium():
        return found
    for program, commands, limit in INSTALLERS:
        path = shutil.which(program)
        if path and all(succeeds([path, *arguments], limit) for arguments in commands) and (found := find_chromium()):
            return found
    command = "apt-get install chromium` as root" if shutil.which("apt-get") else "playwright install chromium`"
    raise FileNotFoundError(f"No Chromium runs here: run `{command}, or set `{VARIABLE}` to the path of one.")


def succeeds(command: list[str], limit: float) -> bool:
    """Run a command without questions, and return whether it succeeded within a number of seconds."""
    print(f"No Chromium yet: {' '.join(command)}", flush=True)  # noqa: T201
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own group: what it has started ends with it
            return False


def main() -> None:
    """Print the path of a Chromium, which is installed first if there is none."""
    try:
        print(f"Chromium: {ensure_chromium()}")  # noqa: T201
    except FileNotFoundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
