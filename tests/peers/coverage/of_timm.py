"""Rows of timm: every rotary module of its layers, and every architecture of the files of models that mention one."""

import inspect
import re
import sys

import torch

from posenc_core import MixedRotary
from posenc_core.huggingface import load_rope

from ..importing import whole
from ..patches import difference, learned_difference
from .making import recorded
from .rows import STILL, Row, shown

timm = whole("timm", without="torchvision")
LAYERS = sys.modules["timm.layers.pos_embed_sincos"]
MENTIONS = re.compile(r"Rotary|[Rr]ope_|rot_pos")
MAKERS = re.compile(r"^(_?Rotary|Gemma4Rotary)")
SHAPE = (5, 7)  # of a model for images of any size
HOST = "naflexvit_base_patch16_siglip"  # a model that makes any rotary module, if its arguments say so
FIELDS = {  # arguments that make it
    "RotaryEmbedding": {"rope_type": "base"},
    "RotaryEmbeddingCat": {"rope_type": "axial", "rope_ref_feat_shape": (16, 16)},
    "RotaryEmbeddingDinoV3": {"rope_type": "dinov3", "rope_rotate_half": True},
    "RotaryEmbeddingMRope": {"rope_type": "mrope", "rope_mrope_section": (8, 12, 12)},
    "RotaryEmbeddingMixed": {"rope_type": "mixed"},
}
PACKAGES = ("timm", "torch")


def rows():
    """Yield a row for each class and each architecture."""
    for path, name in classes():
        yield row(path, name)


def classes():
    """Yield the module and the name of each rotary module, and of each architecture."""
    for name, one in vars(LAYERS).items():
        if inspect.isclass(one) and re.match("Rotary", name):
            yield LAYERS.__name__, name
    paths = {name: timm.models.model_entrypoint(name).__module__ for name in timm.list_models()}
    rotating = {path for path in {*paths.values()} if MENTIONS.search(inspect.getsource(sys.modules[path]))}
    yield from ((path, name) for name, path in paths.items() if path in rotating)


def classes_by_name():
    """Return the module of each row, by its folder and name."""
    return {(path.split(".")[-1], name): path for path, name in classes()}


def row(path, name):
    """Return the row of a rotary module, or of an architecture."""
    alone = path == LAYERS.__name__
    model, fields = HOST if alone else name, FIELDS.get(name, {})
    blank = Row(path.split(".")[-1], name, config=model, fields=fields, known=True)
    if alone and not fields:
        return blank._replace(note="No arguments of a model that make it are listed.")
    config = {"architecture": model, "model_args": fields}
    try:
        encoding = load_rope(config)
    except (TypeError, ValueError) as error:
        return blank._replace(verdict="refused", note=str(error), known="is not known" not in str(error))
    owner = sys.modules[path] if hasattr(sys.modules[path], "Gemma4RotaryEmbedding2D") else LAYERS
    try:
        with recorded(owner, MAKERS) as made, torch.device("meta"):  # without the memory that the weights would need
            built = timm.create_model(model, **fields).eval()
    except Exception as error:  # noqa: BLE001  # whatever their code raises is the reason
        return blank._replace(note=f"{type(error).__name__}: {error}")
    if encoding is None:
        return blank._replace(verdict="disagrees", note=f"it makes {made}") if made else blank._replace(**STILL)
    if len(made) != 1 or (alone and made[0][0] != name):
        where = f"it makes {made}"
    else:
        where = (_difference if owner is LAYERS else _gemma_difference)(encoding, config, built, *made[0])
    return blank._replace(verdict="disagrees" if where else "agrees", note=where, ours={"": shown(encoding)})


def _difference(encoding, config, model, maker, arguments):
    """Return where the rotary module that a model has made, and its attention, differ from the encoding."""
    rope = getattr(LAYERS, maker)(**arguments).eval()
    (half,) = {one.rotate_half for one in model.modules() if hasattr(one, "rotate_half") and hasattr(one, "num_heads")}
    shape = arguments.get("feat_shape") or SHAPE
    if isinstance(encoding, MixedRotary):
        return learned_difference(encoding, config, rope, LAYERS.apply_rot_embed_cat, shape=shape)
    table = rope.get_embed(shape)
    return difference(encoding, config, table, LAYERS.apply_rot_embed_cat, shape=shape, half=half)


def _gemma_difference(encoding, config, model, maker, arguments):
    """Return where the rotary module of Gemma 4, of columns and rows in two blocks, and its rotation differ."""
    owner = sys.modules["timm.models.gemma4_vit"]
    places, _ = owner.Gemma4PatchEmbed._default_patch_coord(None, 1, *SHAPE, "cpu")
    cos, sin = getattr(owner, maker)(**arguments)(torch.zeros(1), places.flip(-1))
    pairs = [one[0].unflatten(-1, (2, 2, -1))[:, :, 0].flatten(1).repeat_interleave(2, -1) for one in (sin, cos)]

    def turn(x, table, half):
        return owner.apply_multidimensional_rope(x.transpose(1, 2), cos, sin).transpose(1, 2)

    return difference(encoding, config, torch.cat(pairs, -1), turn, shape=SHAPE, half=False)
