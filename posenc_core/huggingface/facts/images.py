"""Facts about models of images and videos, by `model_type`: their positional encodings.

Source: the code of the models in transformers 5.23.
"""

from __future__ import annotations

from functools import partial
from math import prod

from .kinds import (
    CONVOLUTIONAL,
    Axial,
    Config,
    Facts,
    If,
    Lack,
    Note,
    Part,
    Patches,
    Rows,
    SineGrid,
    Sines,
    Size,
    Table,
    as_tuple,
    count_patches,
    size,
    sizes,
)
from .records import by_model_type
from .scores import Buckets, LogarithmicWindows, PatchWindow, RowsAndColumns, ShrinkingWindows, Windows
from .text import NARROW_BOXES

RANDOM = Note(
    "points, boxes and cells, from -1 to 1, have a `RandomFourierFeatures` with order='sin_first', whose `mixture` is "
    "the matrix of the checkpoint, transposed"
)
_RESAMPLED = Note("rows are resampled to the grid of each image")
_SAM = (
    If("use_abs_pos", (True,), Patches(0), default=True),
    If("use_rel_pos", (True,), RowsAndColumns(), default=True),
)

_ABSOLUTE = If("use_absolute_embeddings", (True,), Patches(0, dim="embed_dim"), default=False)
_BEIT = (
    If("use_absolute_position_embeddings", (True,), Patches(), default=False),
    If("use_relative_position_bias", (True,), PatchWindow("each layer has a table of its own"), default=False),
    If("use_shared_relative_position_bias", (True,), PatchWindow("all layers share a table"), default=False),
    Note("without the three keys that turn them on, it has no positional encoding"),
)
_FROM_1 = "rows and columns count from 1; they are divided by the height and width, and multiplied by 2π"
SCALED = Note(_FROM_1)
_FEATURES = Note("rows and columns of the feature map count from 0; the stage that attends has the encoding")
_ANCHOR = Note(
    "boxes are two pairs of coordinates times 2π, (y, x) and (width, height), whose rows stand side by side; a "
    "perceptron makes positions of queries of them"
)


def _anchors(dim: str, base: Size = 10000) -> Facts:
    return (SineGrid("tatp22", dim, base, name="boxes"), _ANCHOR)


_QUERIES = Note("positions of object queries are learned, one row for each")
_PYRAMID = (SineGrid("timm_interleaved", "encoder_hidden_dim", "positional_encoding_temperature"), _FEATURES)


def _sine_or_rows(base: Size = 10000, scaled: Note = SCALED) -> Facts:
    rows: Facts = tuple(Table(f"{what} of features", lambda _: 50, "d_model", parts=2) for what in ("rows", "columns"))
    sines: Facts = (SineGrid("tatp22", "d_model", base), scaled)
    unknown = Lack("an encoding of this `position_embedding_type`, which the model does not know", None)
    sine_or_unknown = If("position_embedding_type", ("sine",), sines, unknown, default="sine")
    return (If("position_embedding_type", ("learned",), rows, sine_or_unknown), _QUERIES)


_ROTATED = Axial()
_VIDEO_ROTATED = Axial(_ROTATED.lack.replace("height", "time, height"))
_NUMBERED = (Rows("num_position_embeddings", name="patches"), _RESAMPLED, _ROTATED)
_GLM = (Patches(0), _RESAMPLED, _ROTATED)
_MUSE = (Rows("pos_emb_height * pos_emb_width", name="patches"), _RESAMPLED, _ROTATED)


def _count_tubelets(config: Config) -> int:
    """Return the number of patches of a frame of a video."""
    side = size(config, "image_size")
    return side // size(config, "tubelet_size.1") * (side // size(config, "tubelet_size.2"))


def _count_shapes(config: Config) -> int:
    """Return the number of shapes of images, and one for padding."""
    return 1 + len(config.get("supported_aspect_ratios") or range(8))


