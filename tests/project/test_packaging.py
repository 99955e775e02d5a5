import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from importlib.metadata import metadata, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_backends
import posenc_core
from posenc_backends import _kernels
from posenc_backends.cli.explorer import explore
from posenc_backends.cli.main import main
from posenc_backends.cli.report import backends, results
from posenc_backends.cli.report.results import TARGETS
from posenc_core import _requirement
from posenc_core._requirement import requirement
from posenc_core.analysis import precision
from posenc_core.encodings import NAMES

from ..core.load_cases import load_cases

FACES = ["posenc_core", "posenc_core.encodings", "posenc_backends", "posenc_backends.numpy"]


@pytest.mark.parametrize("name", FACES)
def test_all_lists_the_public_members(name):
    module = importlib.import_module(name)
    submodules = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))}
    public = {member for member in dir(module) if member.isidentifier() and not member.startswith("_")} - submodules
    imports = {
        "TYPE_CHECKING",
        "Any",
        "annotations",
        "attach",
        "import_module",
        "find_spec",
        "ModuleType",
        "Path",
        "require",
        "sys",
    }
    ours = {"namespace", "kernel", "NAMES"}  # imported for what they register, and a register
    assert sorted(module.__all__, key=lambda member: (not member.isupper(), member)) == module.__all__
    assert set(module.__all__) - ours == public - (imports - set(module.__all__)) - ours


def test_there_is_one_extra_per_backend():
    extras = set(metadata("posenc").get_all("Provides-Extra"))
    assert extras - {"completion", "explore", "gpu", "plots", "report"} == {*posenc_backends.NAMES, "strict"}
    assert {target.backend for target in TARGETS} == {*posenc_backends.NAMES, *posenc_backends.HOST_NAMES}


def test_the_version_is_the_installed_one():
    assert version("posenc") == posenc_core.__version__


@pytest.mark.parametrize("package", [posenc_core, posenc_backends])
def test_the_packages_are_typed_and_their_examples_run(package, monkeypatch):
    """The example of `publish` writes one of its sets: `test_published` has all of them, which take seconds."""
    published = importlib.import_module("posenc_backends.cli.golden.publish")
    monkeypatch.setattr(published, "SETS", published.SETS[:1])
    assert (Path(package.__file__).parent / "py.typed").exists()
    for module in [package, *modules(package)]:
        if module.__name__ == "posenc_backends.check.model.run" and find_spec("torch") is None:
            continue  # whose example is a model of PyTorch: its tests run it
        failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert failed == 0, module


def modules(package):
    """Import and yield the modules of a package that need no framework and no browser."""
    frameworks = "|".join([*posenc_backends.NAMES, "tensorflow"])
    elsewhere = (
        frameworks,
        "__main__",
        rf"conformance.(frameworks.({frameworks}).*|__main__)",
        rf"(training|check.model).({frameworks})",
        r"cli.explorer\.(app|figures|guard|language|page|server|style)",
        r"cli.golden.onnx_models",
    )
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not re.match(rf"posenc_backends\.({'|'.join(elsewhere)})\b", found.name):
            yield importlib.import_module(found.name)


@pytest.mark.parametrize("name", posenc_backends.NAMES)
def test_a_framework_that_is_not_installed_is_named(name, monkeypatch):
    monkeypatch.setattr(posenc_backends, "find_spec", lambda module: None)
    monkeypatch.setitem(sys.modules, f"posenc_backends.{name}", None)
    monkeypatch.delitem(sys.modules, f"posenc_backends.{name}")
    with pytest.raises(ImportError, match=re.escape(f'is not installed; run `pip install "{requirement(name)}"`.')):
        posenc_backends.load(name)


@pytest.mark.parametrize(
    ("recorded", "source"),
    [
        (None, ""),
        ({"url": "file:///home/me/posenc", "dir_info": {"editable": True}}, " @ file:///home/me/posenc"),
        (
            {"url": "https://example.org/posenc", "vcs_info": {"vcs": "git", "commit_id": "0f1e2d"}},
            " @ git+https://example.org/posenc@0f1e2d",
        ),
    ],
)
def test_an_extra_is_installed_from_where_posenc_came(recorded, source, monkeypatch):
    text = None if recorded is None else json.dumps(recorded)
    monkeypatch.setattr(
        _requirement, "distribution", lambda name: SimpleNamespace(read_text={"direct_url.json": text}.get)
    )
    assert requirement("torch") == f"posenc[torch]{source}"


