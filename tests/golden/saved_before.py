"""Write the files in `tests/backends/*/saved_before`: states of layers, made before the files of the package moved.

It was run with the code of commit 0cd9e1f, once for each framework, in an environment with that framework:

    git worktree add /tmp/before 0cd9e1f
    PYTHONPATH=/tmp/before python tests/golden/saved_before.py torch
    PYTHONPATH=/tmp/before python tests/golden/saved_before.py jax
    PYTHONPATH=/tmp/before KERAS_BACKEND=tensorflow python tests/golden/saved_before.py keras
    PYTHONPATH=/tmp/before python tests/golden/saved_before.py paddle
    PYTHONPATH=/tmp/before python tests/golden/saved_before.py mxnet

It refuses to run with other code, whose files would prove nothing. The layers are those that
`tests/backends/*/test_saved_before.py` make; their parameters are replaced by drawn numbers. `numbers.npz` has, by the
name of a case, what the layer was called with and what it gave.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

COMMIT = "0cd9e1f"
BACKENDS = Path(__file__).parents[1] / "backends"
TOKENS, HEADS, SCORES, WIDE = (2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 5), (2, 5, 8)
SHAPES = {
    "learned": (TOKENS,),
    "rotary": (HEADS, HEADS),
    "persistent": (HEADS, HEADS),
    "learned_rotary": (HEADS, HEADS),
    "t5": (SCORES,),
    "fire": (SCORES,),
    "kerple": (SCORES,),
    "attention_rotary": (WIDE,),
    "attention_t5": (WIDE,),
    "model": (WIDE,),
}
DRAWN = np.random.default_rng(0)


def drawn(shape: Any) -> Any:
    """Draw parameters, none of them near 0 or near initial values."""
    return DRAWN.uniform(0.1, 0.9, tuple(shape)).astype(np.float32)


def inputs(name: str) -> list[Any]:
    """Draw the inputs of the layer of a case."""
    numbers = np.random.default_rng(0)
    return [numbers.normal(size=shape).astype(np.float32) for shape in SHAPES[name]]


class Numbers(dict[str, Any]):
    """Collect inputs and results of layers."""

    def record(self, name: str, given: list[Any], wanted: list[Any]) -> None:
        """Record the arrays of one case."""
        self.update({f"{name}.given.{index}": array for index, array in enumerate(given)})
        self.update({f"{name}.wanted.{index}": np.asarray(array) for index, array in enumerate(wanted)})


def write_torch(tests: ModuleType, folder: Path, numbers: Numbers) -> None:
    import torch

    def filled(layer: Any) -> Any:
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(torch.from_numpy(drawn(parameter.shape)))
        return layer.eval()

    for name, (make, encoding, _) in tests.CASES.items():
        layer = filled(make(encoding))
        torch.save(layer.state_dict(), folder / f"{name}.pt")
        numbers.record(name, inputs(name), tests.call(layer, inputs(name)))
    whole = {name: filled(make()) for name, make in tests.WHOLE.items()}
    torch.save(whole, folder / "whole_modules.pt")
    for name, layer in whole.items():
        given = inputs(tests.CALLED_LIKE[name])
        numbers.record(name, given, tests.call(layer, given))
    written = {name: encoding.to_dict() for name, encoding in tests.ENCODINGS.items()}
    (folder / "encodings.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    for name, encoding in tests.ENCODINGS.items():
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(encoding, protocol=4))
        numbers.record(name, [], tests.tables(encoding))


def write_jax(tests: ModuleType, folder: Path, numbers: Numbers) -> None:
    import jax

    from posenc_backends.jax import to_state

    for name, (make, encoding, _) in tests.CASES.items():
        tree = jax.tree.map(lambda leaf: jax.numpy.asarray(drawn(leaf.shape)), make(encoding))
        np.savez(folder / f"{name}.npz", **to_state(tree))
        numbers.record(name, inputs(name), tests.call(tree, inputs(name)))


def write_keras(tests: ModuleType, folder: Path, numbers: Numbers) -> None:
    for name, (make, encoding, _) in tests.CASES.items():
        model = make(encoding)
        model.set_weights([drawn(weight.shape) for weight in model.weights])
        model.save(folder / f"{name}.keras")
        if name in tests.WEIGHTS_APART:
            model.save_weights(folder / f"{name}.weights.h5")
        numbers.record(name, inputs(name), tests.call(model, inputs(name)))


def write_paddle(tests: ModuleType, folder: Path, numbers: Numbers) -> None:
    import paddle

    for name, (make, encoding, _) in tests.CASES.items():
        layer = make(encoding)
        for parameter in layer.parameters():
            parameter.set_value(drawn(parameter.shape))
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "The input state dict is empty", UserWarning
            )  # of a layer without parameters
            paddle.save(layer.state_dict(), str(folder / f"{name}.pdparams"))
        numbers.record(name, inputs(name), tests.call(layer, inputs(name)))


def write_mxnet(tests: ModuleType, folder: Path, numbers: Numbers) -> None:
    import mxnet as mx

    def filled(layer: Any) -> Any:
        layer.initialize()
        for parameter in layer.collect_params().values():
            if parameter.grad_req != "null":
                parameter.set_data(mx.np.array(drawn(parameter.shape)))
        return layer

    for name, (make, encoding, _) in tests.CASES.items():
        layer = filled(make(encoding))
        layer.save_parameters(str(folder / f"{name}.params"))
        numbers.record(name, inputs(name), tests.call(layer, inputs(name)))
        if name in tests.EXPORTED:
            layer.hybridize()
            tests.call(layer, inputs(name)[:1])
            layer.export(str(folder / name))


WRITERS = {
    "torch": write_torch,
    "jax": write_jax,
    "keras": write_keras,
    "paddle": write_paddle,
    "mxnet": write_mxnet,
}


def check_commit() -> None:
    """Raise unless the package is imported from a checkout of `COMMIT`, without changes."""
    import posenc_core

    git = ["git", "-C", str(Path(posenc_core.__file__).parent)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    changed = subprocess.run([*git, "status", "--short", "-uno"], check=True, capture_output=True, text=True).stdout
    if not head.startswith(COMMIT) or changed:
        raise RuntimeError(
            f"The package must be that of commit {COMMIT}, got {head.strip()} in {posenc_core.__file__}."
        )


def module_of(path: Path) -> ModuleType:
    """Import a file of tests."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"No module can be made of {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(name: str) -> None:
    """Write the files of one framework."""
    check_commit()
    folder = BACKENDS / name / "saved_before"
    folder.mkdir(exist_ok=True)
    tests, numbers = module_of(BACKENDS / name / "test_saved_before.py"), Numbers()
    WRITERS[name](tests, folder, numbers)
    np.savez_compressed(folder / "numbers.npz", **numbers)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:8} {path.name}")


if __name__ == "__main__":
    main(sys.argv[1])