def _count_in_stage(config: Config, stage: int) -> int:
    """Return the number of patches of a stage of a pyramid, after the class token in the last."""
    side = size(config, "image_size") // (2 ** (stage + 1) if stage else 1)
    return (side // size(config, f"patch_sizes.{stage}")) ** 2 + (stage == 3)


_TABLE: dict[str, Facts] = {
    # Learned rows of patches.
    """
        altclip_vision_model blip_2_vision_model blip_vision_model bridgetower_vision_model chinese_clip_vision_model
        clip_vision_model clipseg_vision_model dinov2 dinov2_with_registers dpt flava_image_model git_vision_model
        instructblip_vision_model instructblipvideo_vision_model kosmos_2_vision_model mgp-str
        metaclip_2_vision_model owlv2_vision_model owlvit_vision_model unlimited_ocr_vision_encoder vit vit_msn
        tipsv2_vision_model vitpose_backbone xclip_vision_model
    """: Patches(),
    "idefics_vision": Patches(dim="embed_dim"),
    "deit": Patches(2),
    "pixio": Patches("n_cls_tokens"),
    """
        glm_image_vision granite_docling_vision groupvit_vision_model ijepa janus_vision_model
        minicpm_ocr_vision ovis2_vision siglip_vision_model
    """: Patches(0),
    """
        idefics2_vision idefics3_vision minicpmv4_6_vision minicpmv4_7_vision phi4_multimodal_vision smolvlm_vision
    """: (Patches(0), Note("patches of images of other shapes take the rows of the nearest places")),
    "eomt videomt": (Patches(0), Note("prefix tokens have no rows"), Note("queries and keys are not rotated")),
    "internvl_vision qianfan_ocr_vision": If("use_absolute_position_embeddings", (False,), (), Patches(), default=True),
    "cosmos3_edge_vision siglip2_vision_model": (Rows("num_patches", name="patches"), _RESAMPLED),
    "molmo2_vision": (Rows("num_position_embeddings", name="patches"), _RESAMPLED),
    "radio": (Patches(0, image="max_img_size"), _RESAMPLED),
    "hunyuan_vl_vision": (Patches(1, image="max_image_size"), _RESAMPLED),
    "aimv2_vision_model": If("is_native", (True,), SineGrid("timm_interleaved"), Patches(0)),
    "hiera": Patches(0, patch="patch_stride", dim="embed_dim"),
    "vitdet": (
        If("use_absolute_position_embeddings", (False,), (), (Patches(image="pretrain_image_size"), _RESAMPLED)),
        If("use_relative_position_embeddings", (True,), RowsAndColumns("window_block_indices")),
    ),
    "lw_detr_vit": If(
        "use_absolute_position_embeddings", (False,), (), (Patches(image="pretrain_image_size"), _RESAMPLED)
    ),
    "seggpt": (
        Patches(image="pretrain_image_size"),
        _RESAMPLED,
        If("use_relative_position_embeddings", (False,), (), RowsAndColumns(None)),
    ),
    "rf_detr_dinov2": (Patches(), Note("rows are resampled to each window of the image")),
    "vilt": (Rows(name="tokens"), Patches()),
    "yolos": (
        Table("patches", lambda c: prod(count_patches(c)) + 1 + size(c, "num_detection_tokens")),
        Note("a class token is first, `num_detection_tokens` others are last"),
        If("use_mid_position_embeddings", (False,), (), Note("layers but the last also have tables of their own")),
    ),
    "timesformer": (Patches(), Rows("num_frames", name="frames")),
    "vivit": (
        Table("patches", lambda c: 1 + size(c, "num_frames") // size(c, "tubelet_size.0") * _count_tubelets(c)),
        Note("the rows are 1 other token, then blocks of frames, each row by row"),
    ),
    "videoprism_vision_model": (Table("patches", _count_tubelets), Rows("num_frames", name="frames")),
    "pvt": (
        *(Table(f"patches of stage {n + 1}", partial(_count_in_stage, stage=n), f"hidden_sizes.{n}") for n in range(4)),
        Note("the first row of the last stage is that of a class token"),
    ),
    "pix2struct_vision_model": (Rows("seq_len", name="rows of patches"), Rows("seq_len", name="columns of patches")),
    "kosmos_2_5_vision_model": (
        Rows("max_num_patches", name="rows of patches"),
        Rows("max_num_patches", name="columns of patches"),
    ),
    "mllama_vision_model": (
        Patches(),
        Table("tiles", _count_shapes, "max_num_tiles * hidden_size"),
        Lack("a learned row for each patch of each tile, by the shape of the image", "TileEncoding"),
        Note(
            "rows of patches are multiplied by 1 - tanh(gate), those of tiles by tanh(gate); an image of each shape "
            "has a row for all of its tiles"
        ),
    ),
    # Sinusoids.
    "videomae": (
        Sines("interleaved", name="patches"),
        Note("patches of the video are numbered frame by frame, row by row"),
        Part("decoder", Sines("interleaved", dim="decoder_hidden_size", name="patches")),
    ),
    "vit_mae": (
        SineGrid("mae", name="patches"),
        Note("a checkpoint has the rows, after a row of zeros for the class token"),
        Part("decoder", SineGrid("mae", dim="decoder_hidden_size", name="patches")),
    ),
    # Windows.
    "swin maskformer-swin donut-swin": (Windows(), _ABSOLUTE),
    "swin2sr": (LogarithmicWindows(halved=False), _ABSOLUTE),
    "swinv2": (LogarithmicWindows(), _ABSOLUTE),
    "focalnet": If("use_absolute_embeddings", (True,), Patches(0, dim="embed_dim"), CONVOLUTIONAL, default=False),
    "beit data2vec-vision": _BEIT,
    "dinat": (
        Windows("kernel_size"),
        Note("`rpb` is the table, by the key less the query: flip it; keys are neighbours: give their offsets"),
    ),
    "levit": (
        ShrinkingWindows(),
        Note("offsets of both signs have the number of the absolute offset in rows and columns, `attention_biases`"),
    ),
    # Segment Anything.
    """
        deepseek_ocr2_sam_vision_model got_ocr2_vision pp_chart2table_vision pp_formulanet_vision sam_hq_vision_model
        sam_vision_model slanext_vision unlimited_ocr_sam_vision_model
    """: _SAM,
    "sam2_hiera_det_model": (
        Table("a coarse grid", lambda c: prod(sizes(c, "window_positional_embedding_background_size", 2))),
        Table("a window", lambda c: size(c, "window_size_per_stage.0") ** 2),
        Note("rows of the coarse grid are resampled to the image, those of the window repeated over it"),
    ),
    """
        edgetam_prompt_encoder edgetam_video_prompt_encoder sam2_prompt_encoder sam2_video_prompt_encoder
        sam3_tracker_prompt_encoder sam3_tracker_video_prompt_encoder sam_hq_prompt_encoder sam_prompt_encoder
    """: RANDOM,
    """
        edgetam_mask_decoder edgetam_video_mask_decoder sam2_mask_decoder sam2_video_mask_decoder sam3_mask_decoder
        sam3_lite_text_mask_decoder sam3_tracker_mask_decoder sam3_tracker_video_mask_decoder sam_hq_mask_decoder
        sam_mask_decoder sam3_detr_encoder sam3_lite_text_detr_encoder
    """: Note("no positional encoding of its own: that of the image and of the prompts is added in each layer"),
    "sam3_detr_decoder sam3_lite_text_detr_decoder": (
        *as_tuple(_anchors("hidden_size")),
        Lack("a bias of attention by the distances of boxes to rows and columns, through a perceptron", "BoxBias"),
    ),
    "sam3_geometry_encoder sam3_lite_text_geometry_encoder": (
        SineGrid("tatp22", name="boxes and points"),
        Note("positions are (y, x) times 2π; the height and the width of a box follow as they are; all are projected"),
    ),
    "sam3_vit_model": (Patches(0, image="pretrain_image_size"), Note("rows are repeated over the image"), _ROTATED),
    # Rotary encodings of images, alone and with learned rows.
    """
        dinov3_vit dots3_note_vision_encoder efficientloftr eomt_dinov3 ernie4_5_vl_moe_vision exaone4_5_vision
        glm5_next_vision glm_ocr_vision lfm3_vl_vision minimax_m3_vl_vision mlcd_vision_model pixtral qwen2_vl_vision
        qwen2_5_omni_vision_encoder qwen2_5_vl_vision sapiens2 video_llama_3_vision
    """: _ROTATED,
    "vjepa2": _VIDEO_ROTATED,
    """
        cohere_compass_vision interns1_pro_vision qwen3_5_moe_vision qwen3_5_vision qwen3_omni_moe_vision_encoder
        qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision
    """: _NUMBERED,
    "glm4v_moe_vision glm4v_vision paddleocr_vl_vision": _GLM,
    "llama4_vision_model": (Patches(last=True), _ROTATED),
    "step3p5_vision": (Rows(name="patches"), _ROTATED),
    "inkling2_vision": (
        Rows("posemb_grid_size * posemb_grid_size", name="patches"),
        _RESAMPLED,
        Table("class token", lambda _: 1),
        _ROTATED,
    ),
    "muse_glimmer_vision muse_spark_vision": _MUSE,
    "kimi_k25_vision": (
        Rows("pos_emb_height * pos_emb_width", name="patches"),
        _RESAMPLED,
        Sines("concatenated", name="frames"),
        Note("a single frame has no row of its own"),
        _ROTATED,
    ),
    "gemma4_vision": (
        Rows("position_embedding_size", name="columns of patches"),
        Rows("position_embedding_size", name="rows of patches"),
        _ROTATED,
    ),
    "gemma4_unified_vision": (
        Rows("mm_posemb_size", "mm_embed_dim", name="columns of patches"),
        Rows("mm_posemb_size", "mm_embed_dim", name="rows of patches"),
    ),
    "gemma3n_vision timm_backbone timm_wrapper": Axial(
        "the vision model of the library timm by the name of `architecture`"
    ),
    # Convolutions.
    """
        align_vision_model bit chameleon_vqgan convnext convnextv2 cvt dinov3_convnext efficientnet emu3_vqgan
        flava_image_codebook glm_image_vqmodel glpn hgnet_v2 janus_vqgan mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2
        poolformer pp_lcnet pp_lcnet_v3 pp_lcnet_v4 pvt_v2 regnet resnet rt_detr_resnet sapiens2_head segformer
        superpoint florence_vision swiftformer textnet uvdoc_backbone
    """: CONVOLUTIONAL,
    """
        flava_multimodal_model idefics2_perceiver idefics_perciever molmo2_adapter
    """: Note("no positional encoding: the inputs have one, and it attends to them by learned queries"),
    # Detection, with a backbone.
    "conditional_detr detr table-transformer": _sine_or_rows(),
    "deformable_detr": _sine_or_rows(scaled=Note(_FROM_1.replace("count from 1", "count from 1/2"))),
    "grounding-dino mm-grounding-dino": _sine_or_rows("positional_embedding_temperature"),
    "dab-detr": (
        SineGrid("tatp22", "hidden_size", "temperature_height", other_base="temperature_width"),
        Note(
            "rows and columns count from 1; they are divided by the height and width, and multiplied by "
            "`sine_position_embedding_scale`, or 2π if that is None"
        ),
        *as_tuple(_anchors("hidden_size")),
    ),
    "d_fine deimv2 pp_doclayout_v2 pp_doclayout_v3 pp_doclayout_v4 rt_detr rt_detr_v2": _PYRAMID,
    "lw_detr rf_detr": _anchors("d_model"),
    "pp_doclayout_v2_reading_order": (
        Rows(offset="padding"),
        *NARROW_BOXES,
        If(
            "has_relative_attention_bias",
            (True,),
            Buckets("both", "num_attention_heads", "rel_pos_bins", "max_rel_pos", "tokens"),
            default=False,
        ),
        If(
            "has_spatial_attention_bias",
            (False,),
            (),
            Lack("a bias by sinusoids of how two boxes lie to each other, projected", "BoxBias"),
        ),
    ),
    "mask2former oneformer": (SineGrid("tatp22", "hidden_dim"), SCALED, _QUERIES),
    "maskformer": (SineGrid("tatp22", "decoder_config.d_model"), SCALED, _QUERIES),
}
IMAGES = by_model_type(_TABLE)
