"""The classes of diffusers: the RoPE of each, by `_class_name`.

Source: the classes and pipelines of diffusers 0.42.
"""

from __future__ import annotations

from typing import Any

from . import image_tokens as at
from .image_rules import (
    References,
    Rule,
    build_longrope,
    build_rising,
    build_sections,
    build_sequence,
    equal,
    even_quarter_and_rest,
    quarter_and_rest,
    scale_bases,
    thirds_by_two,
)

Config = dict[str, Any]
HEAD: Config = {"attention_head_dim": 128}
GRID = Rule(HEAD, thirds_by_two, at.count)

# Rules that several classes share.
FLUX = GRID._replace(
    defaults=HEAD | {"axes_dims_rope": (16, 56, 56)}, dims="axes_dims_rope", text=at.text_at_zero,
    references=References(most=1),
)  # fmt: skip
FLUX_2 = FLUX._replace(
    defaults=HEAD | {"axes_dims_rope": (32, 32, 32, 32), "rope_theta": 2000}, image=at.add_text_axis, base="rope_theta",
    text=at.text_on(3), references=References(step=10),
)  # fmt: skip
WAN = GRID._replace(defaults=HEAD | {"rope_max_seq_len": 1024}, limit="rope_max_seq_len")
HUNYUAN = GRID._replace(
    defaults=HEAD | {"rope_axes_dim": (16, 56, 56), "rope_theta": 256.0}, dims="rope_axes_dim", base="rope_theta"
)
HUNYUAN_DIT = Rule({"attention_head_dim": 88, "patch_size": 2}, equal(2), at.crop_columns_first)
COG_VIDEO = Rule(
    {
        "attention_head_dim": 64, "patch_size": 2, "sample_width": 90, "sample_height": 60,
        "use_rotary_positional_embeddings": False,
    },
    quarter_and_rest, at.crop_video, needs="use_rotary_positional_embeddings",
)  # fmt: skip
COSMOS = GRID._replace(
    defaults=HEAD | {"rope_scale": (2.0, 1.0, 1.0)}, image=at.at_24_per_second, base=scale_bases, layout="half",
    fps=24,
)  # fmt: skip
QWEN = FLUX._replace(image=at.center, text=at.text_beyond, references=References())
Z_IMAGE = Rule(
    {"dim": 3840, "n_heads": 30, "axes_dims": (32, 48, 48), "axes_lens": (1024, 512, 512), "rope_theta": 256.0},
    "axes_dims", at.start_after_text(1), base="rope_theta", width=("dim", "n_heads"), text=at.text_on(0, first=1),
    limit="axes_lens",
)  # fmt: skip
JOY_IMAGE = Rule(
    {
        "hidden_size": 3072, "num_attention_heads": 24, "rope_dim_list": (16, 56, 56), "rope_type": "rope",
        "theta": 256,
    },
    "rope_dim_list", at.count, base="theta", width=("hidden_size", "num_attention_heads"), text=at.text_after,
)  # fmt: skip
KANDINSKY = Rule({"axes_dims": (16, 24, 24)}, "axes_dims", at.count, width=())
LTX = Rule(
    {"num_attention_heads": 32, "attention_head_dim": 64, "patch_size": 1, "patch_size_t": 1},
    equal(1), at.share_of_longest, build=build_rising, fps=25,
)  # fmt: skip
LTX_2 = LTX._replace(
    defaults=LTX.defaults | HEAD | {
        "vae_scale_factors": (8, 32, 32), "pos_embed_max_pos": 20, "base_height": 2048, "base_width": 2048,
        "rope_theta": 10000.0, "causal_offset": 1, "rope_type": "interleaved", "rope_double_precision": True,
    },
    image=at.middle_of_patches, base="rope_theta", fps=24,
)  # fmt: skip
SEQUENCE = Rule(HEAD, equal(1), None, build=build_sequence, layout="half")
HALF_OF_SEQUENCE = SEQUENCE._replace(dims=equal(1, lambda config: config["head_dim"] // 2))
SECTIONS = SEQUENCE._replace(build=build_sections, base="rope_theta")


def with_keys(rule: Rule, /, image: at.Image | None = None, **defaults: Any) -> Rule:
    """Return a rule with more keys, or other defaults, and another function of images if it is given."""
    return rule._replace(defaults=rule.defaults | defaults, image=image or rule.image)


RULES = {
    "AceStepTransformer1DModel": SEQUENCE._replace(
        defaults={"head_dim": 128, "rope_theta": 1000000.0}, base="rope_theta", width=("head_dim",)
    ),
    "AllegroTransformer3DModel": Rule(
        {
            "attention_head_dim": 96, "interpolation_scale_t": 2.2, "interpolation_scale_h": 2.0,
            "interpolation_scale_w": 2.0,
        },
        equal(3), at.divide("interpolation_scale_t", "interpolation_scale_h", "interpolation_scale_w"), layout="half",
        arrangement="blocks",
    ),
    "AnimaTextConditioner": SEQUENCE._replace(
        defaults={"model_dim": 1024, "num_attention_heads": 16}, width=("model_dim", "num_attention_heads")
    ),
    "AnyFlowFARTransformer3DModel": WAN,
    "AnyFlowTransformer3DModel": WAN,
    "AutoencoderKLMiniMaxH3": Rule(  # the transformer of its decoder
        {"decoder_attention_head_dim": 64, "decoder_rope_theta": 100.0, "decoder_rope_dim_ratio": 0.75},
        equal(3, lambda config: int(config["head_dim"] * config["decoder_rope_dim_ratio"])), at.normalize,
        base="decoder_rope_theta", width=("decoder_attention_head_dim",), layout="half", unit="turn", partial=True,
    ),
    "AutoencoderSAME": HALF_OF_SEQUENCE._replace(defaults={"dim_heads": 64}, width=("dim_heads",)),
    "BriaFibo2Transformer2DModel": with_keys(
        Z_IMAGE, at.start_after_gist, dim=3584, n_heads=28, axes_lens=(2048, 512, 512), max_num_gist_tokens=512
    )._replace(references=References()),
    "BriaFiboTransformer2DModel": with_keys(FLUX, rope_theta=10000)._replace(
        base="rope_theta", references=References()
    ),
    "BriaTransformer2DModel": with_keys(FLUX, rope_theta=10000)._replace(base="rope_theta", references=None),
    "ChromaTransformer2DModel": FLUX._replace(references=None),
    "ChronoEditTransformer3DModel": with_keys(WAN, at.skip_frames, rope_temporal_skip_len=8),
    "CogVideoXTransformer3DModel": with_keys(COG_VIDEO, patch_size_t=None),
    "CogView4Transformer2DModel": Rule(
        {"attention_head_dim": 40, "rope_axes_dim": (256, 256)}, equal(2), at.stretch, layout="half"
    ),
    "ConsisIDTransformer3DModel": COG_VIDEO,
    "Cosmos3OmniTransformer": SECTIONS._replace(
        defaults={"head_dim": 128, "rope_theta": 5000000.0, "rope_axes_dim": None, "rope_scaling": None},
        dims="rope_axes_dim", width=("head_dim",),
    ),
    "CosmosControlNetModel": COSMOS,
    "CosmosTransformer3DModel": COSMOS,
    "EasyAnimateTransformer3DModel": Rule(
        {"attention_head_dim": 64, "patch_size": 2}, quarter_and_rest, at.crop_to_90
    ),
    "Flux2Transformer2DModel": FLUX_2,
    "Flux3Transformer2DModel": with_keys(FLUX_2, at.halve, rope_theta=10000)._replace(
        references=References(axis=3, step=-1)
    ),
    "FluxControlNetModel": FLUX,
    "FluxTransformer2DModel": FLUX,
    "GlmImageTransformer2DModel": Rule({"attention_head_dim": 40}, equal(2), at.count_in_plane, layout="half"),
    "HeliosTransformer3DModel": GRID._replace(
        defaults=HEAD | {"rope_dim": (44, 42, 42), "rope_theta": 10000.0}, dims="rope_dim", base="rope_theta"
    ),
    "HiDreamImageTransformer2DModel": with_keys(FLUX, axes_dims_rope=(64, 32, 32))._replace(references=None),
    "HunyuanDiT2DControlNetModel": HUNYUAN_DIT,
    "HunyuanDiT2DModel": HUNYUAN_DIT,
    "HunyuanImageTransformer2DModel": with_keys(
        HUNYUAN, at.count_by_patch, rope_axes_dim=(64, 64), patch_size=(1, 1)
    ),
    "HunyuanVideo15Transformer3DModel": HUNYUAN,
    "HunyuanVideoFramepackTransformer3DModel": HUNYUAN,
    "HunyuanVideoTransformer3DModel": HUNYUAN,
    "Ideogram4Transformer2DModel": SECTIONS._replace(
        defaults={"attention_head_dim": 256, "rope_theta": 5000000, "mrope_section": (24, 20, 20)},
        dims="mrope_section", image=at.start_at(65536), text=at.text_on_all,
    ),
    "JoyImageEditPlusTransformer3DModel": JOY_IMAGE._replace(
        text=at.text_at_zero, references=References(after_frames=True)
    ),
    "JoyImageEditTransformer3DModel": JOY_IMAGE,
    "Kandinsky5Transformer3DModel": KANDINSKY,
    "Kandinsky6SRTransformer3DModel": with_keys(KANDINSKY, at.divide("scale_factor"), scale_factor=(1.0, 2.0, 2.0)),
    "Kandinsky6Transformer3DModel": with_keys(
        KANDINSKY, at.divide("scale_factor"), axes_dims=(32, 48, 48), scale_factor=(1.0, 2.0, 2.0)
    ),
    "Krea2Transformer2DModel": with_keys(FLUX, axes_dims_rope=(32, 48, 48), rope_theta=1000.0)._replace(
        base="rope_theta", references=None
    ),
    "LTX2VideoDiffusionDecoderModel": Rule(
        {"decoder_head_dim": 64}, even_quarter_and_rest, at.count, width=("decoder_head_dim",)
    ),
    "LTX2VideoTransformer3DModel": LTX_2,
    "LTXVideoTransformer3DModel": LTX,
    "LongCatAudioDiTTransformer": SEQUENCE._replace(
        defaults={"dit_dim": 1536, "dit_heads": 24}, base=100000.0, width=("dit_dim", "dit_heads")
    ),
    "LongCatImageTransformer2DModel": FLUX._replace(image=at.start_on_diagonal, text=at.text_on(1, 2)),
    "Lumina2Transformer2DModel": Rule(
        {"hidden_size": 2304, "num_attention_heads": 24, "axes_dim_rope": (32, 32, 32), "axes_lens": (300, 512, 512)},
        "axes_dim_rope", at.start_after_text(0), width=("hidden_size", "num_attention_heads"), text=at.text_on(0),
        limit="axes_lens",
    ),
    "LuminaNextDiT2DModel": Rule(
        {"hidden_size": 2304, "num_attention_heads": 32}, equal(2), at.count_in_plane,
        width=("hidden_size", "num_attention_heads"), arrangement="alternating",
    ),
    "MiniMaxH3Transformer3DModel": Rule(
        HEAD | {"rope_freq_dim": 16, "rope_theta": 10000.0}, equal(3, lambda config: 6 * config["rope_freq_dim"]),
        at.span_32, base="rope_theta", layout="half", partial=True, text=at.text_on(0),
    ),
    "MiniMaxMusic3Transformer1DModel": SEQUENCE._replace(
        defaults={"attention_head_dim": 64, "rotary_dim": 32}, dims=equal(1, lambda config: config["rotary_dim"])
    ),
    "MotifVideoTransformer3DModel": HUNYUAN,
    "NucleusMoEImageTransformer2DModel": QWEN,
    "OmniGenTransformer2DModel": SEQUENCE._replace(
        defaults={
            "hidden_size": 3072, "num_attention_heads": 32, "max_position_embeddings": 131072,
            "original_max_position_embeddings": 4096, "rope_base": 10000, "rope_scaling": None,
        },
        base="rope_base", width=("hidden_size", "num_attention_heads"), build=build_longrope,
    ),
    "OvisImageTransformer2DModel": FLUX._replace(text=at.text_on(1, 2), references=None),
    "PRXTransformer2DModel": Rule(
        {"hidden_size": 1792, "num_heads": 28, "axes_dim": (32, 32), "theta": 10000}, "axes_dim", at.count_in_plane,
        base="theta", width=("hidden_size", "num_heads"),
    ),
    "QwenImage21Transformer2DModel": FLUX._replace(
        image=at.center_after_text, text=at.text_on_all, references=None
    ),
    "QwenImageControlNetModel": QWEN,
    "QwenImageTransformer2DModel": with_keys(QWEN, use_layer3d_rope=False),
    "SanaVideoTransformer3DModel": with_keys(WAN, attention_head_dim=112),
    "SanaWMLTX2RefinerTransformer3DModel": LTX_2,
    "SanaWMTransformer3DModel": GRID._replace(defaults={"linear_head_dim": 112}, width=("linear_head_dim",)),
    "SkyReelsV2Transformer3DModel": WAN,
    "StableAudio3DiTModel": HALF_OF_SEQUENCE._replace(
        defaults={"embed_dim": 1536, "num_heads": 24}, width=("embed_dim", "num_heads")
    ),
    "StableAudioDiTModel": HALF_OF_SEQUENCE._replace(defaults={"attention_head_dim": 64}),
    "WanAnimate2Transformer3DModel": GRID._replace(
        defaults={"dim": 5120, "num_heads": 40}, width=("dim", "num_heads")
    ),
    "WanAnimateTransformer3DModel": WAN,
    "WanTransformer3DModel": WAN,
    "WanVACETransformer3DModel": WAN,
    "ZImageControlNetModel": Z_IMAGE,
    "ZImageTransformer2DModel": Z_IMAGE,
}  # fmt: skip
OTHERS = {  # of the time step, or of the positions that a pipeline makes
    "time_theta", "unified_3d_mrope_reset_spatial_ids", "unified_3d_mrope_temporal_modality_margin",
}  # fmt: skip
REFUSED = {
    "ErnieImageTransformer2DModel": "its two channels of a pair turn by the angles of different pairs, which is not a "
    "rotation",
    "MochiTransformer3DModel": "its frequencies are learned, one matrix for each head, and heads of "
    "`MixedRotary` with three axes have a multiple of 6 channels",
}
_WITHOUT_ROPE = """
    AsymmetricAutoencoderKL AuraFlowTransformer2DModel AutoencoderDC AutoencoderKL AutoencoderKLAllegro
    AutoencoderKLCogVideoX AutoencoderKLCosmos AutoencoderKLFlux2 AutoencoderKLHunyuanImage
    AutoencoderKLHunyuanImageRefiner AutoencoderKLHunyuanVideo AutoencoderKLHunyuanVideo15 AutoencoderKLKVAE
    AutoencoderKLKVAEAudio AutoencoderKLKVAEVideo AutoencoderKLLTX2Audio AutoencoderKLLTX2Video
    AutoencoderKLLTXVideo AutoencoderKLMagvit AutoencoderKLMiniMaxH3Audio AutoencoderKLMochi
    AutoencoderKLQwenImage AutoencoderKLQwenImage21 AutoencoderKLTemporalDecoder AutoencoderKLWan
    AutoencoderOobleck AutoencoderRAE AutoencoderTiny AutoencoderVidTok CogView3PlusTransformer2DModel
    ConsistencyDecoderVAE ControlNetModel ControlNetUnionModel ControlNetXSAdapter Cosmos3AVAEAudioTokenizer
    DiTTransformer2DModel DreamLiteTransformer2DModel DreamLiteUNetModel I2VGenXLUNet Kandinsky3UNet
    Kandinsky6SRLatentUpscalerBank Kandinsky6SRVAE LatteTransformer3DModel LongCatAudioDiTVae MMAudioVAE
    MMAudioVocoder MiniMaxMusic3ConditionEncoder MiniMaxMusic3RVQDepthDecoder MiniMaxMusic3Vocoder MotionAdapter
    PixArtTransformer2DModel PriorTransformer RFD4ProteinaAutoencoder RFD4ProteinaTransformer SD3ControlNetModel
    SD3Transformer2DModel SanaControlNetModel SanaTransformer2DModel SparseControlNetModel StableCascadeUNet
    T2IAdapter T5FilmDecoder Transformer2DModel TransformerTemporalModel UNet1DModel UNet2DConditionModel
    UNet2DModel UNet3DConditionModel UNetControlNetXSModel UNetMotionModel UNetSpatioTemporalConditionModel
    UVit2DModel VQModel
"""
WITHOUT_ROPE = frozenset(_WITHOUT_ROPE.split())
