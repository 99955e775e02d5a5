"""Facts about scoring encodings: the kinds of statement, and how each takes its sizes from a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from ..._array_api.checks import shown
from ...attention.bias import Sides
from ...encodings import (
    Alibi,
    DebertaBias,
    DecomposedBias,
    RelativeLogits,
    ShawBias,
    SwinBias,
    SwinV2Bias,
    T5Bias,
    TransformerXLBias,
)
from ...encodings.scoring.deberta import Terms
from .kinds import Config, Found, Size, count_patches, size, sizes

DIVIDED = "slopes are rounded to bfloat16, and the bias is divided by the root of the width of a head"
UNLIMITED = 8192  # stands for the largest distance where the model has none


def split_heads(config: Config, heads: Size, dim: Size) -> tuple[int, int]:
    """Return the number of heads, and the width of each.

    Raises:
        ValueError: if the heads do not divide the width of the model.
    """
    count, width = size(config, heads), size(config, dim)
    if width % count:
        raise ValueError(f"`{dim}` {width} must be a multiple of `{heads}` {count}.")
    return count, width // count


class Buckets(NamedTuple):
    """T5's bias by buckets of distances."""

    sides: Sides = "both"
    heads: Size = "num_heads"
    buckets: Size = ("relative_attention_num_buckets", 32)
    distance: Size = ("relative_attention_max_distance", 128)
    name: str = "self-attention"

    def read(self, config: Config) -> Found:
        keys = {"num_heads": self.heads, "num_buckets": self.buckets, "max_distance": self.distance}
        bias = T5Bias(**{name: size(config, key) for name, key in keys.items()}, sides=self.sides)
        return {"scoring": ((self.name, bias),)}


class Slopes(NamedTuple):
    """ALiBi."""

    heads: Size
    max_bias: Size = 8

    def read(self, config: Config) -> Found:
        bias = Alibi(num_heads=size(config, self.heads), max_bias=size(config, self.max_bias))
        return {"scoring": (("self-attention", bias),)}


class Offsets(NamedTuple):
    """A learned vector for each offset, of Shaw et al., for keys alone or for keys and values.

    Attributes:
        distance: the largest offset with a vector of its own, less `more`.
        width: the width of a head; None if it is `dim` divided by the number of heads.
        per_head: whether each head has vectors of its own.
    """

    distance: Size
    heads: Size = "num_attention_heads"
    dim: Size = "hidden_size"
    width: Size | None = None
    more: int = 0
    values: bool = False
    per_head: bool = False

    def read(self, config: Config) -> Found:
        width = split_heads(config, self.heads, self.dim)[1] if self.width is None else size(config, self.width)
        bias = ShawBias(
            num_heads=size(config, self.heads),
            head_dim=width,
            max_distance=size(config, self.distance) + self.more,
            applies_to="both" if self.values else "keys",
            per_head=self.per_head,
        )
        return {"scoring": (("self-attention", bias),)}


class Shifted(NamedTuple):
    """Transformer-XL's terms, by a relative shift.

    Attributes:
        distance: the largest distance; None if the model has none.
        interleaved: whether the columns of R alternate between sine and cosine, as in conformers.
        width: the width of a head; None if it is `dim` divided by the number of heads.
    """

    distance: Size | None = None
    heads: Size = "num_attention_heads"
    dim: Size = "hidden_size"
    interleaved: bool = True
    width: Size | None = None

    def read(self, config: Config) -> Found:
        sizes = {"num_heads": size(config, self.heads)}
        if self.width is None:
            sizes["head_dim"] = split_heads(config, self.heads, self.dim)[1]
        else:
            sizes |= {"head_dim": size(config, self.width), "dim": size(config, self.dim)}
        distance = UNLIMITED if self.distance is None else size(config, self.distance)
        bias = TransformerXLBias(**sizes, max_distance=distance)
        order = "R alternates between sine and cosine: exchange the rows of W_r when it is loaded"
        unlimited = f"the model has no largest distance: {UNLIMITED} stands for it"
        notes = (order,) * self.interleaved + (unlimited,) * (self.distance is None)
        return {"scoring": (("self-attention", bias),), "notes": notes}


class Windows(NamedTuple):
    """Swin's tables, one for each stage."""

    window: Size = "window_size"
    heads: str = "num_heads"

    def read(self, config: Config) -> Found:
        side = size(config, self.window)
        return {
            "scoring": tuple(
                (f"stage {stage}", SwinBias(num_heads=heads, window=(side, side)))
                for stage, heads in enumerate(sizes(config, self.heads), start=1)
            )
        }


