"""The scripts of a day on a GPU run here with their smallest shapes, so that a lent machine meets no broken one."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch._functorch import config as functorch_config

from posenc_backends.torch.rotation import gpu, triton_launch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import device_day
import gpu as benchmark

SCRIPTS = [step for step in device_day.STEPS if step.arguments[0].endswith(".py") and step.name != "jax"]


@pytest.mark.parametrize("step", SCRIPTS, ids=[step.name for step in SCRIPTS])
def test_a_script_runs_on_a_processor(step, monkeypatch, tmp_path, capsys):
    """By its own arguments, but for the device and the number of rounds; nothing is compiled."""
    script, *arguments = step.arguments
    arguments = [{"DEVICE": "cpu"}.get(word, word.replace("FOLDER", str(tmp_path))) for word in arguments]
    arguments += ["--rounds", "2"] if "-o" in arguments else ["-o", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(gpu, "IS_INTERPRETED", False)  # so that the processor's kernel rotates
    monkeypatch.setattr(benchmark.Device, "seconds_of_calls", lambda self, call, count: self.seconds(call))
    for name in ("THREADS", "READ_AHEAD"):  # which the scripts change
        monkeypatch.setattr(triton_launch, name, getattr(triton_launch, name))
    monkeypatch.setattr(triton_launch, "OPTIONS", dict(triton_launch.OPTIONS))
    monkeypatch.setattr(benchmark, "FEW", [case.name for case in benchmark.cases("cpu", benchmark.TINY)][::7])
    with functorch_config.patch(donated_buffer=functorch_config.donated_buffer):
        import_module(Path(script).stem).main()
    for path in tmp_path.glob("*.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        device_day.summarize(found)
        assert not [case for case in found["cases"] if case.get("broken") or case.get("failed")]
        assert all(case.get("same bits", True) for case in found["cases"])
    assert capsys.readouterr().out


def test_few_cases_are_known_by_their_names():
    names = {case.name for case in benchmark.cases("cpu", benchmark.SHAPES)}
    assert {*benchmark.FEW} <= names
    for step in SCRIPTS:
        words = step.arguments[step.arguments.index("--only") + 1 :] if "--only" in step.arguments else ()
        assert not words or [name for name in benchmark.FEW if all(word in name for word in words)], step.name


def test_a_day_runs_its_steps_and_prints_results(monkeypatch, tmp_path, capsys):
    found = {"benchmark": "x", "machine": {"GPU": "y"}, "cases": [{"name": "z", "ratios": {"ours": [1, 2, 3]}}]}
    write = f"import sys; open(sys.argv[1], 'w').write({json.dumps(found)!r}); print('DEVICE')"
    steps = [
        device_day.Step("beside", ("-c", "print('DEVICE')"), 60, beside=True),
        device_day.Step("timed", ("-c", write.replace("/", "|"), "FOLDER/x.json"), 60),
    ]
    monkeypatch.setattr(device_day, "STEPS", steps)
    monkeypatch.setattr(sys, "argv", ["device_day.py", str(tmp_path), "--device", "cpu"])
    with pytest.raises(SystemExit) as ended:
        device_day.main()
    printed = capsys.readouterr().out
    assert not ended.value.code
    assert "beside: 0" in printed
    assert "z {'ours': 2}" in printed
