"""Train short, test long: measure each encoding on sequences up to four times as long as in training.

    python experiments/length_extrapolation.py [--steps N] [--seeds N] [--only NAME …] [-o RESULTS.json]
    python experiments/length_extrapolation.py --encoding "mine:Window(num_heads=4)" -o RESULTS.json
    python experiments/length_extrapolation.py --draw RESULTS.json PICTURE.png

A causal stack of two blocks, built from the functions of `posenc_core.transformer`, answers at each of its random
tokens:

* `shift`: which token is five positions before? The model has to count positions, whatever the tokens are.
* `recall`: which token followed the last occurrence of this one? The model has to find a token, and then its neighbour.

It is trained on sequences of up to 20 tokens, and tested on sequences of up to 80, at their last ten tokens. Scalings
are not used in training: they are applied to the RoPE of the trained model, which is how the context of a model is
extended; so are remapped positions and LogN, the factor of queries. `NTKAlpha(alpha=4)` is the same as `NTK(factor=4)`;
the factors of `LongRoPE` would need a search; `Proportional` does not extend the context; `MixedRotary` mixes the axes
of images. With `--only`, the file keeps its other results. `--encoding` trains with encodings of your own, each after
its module or file: additive ones need `dim=64`, others `head_dim=16` or `num_heads=4`. Needs
`pip install ".[jax,plots,report]"`.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax import numpy as jnp
from jax.example_libraries import optimizers
from rich.progress import track

import posenc_backends.jax  # noqa: F401 - registers the arrays of JAX
from posenc_backends.cli.modules import read_encoding
from posenc_core import (
    NTK,
    Alibi,
    Binary,
    DualChunk,
    DynamicNTK,
    DynamicPositionBias,
    Fire,
    FoPE,
    ForgettingBias,
    Integer,
    Kerple,
    LeakyReRoPE,
    Learned,
    Linear,
    Llama3,
    Normalized,
    Placed,
    PoPE,
    QueryScale,
    ReRoPE,
    Rotary,
    Sandwich,
    SelfExtend,
    Sine,
    Sinusoidal,
    T5Bias,
    XPos,
    YaRN,
)
from posenc_core.analysis.plots import STYLE
from posenc_core.attention.masks import causal
from posenc_core.encodings import Encoding
from posenc_core.transformer.model import (
    Transformer,
    attention_position,
    embed,
    feed_forward,
    logsumexp,
    position_array,
    project,
    self_attention,
    take_rows,
    with_prefix,
)

TOKENS, WIDTH, HEADS = 16, 64, 4  # token 0 is padding and is never drawn
TRAINED, LENGTHS, LAST = 20, (8, 12, 16, 20, 24, 30, 40, 50, 60, 70, 80), 10
BATCH, RATE, WARMUP, TESTED = 32, 1e-3, 100, 100
DISTANCE = 5
WINDOW = TRAINED // 2  # up to which remapped positions keep their distances

Host = npt.NDArray[Any]
Weights = dict[str, Any]


class Examples(NamedTuple):
    """Tokens, the correct answers, and 1 where there is an answer, else 0: `(batch, length)` each."""

    tokens: Host
    answers: Host
    counts: Host


def shift(numbers: np.random.RandomState, batch: int, length: int) -> Examples:
    """Ask for the token five positions before."""
    tokens = numbers.randint(1, TOKENS, (batch, length))
    answers = np.concatenate([np.zeros((batch, DISTANCE), int), tokens], axis=1)[:, :length]
    return Examples(tokens, answers, (answers > 0).astype(np.float32))


def recall(numbers: np.random.RandomState, batch: int, length: int) -> Examples:
    """Ask for the token that followed the last occurrence of this one."""
    tokens = numbers.randint(1, TOKENS, (batch, length))
    rows, after, answers = np.arange(batch), np.zeros((batch, TOKENS), int), np.zeros_like(tokens)
    for position in range(length):
        if position:
            after[rows, tokens[:, position - 1]] = tokens[:, position]
        answers[:, position] = after[rows, tokens[:, position]]
    return Examples(tokens, answers, (answers > 0).astype(np.float32))


TASKS = {"shift": shift, "recall": recall}


def encodings() -> dict[str, Encoding | None]:
    """Return the encodings that are trained, by name; all of them allow sequences of up to 80 tokens."""
    longest = max(LENGTHS)
    return {
        "none": None,
        "integer": Integer(dim=WIDTH),
        "normalized": Normalized(dim=WIDTH, length=longest),
        "binary": Binary(dim=WIDTH),
        "sine": Sine(dim=WIDTH, frequencies="powers_of_two"),
        "sinusoidal": Sinusoidal(dim=WIDTH),
        "learned": Learned(dim=WIDTH, length=longest),
        "rotary": rotary(),
        "xPos": XPos(head_dim=WIDTH // HEADS, layout="half", scale_base=TRAINED),
        "FoPE": FoPE(
            head_dim=WIDTH // HEADS, layout="half", length=TRAINED, num_heads=HEADS, std=0.21
        ),  # Xavier, gain 0.3
        "PoPE": PoPE(head_dim=WIDTH // HEADS, num_heads=HEADS),
        "ALiBi": Alibi(num_heads=HEADS),
        "T5": T5Bias(num_heads=HEADS, sides="past"),
        "KERPLE": Kerple(num_heads=HEADS),
        "FIRE": Fire(num_heads=HEADS),
        "Sandwich": Sandwich(num_heads=HEADS, max_distance=longest),
        "dynamic": DynamicPositionBias(num_heads=HEADS, hidden=WIDTH // 4, log_distance=True),
        "FoX": ForgettingBias(num_heads=HEADS, head_dim=WIDTH // HEADS),
    }


def rotary(**options: Any) -> Rotary:
    """Return the RoPE of a head."""
    return Rotary(head_dim=WIDTH // HEADS, layout="half", **options)


def scalings() -> dict[str, Rotary]:
    """Return RoPE with each scaling, for four times the length."""
    factor = max(LENGTHS) / TRAINED
    scales = {
        "Linear": Linear(factor=factor),
        "NTK": NTK(factor=factor),
        "DynamicNTK": DynamicNTK(factor=factor, original_max_position_embeddings=TRAINED),
        "YaRN": YaRN(factor=factor, original_max_position_embeddings=TRAINED),
        "Llama3": Llama3(
            factor=factor, low_freq_factor=1, high_freq_factor=4, original_max_position_embeddings=TRAINED
        ),
    }
    return {f"rotary, {name}": rotary(scaling=scaling) for name, scaling in scales.items()}


class Extension(NamedTuple):
    """How attention extends the context of a trained RoPE, other than by its frequencies."""

    encoding: Rotary | SelfExtend | ReRoPE | LeakyReRoPE | DualChunk
    query_scale: QueryScale | None = None


def extensions() -> dict[str, Extension]:
    """Return remapped positions whose distances stay below those of training in 80 tokens, and LogN."""
    slower = 8  # 10 + 70 / 8 < 20
    logarithmic = QueryScale(length=TRAINED, growth="log")
    return {
        "rotary, SelfExtend": Extension(SelfExtend(rotary=rotary(), window=WINDOW, group_size=slower)),
        "rotary, ReRoPE": Extension(ReRoPE(rotary=rotary(), window=WINDOW)),
        "rotary, LeakyReRoPE": Extension(LeakyReRoPE(rotary=rotary(), window=WINDOW, factor=slower)),
        "rotary, DualChunk": Extension(DualChunk(rotary=rotary(), chunk_size=TRAINED - 1, local_size=WINDOW)),
        "rotary, LogN": Extension(rotary(), logarithmic),
    }


def model_of(position: Encoding | None) -> Transformer:
    """Return a model for sequences of up to 80 tokens."""
    return Transformer(vocabulary=TOKENS, max_len=max(LENGTHS), position=position, num_hiddens=WIDTH, num_heads=HEADS)


def answers(model: Transformer, weights: Weights, tokens: Any, extension: Extension | None = None) -> Any:
    """Compute the logits at each token: `(batch, length) -> (batch, length, TOKENS)`."""
    positions = range(tokens.shape[1])
    if extension is None:
        position = attention_position(model, weights, "encoder", positions, positions)
    else:
        position = Placed(extension.encoding, positions, positions, query_scale=extension.query_scale)
    visible = causal(position_array(positions, tokens), position_array(positions, tokens))
    x = embed(model, weights, "encoder", tokens, positions)
    for block in range(model.num_blocks):
        part = with_prefix(weights, f"encoder.{block}")
        x, _ = self_attention(model, with_prefix(part, "attention"), x, position, visible)
        x = feed_forward(with_prefix(part, "feed_forward"), x)
    return project(x, weights["embedding"].T)


def loss(model: Transformer, learned: Weights, constants: Weights, examples: Examples) -> Any:
    """Compute the mean cross-entropy of the correct answers, in nats."""
    logits = answers(model, learned | constants, examples.tokens)
    right = jnp.sum(logits * take_rows(constants["labels"], examples.answers), axis=-1)
    return jnp.sum((logsumexp(logits)[..., 0] - right) * examples.counts) / jnp.sum(examples.counts)


def train(
    model: Transformer,
    task: Callable[..., Examples],
    seeds: int,
    steps: int,
    label: str,
    *,
    longest: int = TRAINED,
    weights: Weights | None = None,
) -> Weights:
    """Train one model per seed, all at once, and return their weights; the first axis of each array is the seed."""
    start, update, current = optimizers.adam(lambda step: RATE * schedule(step, steps))
    if weights is None:
        initial = [model.initial(seed=seed) for seed in range(seeds)]
        weights = {name: np.stack([one[name] for one in initial]) for name in initial[0]}
    state = jax.vmap(start)(weights)

    @jax.jit
    def train_step(step: Any, state: Any, constants: Weights, examples: Examples) -> Any:
        def one(state: Any, constants: Weights, examples: Examples) -> Any:
            gradient = jax.grad(partial(loss, model))(current(state), constants, examples)
            return update(step, gradient, state)

        return jax.vmap(one, in_axes=(0, None, 0))(state, constants, examples)

    draws = [np.random.RandomState(1000 + seed) for seed in range(seeds)]
    for step in track(range(steps), label):
        length = 1 + step % longest if isinstance(model.position, Normalized) else longest
        length = max(length, DISTANCE + 1)
        drawn = [pad(task(numbers, BATCH, length), longest) for numbers in draws]
        examples = Examples(*(np.stack(parts) for parts in zip(*drawn, strict=True)))
        state = train_step(step, state, constants_of(model.position, length), examples)
    return jax.vmap(current)(state)


def schedule(step: Any, steps: int) -> Any:
    """Return the learning rate divided by its maximum: warm up, then decay linearly."""
    return jnp.minimum(1, (step + 1) / WARMUP) * jnp.maximum(0.02, 1 - step / steps)


def pad(examples: Examples, length: int) -> Examples:
    """Return examples with padding at the end, which does not count, so that all lengths share one program."""
    widths = ((0, 0), (0, length - examples.tokens.shape[1]))
    return Examples(*(np.pad(part, widths) for part in examples))


@cache
def constants_of(position: Encoding | None, length: int) -> Weights:
    """Return the constants; normalized positions are divided by this length, and their rows after it are zeros."""
    constants: Weights = model_of(position).constants()
    if isinstance(position, Normalized):
        rows = replace(position, length=length).table(range(length))
        constants["position.table"] = np.pad(rows, ((0, max(LENGTHS) - length), (0, 0)))
    return constants


def accuracies(
    forward: Callable[..., Any], position: Encoding | None, weights: Weights, task: Callable[..., Examples]
) -> Iterator[list[float]]:
    """Yield for each length the share of correct answers at the last tokens, one for each seed."""
    for length in LENGTHS:
        examples = pad(task(np.random.RandomState(length), TESTED, length), max(LENGTHS))
        at = position.at(length) if isinstance(position, Rotary) else position
        logits = forward(weights, constants_of(at, length), examples.tokens)
        correct = np.argmax(logits, axis=-1) == examples.answers
        counts = examples.counts * (np.arange(max(LENGTHS)) >= length - LAST)
        yield [round(float(part), 4) for part in (correct * counts).sum((1, 2)) / counts.sum()]


def compiled(model: Transformer, extension: Extension | None = None) -> Callable[..., Any]:
    """Return `answers`, compiled, for the weights of all seeds and any constants."""

    def forward(learned: Weights, constants: Weights, tokens: Any) -> Any:
        return answers(model, learned | constants, tokens, extension)

    return jax.jit(jax.vmap(forward, in_axes=(0, None, None)))


def results(steps: int, seeds: int, positions: Mapping[str, Encoding | None]) -> Iterator[dict[str, Any]]:
    """Yield the accuracy of every encoding, by task and length."""
    for label, task in TASKS.items():
        for name, position in positions.items():
            model = model_of(position)
            weights = train(model, task, seeds, steps, f"{label}: {name}")
            forward = compiled(model)
            is_rotary = name == "rotary"
            for shown, encoding in ({name: position} | (scalings() if is_rotary else {})).items():
                found = list(accuracies(forward, encoding, weights, task))
                yield {"task": label, "encoding": shown, "value": repr(encoding), "accuracy": found}
            for shown, extension in (extensions() if is_rotary else {}).items():
                found = list(accuracies(compiled(model, extension), position, weights, task))
                value = ", ".join(repr(part) for part in extension if part is not None)
                yield {"task": label, "encoding": shown, "value": value, "accuracy": found}


def draw(path: Path, picture: Path) -> None:
    """Draw the mean accuracy by length with the range of the seeds, a panel for each task and type of encoding."""
    from matplotlib import pyplot

    pyplot.style.use(STYLE)
    record = json.loads(path.read_text(encoding="utf-8"))
    measured = {(result["task"], result["encoding"]): result["accuracy"] for result in record["results"]}
    groups: dict[str, Iterable[str]] = {
        "added to tokens": ("none", "integer", "normalized", "binary", "sine", "sinusoidal", "learned"),
        "rotary and scalings": ("rotary", *scalings()),
        "rotary and remappings": ("rotary", *extensions()),
        "rotary and its variants": ("rotary", "xPos", "FoPE", "PoPE"),
        "added to scores": ("ALiBi", "T5", "KERPLE", "FIRE", "Sandwich", "dynamic", "FoX"),
    }
    drawn = {name for names in groups.values() for name in names}
    groups["others"] = sorted({name for _, name in measured if name not in drawn})
    groups = {group: names for group, names in groups.items() if any(("shift", name) in measured for name in names)}
    size = {"figsize": (max(3 * len(groups), 8), 7.5), "squeeze": False}
    figure, panels = pyplot.subplots(2, len(groups), **size, sharex=True, sharey=True, layout="constrained")
    for row, task in zip(panels, TASKS, strict=True):
        for panel, (group, names) in zip(row, groups.items(), strict=True):
            for name, marker in zip(names, cycle("o^sDvPX"), strict=False):
                if (found := measured.get((task, name))) is None:
                    continue
                means = np.mean(found, axis=1)
                (line,) = panel.plot(record["lengths"], means, marker=marker, markersize=4, label=name)
                panel.fill_between(
                    record["lengths"], np.min(found, axis=1), np.max(found, axis=1), color=line.get_color(), alpha=0.15
                )
            panel.axvline(record["trained"], color="gray", linestyle=":")
            panel.set_title(f"{task}: {group}")
    for panel in panels[-1]:
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    figure.supxlabel("length of the test sequences (trained on up to 20, the dotted line)")
    figure.supylabel("correct answers at the last ten tokens")
    figure.savefig(picture, dpi=110)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=(), choices=encodings(), metavar="NAME")
    parser.add_argument("--encoding", nargs="+", default=(), metavar="ENCODING")
    parser.add_argument("--draw", nargs=2, type=Path, metavar=("RESULTS", "PICTURE"))
    parser.add_argument(
        "-o", "--out", type=Path, default=Path(__file__).parent / "results" / "length_extrapolation.json"
    )
    options = parser.parse_args()
    if options.draw:
        draw(*options.draw)
        return
    chosen = {name: encodings()[name] for name in options.only}
    try:
        chosen |= {repr(own): own for own in map(read_encoding, options.encoding)}
    except (ImportError, TypeError, ValueError) as error:
        parser.error(str(error))
    found = list(results(options.steps, options.seeds, chosen or encodings()))
    if chosen:
        measured = {(result["task"], result["encoding"]) for result in found}
        before = json.loads(options.out.read_text(encoding="utf-8"))["results"] if options.out.exists() else []
        found += [result for result in before if (result["task"], result["encoding"]) not in measured]
    record = {
        "command": f"python experiments/length_extrapolation.py --steps {options.steps} --seeds {options.seeds}",
        "versions": {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__},
        "trained": TRAINED,
        "lengths": LENGTHS,
        "results": found,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
