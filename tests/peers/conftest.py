"""Other libraries beside ours. Run by name, `pytest tests/peers` or `nox -s peers`, in an environment of their own."""

import os
from pathlib import Path

collect_ignore = ["kernelized.py", "coverage", "scoreboard"]  # it patches transformers early; two are programs

os.environ["KERAS_BACKEND"] = "torch"
os.environ["HF_HUB_OFFLINE"] = "1"

WARNINGS = {  # that peers emit themselves
    "x-transformers": ["ignore:`torch.jit.script` is deprecated:DeprecationWarning"]
}
LOADED = "ignore:`layout` 'half' is that of the weights as transformers loads them:UserWarning"  # as tests load them


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", LOADED)
    for lines in WARNINGS.values():
        for line in lines:
            config.addinivalue_line("filterwarnings", line)


def pytest_ignore_collect(collection_path, config):
    """Leave these tests to those who ask for them: without its peers, each fails."""
    here = Path(__file__).parent
    asked = [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]
    return None if any(path == here or here in path.parents for path in asked) else True


def pytest_terminal_summary(terminalreporter):
    """The numbers of `test_defects.py`, as a table."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    rows = [(report.nodeid, dict(report.user_properties).get("numbers")) for report in reports if report.when == "call"]
    rows = [(name.partition("[")[2].rstrip("]"), numbers) for name, numbers in rows if numbers]
    if rows:
        terminalreporter.section("defects of peers")
        terminalreporter.line(f"{'theirs':>12} {'mpmath':>12} {'ours':>12}")
        for name, numbers in sorted(rows):
            terminalreporter.line("".join(f"{number:12.7f} " for number in numbers) + f" {name}")