class ShrinkingWindows(NamedTuple):
    """LeViT's tables: the window of a stage is its whole map, of which the next stage has every second row and column.

    Between two stages, the queries are those of the next.
    """

    def read(self, config: Config) -> Found:
        side, found = count_patches(config)[0], []
        stages = sizes(config, "num_attention_heads")
        between = [width // sizes(config, "key_dim")[0] for width in sizes(config, "hidden_sizes", len(stages))[:-1]]
        for stage, heads in enumerate(stages):
            names = {f"stage {stage + 1}": heads}
            names |= {f"stage {stage + 1} to {stage + 2}": one for one in between[stage : stage + 1]}
            found += [(name, SwinBias(num_heads=one, window=(side, side))) for name, one in names.items()]
            side = (side + 1) // 2
        return {"scoring": tuple(found)}


class Curves(NamedTuple):
    """Learned logits of each token by the distance.

    Attributes:
        distance: the first distance without a number.
        curves: the numbers of each token and head.
    """

    distance: Size
    curves: Size
    heads: Size = "num_attention_heads"
    name: str = "self-attention"

    def read(self, config: Config) -> Found:
        heads, width = split_heads(config, self.heads, "hidden_size")
        fields = {"max_distance": size(config, self.distance), "num_curves": size(config, self.curves)}
        return {"scoring": ((self.name, RelativeLogits(num_heads=heads, head_dim=width, **fields)),)}


class LogarithmicWindows(NamedTuple):
    """Swin v2's perceptrons, one for each stage, whose window is at most its feature map.

    Attributes:
        halved: whether each stage has half the rows and columns of the stage before.
    """

    halved: bool = True

    def read(self, config: Config) -> Found:
        side, heads = size(config, "window_size"), sizes(config, "num_heads")
        trained = config.get("pretrained_window_sizes") or (0,) * len(heads)
        found = []
        for stage, (count, own) in enumerate(zip(heads, trained, strict=True)):
            height, width = (min(side, max(cells >> stage * self.halved, 1)) for cells in count_patches(config))
            bias = SwinV2Bias(num_heads=count, window=(height, width), trained_window=(own, own) if own else None)
            found.append((f"stage {stage + 1}", bias))
        return {"scoring": tuple(found)}


class RowsAndColumns(NamedTuple):
    """Decomposed relative positions of ViTDet, in layers that attend to the whole image and in those with windows.

    Attributes:
        layers: the key of the layers of one of the two kinds, by their indices; without it, there are no windows.
    """

    layers: str | None = "global_attn_indexes"

    def read(self, config: Config) -> Found:
        heads, width = split_heads(config, "num_attention_heads", "hidden_size")
        windows = {"whole images": count_patches(config)}
        if self.layers is not None and config.get("window_size") != 0:
            windows["windows"] = (size(config, "window_size"),) * 2
        scoring = tuple(
            (f"layers with {name}", DecomposedBias(num_heads=heads, head_dim=width, window=window))
            for name, window in windows.items()
        )
        return {"scoring": scoring, "notes": (f"`{self.layers}` lists the layers of one kind",) * (len(scoring) - 1)}


class Disentangled(NamedTuple):
    """Disentangled attention of DeBERTa.

    Attributes:
        buckets: whether the model reads `position_buckets`.
        defaults: the values of keys that a config leaves out.
    """

    buckets: bool = True
    defaults: Mapping[str, Any] = {}

    def read(self, config: Config) -> Found:
        config = {**self.defaults, **config}
        types = config.get("pos_att_type") or ()
        if not isinstance(types, str | list | tuple):
            raise TypeError(f"`pos_att_type` must be a list of 'c2p' and 'p2c', got {shown(types)}.")
        terms: list[Terms] = [term for term in get_args(Terms)[1:] if term in types]
        if not terms:
            return {"notes": ("no relative positions: `pos_att_type` has neither 'c2p' nor 'p2c'",)}
        heads, width = split_heads(config, "num_attention_heads", "hidden_size")
        unlimited = config.get("max_relative_positions", -1) in (-1, None)
        unbucketed = not self.buckets or config.get("position_buckets", -1) in (-1, 0, None)
        bias = DebertaBias(
            num_heads=heads,
            head_dim=width,
            max_distance=size(config, "max_position_embeddings" if unlimited else "max_relative_positions"),
            num_buckets=None if unbucketed else size(config, "position_buckets"),
            terms="both" if len(terms) > 1 else terms[0],
        )
        return {"scoring": (("self-attention", bias),)}


class PatchWindow(NamedTuple):
    """BEiT's table: the window is the whole image, after a class token."""

    note: str

    def read(self, config: Config) -> Found:
        heads = size(config, "num_attention_heads")
        bias = SwinBias(num_heads=heads, window=count_patches(config), prefix_tokens=1)
        return {"scoring": (("self-attention", bias),), "notes": (self.note,)}
