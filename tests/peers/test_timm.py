"""The vision transformers of timm beside what `load_rope` makes of their configs.

timm's models ask for torchvision, which has no build for every torch: their arguments are read from the source, and
given to the rotary modules as `Eva` gives them.
"""

import ast
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc_backends.torch import RotaryEmbedding
from posenc_core import augment, draw_augmentation
from posenc_core.huggingface import load_rope
from posenc_core.huggingface.timm import timm_positions

from .importing import lone
from .patches import difference, learned_difference

timm = lone("timm.layers.pos_embed_sincos")
ROWS, COLUMNS = 5, 7
ROPE = {"rope_temperature": "temperature", "rope_grid_indexing": "grid_indexing", "rope_mrope_section": "mrope_section"}


def arguments_of_models():
    """Return the arguments of every model of `timm.models.eva`, by its name, from the source."""
    (folder,) = importlib.util.find_spec("timm").submodule_search_locations
    tree = ast.parse((Path(folder) / "models" / "eva.py").read_text(encoding="utf-8"))
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    shared = {one.name: constants(one.body[-1].value) for one in functions if one.name.endswith("_args")}
    found = {}
    for function in (one for one in functions if one.decorator_list):
        for statement in function.body:
            if isinstance(statement, ast.Assign) and statement.targets[0].id == "model_args":
                found[function.name] = shared.get(statement.value.func.id, {}) | constants(statement.value)
    return found


def constants(call):
    """Return the arguments of a call that are numbers, words or tuples."""
    named = [one for one in call.keywords if isinstance(one.value, ast.Constant | ast.Tuple)]
    return {one.arg: ast.literal_eval(one.value) for one in named}


MODELS = arguments_of_models()
TURNING = {name: one for name, one in MODELS.items() if one.get("use_rot_pos_emb")}
LEARNED = {name for name, one in TURNING.items() if one.get("rope_type") == "mixed"}


def module(arguments):
    """Return the module that `Eva` makes."""
    kind = arguments.get("rope_type", "cat")
    options = {"temperature": 10000.0} | {ROPE[name]: value for name, value in arguments.items() if name in ROPE}
    if kind in ("cat", "dinov3"):
        options["grid_offset"] = arguments.get("rope_grid_offset", 0.0)
    if kind == "cat":
        options |= {"in_pixels": False, "ref_feat_shape": arguments.get("ref_feat_shape")}
    options |= {"depth": 2} if kind == "mixed" else {}
    options["rotate_half"] = arguments.get("rope_rotate_half", False) or kind == "mrope"
    width, heads = arguments.get("embed_dim", 768), arguments.get("num_heads", 12)
    return timm.create_rope_embed(kind, dim=width, num_heads=heads, **options), options["rotate_half"]


def compare(config, arguments):
    rope, half = module(arguments)
    table = rope.get_embed((ROWS, COLUMNS))
    turn = timm.apply_rot_embed_cat
    assert difference(load_rope(config), config, table, turn, shape=(ROWS, COLUMNS), half=half) == ""


def test_models_are_found():
    assert len(TURNING) > 40
    assert len(LEARNED) == 6


@pytest.mark.parametrize("name", sorted(TURNING.keys() - LEARNED))
def test_an_architecture_is_known_by_its_name(name):
    compare({"architecture": name, "num_classes": 1000, "pretrained_cfg": {"tag": "in1k"}}, TURNING[name])


@pytest.mark.parametrize("name", sorted(TURNING.keys() - LEARNED)[::5])
def test_arguments_say_as_much_as_the_name(name):
    compare({"architecture": "eva_of_ones_own", "model_args": TURNING[name]}, TURNING[name])


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_learned_frequencies(name):
    config, (rope, _) = {"architecture": name}, module(TURNING[name])
    assert learned_difference(load_rope(config), config, rope, timm.apply_rot_embed_cat, shape=(ROWS, COLUMNS)) == ""


def learned():
    """Return an encoding, its config, and timm's module of two blocks."""
    config = {"architecture": "vit_small_patch16_rope_mixed_224"}
    return load_rope(config), config, module(TURNING["vit_small_patch16_rope_mixed_224"])[0]


def test_learned_frequencies_start_alike(monkeypatch):
    encoding, _, _ = learned()
    turns = torch.linspace(0, 0.99, 12).reshape(2, 6, 1)
    monkeypatch.setattr(timm.torch, "rand", lambda *_, **__: turns)
    wanted = timm.init_random_2d_freqs(64, 2, 6)
    start = encoding.parameters()["frequencies"].initial
    for block, turn in enumerate(turns.squeeze(-1)):
        normals = torch.stack([torch.cos(2 * math.pi * turn), torch.sin(2 * math.pi * turn)])
        ours = start(normals[..., None].repeat(1, 1, encoding.pairs))
        torch.testing.assert_close(ours, wanted[:, block], rtol=0, atol=2**-21)


def test_gradients_of_learned_frequencies_agree():
    encoding, config, rope = learned()
    generator = torch.Generator().manual_seed(0)
    q, weights = (torch.randn(2, 6, ROWS * COLUMNS, 64, generator=generator) for _ in "qw")
    positions = timm_positions(config, height=ROWS, width=COLUMNS)
    theirs = timm.apply_rot_embed_cat(q, rope.get_embed((ROWS, COLUMNS))[1])
    layer = RotaryEmbedding(encoding)
    layer.load_state_dict({"frequencies": rope.state_dict()["freqs"][:, 1]})
    ours = layer(q, positions=positions)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)
    for rotated in (ours, theirs):
        (rotated * weights).sum().backward()
    wanted = rope.freqs.grad
    assert wanted[:, 0].abs().max() == 0
    torch.testing.assert_close(layer.frequencies.grad, wanted[:, 1], rtol=0, atol=2e-6 * wanted.abs().max().item())


