"""Facts about models that consist of others, by `model_type`: the configs inside of theirs, and encodings of their own.

Source: the configs and the code of the models in transformers 5.23.
"""

from __future__ import annotations

from .images import RANDOM, SCALED
from .kinds import Axial, Facts, If, Lack, Note, Part, Rope, Rows, SineGrid, Sines, Table, size
from .records import by_model_type

_VIDEO = Rows("num_image_with_embedding", "vision_config.hidden_size", name="frames of a video")
_MEMORY = (
    Lack(
        "learned rows of the frames of the memory, and projected sinusoids of the distance of objects in time",
        "ProjectedSinusoid",
    ),
    Axial(),
)

# The keys of the configs inside, each with the type of a model whose config leaves it out, by these models; `@` stands
# for the type of the whole, and a key alone for `key_config=@_key`.
_TABLE: dict[str, str] = {
    """
        aimv2 align altclip blip bridgetower chinese_clip clip clipseg groupvit metaclip_2 mllama owlv2 owlvit
        pix2struct siglip siglip2 tipsv2 videoprism
    """: "text_config=@_text_model vision_config=@_vision_model",
    "aria": "text_config vision_config=idefics3_vision",
    "audioflamingo3 qwen2_audio": "audio_config=@_encoder text_config=qwen2",
    "aya_vision cohere2_vision": "text_config=cohere2 vision_config=siglip_vision_model",
    "bark": (
        "coarse_acoustics_config=coarse_acoustics codec_config=encodec fine_acoustics_config=fine_acoustics "
        "semantic_config=semantic"
    ),
    "blip-2": "qformer_config=blip_2_qformer text_config=opt vision_config=blip_2_vision_model",
    "canary": "decoder_config encoder_config=parakeet_encoder",
    "chameleon": "vq_config=@_vqgan",
    "chmv2": "backbone_config=dinov3_vit",
    "clap": "audio_config=@_audio_model text_config=@_text_model",
    """
        cohere_compass cosmos3_edge deepseek_ocr2 ernie4_5_vl_moe glm4v glm4v_moe glm5_next glm_ocr hunyuan_vl
        inkling2 interns1_pro minimax_m3_vl muse_glimmer paddleocr_vl pp_formulanet qwen2_5_vl qwen2_vl qwen3_5
        qwen3_5_moe qwen3_vl qwen3_vl_moe qwen4_exp unlimited_ocr
    """: "text_config vision_config",
    "colmodernvbert": "vlm_config=modernvbert",
    "colpali": "vlm_config=paligemma",
    "colqwen2": "vlm_config=qwen2_vl",
    "conditional_detr dab-detr deformable_detr detr table-transformer": "backbone_config=timm_backbone",
    "cosmos3_omni": "text_config=qwen3_vl_text vision_config=qwen3_vl_vision",
    "csm": "codec_config=mimi depth_decoder_config=@_depth_decoder_model",
    "d_fine deimv2 pp_doclayout_v3 pp_doclayout_v4 pp_ocrv5_server_det pp_ocrv5_server_rec": "backbone_config=hgnet_v2",
    "deepseek_ocr2_vision": "encoder_config=deepseek_ocr2_encoder sam_config=deepseek_ocr2_sam_vision_model",
    "deepseek_vl": "text_config=llama vision_config=siglip_vision_model",
    "deepseek_vl_hybrid": "high_res_vision_config=sam_vision_model text_config=llama vision_config=siglip_vision_model",
    "depth_anything prompt_depth_anything": "backbone_config=dinov2",
    "depth_pro": "fov_model_config=dinov2 image_model_config=dinov2 patch_model_config=dinov2",
    "dia": "decoder_config encoder_config",
    "diffusion_gemma": "text_config vision_config=gemma4_vision",
    "dots3_note": "audio_config=@_audio_encoder text_config vision_config=@_vision_encoder",
    "embedding_gemma2": "text_config",
    "emu3": "text_config=@_text_model vq_config=@_vqgan",
    "encoder-decoder": "decoder=bert encoder=bert",
    "evolla": "protein_encoder_config=esm",
    "exaone4_5": "text_config=exaone4 vision_config",
    "fast_vlm": "text_config=qwen2 vision_config=timm_wrapper",
    "fastspeech2_conformer_with_hifigan": (
        "model_config=fastspeech2_conformer vocoder_config=fastspeech2_conformer_hifigan"
    ),
    "flava": (
        "image_codebook_config image_config=@_image_model multimodal_config=@_multimodal_model text_config=@_text_model"
    ),
    "fun_asr_nano": "adaptor_config audio_config=@_encoder text_config=qwen3",
    "fuyu": "text_config=persimmon",
    "gemma3": "text_config vision_config=siglip_vision_model",
    "gemma3n gemma4 gemma4_unified muse_spark": "audio_config text_config vision_config",
    "gemma4_assistant": "text_config=gemma4_text",
    "gemma4_unified_assistant": "text_config=gemma4_unified_text",
    "glm46v glmga": "text_config=glm4v_text vision_config=glm4v_vision",
    "glm_image": "text_config vision_config vq_config=@_vqmodel",
    "glmasr voxtral": "audio_config=@_encoder text_config=llama",
    "got_ocr2 internvl ovis2 pp_chart2table video_llama_3": "text_config=qwen2 vision_config",
    "granite4_vision": "qformer_config=blip_2_qformer text_config vision_config=clip_vision_model",
    "granite_speech granite_speech_plus": "encoder_config projector_config=blip_2_qformer text_config=granite",
    "granite_speech5_ctc": "encoder_config=granite_speech5_encoder",
    "grounding-dino mm-grounding-dino": "backbone_config=swin text_config=bert",
    "higgs_audio_v2_tokenizer xcodec": "acoustic_model_config=dac semantic_model_config=hubert",
    "hyperclovax_vision_v2": "text_config=hyperclovax vision_config=qwen2_5_vl_vision",
    "idefics": "perceiver_config=@_perciever vision_config",
    "idefics2": "perceiver_config text_config=mistral vision_config",
    "idefics3 smolvlm": "text_config=llama vision_config",
    "inkling_mm_model": "audio_config=inkling_audio text_config=inkling_text vision_config=inkling_vision",
    "instructblip instructblipvideo": "qformer_config text_config=opt vision_config=@_vision_model",
    "janus": "text_config=llama vision_config=@_vision_model vq_config=@_vqgan",
    "jev": "text_config=qwen3_5_text",
    "kimi_k25": "text_config=deepseek_v3 vision_config",
    "kosmos-2": "text_config=kosmos_2_text_model vision_config=kosmos_2_vision_model",
    "kosmos-2.5": "text_config=kosmos_2_5_text_model vision_config=kosmos_2_5_vision_model",
    "kyutai_speech_to_text": "codec_config=mimi",
    "lasr_ctc": "encoder_config=lasr_encoder",
    "lfm2_vl": "text_config=lfm2 vision_config=siglip2_vision_model",
    "lfm3_vl": "text_config=lfm3 vision_config",
    "lighton_ocr": "text_config=qwen3 vision_config=pixtral",
    "llama4": "text_config vision_config=@_vision_model",
    "llava llava_next llava_next_video video_llava vipllava": "text_config=llama vision_config=clip_vision_model",
    "llava_onevision": "text_config=qwen2 vision_config=siglip_vision_model",
    "lw_detr": "backbone_config=@_vit",
    "mask2former oneformer": "backbone_config=swin",
    "maskformer": "backbone_config=swin decoder_config=detr",
    "minicpm_ocr minicpmv4_6 minicpmv4_7": "text_config=qwen3_5_text vision_config",
    "mistral3": "text_config=mistral vision_config=pixtral",
    "mistral_large4": "text_config vision_config=pixtral",
    "modernvbert": "text_config=modernbert vision_config=siglip_vision_model",
    "molmo2": "adapter_config text_config vision_config",
    "moshi": "audio_encoder_config=mimi depth_decoder_config=@_depth",
    "moss_transcribe_diarize": "audio_config text_config=qwen3",
    "musicgen musicgen_melody": "audio_encoder=encodec decoder text_encoder=t5",
    "nemo_speechlm": (
        "audio_config=nemotron3_5_transcribe_audio text_config=nemotron_h "
        "word_timestamp_config=nemotron3_5_transcribe_word_timestamp"
    ),
    "nemotron3_5_asr": "encoder_config=nemotron_asr_streaming_encoder",
    "nemotron3_5_transcribe_audio": (
        "asr_config=nemotron3_5_transcribe_asr_audio diarization_config=nemotron3_diarization"
    ),
    "nemotron3_diarization": "audio_config",
    "nemotron_asr_streaming": "encoder_config",
    "nemotron_h_omni": "text_config=nemotron_h vision_config=radio",
    "neucodec xcodec2": "semantic_model_config=wav2vec2-bert",
    "nougat": "decoder=mbart encoder=donut-swin",
    "paligemma": "text_config=gemma vision_config=siglip_vision_model",
    "parakeet_ctc parakeet_rnnt parakeet_tdt": "encoder_config=parakeet_encoder",
    "pe_audio": "audio_config=@_encoder text_config=modernbert",
    "pe_audio_encoder": "dac_config=dac",
    "pe_audio_video": "audio_video_config=@_encoder text_config=modernbert",
    "pe_audio_video_encoder": "audio_config=pe_audio_encoder video_config=pe_video_encoder",
    "pe_video": "text_config=modernbert video_config=@_encoder",
    "pe_video_encoder": "vision_config=timm_wrapper",
    "perception_lm": "text_config=llama vision_config=timm_wrapper",
    "phi4_multimodal": "audio_config vision_config",
    "pp_doclayout_v2": "backbone_config=hgnet_v2 reading_order_config",
    "pp_ocrv5_mobile_det pp_ocrv5_mobile_rec": "backbone_config=pp_lcnet_v3",
    "pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec": "backbone_config=pp_lcnet_v4",
    "qianfan_ocr": "text_config=qwen3 vision_config",
    "qwen2_5_omni": "talker_config thinker_config token2wav_config",
    "qwen2_5_omni_thinker": (
        "audio_config=qwen2_5_omni_audio_encoder text_config=qwen2_5_omni_text "
        "vision_config=qwen2_5_omni_vision_encoder"
    ),
    "qwen2_5_omni_token2wav": "bigvgan_config=qwen2_5_omni_bigvgan dit_config=qwen2_5_omni_dit",
    "qwen3_asr": "audio_config=@_encoder text_config=qwen3",
    "qwen3_omni_moe": "code2wav_config talker_config thinker_config",
    "qwen3_omni_moe_talker": "code_predictor_config text_config",
    "qwen3_omni_moe_thinker": (
        "audio_config=qwen3_omni_moe_audio_encoder text_config=qwen3_omni_moe_text "
        "vision_config=qwen3_omni_moe_vision_encoder"
    ),
    "rag": "generator=bart question_encoder=dpr",
    "rf_detr": "backbone_config=@_dinov2",
    "rt_detr": "backbone_config=@_resnet",
    "rt_detr_v2": "backbone_config=rt_detr_resnet",
    "sam3": (
        "detr_decoder_config detr_encoder_config geometry_encoder_config mask_decoder_config "
        "text_config=clip_text_model vision_config=@_vision_model"
    ),
    "sam3_lite_text": (
        "detr_decoder_config detr_encoder_config geometry_encoder_config mask_decoder_config "
        "text_config=@_text_model vision_config=sam3_vision_model"
    ),
    "sam3_video": "detector_config=sam3 tracker_config=sam3_tracker_video",
    "shieldgemma2": "text_config=gemma3_text vision_config=siglip_vision_model",
    "slanet": "backbone_config=pp_lcnet",
    "slanext": "vision_config",
    "speech-encoder-decoder": "decoder=bert encoder=wav2vec2",
    "step3p7": "text_config=step3p5 vision_config=step3p5_vision",
    "t5gemma": "decoder=t5_gemma_module encoder=t5_gemma_module",
    "t5gemma2": "decoder encoder",
    "t5gemma2_encoder": "text_config=t5gemma2_text vision_config=siglip_vision_model",
    "tipsv2_dpt": "backbone_config=tipsv2_vision_model",
    "ultravbert": "text_config=ultrabert vision_config=siglip_vision_model",
    "unlimited_ocr_vision": "encoder_config sam_config=unlimited_ocr_sam_vision_model",
    "upernet": "backbone_config=resnet",
    "uvdoc vitpose": "backbone_config",
    "vibevoice": (
        "audio_config=@_acoustic_tokenizer diffusion_head_config=@_diffusion "
        "semantic_model_config=@_acoustic_tokenizer_encoder text_config=qwen2"
    ),
    "vibevoice_asr": (
        "acoustic_tokenizer_encoder_config=vibevoice_acoustic_tokenizer_encoder "
        "semantic_tokenizer_encoder_config=vibevoice_acoustic_tokenizer_encoder text_config=qwen2"
    ),
    "vision-encoder-decoder": "decoder=bert encoder=vit",
    "vision-text-dual-encoder": "text_config=bert vision_config=vit",
    "vitmatte": "backbone_config=vitdet",
    "voxtral_realtime": "audio_config=@_encoder text_config",
}
# Likewise of models that have encodings beside those of their parts.
_WITH_FACTS: dict[str, tuple[str, Facts]] = {
    "blt": (
        (
            "decoder_config=@_local_decoder encoder_config=@_local_encoder global_config=@_global_transformer "
            "patcher_config"
        ),
        (),
    ),
    "clvp": (
        "decoder_config speech_config=@_encoder text_config=@_encoder",
        Rows("decoder_config.max_text_tokens", "decoder_config.hidden_size", name="text"),
    ),
    "cohere_asr": ("encoder_config=parakeet_encoder", Part("decoder", Rows())),
    "edgetam sam sam2 sam_hq": ("mask_decoder_config prompt_encoder_config vision_config=@_vision_model", RANDOM),
    "edgetam_video sam2_video": (
        "mask_decoder_config prompt_encoder_config vision_config=sam2_vision_model",
        (RANDOM, *_MEMORY),
    ),
    "edgetam_vision_model": ("backbone_config=timm_wrapper", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "esmfold2": (
        "esmc_config=esmc",
        Lack("pairs of residues by learned vectors of their offsets, and RoPE by windows of atoms", "ResiduePairs"),
    ),
    "florence2": (
        "text_config=bart vision_config=florence_vision",
        (
            *(
                Table(
                    f"{what} of features",
                    lambda c: size(c, "vision_config.max_position_embeddings"),
                    "vision_config.embed_dim.-1",
                    parts=2,
                )
                for what in ("rows", "columns")
            ),
            Sines("interleaved", "vision_config.embed_dim.-1", name="frames"),
        ),
    ),
    "git": ("vision_config=@_vision_model", (Rows(), If("num_image_with_embedding", (None,), (), _VIDEO))),
    "granite_docling": ("text_config vision_config", SineGrid("timm_interleaved", "text_config.hidden_size")),
    "lightglue": (
        "keypoint_detector_config=superpoint",
        Lack("a rotary encoding of keypoints, by a learned projection of their coordinates", "KeypointRotary"),
    ),
    "moonshine_streaming": (
        "encoder_config",
        (Rope(), Rows(dim="encoder_config.hidden_size", name="frames that the decoder reads")),
    ),
    "musicflamingo": (
        "audio_config=audioflamingo3_encoder text_config=qwen2",
        Lack("a rotation of sounds by their times, before the text model", "TimeRotary"),
    ),
    "omdet-turbo": (
        "backbone_config=timm_backbone text_config=clip_text_model",
        (
            SineGrid("timm_interleaved", "d_model", "positional_encoding_temperature"),
            Note("cells are numbered column by column, but flattened row by row: exact for square features alone"),
        ),
    ),
    "pi0": (
        "dit_config=gemma vlm_config=paligemma",
        Lack("sinusoids of the steps of a diffusion, between `min_period` and `max_period`", "Timestep.min_period"),
    ),
    "sam2_vision_model": ("backbone_config=sam2_hiera_det_model", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "sam3_tracker": ("mask_decoder_config prompt_encoder_config vision_config=sam3_vision_model", RANDOM),
    "sam3_tracker_video": (
        "mask_decoder_config prompt_encoder_config vision_config=sam3_vision_model",
        (RANDOM, *_MEMORY),
    ),
    "sam3_vision_model": ("backbone_config=sam3_vit_model", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "superglue": (
        "keypoint_detector_config=superpoint",
        Lack("positions of keypoints, through a perceptron", "KeypointEncoding"),
    ),
    "tvp": (
        "backbone_config=resnet",
        (
            Rows(),
            Rows("max_grid_row_position_embeddings", name="rows of cells"),
            Rows("max_grid_col_position_embeddings", name="columns of cells"),
        ),
    ),
    "xclip": (
        "text_config=@_text_model vision_config=@_vision_model",
        Rows("vision_config.num_frames", "vision_config.mit_hidden_size", name="frames"),
    ),
    "zoedepth": ("backbone_config=beit", Lack("sinusoids of patches in the head for depth", "DepthSinusoid")),
}


def _types(name: str, keys: str) -> dict[str, str]:
    """Return the type of the part below each key of a model."""
    pairs = (key.partition("=") for key in keys.replace("@", name).split())
    return {key: own or f"{name}_{key.removesuffix('_config')}" for key, _, own in pairs}


WHOLES = by_model_type({names: facts for names, (_, facts) in _WITH_FACTS.items()})
_KEYS = by_model_type(_TABLE | {names: keys for names, (keys, _) in _WITH_FACTS.items()})
PARTS = {name: _types(name, keys) for name, keys in _KEYS.items()}
