"""Training: every framework follows the loss curve of float64, with any encoding, and decodes like NumPy."""

import json
from itertools import islice

import numpy as np
import pytest

from posenc_backends import HOST_NAMES, load
from posenc_backends.cli.main import main
from posenc_backends.conformance.cases import golden
from posenc_backends.training import Recipe, model_of, steps, trainer
from posenc_core import Rotary, Sinusoidal, XPos
from posenc_core.encodings.notation import parse
from posenc_core.transformer.config import END, Transformer
from posenc_core.transformer.decoding import beam, greedy
from posenc_core.transformer.model import answer, loss
from posenc_core.transformer.tasks import TASKS, reverse

from ..catalogue import in_transformers

TOLERANCE = 1e-5  # float32 errs by up to 6.8e-6 (MLX); `RESIDUAL` keeps the start smooth
POSITIONS = [None, Sinusoidal(dim=16), Rotary(head_dim=8, layout="interleaved"), XPos(head_dim=8, layout="half")]
POSITIONS += [encoding for encoding in in_transformers(dim=16, length=7, std=0.5) if encoding.parameters()]
TASK = reverse(shortest=3, longest=6)
RECIPE = Recipe(steps=3, size=8, rate=1e-2, warmup=1)


@pytest.fixture
def backend_name(request):
    name = request.config.getoption("--backend")
    if name in HOST_NAMES:
        pytest.skip("This backend has no gradients.")
    return name


@pytest.mark.parametrize(
    "curve",  # one that is added, and one that rotates, in every run
    [pytest.param(curve, marks=[] if i < 2 else pytest.mark.slow) for i, curve in enumerate(golden("training"))],
    ids=lambda curve: f"{curve['task']}-{curve['position']}",
)
def test_the_first_losses_agree_with_float64(backend_name, curve):
    task, recipe = TASKS[curve["task"]](), Recipe()
    model_trainer = trainer(backend_name, model_of(task, parse(curve["position"])), recipe)
    losses = list(islice(steps(model_trainer, task, recipe), len(curve["losses"])))
    assert len(losses) == 100
    assert np.abs(np.subtract(losses, curve["losses"])).max() < TOLERANCE


@pytest.mark.parametrize(
    "position",
    [pytest.param(one, marks=[] if i % 4 == 3 else pytest.mark.slow) for i, one in enumerate(POSITIONS)],
    ids=repr,
)
def test_a_model_with_any_encoding_learns(backend_name, position):
    model = small(position)
    model_trainer = trainer(backend_name, model, RECIPE)
    batch = TASK.batch(8, seed=(0, 0))
    before = learned(backend_name, model_trainer, model)
    losses = [model_trainer.step(*batch) for _ in range(RECIPE.steps)]
    assert abs(losses[0] - float(loss(model, in_float64(model), *batch))) < 2e-6 * 8
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    for name, array in learned(backend_name, model_trainer, model).items():
        assert not np.array_equal(array, before[name]), name


@pytest.mark.parametrize("position", POSITIONS[2:4], ids=repr)
def test_answers_are_decoded_as_by_numpy(backend_name, position):
    model, backend, host, length = small(position), load(backend_name), load("numpy"), 2
    tokens = TASK.batch(3, seed=(0, 0)).source
    numbers = {**model.initial(seed=3), **model.constants()}
    weights, source = {name: backend.from_numpy(array) for name, array in numbers.items()}, backend.from_numpy(tokens)
    best = beam(model, numbers, tokens, backend=host, width=2, length=length)
    found_by_backend = beam(model, weights, source, backend=backend, width=2, length=length)
    assert np.array_equal(found_by_backend.tokens, best.tokens)
    assert np.allclose(found_by_backend.scores, best.scores, rtol=0, atol=1e-5)
    written = greedy(model, weights, source, backend=backend, length=length)
    assert np.array_equal(written, greedy(model, numbers, tokens, backend=host, length=length))
    likeliest = backend.to_numpy(answer(model, weights, source, backend.from_numpy(written))).argmax(-1)
    going = np.cumsum(written == END, axis=1) - (written == END) == 0
    assert np.array_equal(likeliest[going], written[going])


def test_the_command_trains_and_reports_success(backend_name, tmp_path, capsys):
    pytest.importorskip("rich")
    path = tmp_path / "reverse.json"
    command = [
        "train",
        "reverse",
        "--backend",
        backend_name,
        "--position",
        "Alibi(num_heads=4)",
        "--steps",
        "2",
        "--json",
        str(path),
    ]
    assert main([*command, "--target", "0"]) == 0
    assert "% of 1024 held-out questions exactly" in capsys.readouterr().out
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["model"]["position"] == {"kind": "Alibi", "num_heads": 4} | written["model"]["position"]
    assert len(written["losses"]) == 2
    assert written["exact_match"] < 0.01
    assert main(command) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--position", "Sinusoidal(dim=32)"], "`position` must have `dim` 64 to fit the other sizes"),
        (["--position", "sinusoidal"], "`encoding` must be written like"),
        (["--steps", "0"], "`steps` must be at least 1, got 0."),
        (["--json", "missing/curve.json"], "missing/curve.json"),
        (["--picture", "x.png"], "`--picture` draws a date, so the task must be dates, got copy."),
    ],
)
def test_the_command_rejects_wrong_options(backend_name, wrong, message, tmp_path, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "copy", "--backend", backend_name, *wrong]) == 2
    assert message in capsys.readouterr().err


def small(position):
    return Transformer(
        vocabulary=TASK.vocabulary,
        max_len=7,
        position=position,
        num_hiddens=16,
        ffn_hiddens=16,
        num_heads=2,
        num_blocks=1,
    )


def in_float64(model):
    arrays = {**model.initial(seed=0), **model.constants()}
    return {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def learned(backend_name, trainer, model):
    return {name: np.array(load(backend_name).to_numpy(trainer.weights[name])) for name in model.parameters()}