def test_without_a_record_an_extra_is_installed_from_the_clone(monkeypatch):
    monkeypatch.setattr(_requirement, "distribution", lambda name: metadata("no such package"))
    assert requirement("torch") == f"posenc[torch] @ {Path(posenc_core.__file__).parents[1].as_uri()}"


@pytest.mark.parametrize("missing", ["dash", "plotly", "werkzeug.serving"])
def test_the_explorer_names_its_extra(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    for module in ("app", "figures", "page", "server"):
        monkeypatch.delitem(sys.modules, f"posenc_backends.cli.explorer.{module}", raising=False)
    with pytest.raises(ImportError, match=re.escape(f'run `pip install "{requirement("explore")}"`.')):
        explore(browser=False, port=0)


def test_an_unknown_backend_raises_with_the_known_names():
    with pytest.raises(ValueError, match=r"`name` must be one of .*'numpy', 'strict', got 'caffe'"):
        posenc_backends.load("caffe")


def test_importing_the_core_costs_little_more_than_numpy(tmp_path):
    """Counted in modules, which do not depend on how busy the machine is; `benchmarks/` has the seconds."""
    program = "import sys, {0}; print(len(sys.modules))"
    counts = [
        int(subprocess.run([sys.executable, "-c", program.format(name)], stdout=-1, check=True, cwd=tmp_path).stdout)
        for name in ("numpy", "posenc_core")
    ]
    assert counts[1] < 1.5 * counts[0]


@pytest.fixture
def posenc(tmp_path, monkeypatch, capsys):
    """Run the command in `tmp_path`, in this process: another one would import matplotlib again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        try:
            status = main(arguments)
        except SystemExit as stopped:
            status = stopped.code
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return run


def test_the_report_is_complete_with_numpy_alone(tmp_path, posenc, monkeypatch):
    targets = [target for target in TARGETS if target.backend != "strict"]  # whose cases are a test each
    monkeypatch.setattr(backends, "TARGETS", targets)
    done = posenc("report", "--json", "report.json", "--html", "report.html")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "report.json").read_text())
    kinds = {row["encoding"] for row in rows if row["backend"] == "numpy"}
    assert kinds == {*NAMES, "MultiHeadAttention"}
    assert f"\nkernel: {_kernels.describe()}\n" in done.stdout
    for target in targets:
        assert target.name in done.stdout
    missing = [target.missing for target in targets if target.missing]
    assert all(f'pip install "{name}"' in done.stdout.replace("\n", "") for name in missing[:1])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"kernel {_kernels.describe()}, " in text
    assert text.count('<tr role="row">') == 1 + len(rows)
    assert not re.search(r'(src|srcset)="(?!data:)|<link[^>]+href="(?!data:)|@import|url\(', text)  # it loads nothing
    assert len(re.findall(r'alt="[^"]{40,}"', text)) == text.count("<img ") == 2  # cases, forward


OFF = {
    "case": "table: Integer, dim 2", "check": "table", "encoding": "Integer", "is_mode": False, "gap": None,
    "passed": False, "worst": 3.0, "limit": 0.0, "seconds": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("results", "shown", "bad"),
    [
        (
            ({"cases": 2}, OFF, OFF | {"case": "table: Sine, dim 3", "encoding": "Sine", "passed": True, "worst": 0.0}),
            "table: Integer, dim 2: off by 3, limit 0",
            'table: Integer, dim 2: <span class="bad">off by 3, limit 0</span>',
        ),
        ((), "numpy: ended with status 0 after 0 cases", "ended with status 0 after 0 cases"),
    ],
    ids=["a failure", "a crash"],
)
def test_the_report_shows_what_failed(results, shown, bad, tmp_path, posenc, monkeypatch):
    """The suite is a program that prints these results."""
    suite = tmp_path / "suite"
    suite.write_text("\n".join(["#!/bin/sh", "cat << END", *map(json.dumps, results), "END\n"]), encoding="utf-8")
    suite.chmod(0o755)
    monkeypatch.setattr(backends, "TARGETS", TARGETS[:1])
    monkeypatch.setattr(backends.sys, "executable", str(suite))
    done = posenc("report", "--html", "report.html")
    assert done.returncode == 1, done.stderr
    assert shown in done.stdout
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert bad in text
    assert text.count('<tr role="row" class="bad">') == len(results) // 3


def test_the_report_names_missing_packages(monkeypatch):
    monkeypatch.setattr(results, "find_spec", lambda module: None if module == "tensorflow" else object())
    missing = {target.name: target.missing for target in TARGETS}
    assert missing.get("keras (tensorflow)", "tensorflow") == "tensorflow"
    assert set(missing.values()) <= {None, "tensorflow"}
    monkeypatch.setattr(results, "find_spec", lambda module: None)
    assert all(target.missing == requirement(target.backend) for target in TARGETS)


@pytest.mark.parametrize(
    "encoding",
    [
        "Sinusoidal(dim=32)",
        "Binary(dim=3)",
        "GridSinusoidal(dim=8, convention='mae')",
        "RandomFourierFeatures(dim=8, scale=1.0, seed=0, num_axes=3)",
        "Rotary(head_dim=16, layout='half')",
        "Alibi(num_heads=4)",
        "QueryScale(length=8, scale=0.1)",
    ],
)
def test_plot_writes_a_picture(encoding, tmp_path, posenc):
    done = posenc("plot", encoding, "-o", "picture.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


CONFIGS = load_cases("explained")
LLAMA31, MULTIMODAL = CONFIGS["LLAMA31"], CONFIGS["QWEN2_VL"]
COHERE2 = {"model_type": "cohere2", "head_dim": 32, "rope_theta": 5e4, "sliding_window": 4096, "n_positions": 8192}
PHI = {
    "model_type": "phi3", "head_dim": 32, "max_position_embeddings": 131072, "rope_scaling": {
        "type": "longrope", "short_factor": [1.0] * 16, "long_factor": [1.5 + i for i in range(16)],
        "original_max_position_embeddings": 4096,
    },
}  # fmt: skip


@pytest.fixture
def explain(tmp_path, posenc):
    def run(config, *arguments):
        (tmp_path / "config.json").write_text(json.dumps(config))
        return posenc("explain", "config.json", *arguments)

    return run


def test_explain_prints_the_rope_of_a_model(explain):
    done = explain(LLAMA31)
    assert (done.returncode, done.stderr) == (0, "")
    for text in ("half: from `model_type`", "divided by 8: pairs 35–63", "8,192 originally, 131,072 at most"):
        assert text in done.stdout
    assert re.search(r"63 +63, 127 +3.069e-07 +20,473,564 +8 ", done.stdout)  # 16 π · 500000 ** (63 / 64)
    assert re.search(r"float32 +position 20,121 ", done.stdout)
    assert "…" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.fixture
def few_positions(monkeypatch):
    """Search few positions for errors of low precision, as that takes most of an explanation."""
    monkeypatch.setattr(precision, "LIMIT", 2**13)


@pytest.mark.usefixtures("few_positions")
def test_explain_prints_regimes_and_layer_types(explain):
    done = explain(PHI)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("up to 4,096 positions") < done.stdout.index("sequences: longer")
    assert "short_factor=(1, …, 1), long_factor=(1.5, …, 16.5)" in done.stdout
    assert "grow by its square" in done.stdout
    done = explain(COHERE2)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("sliding_attention") < done.stdout.index("full_attention")
    assert done.stdout.count("queries and keys are not rotated") == 1
    done = explain(COHERE2, "--layer-type", "full_attention")
    assert "sliding_attention" not in done.stdout
    done = explain(MULTIMODAL)
    assert "16 pairs rotate by time, 24 pairs rotate by height, 24 pairs rotate by width" in " ".join(
        done.stdout.split()
    )


def test_explain_prints_encodings_other_than_rope(explain):
    done = explain({"model_type": "bloom", "n_head": 8})
    assert (done.returncode, done.stderr) == (0, "")
    assert "queries and keys are not rotated" in done.stdout
    assert "added to the scores of self-attention: Alibi(num_heads=8)" in done.stdout
    done = explain({"model_type": "no_such_model", "n_head": 8})
    assert done.returncode == 2
    assert "`model_type`" in done.stderr


def test_explain_prints_the_rope_of_a_tower(explain):
    config = {"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6, "rope_theta": 100.0}
    done = explain(config)
    assert (done.returncode, done.stderr) == (0, "")
    assert "AxialRotary(head_dim=64" in done.stdout
    assert "not rotated" not in done.stdout


@pytest.mark.usefixtures("few_positions")
@pytest.mark.parametrize("config", [LLAMA31, COHERE2, PHI, MULTIMODAL, {"model_type": "bloom", "n_head": 8}])
def test_explain_writes_json_and_a_picture(config, tmp_path, explain):
    picture = ("-o", "x.png") if config is LLAMA31 else ()  # `test_recorded_plots` has those of others
    done = explain(config, "--json", "x.json", *picture)
    assert (done.returncode, done.stderr) == (0, "")
    assert not picture or (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    for layers in json.loads((tmp_path / "x.json").read_text(encoding="utf-8")):
        for regime in layers["regimes"]:
            assert len(regime["pairs"]) == layers["head_dim"] // 2
            assert [len(loss["first_off"]) for loss in regime["losses"]] == [3, 3]


def test_explain_prints_a_warning_once_in_a_line(explain):
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096, "mscale": 1.0}
    done = explain({"head_dim": 8, "rope_scaling": scaling, "rope_theta": 1e4})
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("posenc: `mscale` has no effect alone")


WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path, target=None):
        if name == {0!r}:
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Hidden())
from posenc_backends.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("rich", ("explain", "config.json"), "report"),
        ("rich", ("report",), "report"),
        ("jinja2", ("report", "--html", "x.png"), "report"),
        ("matplotlib", ("report", "--html", "x.png"), "plots"),
        ("matplotlib", ("explain", "config.json", "-o", "x.png"), "plots"),
        ("matplotlib", ("plot", "Integer(dim=2)", "-o", "x.png"), "plots"),
    ],
)
def test_the_extra_of_a_missing_package_is_named(module, arguments, extra, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA31))
    command = [sys.executable, "-c", WITHOUT.format(module), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f'is not installed; run `pip install "{requirement(extra)}"`.' in done.stderr
    assert not (tmp_path / "x.png").exists()


def test_relayout_prints_the_number_of_tensors(tmp_path, posenc):
    weight = np.arange(8 * 8, dtype=np.float32).reshape(8, 8)
    names = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight", "norm.weight")
    tensors = {
        name: {"dtype": "F32", "shape": [8, 8], "data_offsets": [256 * i, 256 * i + 256]}
        for i, name in enumerate(names)
    }
    header = json.dumps(tensors).encode()
    data = len(header).to_bytes(8, "little") + header + 3 * weight.tobytes()
    (tmp_path / "in.safetensors").write_bytes(data)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "head_dim": 8, "num_attention_heads": 1}))
    arguments = ("relayout", "in.safetensors", "out.safetensors", "--config", "config.json", "--from", "interleaved")
    done = posenc(*arguments, "--to", "half")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "out.safetensors rotates in layout 'half': 2 tensors reordered, 1 copied.\n"
    relaid = np.frombuffer((tmp_path / "out.safetensors").read_bytes()[-768:], np.float32).reshape(3, 8, 8)
    np.testing.assert_array_equal(relaid, [weight[[0, 2, 4, 6, 1, 3, 5, 7]]] * 2 + [weight])
    done = posenc(*arguments, "--to", "half")
    assert (done.returncode, "`target` must not exist" in done.stderr) == (2, True)
    done = posenc(*arguments, "--to", "half", "--from", "half")
    assert (done.returncode, "nothing to do" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        ("[1]", (), "`config` must hold a JSON object, but config.json holds list."),
        ("{,}", (), "`config` must be a file of JSON, but config.json is not"),
        ('{"head_dim": 8, "rope_scaling": {"type": "cubic"}}', (), "`rope_type` must be one of 'default', 'linear'"),
        ('{"head_dim": 7}', (), "`head_dim` must be even, got 7."),
        ('{"head_dim": 8}', ("--layer-type", "full"), "`layer_type` must be left out"),
        ('{"head_dim": 8}', ("-o", "missing/x.png"), "missing/x.png"),
        ('{"head_dim": 8}', ("-o", "x.docx"), "Format 'docx' is not supported"),
        ('{"head_dim": 8}', ("--json", "missing/x.json"), "missing/x.json"),
        (None, (), "there is no file config.json"),
    ],
)
def test_an_unsupported_config_is_reported_in_a_sentence(config, arguments, message, tmp_path, posenc):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    done = posenc("explain", "config.json", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("plot", "Sinusoidal", "-o", "x.png"),
            "`encoding` must be written like 'Sinusoidal(dim=32)', got 'Sinusoidal'",
        ),
        (("plot", "Sinus(dim=2)", "-o", "x.png"), "`kind` must be a class of posenc, like Sinusoidal"),
        (("plot", "Learned(dim=2, length=4)", "-o", "x.png"), "`encoding` must have a fixed table to draw"),
        (("plot", "Sinusoidal(dim=0)", "-o", "x.png"), "`dim` must be at least 1, got 0."),
        (("plot", "Sinusoidal(dim=4)", "-o", "missing/x.png"), "missing/x.png"),
        (("plot", "Sinusoidal(dim=4)", "--length", "0", "-o", "x.png"), "`length` must be at least 1, got 0."),
        (("report", "--json", "missing/x.json"), "missing/x.json"),
        (("report", "--html", "missing/x.html"), "missing/x.html"),
    ],
)
def test_wrong_arguments_are_reported_in_a_sentence(arguments, message, posenc):
    done = posenc(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