@pytest.mark.parametrize("name", sorted(MODELS.keys() - TURNING.keys()))
def test_the_others_do_not_rotate(name):
    assert load_rope({"architecture": name}) is None
    assert load_rope({"architecture": name, "model_args": MODELS[name] | {"use_rot_pos_emb": False}}) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"rope_type": "mrope", "rope_mrope_section": (8, 12, 12)},
        {"rope_type": "mrope", "embed_dim": 1152, "num_heads": 16, "rope_mrope_section": (12, 12, 12)},
        {"rope_type": "mrope", "rope_mrope_section": (20, 8, 4), "rope_temperature": 1000.0},
        {"rope_type": "dinov3", "rope_temperature": 50.0, "rope_grid_offset": 0.25, "rope_grid_indexing": "xy"},
        {"rope_type": "cat", "rope_rotate_half": True, "rope_grid_offset": 1.0, "ref_feat_shape": (3, 4)},
        {"rope_type": "cat", "rope_grid_indexing": "xy", "ref_feat_shape": (3, 4), "rope_grid_offset": 0.5},
    ],
    ids=str,
)
def test_arguments(arguments):
    arguments = {"use_rot_pos_emb": True, "embed_dim": 768, "num_heads": 12} | arguments
    compare({"architecture": "eva_of_ones_own", "model_args": arguments}, arguments)


@pytest.mark.parametrize("kind", ["axial", "dinov3"])
def test_naflexvit_names_its_arguments_otherwise(kind):
    """Without `rope_type` it has none; timm built axial RoPE for DINOv3 there until 2026."""
    model = {"architecture": "naflexvit_base_patch16_siglip"}
    assert load_rope(model) is None
    given = {"rope_type": kind} | ({"rope_ref_feat_shape": [16, 16]} if kind == "axial" else {})
    shape = {"ref_feat_shape": (16, 16)} if kind == "axial" else {}
    compare(model | {"model_args": given}, {"rope_type": "cat" if kind == "axial" else kind} | shape)


AUGMENTED = {"shift": 0.25, "jitter": 1.5, "rescale": 2.0}


def augmented_module(kind, **options):
    named = {f"{name}_coords": value for name, value in AUGMENTED.items()}
    return timm.create_rope_embed(kind, dim=768, num_heads=12, **named, **options).train()


@pytest.mark.parametrize(
    ("kind", "options", "arguments"),
    [
        ("dinov3", {"temperature": 100.0, "rotate_half": True}, {"rope_temperature": 100.0, "rope_rotate_half": True}),
        ("cat", {"temperature": 10000.0, "in_pixels": False}, {}),
        (
            "cat",
            {"temperature": 50.0, "in_pixels": False, "ref_feat_shape": (3, 4)},
            {"ref_feat_shape": (3, 4), "rope_temperature": 50.0},
        ),
    ],
)
def test_coordinates_are_augmented_as_in_training(kind, options, arguments, monkeypatch):
    """Its module draws our numbers: shifts, and logarithms of factors, in the order in which it asks for them."""
    drawn = draw_augmentation(2, seed=(5, 1), **AUGMENTED)
    numbers = [drawn.shift, np.log(drawn.jitter), np.log([drawn.rescale])]
    bounds = []

    def uniform(self, low, high):
        bounds.append((low, high))
        return self.copy_(torch.tensor(numbers.pop(0)))

    rope = augmented_module(kind, **options)
    monkeypatch.setattr(torch.Tensor, "uniform_", uniform)
    sin, cos = rope.get_embed((ROWS, COLUMNS)).chunk(2, dim=-1)
    monkeypatch.undo()
    expected = [0.25, math.log(1.5), math.log(2)]
    np.testing.assert_allclose(bounds, [(-bound, bound) for bound in expected], rtol=1e-15)
    model = {"use_rot_pos_emb": True, "embed_dim": 768, "num_heads": 12, "rope_type": kind} | arguments
    config = {"architecture": "eva_of_ones_own", "model_args": model}
    positions = augment(timm_positions(config, height=ROWS, width=COLUMNS), seed=(5, 1), **AUGMENTED)
    encoding = load_rope(config)
    columns = slice(encoding.pairs) if options.get("rotate_half") else slice(None, None, 2)
    largest = np.abs(positions).max() * encoding.frequencies().max()
    for ours, theirs in zip(encoding.cos_sin(positions), (cos, sin), strict=True):
        np.testing.assert_allclose(theirs[:, columns].numpy(), ours, atol=8 * largest * 2**-24)  # of float32 angles


def test_distributions_are_those_of_timm():
    """Two samples of 500 draws (Kolmogorov and Smirnov)."""
    torch.manual_seed(0)
    apply, ones = timm._apply_coord_augs, torch.ones(1, 2, dtype=torch.float64)
    for name, value in AUGMENTED.items():
        theirs = np.ravel([apply(ones, **{f"{name}_coords": value})[0, 0].item() for _ in range(500)])
        ours = np.ravel([augment([[1.0], [1.0]], seed=seed, **{name: value})[0, 0] for seed in range(500)])
        both = np.sort(np.concatenate([theirs, ours]))
        apart = [np.searchsorted(np.sort(one), both, side="right") / 500 for one in (theirs, ours)]
        assert np.abs(apart[0] - apart[1]).max() < 1.36 * math.sqrt(2 / 500), name
