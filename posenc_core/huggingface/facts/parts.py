"""Facts about models that consist of others, by `model_type`: the configs inside of theirs, and encodings of their own.

Source: the configs and the code of the models in transformers 5.23.
"""

from __future__ import annotations

from .images import RANDOM, SCALED
from .kinds import Axial, Facts, Lack, Note, Part, Rope, Rows, SineGrid, Sines

_MEMORY: Facts = (
    Lack("learned rows of the frames of the memory, and projected sinusoids of the distance of objects in time"),
    Axial(),
)

# The keys of the configs inside, each with the type of a model whose config leaves it out, by these models; and what is
# known of the whole beside its parts.
_TABLE: dict[str, str | tuple[str, Facts]] = {
    "aimv2": "text_config=aimv2_text_model vision_config=aimv2_vision_model",
    "align": "text_config=align_text_model vision_config=align_vision_model",
    "altclip": "text_config=altclip_text_model vision_config=altclip_vision_model",
    "aria": "text_config=aria_text vision_config=idefics3_vision",
    "audioflamingo3": "audio_config=audioflamingo3_encoder text_config=qwen2",
    "musicflamingo": (
        "audio_config=audioflamingo3_encoder text_config=qwen2",
        (Lack("a rotation of sounds by their times, before the text model"),),
    ),
    "aya_vision cohere2_vision": "text_config=cohere2 vision_config=siglip_vision_model",
    "bark": (
        "coarse_acoustics_config=coarse_acoustics codec_config=encodec fine_acoustics_config=fine_acoustics "
        "semantic_config=semantic"
    ),
    "blip": "text_config=blip_text_model vision_config=blip_vision_model",
    "blip-2": "qformer_config=blip_2_qformer text_config=opt vision_config=blip_2_vision_model",
    "blt": (
        (
            "decoder_config=blt_local_decoder encoder_config=blt_local_encoder "
            "global_config=blt_global_transformer patcher_config=blt_patcher"
        ),
        (),
    ),
    "bridgetower": "text_config=bridgetower_text_model vision_config=bridgetower_vision_model",
    "canary": "decoder_config=canary_decoder encoder_config=parakeet_encoder",
    "chameleon": "vq_config=chameleon_vqgan",
    "chinese_clip": "text_config=chinese_clip_text_model vision_config=chinese_clip_vision_model",
    "chmv2": "backbone_config=dinov3_vit",
    "clap": "audio_config=clap_audio_model text_config=clap_text_model",
    "clip": "text_config=clip_text_model vision_config=clip_vision_model",
    "clipseg": "text_config=clipseg_text_model vision_config=clipseg_vision_model",
    "clvp": (
        "decoder_config=clvp_decoder speech_config=clvp_encoder text_config=clvp_encoder",
        (Rows("decoder_config.max_text_tokens", "decoder_config.hidden_size", name="text"),),
    ),
    "parakeet_ctc parakeet_rnnt parakeet_tdt": "encoder_config=parakeet_encoder",
    "cohere_asr": ("encoder_config=parakeet_encoder", (Part("decoder", (Rows(),)),)),
    "cohere_compass": "text_config=cohere_compass_text vision_config=cohere_compass_vision",
    "colmodernvbert": "vlm_config=modernvbert",
    "colpali": "vlm_config=paligemma",
    "colqwen2": "vlm_config=qwen2_vl",
    "conditional_detr dab-detr deformable_detr detr table-transformer": "backbone_config=timm_backbone",
    "cosmos3_edge": "text_config=cosmos3_edge_text vision_config=cosmos3_edge_vision",
    "cosmos3_omni qwen3_vl": "text_config=qwen3_vl_text vision_config=qwen3_vl_vision",
    "csm": "codec_config=mimi depth_decoder_config=csm_depth_decoder_model",
    "d_fine deimv2 pp_doclayout_v3 pp_doclayout_v4 pp_ocrv5_server_det pp_ocrv5_server_rec": "backbone_config=hgnet_v2",
    "deepseek_ocr2": "text_config=deepseek_ocr2_text vision_config=deepseek_ocr2_vision",
    "deepseek_ocr2_vision": "encoder_config=deepseek_ocr2_encoder sam_config=deepseek_ocr2_sam_vision_model",
    "deepseek_vl": "text_config=llama vision_config=siglip_vision_model",
    "deepseek_vl_hybrid": "high_res_vision_config=sam_vision_model text_config=llama vision_config=siglip_vision_model",
    "depth_anything prompt_depth_anything": "backbone_config=dinov2",
    "depth_pro": "fov_model_config=dinov2 image_model_config=dinov2 patch_model_config=dinov2",
    "dia": "decoder_config=dia_decoder encoder_config=dia_encoder",
    "diffusion_gemma": "text_config=diffusion_gemma_text vision_config=gemma4_vision",
    "dots3_note": (
        "audio_config=dots3_note_audio_encoder text_config=dots3_note_text vision_config=dots3_note_vision_encoder"
    ),
    "edgetam": (
        (
            "mask_decoder_config=edgetam_mask_decoder prompt_encoder_config=edgetam_prompt_encoder "
            "vision_config=edgetam_vision_model"
        ),
        (RANDOM,),
    ),
    "edgetam_video": (
        (
            "mask_decoder_config=edgetam_video_mask_decoder prompt_encoder_config=edgetam_video_prompt_encoder "
            "vision_config=sam2_vision_model"
        ),
        (RANDOM, *_MEMORY),
    ),
    "edgetam_vision_model": ("backbone_config=timm_wrapper", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "embedding_gemma2": "text_config=embedding_gemma2_text",
    "emu3": "text_config=emu3_text_model vq_config=emu3_vqgan",
    "encoder-decoder": "decoder=bert encoder=bert",
    "ernie4_5_vl_moe": "text_config=ernie4_5_vl_moe_text vision_config=ernie4_5_vl_moe_vision",
    "esmfold2": (
        "esmc_config=esmc",
        (Lack("pairs of residues by learned vectors of their offsets, and RoPE by windows of atoms"),),
    ),
    "evolla": "protein_encoder_config=esm",
    "exaone4_5": "text_config=exaone4 vision_config=exaone4_5_vision",
    "fast_vlm": "text_config=qwen2 vision_config=timm_wrapper",
    "fastspeech2_conformer_with_hifigan": (
        "model_config=fastspeech2_conformer vocoder_config=fastspeech2_conformer_hifigan"
    ),
    "flava": (
        "image_codebook_config=flava_image_codebook image_config=flava_image_model "
        "multimodal_config=flava_multimodal_model text_config=flava_text_model"
    ),
    "florence2": (
        "text_config=bart vision_config=florence_vision",
        (
            Lack("learned rows and columns of features, half of the columns each"),
            Sines("interleaved", "vision_config.embed_dim.-1", name="frames"),
        ),
    ),
    "fun_asr_nano": "adaptor_config=fun_asr_nano_adaptor audio_config=fun_asr_nano_encoder text_config=qwen3",
    "fuyu": "text_config=persimmon",
    "gemma3 shieldgemma2": "text_config=gemma3_text vision_config=siglip_vision_model",
    "gemma3n": "audio_config=gemma3n_audio text_config=gemma3n_text vision_config=gemma3n_vision",
    "gemma4": "audio_config=gemma4_audio text_config=gemma4_text vision_config=gemma4_vision",
    "gemma4_assistant": "text_config=gemma4_text",
    "gemma4_unified": (
        "audio_config=gemma4_unified_audio text_config=gemma4_unified_text vision_config=gemma4_unified_vision"
    ),
    "gemma4_unified_assistant": "text_config=gemma4_unified_text",
    "git": ("vision_config=git_vision_model", (Rows(), Lack("learned rows of the frames of a video"))),
    "glm46v glm4v glmga": "text_config=glm4v_text vision_config=glm4v_vision",
    "glm4v_moe": "text_config=glm4v_moe_text vision_config=glm4v_moe_vision",
    "glm5_next": "text_config=glm5_next_text vision_config=glm5_next_vision",
    "glm_image": "text_config=glm_image_text vision_config=glm_image_vision vq_config=glm_image_vqmodel",
    "glm_ocr": "text_config=glm_ocr_text vision_config=glm_ocr_vision",
    "glmasr": "audio_config=glmasr_encoder text_config=llama",
    "got_ocr2": "text_config=qwen2 vision_config=got_ocr2_vision",
    "granite4_vision": "qformer_config=blip_2_qformer text_config=granite4_vision_text vision_config=clip_vision_model",
    "granite_docling": (
        "text_config=granite_docling_text vision_config=granite_docling_vision",
        (SineGrid("timm_interleaved", "text_config.hidden_size"),),
    ),
    "granite_speech": "encoder_config=granite_speech_encoder projector_config=blip_2_qformer text_config=granite",
    "granite_speech5_ctc": "encoder_config=granite_speech5_encoder",
    "granite_speech_plus": (
        "encoder_config=granite_speech_plus_encoder projector_config=blip_2_qformer text_config=granite"
    ),
    "grounding-dino mm-grounding-dino": "backbone_config=swin text_config=bert",
    "groupvit": "text_config=groupvit_text_model vision_config=groupvit_vision_model",
    "higgs_audio_v2_tokenizer xcodec": "acoustic_model_config=dac semantic_model_config=hubert",
    "hunyuan_vl": "text_config=hunyuan_vl_text vision_config=hunyuan_vl_vision",
    "hyperclovax_vision_v2": "text_config=hyperclovax vision_config=qwen2_5_vl_vision",
    "idefics": "perceiver_config=idefics_perciever vision_config=idefics_vision",
    "idefics2": "perceiver_config=idefics2_perceiver text_config=mistral vision_config=idefics2_vision",
    "idefics3": "text_config=llama vision_config=idefics3_vision",
    "inkling2": "text_config=inkling2_text vision_config=inkling2_vision",
    "inkling_mm_model": "audio_config=inkling_audio text_config=inkling_text vision_config=inkling_vision",
    "instructblip": "qformer_config=instructblip_qformer text_config=opt vision_config=instructblip_vision_model",
    "instructblipvideo": (
        "qformer_config=instructblipvideo_qformer text_config=opt vision_config=instructblipvideo_vision_model"
    ),
    "interns1_pro": "text_config=interns1_pro_text vision_config=interns1_pro_vision",
    "internvl": "text_config=qwen2 vision_config=internvl_vision",
    "janus": "text_config=llama vision_config=janus_vision_model vq_config=janus_vqgan",
    "jev": "text_config=qwen3_5_text",
    "kimi_k25": "text_config=deepseek_v3 vision_config=kimi_k25_vision",
    "kosmos-2": "text_config=kosmos_2_text_model vision_config=kosmos_2_vision_model",
    "kosmos-2.5": "text_config=kosmos_2_5_text_model vision_config=kosmos_2_5_vision_model",
    "kyutai_speech_to_text": "codec_config=mimi",
    "lasr_ctc": "encoder_config=lasr_encoder",
    "lfm2_vl": "text_config=lfm2 vision_config=siglip2_vision_model",
    "lfm3_vl": "text_config=lfm3 vision_config=lfm3_vl_vision",
    "lightglue": (
        "keypoint_detector_config=superpoint",
        (Lack("a rotary encoding of keypoints, by a learned projection of their coordinates"),),
    ),
    "superglue": ("keypoint_detector_config=superpoint", (Lack("positions of keypoints, through a perceptron"),)),
    "lighton_ocr": "text_config=qwen3 vision_config=pixtral",
    "llama4": "text_config=llama4_text vision_config=llama4_vision_model",
    "llava llava_next llava_next_video video_llava vipllava": "text_config=llama vision_config=clip_vision_model",
    "llava_onevision": "text_config=qwen2 vision_config=siglip_vision_model",
    "lw_detr": "backbone_config=lw_detr_vit",
    "mask2former oneformer": "backbone_config=swin",
    "maskformer": "backbone_config=swin decoder_config=detr",
    "metaclip_2": "text_config=metaclip_2_text_model vision_config=metaclip_2_vision_model",
    "minicpm_ocr": "text_config=qwen3_5_text vision_config=minicpm_ocr_vision",
    "minicpmv4_6": "text_config=qwen3_5_text vision_config=minicpmv4_6_vision",
    "minicpmv4_7": "text_config=qwen3_5_text vision_config=minicpmv4_7_vision",
    "minimax_m3_vl": "text_config=minimax_m3_vl_text vision_config=minimax_m3_vl_vision",
    "mistral3": "text_config=mistral vision_config=pixtral",
    "mistral_large4": "text_config=mistral_large4_text vision_config=pixtral",
    "mllama": "text_config=mllama_text_model vision_config=mllama_vision_model",
    "modernvbert": "text_config=modernbert vision_config=siglip_vision_model",
    "molmo2": "adapter_config=molmo2_adapter text_config=molmo2_text vision_config=molmo2_vision",
    "moonshine_streaming": (
        "encoder_config=moonshine_streaming_encoder",
        (Rope(), Rows(dim="encoder_config.hidden_size", name="frames that the decoder reads")),
    ),
    "moshi": "audio_encoder_config=mimi depth_decoder_config=moshi_depth",
    "moss_transcribe_diarize": "audio_config=moss_transcribe_diarize_audio text_config=qwen3",
    "muse_glimmer": "text_config=muse_glimmer_text vision_config=muse_glimmer_vision",
    "muse_spark": "audio_config=muse_spark_audio text_config=muse_spark_text vision_config=muse_spark_vision",
    "musicgen": "audio_encoder=encodec decoder=musicgen_decoder text_encoder=t5",
    "musicgen_melody": "audio_encoder=encodec decoder=musicgen_melody_decoder text_encoder=t5",
    "nemo_speechlm": (
        "audio_config=nemotron3_5_transcribe_audio text_config=nemotron_h "
        "word_timestamp_config=nemotron3_5_transcribe_word_timestamp"
    ),
    "nemotron3_5_asr nemotron_asr_streaming": "encoder_config=nemotron_asr_streaming_encoder",
    "nemotron3_5_transcribe_audio": (
        "asr_config=nemotron3_5_transcribe_asr_audio diarization_config=nemotron3_diarization"
    ),
    "nemotron3_diarization": "audio_config=nemotron3_diarization_audio",
    "nemotron_h_omni": "text_config=nemotron_h vision_config=radio",
    "neucodec xcodec2": "semantic_model_config=wav2vec2-bert",
    "nougat": "decoder=mbart encoder=donut-swin",
    "omdet-turbo": (
        "backbone_config=timm_backbone text_config=clip_text_model",
        (
            SineGrid("timm_interleaved", "d_model", "positional_encoding_temperature"),
            Note("cells are numbered column by column, but flattened row by row: exact for square features alone"),
        ),
    ),
    "ovis2": "text_config=qwen2 vision_config=ovis2_vision",
    "owlv2": "text_config=owlv2_text_model vision_config=owlv2_vision_model",
    "owlvit": "text_config=owlvit_text_model vision_config=owlvit_vision_model",
    "paddleocr_vl": "text_config=paddleocr_vl_text vision_config=paddleocr_vl_vision",
    "paligemma": "text_config=gemma vision_config=siglip_vision_model",
    "pe_audio": "audio_config=pe_audio_encoder text_config=modernbert",
    "pe_audio_encoder": "dac_config=dac",
    "pe_audio_video": "audio_video_config=pe_audio_video_encoder text_config=modernbert",
    "pe_audio_video_encoder": "audio_config=pe_audio_encoder video_config=pe_video_encoder",
    "pe_video": "text_config=modernbert video_config=pe_video_encoder",
    "pe_video_encoder": "vision_config=timm_wrapper",
    "perception_lm": "text_config=llama vision_config=timm_wrapper",
    "phi4_multimodal": "audio_config=phi4_multimodal_audio vision_config=phi4_multimodal_vision",
    "pi0": (
        "dit_config=gemma vlm_config=paligemma",
        (Lack("sinusoids of the steps of a diffusion, between `min_period` and `max_period`"),),
    ),
    "pix2struct": "text_config=pix2struct_text_model vision_config=pix2struct_vision_model",
    "pp_chart2table": "text_config=qwen2 vision_config=pp_chart2table_vision",
    "pp_doclayout_v2": "backbone_config=hgnet_v2 reading_order_config=pp_doclayout_v2_reading_order",
    "pp_formulanet": "text_config=pp_formulanet_text vision_config=pp_formulanet_vision",
    "pp_ocrv5_mobile_det pp_ocrv5_mobile_rec": "backbone_config=pp_lcnet_v3",
    "pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec": "backbone_config=pp_lcnet_v4",
    "qianfan_ocr": "text_config=qwen3 vision_config=qianfan_ocr_vision",
    "qwen2_5_omni": (
        "talker_config=qwen2_5_omni_talker thinker_config=qwen2_5_omni_thinker token2wav_config=qwen2_5_omni_token2wav"
    ),
    "qwen2_5_omni_thinker": (
        "audio_config=qwen2_5_omni_audio_encoder text_config=qwen2_5_omni_text "
        "vision_config=qwen2_5_omni_vision_encoder"
    ),
    "qwen2_5_omni_token2wav": "bigvgan_config=qwen2_5_omni_bigvgan dit_config=qwen2_5_omni_dit",
    "qwen2_5_vl": "text_config=qwen2_5_vl_text vision_config=qwen2_5_vl_vision",
    "qwen2_audio": "audio_config=qwen2_audio_encoder text_config=qwen2",
    "qwen2_vl": "text_config=qwen2_vl_text vision_config=qwen2_vl_vision",
    "qwen3_5": "text_config=qwen3_5_text vision_config=qwen3_5_vision",
    "qwen3_5_moe": "text_config=qwen3_5_moe_text vision_config=qwen3_5_moe_vision",
    "qwen3_asr": "audio_config=qwen3_asr_encoder text_config=qwen3",
    "qwen3_omni_moe": (
        "code2wav_config=qwen3_omni_moe_code2wav talker_config=qwen3_omni_moe_talker "
        "thinker_config=qwen3_omni_moe_thinker"
    ),
    "qwen3_omni_moe_talker": (
        "code_predictor_config=qwen3_omni_moe_talker_code_predictor text_config=qwen3_omni_moe_talker_text"
    ),
    "qwen3_omni_moe_thinker": (
        "audio_config=qwen3_omni_moe_audio_encoder text_config=qwen3_omni_moe_text "
        "vision_config=qwen3_omni_moe_vision_encoder"
    ),
    "qwen3_vl_moe": "text_config=qwen3_vl_moe_text vision_config=qwen3_vl_moe_vision",
    "qwen4_exp": "text_config=qwen4_exp_text vision_config=qwen4_exp_vision",
    "rag": "generator=bart question_encoder=dpr",
    "rf_detr": "backbone_config=rf_detr_dinov2",
    "rt_detr rt_detr_v2": "backbone_config=rt_detr_resnet",
    "sam": (
        (
            "mask_decoder_config=sam_mask_decoder prompt_encoder_config=sam_prompt_encoder "
            "vision_config=sam_vision_model"
        ),
        (RANDOM,),
    ),
    "sam2": (
        (
            "mask_decoder_config=sam2_mask_decoder prompt_encoder_config=sam2_prompt_encoder "
            "vision_config=sam2_vision_model"
        ),
        (RANDOM,),
    ),
    "sam2_video": (
        (
            "mask_decoder_config=sam2_video_mask_decoder prompt_encoder_config=sam2_video_prompt_encoder "
            "vision_config=sam2_vision_model"
        ),
        (RANDOM, *_MEMORY),
    ),
    "sam2_vision_model": ("backbone_config=sam2_hiera_det_model", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "sam3": (
        "detr_decoder_config=sam3_detr_decoder detr_encoder_config=sam3_detr_encoder "
        "geometry_encoder_config=sam3_geometry_encoder mask_decoder_config=sam3_mask_decoder "
        "text_config=clip_text_model vision_config=sam3_vision_model"
    ),
    "sam3_lite_text": (
        "detr_decoder_config=sam3_lite_text_detr_decoder detr_encoder_config=sam3_lite_text_detr_encoder "
        "geometry_encoder_config=sam3_lite_text_geometry_encoder "
        "mask_decoder_config=sam3_lite_text_mask_decoder text_config=sam3_lite_text_text_model "
        "vision_config=sam3_vision_model"
    ),
    "sam3_tracker": (
        (
            "mask_decoder_config=sam3_tracker_mask_decoder prompt_encoder_config=sam3_tracker_prompt_encoder "
            "vision_config=sam3_vision_model"
        ),
        (RANDOM,),
    ),
    "sam3_tracker_video": (
        (
            "mask_decoder_config=sam3_tracker_video_mask_decoder "
            "prompt_encoder_config=sam3_tracker_video_prompt_encoder vision_config=sam3_vision_model"
        ),
        (RANDOM, *_MEMORY),
    ),
    "sam3_video": "detector_config=sam3 tracker_config=sam3_tracker_video",
    "sam3_vision_model": ("backbone_config=sam3_vit_model", (SineGrid("tatp22", "fpn_hidden_size"), SCALED)),
    "sam_hq": (
        (
            "mask_decoder_config=sam_hq_mask_decoder prompt_encoder_config=sam_hq_prompt_encoder "
            "vision_config=sam_hq_vision_model"
        ),
        (RANDOM,),
    ),
    "siglip": "text_config=siglip_text_model vision_config=siglip_vision_model",
    "siglip2": "text_config=siglip2_text_model vision_config=siglip2_vision_model",
    "slanet": "backbone_config=pp_lcnet",
    "slanext": "vision_config=slanext_vision",
    "smolvlm": "text_config=llama vision_config=smolvlm_vision",
    "speech-encoder-decoder": "decoder=bert encoder=wav2vec2",
    "step3p7": "text_config=step3p5 vision_config=step3p5_vision",
    "t5gemma": "decoder=t5_gemma_module encoder=t5_gemma_module",
    "t5gemma2": "decoder=t5gemma2_decoder encoder=t5gemma2_encoder",
    "t5gemma2_encoder": "text_config=t5gemma2_text vision_config=siglip_vision_model",
    "tipsv2": "text_config=tipsv2_text_model vision_config=tipsv2_vision_model",
    "tipsv2_dpt": "backbone_config=tipsv2_vision_model",
    "upernet": "backbone_config=resnet",
    "tvp": (
        "backbone_config=resnet",
        (
            Rows(),
            Rows("max_grid_row_position_embeddings", name="rows of cells"),
            Rows("max_grid_col_position_embeddings", name="columns of cells"),
        ),
    ),
    "ultravbert": "text_config=ultrabert vision_config=siglip_vision_model",
    "unlimited_ocr": "text_config=unlimited_ocr_text vision_config=unlimited_ocr_vision",
    "unlimited_ocr_vision": "encoder_config=unlimited_ocr_vision_encoder sam_config=unlimited_ocr_sam_vision_model",
    "uvdoc": "backbone_config=uvdoc_backbone",
    "vibevoice": (
        "audio_config=vibevoice_acoustic_tokenizer diffusion_head_config=vibevoice_diffusion "
        "semantic_model_config=vibevoice_acoustic_tokenizer_encoder text_config=qwen2"
    ),
    "vibevoice_asr": (
        "acoustic_tokenizer_encoder_config=vibevoice_acoustic_tokenizer_encoder "
        "semantic_tokenizer_encoder_config=vibevoice_acoustic_tokenizer_encoder text_config=qwen2"
    ),
    "video_llama_3": "text_config=qwen2 vision_config=video_llama_3_vision",
    "videoprism": "text_config=videoprism_text_model vision_config=videoprism_vision_model",
    "vision-encoder-decoder": "decoder=bert encoder=vit",
    "vision-text-dual-encoder": "text_config=bert vision_config=vit",
    "vitmatte": "backbone_config=vitdet",
    "vitpose": "backbone_config=vitpose_backbone",
    "voxtral": "audio_config=voxtral_encoder text_config=llama",
    "voxtral_realtime": "audio_config=voxtral_realtime_encoder text_config=voxtral_realtime_text",
    "xclip": (
        "text_config=xclip_text_model vision_config=xclip_vision_model",
        (Rows("vision_config.num_frames", "vision_config.mit_hidden_size", name="frames"),),
    ),
    "zoedepth": ("backbone_config=beit", (Lack("sinusoids of patches in the head for depth"),)),
}
PARTS: dict[str, dict[str, str]] = {}
WHOLES: dict[str, Facts] = {}
for _names, _row in _TABLE.items():
    _parts, _facts = (_row, None) if isinstance(_row, str) else _row
    for _name in _names.split():
        PARTS[_name] = dict(part.split("=") for part in _parts.split())
        if _facts is not None:
            WHOLES[_name] = _facts
