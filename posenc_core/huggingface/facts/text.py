"""Facts about text models, by `model_type`: their positional encodings other than RoPE, which is in `models`.

Source: the code of the models in transformers 5.23.
"""

from __future__ import annotations

from .kinds import (
    Config,
    CosinesFirst,
    Factor,
    Facts,
    FourAxes,
    If,
    Lack,
    Note,
    Part,
    Periods,
    Rope,
    Rows,
    Sines,
    Table,
    both_parts,
    size,
)
from .records import by_model_type
from .scores import DIVIDED, Buckets, Curves, Disentangled, Shifted, Slopes

_INPUT = If("position_biased_input", (True,), Rows(), default=True)
_BOXES = tuple(Rows("max_2d_position_embeddings", name=f"{what} of a box") for what in ("x", "y", "height", "width"))
_WIDTHS = ("coordinate_size", "coordinate_size", "shape_size", "shape_size")
NARROW_BOXES = tuple(rows._replace(dim=width) for rows, width in zip(_BOXES, _WIDTHS, strict=True))
_LAYOUT_BIAS = (
    If(
        "has_relative_attention_bias", (True,),
        Buckets("both", "num_attention_heads", "rel_pos_bins", "max_rel_pos", "tokens"), default=True,
    ),
    If(
        "has_spatial_attention_bias", (True,),
        (
            Buckets("both", "num_attention_heads", "rel_2d_pos_bins", "max_rel_2d_pos", "left edges of boxes"),
            Buckets("both", "num_attention_heads", "rel_2d_pos_bins", "max_rel_2d_pos", "lower edges of boxes"),
        ),
        default=True,
    ),
)  # fmt: skip
_SINUSOIDAL = Sines("interleaved", dim="emb_dim")
_PADDED = Rows(offset="padding")
_AFTER_PADDING = Sines("tensor2tensor", dim="d_model", start="padding")
_SERIES = (
    Part("encoder", Sines("concatenated", dim="d_model")),
    Part("decoder", (Sines("concatenated", dim="d_model"), Note("the first value has the position `context_length`"))),
)
_STANDARDIZED = Note(
    "the rows come with a checkpoint and are not trained: sines and cosines in turn less their mean, divided by 10 "
    "standard deviations"
)
_T5 = (
    Part("encoder", (Buckets("both"), Note("all layers have the bias of the first"))),
    Part("decoder", (Buckets("past"), Note("cross-attention has no bias; all layers have that of the first"))),
)


def _count_time_patches(config: Config) -> int:
    """Return the number of patches of a time series, after a class token if there is one."""
    length, patch = size(config, ("context_length", 32)), size(config, ("patch_length", 1))
    return (max(length, patch) - patch) // size(config, ("patch_stride", 1)) + 1 + bool(config.get("use_cls_token"))


