"""Records: what may be said of a model about its rotation, and about what it does besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from ..._array_api.checks import shown
from ...encodings.rotary.base import Direction
from ...encodings.rotary.multimodal import Sections
from ...positions import After
from ...rotation import Layout, Placement
from ...tables.query_factors import Growth

T = TypeVar("T")


class LayerBase(NamedTuple):
    """The base of one layer type, in configs that are older than `rope_parameters`.

    Attributes:
        key: the key of the base; None for the usual keys, `BASES`.
        base: the default.
        scaled: whether `rope_scaling` applies to these layers.
        attention_factor: that of the scaling, for parameters without one.
    """

    key: str | None
    base: float
    scaled: bool
    attention_factor: float | None = None


SCHEMES = {
    "rope_local_base_freq": {
        "full_attention": LayerBase(None, 1_000_000, scaled=True),
        "sliding_attention": LayerBase("rope_local_base_freq", 10000, scaled=False),
    },
    "local_rope_theta": {
        "full_attention": LayerBase(None, 160_000, scaled=True),
        "sliding_attention": LayerBase("local_rope_theta", 10000, scaled=True),
    },
    "swa_rope_theta": {
        "full_attention": LayerBase(None, 5_000_000, scaled=True),
        "sliding_attention": LayerBase("swa_rope_theta", 10000, scaled=False),
    },
    "compress_rope_theta": {
        "main": LayerBase(None, 10000, scaled=False),
        "compress": LayerBase("compress_rope_theta", 160_000, scaled=True, attention_factor=1.0),
    },
    "olmo3": {
        "full_attention": LayerBase(None, 500_000, scaled=True),
        "sliding_attention": LayerBase(None, 500_000, scaled=False),
    },
}


class Prompt(NamedTuple):
    """How the positions of text, images and videos in one prompt are counted.

    Attributes:
        split: whether each frame of a video is a grid of its own, because text with its time is before it.
        shared: whether videos have the token of images, between a start and an end token.
        rate: the positions per second of videos, or their key.
        seconds_first: whether the number of a frame is multiplied by the seconds first, and rounded to float32, before
            it is multiplied by the rate.
        audio: the key of the seconds in a chunk of a video with its audio.
        merge: how many rows and columns of patches are merged, where no config has it.
        newlines: whether each row of an image ends with a token for a new line, and the axes are those of `indexed`.
        centered: whether there are images alone, whose grids count tokens, and the axes are those of `centered`.
        diagonal: whether the axes are those of `diagonal`.
        merged: the key of the number of frames that are merged.
        after: as in `multimodal`.
    """

    split: bool = False
    shared: bool = False
    rate: str | int | None = None
    seconds_first: bool = False
    audio: str | None = None
    merge: int | None = None
    newlines: bool = False
    centered: bool = False
    diagonal: bool = False
    merged: str | None = None
    after: After = "spatial"


class QueryFactor(NamedTuple):
    """The factor by which a model multiplies its queries.

    Attributes:
        length, scale: those of `QueryScale`, or their keys; the scale is None if there is none.
        growth: as in `QueryScale`.
        heads: the key of the number of heads, if the factor is a `LearnedQueryScale`.
        defaults: the values of keys that a config leaves out.
        flag: a key that turns the factor on or off, and its default.
        optional: whether a config without a length has no factor.
        layers: the layers that multiply queries, in words; None if all do.
    """

    length: str | int = ""
    scale: str | float | None = None
    growth: Growth = "steps"
    heads: str | None = None
    defaults: Mapping[str, Any] = {}
    flag: tuple[str, bool] | None = None
    optional: bool = False
    layers: Literal["without RoPE", "of type 'hybrid'"] | None = None


class Note(NamedTuple):
    """How the code of a model differs from a rotation of queries and keys by the positions of tokens.

    Attributes:
        sentence: says it.
        instead: whether it concerns the layers without RoPE, rather than those with it.
        flag: a key of the config that switches it off if False.
    """

    sentence: str
    instead: bool = False
    flag: str | None = None


class Pattern(NamedTuple):
    """The types of layers in a config without `layer_types`: of each `step` layers, one has the type `kind`.

    Attributes:
        step: the number of layers.
        key: the key of that number, whose default is `step`; None if it is fixed.
        first: the index of the first layer of this type; None for `step - 1`.
        kind, others: the two types.
        also: other indices of layers of this type, negative from the end.
        more: other types that one of each `step` layers has, and the index of the first.
        indices: a key that lists the layers of this type.
        unless: a key that makes the types others.
    """

    step: int
    key: str | None = None
    first: int | None = None
    kind: str = "full_attention"
    others: str = "sliding_attention"
    also: tuple[int, ...] = ()
    more: Mapping[str, int] = {}
    indices: str = ""
    unless: str = ""


class Indexer(NamedTuple):
    """The RoPE of the indexer of sparse attention, which selects keys for each query, where it is not the attention's.

    Attributes:
        layout, placement: as in `Rotary`.
        keys: the keys of the width of its heads, or paths of keys; the last that is given counts.
        head_dim: the default of that width; None if there is no indexer without the key.
        layer_type: the layers that have one; None for all.
        step: every so many layers select keys, as others do as the layer before.
    """

    layout: Layout = "half"
    placement: Placement = "lead"
    keys: tuple[str, ...] = ("index_head_dim",)
    head_dim: int | None = 128
    layer_type: str | None = None
    step: int = 1


class Quirks(NamedTuple):
    """Keys of a model's config that transformers reads otherwise than `load_rope` does.

    Attributes:
        elsewhere: whether the model is not in transformers, or another model within reads its config.
        reads: the keys of channels and bases that its code reads.
        key_for: the only key that is read outside of `rope_parameters` instead of the usual one.
        whole_dict: whether the default of `rope_parameters` stands, if there is none, against keys outside.
        loses_share: whether all channels are rotated if `rope_parameters` has no share.
        needs_share: whether the share is read, and no number of channels.
        needs_layer_types: whether `rope_parameters` is read by layer type alone.
        needs_base: whether the base is 10000 if `rope_parameters` has none.
        original_length: the original length, unless it stands at the top level.
        bases: the bases of layers, if they do not stand in `rope_parameters`.
        hub_keys: the translation in `hub_keys` of what only the code beside the weights reads.
    """

    elsewhere: bool = False
    reads: tuple[str, ...] = ()
    key_for: Mapping[str, str] = {}
    whole_dict: bool = False
    loses_share: bool = False
    needs_share: bool = False
    needs_layer_types: bool = False
    needs_base: bool = False
    original_length: int | None = None
    bases: Mapping[str, float] = {}
    hub_keys: str | None = None


class Model(NamedTuple):
    """The facts about a model that its config leaves out: defaults, layers that differ, and other uses of positions.

    Attributes:
        layout, placement, direction: as in `Rotary`.
        base: the base of the frequencies.
        share: the partial rotary factor.
        rotary_dim: the number of rotated channels; None if it is the share of the head.
        head_dim: the width of a head; None if it is the hidden size divided by the number of heads.
        head_key: the only key for the width of a head, if similar keys of the config mean something else.
        sections, arrangement: as in `MultimodalRotary`; or `"openpangu"`, see `sections.spread`.
        axes: the number of axes that take the pairs in turn, if the model has a row and a column for each token.
        interleaved_key: a key that is False if the channels of a pair are half the width apart.
        plain_types: the values of a `rope_type` beside the parameters that say what the code assumes.
        scheme: the entry of `SCHEMES` for configs without `rope_parameters`, if layer types have different bases.
        head_dims: pairs of a layer type and its width of a head, if layer types differ.
        layer_defaults: the defaults of the parameters of a layer type.
        rotary_layers: the layer types with RoPE, if others have none.
        pattern: the types of layers, for configs without `layer_types`.
        types_key: a key that has a number for each layer, and the layer type of each number.
        rope_of_type: the names under which `rope_parameters` has those of layer types, if others.
        no_rope_interval: the steps from one layer without RoPE to the next, unless a key says another; negative if they
            are counted back from the last layer.
        needs_parameters: whether the config must have RoPE parameters, as the model has a scaling or different layer
            types that no other key stands for.
        needs_base: whether the parameters of a layer type have no default base: transformers fails without it.
        position_embedding_type: the value of that key which turns RoPE on, if the model reads it.
        never: whether the model has no RoPE, although its config may have keys for it.
        refused: why the RoPE cannot be loaded, if the config has not the keys of the model's authors.
        prompt: how the positions of images and videos are counted; None if it is not known.
        query_factor: the factor of queries.
        indexer: the RoPE of the indexer of sparse attention.
        permuted: the part, if any, whose weights transformers permutes while it loads them: the file has pairs of
            neighbouring channels, the loaded model those of `layout`.
        squares_factor: whether the softmax scale is multiplied by the square of YaRN's factor (`yarn_apply_mscale`).
        note: another use of positions.
        quirks: what transformers reads otherwise.
    """

    layout: Layout = "half"
    placement: Placement = "lead"
    direction: Direction = "forward"
    base: float = 10000
    share: float = 1.0
    rotary_dim: int | None = None
    head_dim: int | None = None
    head_key: str | None = None
    sections: tuple[int, ...] = ()
    arrangement: Sections | Literal["openpangu"] = "chunked"
    axes: int = 1
    plain_types: tuple[str, ...] = ()
    interleaved_key: str | None = None
    scheme: str | None = None
    head_dims: Mapping[str, int] = {}
    layer_defaults: Mapping[str, Mapping[str, float]] = {}
    rotary_layers: tuple[str, ...] = ()
    pattern: Pattern | None = None
    types_key: tuple[str, Mapping[int, str]] | None = None
    rope_of_type: Mapping[str, str] = {}
    no_rope_interval: int | None = None
    needs_parameters: bool = False
    needs_base: bool = False
    position_embedding_type: str | None = None
    never: bool = False
    refused: str | None = None
    prompt: Prompt | None = None
    query_factor: QueryFactor | None = None
    indexer: Indexer | None = None
    permuted: Literal["text", "vision"] | None = None
    squares_factor: bool = False
    note: Note | None = None
    quirks: Quirks = Quirks()


_RECORDS: dict[str, Callable[..., Any]] = {
    "indexer": Indexer, "note": Note, "pattern": Pattern, "prompt": Prompt, "query_factor": QueryFactor,
    "quirks": Quirks,
}  # fmt: skip


def read_model(fields: Mapping[str, Any]) -> Model:
    """Return the record with these fields, as JSON has them."""
    records = {key: record(**_with_tuples(fields[key])) for key, record in _RECORDS.items() if key in fields}
    if "types_key" in fields:
        key, types = fields["types_key"]
        records["types_key"] = (key, {int(number): name for number, name in types.items()})
    return Model(**_with_tuples(fields) | records)


def _with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def by_model_type(table: Mapping[str, T]) -> dict[str, T]:
    """Return the facts by `model_type`, from a table by types that have the same facts, separated by spaces."""
    by_type: dict[str, T] = {}
    for names, facts in table.items():
        for name in names.split():
            if name in by_type:
                raise ValueError(f"`table` must have {shown(name)} once.")
            by_type[name] = facts
    return by_type
