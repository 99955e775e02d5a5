"""The classes of diffusers, each with a config, how it is asked, and its tokens."""

from diffusers.models.transformers import transformer_flux

from . import newer_pictures as new
from . import pictures as old
from . import token_rows as rows
from .pictures import FLUX, HEAD, HUNYUAN, IMAGE, TEXT, VIDEO, WAN, Case, Z
from .token_rows import row

WHOLE, BOTH = VIDEO | {"text": TEXT}, IMAGE | {"text": TEXT}
CHRONO = WAN | {"rope_temporal_skip_len": 8}
H3 = {"decoder_attention_head_dim": 64, "decoder_rope_theta": 100.0, "decoder_rope_dim_ratio": 0.75}
JOY = {"hidden_size": 3072, "num_attention_heads": 24, "rope_dim_list": [16, 56, 56], "rope_type": "rope", "theta": 256}
KANDINSKY = {"axes_dims": [16, 24, 24], "scale_factor": [1.0, 2.0, 1.5]}
LTX = {"num_attention_heads": 2, "attention_head_dim": 32, "patch_size": 1, "patch_size_t": 1}
LTX_2 = LTX | {
    "vae_scale_factors": [8, 32, 32], "pos_embed_max_pos": 20, "base_height": 2048, "base_width": 2048,
    "rope_theta": 10000.0, "rope_double_precision": True, "causal_offset": 1, "rope_type": "interleaved",
}  # fmt: skip
ROUNDINGS = 24  # of a position of LTX and of its frequency, whose exponent is rounded
DIVISORS = [1 + pair / 48 for pair in range(48)]
OMNIGEN = {
    "hidden_size": 3072, "num_attention_heads": 32, "max_position_embeddings": 131072, "rope_base": 10000,
    "original_max_position_embeddings": 4096,
    "rope_scaling": {"short_factor": DIVISORS, "long_factor": DIVISORS[::-1], "type": "su"},
}  # fmt: skip
CASES = [  # the last one of a class also asks its default config
    *old.CASES,
    *(Case(*given) for given in (
        ("HiDreamImageTransformer2DModel", HEAD | {"axes_dims_rope": [64, 32, 32]}, new.hidream, BOTH),
        ("PRXTransformer2DModel", {"hidden_size": 1792, "num_heads": 28, "axes_dim": [32, 32], "theta": 10000},
         new.prx, IMAGE),
        ("FluxControlNetModel", FLUX, old.flux(transformer_flux.FluxPosEmbed), BOTH),
        ("LongCatImageTransformer2DModel", FLUX,
         new.by_ids("transformer_longcat_image", "LongCatImagePosEmbed", new.longcat_ids), BOTH),
        ("OvisImageTransformer2DModel", FLUX,
         new.by_ids("transformer_ovis_image", "OvisImagePosEmbed", new.ovis_ids), BOTH),
        ("BriaFiboTransformer2DModel", FLUX | {"rope_theta": 500},
         new.by_ids("transformer_bria_fibo", "BriaFiboEmbedND", new.grid_ids), BOTH),
        ("Krea2Transformer2DModel", FLUX | {"rope_theta": 1000.0},
         new.by_ids("transformer_krea2", "Krea2RotaryPosEmbed", new.krea_ids), BOTH),
        ("Flux3Transformer2DModel", HEAD | {"axes_dims_rope": [32] * 4, "rope_theta": 10000},
         new.by_ids("transformer_flux3", "Flux3PosEmbed", new.flux3_ids), BOTH),
        ("BriaFibo2Transformer2DModel",
         Z | {"dim": 3584, "n_heads": 28, "axes_lens": [2048, 512, 512], "max_num_gist_tokens": 512},
         new.bria_fibo2, BOTH),
        ("ZImageControlNetModel", Z, lambda config: old.z_image(Z | config), IMAGE | {"text": 32}),
        ("Ideogram4Transformer2DModel",
         {"attention_head_dim": 256, "rope_theta": 5000000, "mrope_section": [24, 20, 20]}, new.ideogram, BOTH),
        ("Cosmos3OmniTransformer", {"head_dim": 128, "rope_theta": 5000000.0, "rope_axes_dim": [24, 20, 20]},
         new.cosmos3, new.cosmos3_ids),
        ("MiniMaxH3Transformer3DModel", HEAD | {"rope_freq_dim": 16, "rope_theta": 10000.0}, new.minimax, WHOLE, 1),
        ("AutoencoderKLMiniMaxH3", H3, new.minimax_decoder, VIDEO, 6),
        ("WanAnimateTransformer3DModel", WAN, new.wan_of("wan_animate"), VIDEO),
        ("SanaVideoTransformer3DModel", WAN | {"attention_head_dim": 112}, new.wan_of("sana_video"), VIDEO),
        ("ChronoEditTransformer3DModel", CHRONO, new.chronoedit(2), VIDEO | {"frames": 2}),
        ("ChronoEditTransformer3DModel", CHRONO, new.chronoedit(VIDEO["frames"]), VIDEO),
        ("AnyFlowTransformer3DModel", WAN, new.anyflow("transformer_anyflow", "AnyFlowRotaryPosEmbed"), VIDEO),
        ("AnyFlowFARTransformer3DModel", WAN | {"compressed_patch_size": [1, 4, 4]},
         new.anyflow("transformer_anyflow_far", "AnyFlowCausalRotaryPosEmbed", "compressed_patch_size"), VIDEO),
        ("WanAnimate2Transformer3DModel", {"dim": 5120, "num_heads": 40}, new.wan_animate_2, VIDEO),
        ("SanaWMTransformer3DModel", {"linear_head_dim": 112, "patch_size": [1, 1, 1]}, new.sana_wm, VIDEO),
        ("HeliosTransformer3DModel", HEAD | {"rope_dim": [44, 42, 42], "rope_theta": 500.0}, new.helios, VIDEO),
        ("MotifVideoTransformer3DModel", HUNYUAN,
         old.hunyuan(new.model_of("transformer_motif_video").MotifVideoRotaryPosEmbed), VIDEO),
        ("HunyuanVideoFramepackTransformer3DModel", HUNYUAN, new.framepack, VIDEO),
        ("HunyuanDiT2DControlNetModel", {"attention_head_dim": 88, "patch_size": 2}, old.hunyuan_dit, IMAGE, 4),
        ("EasyAnimateTransformer3DModel", {"attention_head_dim": 64, "patch_size": 2}, new.easy_animate, VIDEO, 4),
        ("ConsisIDTransformer3DModel", {key: value for key, value in old.COG.items() if key != "patch_size_t"},
         new.consis_id, VIDEO, 4),
        ("CosmosControlNetModel", HEAD | {"rope_scale": [2.0, 1.0, 1.5]}, old.cosmos, VIDEO),
        ("LuminaNextDiT2DModel", {"hidden_size": 2304, "num_attention_heads": 32}, new.lumina_next, IMAGE),
        ("GlmImageTransformer2DModel", {"attention_head_dim": 40, "patch_size": 2}, new.glm_image, IMAGE),
        ("QwenImageControlNetModel", FLUX, old.qwen, WHOLE),
        ("QwenImage21Transformer2DModel", FLUX, new.qwen21, BOTH),
        ("NucleusMoEImageTransformer2DModel", FLUX, new.nucleus, WHOLE),
        ("JoyImageEditTransformer3DModel", JOY | {"rope_type": "mrope"}, new.joy_image, WHOLE),
        ("JoyImageEditTransformer3DModel", JOY, new.joy_image, WHOLE),
        ("JoyImageEditPlusTransformer3DModel", JOY, new.joy_image_plus, WHOLE),
        ("Kandinsky6Transformer3DModel", KANDINSKY,
         new.kandinsky6("transformer_kandinsky6", "Kandinsky6RoPE3D"), VIDEO, 2),
        ("Kandinsky6SRTransformer3DModel", KANDINSKY,
         new.kandinsky6("transformer_kandinsky6_sr", "Kandinsky6SRRoPE3D"), VIDEO, 2),
        ("LTX2VideoDiffusionDecoderModel", {"decoder_head_dim": 72}, new.ltx_decoder, VIDEO),
        ("LTXVideoTransformer3DModel", LTX, new.ltx, VIDEO, ROUNDINGS),
        ("LTX2VideoTransformer3DModel", LTX_2,
         new.ltx2("transformer_ltx2", "LTX2AudioVideoRotaryPosEmbed"), VIDEO, ROUNDINGS),
        ("SanaWMLTX2RefinerTransformer3DModel", LTX_2,
         new.ltx2("transformer_sana_wm_refiner", "SanaWMLTX2AudioVideoRotaryPosEmbed"), VIDEO, ROUNDINGS),
        ("AceStepTransformer1DModel", {"head_dim": 128, "rope_theta": 1000000.0}, rows.ace_step, row),
        ("StableAudioDiTModel", {"attention_head_dim": 64}, rows.stable_audio, row),
        ("StableAudio3DiTModel", {"embed_dim": 1536, "num_heads": 24}, rows.stable_audio_3, row),
        ("AutoencoderSAME", {"dim_heads": 64}, rows.same, row),
        ("LongCatAudioDiTTransformer", {"dit_dim": 1536, "dit_heads": 24}, rows.longcat_audio, row),
        ("MiniMaxMusic3Transformer1DModel", {"attention_head_dim": 64, "rotary_dim": 32}, rows.minimax_music, row),
        ("AnimaTextConditioner", {"model_dim": 1024, "num_attention_heads": 16}, rows.anima, row),
        ("OmniGenTransformer2DModel", OMNIGEN, rows.omnigen, row),
    )),
]  # fmt: skip