_TABLE: dict[str, Facts] = {
    "falcon_mamba jamba mamba mamba2 rwkv xlstm zamba": Note(
        "no positional encoding: layers that read one token after the other tell the order"
    ),
    "glm5_next_text moshi_depth": Note("no positional encoding: only causal attention tells the order"),
    "perceiver": Lack(
        "the encoding of the inputs, Fourier features or learned rows, which the preprocessor in the code chooses",
        None,
    ),
    # Learned rows, from position 0 on.
    """
        align_text_model bert bert-generation big_bird blip_text_model canine chinese_clip_text_model clvp_decoder
        convbert dpr ernie flava_text_model fnet gpt_neo instructblip_qformer instructblipvideo_qformer
        megatron-bert mobilebert owlvit_text_model owlv2_text_model aimv2_text_model clip_text_model clipseg_text_model
        groupvit_text_model metaclip_2_text_model siglip_text_model siglip2_text_model xclip_text_model roc_bert
        sam3_lite_text_text_model splinter
    """: Rows(),
    "albert electra squeezebert": Rows(dim="embedding_size"),
    "rembert": Rows(dim="input_embedding_size"),
    "gpt2 gpt-sw3 gpt_bigcode imagegpt openai-gpt": Rows("n_positions", "n_embd"),
    "coarse_acoustics fine_acoustics semantic": Rows("block_size"),
    "distilbert": Rows(dim="dim"),
    "flaubert xlm": If("sinusoidal_embeddings", (True,), _SINUSOIDAL, Rows(dim="emb_dim")),
    "tapas": (
        Rows(),
        Note("positions start again in each cell of a table unless `reset_position_index_per_cell` is False"),
    ),
    "visual_bert": (Rows(), Rows(name="image features")),
    "lxmert": (Rows(), Note("boxes of image regions are projected as they are")),
    "bros": (Rows(), Lack("scores by sinusoids of the offsets of boxes, projected", "ProjectedSinusoidBias")),
    "mra nystromformer yoso": Rows(offset=2, more=2),
    "decision_transformer": (
        Rows("max_ep_len", name="time steps"),
        Rows("n_positions"),
        Note("positions of tokens are all 0: time steps alone tell the order"),
    ),
    # Learned rows after that of the padding token.
    """
        altclip_text_model bridgetower_text_model camembert clap_text_model data2vec-text ibert longformer markuplm
        roberta roberta-prelayernorm xlm-roberta-xl xmod
    """: _PADDED,
    "xlm-roberta": If("position_embedding_type", ("rotary",), Rope(), _PADDED),  # rotary: by the authors of Jina's
    "luke": (_PADDED, Rows(name="entities"), Note("the row of an entity is the mean of the rows of its words")),
    "mpnet": (_PADDED, Buckets("both", "num_attention_heads", distance=128), Note("all layers have the same bias")),
    # Boxes on a page.
    "layoutlm": (Rows(), *_BOXES),
    "layoutlmv2 layoutxlm": (
        Rows(),
        *NARROW_BOXES,
        *_LAYOUT_BIAS,
        Note("biases of tokens and boxes are added up and not divided by the root of the width of a head"),
    ),
    "layoutlmv3": (
        _PADDED,
        *NARROW_BOXES,
        *_LAYOUT_BIAS,
        Note("biases of tokens and boxes are added up and divided by the root of the width of a head"),
        Table("patches", lambda c: (size(c, ("input_size", 224)) // size(c, ("patch_size", 16))) ** 2 + 1),
    ),
    "lilt": (
        _PADDED,
        *(Table(rows.name, lambda c: size(c, "max_2d_position_embeddings"), parts=6) for rows in _BOXES),
        Table(
            "tokens in the second stream",
            lambda c: size(c, "max_position_embeddings"),
            lambda c: size(c, "hidden_size") // size(c, ("channel_shrink_ratio", 4)),
        ),
        Note(
            "rows of a box, x and y of its two corners, its height and width, stand side by side and are projected in "
            "the second stream, whose tokens count from the same row as those of the first"
        ),
    ),
    # Learned rows in an encoder and a decoder.
    "bigbird_pegasus blenderbot blenderbot-small": both_parts(Rows(dim="d_model")),
    "bart mbart mvp plbart": both_parts(Rows(dim="d_model", offset=2, more=2)),
    "led": (
        Part("encoder", Rows("max_encoder_position_embeddings", "d_model")),
        Part("decoder", Rows("max_decoder_position_embeddings", "d_model")),
    ),
    "prophetnet": (
        Part("encoder", _PADDED),
        Part(
            "decoder",
            (
                _PADDED,
                Curves("max_position_embeddings", ("num_buckets", 32), "num_decoder_attention_heads"),
                Buckets("past", "num_decoder_attention_heads", ("num_buckets", 32), ("relative_max_distance", 128)),
                Note(
                    "W_r and the table of buckets are `relative_pos_embeddings`; curve b is 1 at the distances of "
                    "bucket b; give the tokens, in heads, as queries; streams that predict are one position on"
                ),
            ),
        ),
    ),
    "biogpt opt": Rows(offset=2, more=2, dim="hidden_size"),
    "pp_formulanet_text": Rows(offset=2, more=2, dim="d_model"),
    "trocr": If("use_learned_position_embeddings", (False,), _AFTER_PADDING, Rows(offset=2, more=2, dim="d_model")),
    "reformer": If(
        "axial_pos_embds", (False,), Rows(),
        (
            Rows("axial_pos_shape.0", "axial_pos_embds_dim.0", name="rows of tokens"),
            Rows("axial_pos_shape.1", "axial_pos_embds_dim.1", name="columns of tokens"),
            Note("tokens fill a grid row by row; the columns for its two axes stand side by side"),
        ),
        default=True,
    ),
    # Sinusoids.
    "ctrl": Sines("concatenated", dim="n_embd"),
    "marian pegasus": both_parts(Sines("concatenated", dim="d_model")),
    "pegasus_x": both_parts(Sines("tensor2tensor", dim="d_model")),
    "fsmt m2m_100 nllb-moe speech_to_text": both_parts(_AFTER_PADDING),
    "xglm": Sines("tensor2tensor", dim="d_model", start=2),
    "kosmos_2_text_model kosmos_2_5_text_model": Sines("tensor2tensor", dim="embed_dim", start="padding"),
    "tipsv2_text_model": Sines("tensor2tensor"),
    "videoprism_text_model": (
        Sines("concatenated"),
        Note("positions belong to the tokens before the class token, which has none"),
    ),
    "musicgen_decoder musicgen_melody_decoder": CosinesFirst(),
    "autoformer informer time_series_transformer": _SERIES,
    "patchtst": (
        Table("patches", _count_time_patches, "d_model"),
        If("positional_encoding_type", ("random",), (), _STANDARDIZED),
    ),
    "patchtsmixer": If(
        "use_positional_encoding", (True,),
        (
            Table("patches", _count_time_patches, "d_model"),
            If("positional_encoding_type", ("random",), (), _STANDARDIZED),
        ),
        Note("no positional encoding: the model mixes patches by their place"),
    ),
    "timesfm": If(
        "use_positional_embedding", (True,),
        (
            Periods(("min_timescale", 1), ("max_timescale", 10000), timescales=True),
            Note("positions count from the first value that is not padding"),
        ),
        Note("no positional encoding: `use_positional_embedding` is False, and attention is causal"),
    ),
    # T5.
    "longt5 mt5 pop2piano switch_transformers t5": _T5,
    "umt5": (
        Part("encoder", (Buckets("both"), Note("each layer has a bias of its own"))),
        Part("decoder", (Buckets("past"), Note("cross-attention has no bias; each layer has one of its own"))),
    ),
    "pix2struct_text_model": (Buckets("past"), Note("cross-attention has no bias; all layers have that of the first")),
    "udop": (
        Part(
            "encoder",
            (
                Buckets("both"),
                Rows("max_2d_position_embeddings", "d_model", name="x of a box"),
                Rows("max_2d_position_embeddings", "d_model", name="y of a box"),
                Buckets("both", name="horizontal distances of boxes", buckets=32, distance=100),
                Buckets("both", name="vertical distances of boxes", buckets=32, distance=100),
                Note(
                    "distances are those of the centers of boxes, from 0 to 1, times 100 and rounded toward 0, unless "
                    "`relative_bias_args` says otherwise"
                ),
            ),
        ),
        Part("decoder", Buckets("past")),
    ),
    # ALiBi.
    "bloom": (Slopes("n_head"), Note("the bias is the slope times the position of the key, the same for the softmax")),
    "mpt": Slopes("n_heads", ("attn_config.alibi_bias_max", 8)),
    "falcon": If(
        "alibi", (True,),
        (
            Slopes("num_attention_heads"),
            Note(DIVIDED),
        ),
        Rope(), default=False,
    ),
    # Other scores.
    "deberta": (_INPUT, If("relative_attention", (True,), Disentangled(buckets=False))),
    "deberta-v2": (_INPUT, If("relative_attention", (True,), Disentangled())),
    "xlnet": (
        If(
            "clamp_len", (-1, 0, None), Shifted(heads="n_head", dim="d_model", interleaved=False),
            Shifted("clamp_len", heads="n_head", dim="d_model", interleaved=False),
        ),
        Note("W_r is `r`, u is `r_w_bias` and v is `r_r_bias`; `r_s_bias` tells tokens of other segments apart"),
    ),
    "funnel": (
        Shifted(heads="n_head", dim="d_model", width="d_head", interleaved=False),
        Note(
            "W_r is `r_kernel`, u is `r_w_bias` and v is `r_r_bias`; pooled tokens keep the position of the first; the "
            "class token has no bias if `separate_cls`; `r_s_bias` tells tokens of other segments apart"
        ),
    ),
    "cpmant": Lack("T5's buckets, with buckets of their own for tokens of other segments", "SegmentBias"),
    "inkling_text inkling2_text": (
        Curves("rel_extent", ("d_rel", 16), name="layers of type 'hybrid'"),
        Curves("sliding_window_size", ("d_rel", 16), "swa_num_attention_heads", "layers of type 'hybrid_sliding'"),
        Note("W_r is `r_proj`, of the tokens: give them, in heads, as queries; curves are `rel_logits_proj`"),
        Factor(),
    ),
    # Rotary encodings, and others with them.
    "esm": If(
        "position_embedding_type", ("rotary",), Rope(),
        If(
            "position_embedding_type", ("absolute",), _PADDED,
            Lack("relative keys, which the model no longer reads", None), default="absolute",
        ),
    ),
    "roformer": (
        Rope(),
        If("rotary_value", (True,), Note("values are rotated as well: `rotary_value`")),
        Note("sinusoids rotate queries and keys: `embed_positions` is their table"),
    ),
    "clvp_encoder": If("use_rotary_embedding", (True,), Rope(), default=True),
    "hunyuan_vl_text": FourAxes(),
    # Queries whose order does not matter.
    "blip_2_qformer": If(
        "use_qformer_text_input", (True,), Rows(), Note("no positional encoding: learned queries attend to an image"),
        default=False,
    ),
}  # fmt: skip


TEXT = by_model_type(_TABLE)
