"""Compute `training.json`: the losses of the first training steps in float64, which every framework has to follow.

    python tests/golden/training.py           # in an environment with PyTorch
    python tests/golden/training.py --check   # exits with 1 if a loss changes by more than 1e-9

The Transformer is written here a second time, from the papers, and shares no code with the library: of posenc it takes
the initial numbers, the batches and the learning rates alone. PyTorch computes the derivatives, in float64.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, layer_norm, relu

from posenc_backends.training import Recipe, model_of
from posenc_core.encodings.notation import parse
from posenc_core.transformer.tasks import TASKS

FILE = Path(__file__).with_suffix(".json")
STEPS = 100
HEADS, BLOCKS = 4, 2
CURVES = [
    ("dates", "Sinusoidal(dim=64)"),
    ("reverse", "Rotary(head_dim=16, layout='half')"),
    ("copy", "Rotary(head_dim=16, layout='interleaved')"),
    ("dates", "Alibi(num_heads=4)"),
    ("reverse", "T5Bias(num_heads=4)"),
    ("copy", "Learned(dim=64, length=13)"),
    ("reverse", "Kerple(num_heads=4)"),
]
Weights = dict[str, Tensor]


def transformer(weights: Weights, position: str, source: Tensor, target: Tensor) -> Tensor:
    """Return the mean loss: Vaswani et al. 2017, section 3, with the norm after each residual connection."""
    embedding = weights["embedding"]

    def embed(side: str, tokens: Tensor) -> Tensor:
        return embedding[tokens] * embedding.shape[1] ** 0.5 + added(position, weights, side, tokens.shape[1])

    def attend(name: str, x: Tensor, memory: Tensor, hidden: Tensor, side: str | None = None) -> Tensor:
        q, k, v = (
            (each @ weights[f"{name}.{matrix}"]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for each, matrix in ((x, "query"), (memory, "key"), (memory, "value"))
        )
        bias: Tensor | float = 0.0
        if side is not None:  # the encoding acts where a sequence attends to itself
            q, k, bias = rotated(position, q), rotated(position, k), bias_of(position, weights, side, q.shape[2])
        scores = (q @ k.mT / q.shape[-1] ** 0.5 + bias).masked_fill(hidden, -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2) @ weights[f"{name}.output"]
        return normalized(name, x + mixed)

    def normalized(name: str, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[-1:], weights[f"{name}.scale"], weights[f"{name}.shift"], 1e-5)

    def feed_forward(name: str, x: Tensor) -> Tensor:
        inner = relu(x @ weights[f"{name}.inner"] + weights[f"{name}.inner_bias"])
        return normalized(name, x + inner @ weights[f"{name}.outer"] + weights[f"{name}.outer_bias"])

    padding = (source == 0)[:, None, None, :]
    future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    memory = embed("encoder", source)
    for block in range(BLOCKS):
        memory = attend(f"encoder.{block}.attention", memory, memory, padding, "encoder")
        memory = feed_forward(f"encoder.{block}.feed_forward", memory)
    started = torch.cat([torch.ones_like(target[:, :1]), target[:, :-1]], 1)
    x = embed("decoder", started)
    for block in range(BLOCKS):
        x = attend(f"decoder.{block}.attention", x, x, future, "decoder")
        x = attend(f"decoder.{block}.cross", x, memory, padding)
        x = feed_forward(f"decoder.{block}.feed_forward", x)
    return cross_entropy((x @ embedding.T).flatten(0, 1), target.flatten(), ignore_index=0)


def angles(length: int, width: int) -> Tensor:
    """Return position times frequency, `(length, width / 2)`, in radians."""
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(length, dtype=torch.float64)[:, None] * frequencies


def added(position: str, weights: Weights, side: str, length: int) -> Tensor | float:
    """Return what is added to tokens: sines and cosines in turn (ibid., section 3.5), or learned rows."""
    if position.startswith("Sinusoidal"):
        table = angles(length, 64)
        return torch.stack([table.sin(), table.cos()], -1).flatten(-2)
    return weights[f"{side}.position.table"][:length] if position.startswith("Learned") else 0.0


def rotated(position: str, x: Tensor) -> Tensor:
    """Return queries or keys as complex numbers times e^(i m ω): Su et al. 2021, equation 34."""
    if not position.startswith("Rotary"):
        return x
    unit = torch.polar(torch.ones(()).double(), angles(x.shape[-2], x.shape[-1]))
    if "half" in position:
        first, second = x.chunk(2, -1)
        product = torch.complex(first, second) * unit
        return torch.cat([product.real, product.imag], -1)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * unit).flatten(-2)


def bias_of(position: str, weights: Weights, side: str, length: int) -> Tensor | float:
    """Return what is added to scores, `(heads, length, length)`, by the formulas of the three papers."""
    places = torch.arange(length)
    offset = places - places[:, None]  # of the key from the query
    far = offset.abs().double()
    if position.startswith("Alibi"):
        return -far * 2.0 ** -torch.arange(2, 10, 2).double()[:, None, None]
    if position.startswith("T5Bias"):  # 16 buckets for each direction, 8 of them exact, up to a distance of 128
        large = 8 + torch.floor(8 * torch.log(far.clamp(min=8) / 8) / torch.log(torch.tensor(16.0).double()))
        buckets = torch.where(far < 8, far, large).long() + 16 * (offset > 0)
        return weights[f"{side}.position.table"][buckets].permute(2, 0, 1)
    if position.startswith("Kerple"):
        r1, r2 = (weights[f"{side}.position.{name}"].clamp(min=0.01)[:, None, None] for name in ("r1", "r2"))
        return -r1 * torch.log1p(r2 * far)
    return 0.0


def curve(name: str, position: str) -> dict[str, object]:
    """Return the losses of a task with nine decimals, under Adam as in Vaswani et al. 2017, section 5.3."""
    task, recipe = TASKS[name](), Recipe()
    initial = model_of(task, parse(position)).initial(seed=recipe.seed)
    weights = {key: torch.from_numpy(array).double().requires_grad_() for key, array in initial.items()}
    adam, losses = torch.optim.Adam(weights.values(), betas=(0.9, 0.98), eps=1e-9), []
    for step, rate in enumerate(recipe.rates()[:STEPS].tolist()):
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        batch = (torch.from_numpy(each).long() for each in task.batch(recipe.size, seed=(recipe.seed, step)))
        loss = transformer(weights, position, *batch)
        loss.backward()
        adam.step()
        losses.append(round(loss.item(), 9))
    return {"task": name, "position": position, "losses": losses}


def main(check: bool) -> int:
    """Write the file, or compare it; return the exit status."""
    curves = [curve(*each) for each in CURVES]
    if check:
        before = json.loads(FILE.read_text(encoding="utf-8"))
        pairs = zip(curves, before, strict=True)
        return int(any(abs(x - y) > 1e-9 for a, b in pairs for x, y in zip(a["losses"], b["losses"], strict=True)))
    FILE.write_text("[\n" + ",\n".join(map(json.dumps, curves)) + "\n]\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
