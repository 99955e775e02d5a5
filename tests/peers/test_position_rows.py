"""Learned rows and sinusoids of transformers' models beside what `load_position` makes of their configs."""

import inspect

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING

from posenc_core import GridSinusoidal, Learned, Sinusoidal, Timestep, grid
from posenc_core.huggingface import load_position

from .positions import TOKENS, build, module_of, parts_of, tiny
from .rounding import assert_within

LEARNED = """
    albert bert bert-generation big_bird biogpt convbert distilbert electra ernie flaubert fnet gpt2 gpt_bigcode
    gpt_neo megatron-bert mobilebert mra openai-gpt opt rembert roc_bert splinter squeezebert tapas xlm yoso
    nystromformer camembert data2vec-text ibert luke markuplm mpnet roberta roberta-prelayernorm xlm-roberta
    xlm-roberta-xl xmod layoutlm bart mbart mvp plbart bigbird_pegasus blenderbot blenderbot-small whisper led
    clip_text_model siglip_text_model align_text_model chinese_clip_text_model flava_text_model groupvit_text_model
    clipseg_text_model siglip2_text_model owlvit_text_model metaclip_2_text_model xclip_text_model aimv2_text_model
    altclip_text_model bridgetower_text_model clap_text_model imagegpt
"""
FIELDS = {
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "led": {"max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 40, "attention_window": 4},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "mobilebert": {"intermediate_size": 512},
    "fnet": {"use_tpu_fourier_optimizations": False},
}


@pytest.mark.parametrize("model_type", LEARNED.split())
def test_the_row_of_the_first_token(model_type):
    config = tiny(model_type, **FIELDS.get(model_type, {}))
    model = build(config)
    tables = [pair for _, part in parts_of(load_position(config)) for pair in part.additive]
    tables = [encoding for name, encoding in tables if name == "tokens" and isinstance(encoding, Learned)]
    assert tables
    seen = {}
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) or type(module).__name__ == "QuantEmbedding":
            module.register_forward_pre_hook(lambda module, args: seen.setdefault(id(module), (module, [])) and None)
            module.register_forward_hook(
                lambda module, args, out: seen[id(module)][1].append(out[0] if isinstance(out, tuple) else out)
            )
    tokens = torch.arange(10, 10 + TOKENS)[None]
    with torch.no_grad():
        if "input_features" in model.main_input_name:
            model(torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions), decoder_input_ids=tokens)
        elif config.is_encoder_decoder:
            model(tokens, decoder_input_ids=tokens)
        else:
            model(tokens)
    for encoding in tables:
        shape = encoding.parameters()["table"].shape
        rows = slice(encoding.offset, encoding.offset + TOKENS)
        used = [(module.weight, out) for module, outs in seen.values() for out in outs if module.weight.shape == shape]
        assert any(torch.equal(out.reshape(-1, shape[1])[:TOKENS], weight[rows]) for weight, out in used), encoding


SERIES = {"prediction_length": 8, "context_length": 24}
SINUSOIDS = {
    "marian": {}, "pegasus": {}, "fsmt": {}, "m2m_100": {}, "nllb-moe": {"num_experts": 2}, "speech_to_text": {},
    "xglm": {}, "kosmos_2_text_model": {}, "kosmos_2_5_text_model": {}, "tipsv2_text_model": {}, "ctrl": {},
    "videoprism_text_model": {}, "musicgen_decoder": {}, "musicgen_melody_decoder": {}, "whisper": {},
    "fun_asr_nano_encoder": {}, "qwen2_5_omni_audio_encoder": {}, "qwen3_asr_encoder": {},
    "qwen3_omni_moe_audio_encoder": {}, "canary_decoder": {},
    "autoformer": SERIES, "informer": SERIES, "time_series_transformer": SERIES,
    "xlm": {"sinusoidal_embeddings": True}, "flaubert": {"sinusoidal_embeddings": True},
}  # fmt: skip


def fixed_tables(model, width):
    """The tables of positions that are not trained."""
    trained = model.config.model_type in ("flaubert", "fsmt", "xlm")  # as they start
    frozen = [(name, one.detach()) for name, one in model.named_parameters() if trained or not one.requires_grad]
    for name, table in (*model.named_buffers(), *frozen):
        if "pos" in name and table.ndim == 2 and table.shape[1] == width:
            yield table.numpy()


@pytest.mark.parametrize("model_type", sorted(SINUSOIDS))
def test_sinusoids(model_type):
    config = tiny(model_type, **SINUSOIDS[model_type])
    model = build(config)
    parts = [part for _, part in parts_of(load_position(config)) if part.additive]
    pairs = [(part.start, one) for part in parts for _, one in part.additive if isinstance(one, (Sinusoidal, Timestep))]
    assert pairs
    for start, encoding in pairs:
        theirs = list(fixed_tables(model, encoding.dim))
        assert theirs
        for table in theirs:
            rows = np.flatnonzero(table.any(axis=1))
            assert set(range(len(table))) - set(rows) <= {start - 1}
            assert_within(table[rows], encoding, rows, roundings=5, exponents=3)


NORMALIZED = (
    *("detr", "conditional_detr", "deformable_detr", "table-transformer", "grounding-dino", "mm-grounding-dino"),
    *("dab-detr", "mask2former", "oneformer", "maskformer", "sam2_vision_model", "sam3_vision_model"),
)
PLAIN = ("rt_detr", "rt_detr_v2", "d_fine", "deimv2", "pp_doclayout_v2", "pp_doclayout_v3", "pp_doclayout_v4")


def sine_class(model_type):
    names = [name for name in vars(module_of(model_type)) if name.endswith("SinePositionEmbedding")]
    (name,) = [name for name in names if "Learned" not in name]
    return getattr(module_of(model_type), name)


@pytest.mark.parametrize("model_type", NORMALIZED)
def test_sines_of_normalized_cells(model_type):
    config = CONFIG_MAPPING[model_type]()
    found = load_position(config).additive
    (encoding,) = {one for name, one in found if isinstance(one, GridSinusoidal) and name != "boxes"}
    sine, size = sine_class(model_type), (3, 5)
    mask = torch.ones(1, *size)
    if "config" in inspect.signature(sine.__init__).parameters:
        theirs = sine(config)(mask, mask)
    elif "pixel_mask" in inspect.signature(sine.forward).parameters:
        theirs = sine(encoding.dim // 2, normalize=True)(mask, mask)
    else:
        theirs = sine(encoding.dim // 2, normalize=True)((1, 1, *size), torch.device("cpu"), torch.float32)
    cells = (
        (grid(*size) + (0.5 if model_type == "deformable_detr" else 1)) / (np.array(size)[:, None] + 1e-6) * 2 * np.pi
    )
    assert_within(theirs[0].flatten(1).T, encoding, cells, roundings=8, exponents=2)


@pytest.mark.parametrize("model_type", PLAIN)
def test_sines_of_cells(model_type):
    config = CONFIG_MAPPING[model_type](positional_encoding_temperature=300)
    (encoding,) = {one for _, one in load_position(config).additive}
    sine = sine_class(model_type)(encoding.dim, config.positional_encoding_temperature)
    theirs = sine(width=5, height=3, device=torch.device("cpu"), dtype=torch.float32)
    assert_within(theirs[0], encoding, grid(3, 5), roundings=1)


def test_sines_of_patches():
    config = CONFIG_MAPPING["vit_mae"](image_size=48, num_hidden_layers=1, decoder_num_hidden_layers=1)
    position = load_position(config)
    code = module_of("vit_mae")
    encoder, decoder = code.ViTMAEEmbeddings(config), code.ViTMAEDecoder(config, num_patches=9)
    encoder.initialize_weights()
    tables = (encoder.position_embeddings, decoder.decoder_pos_embed)
    encodings = (position.additive[0][1], dict(position.parts)["decoder"].additive[0][1])
    for table, encoding in zip(tables, encodings, strict=True):
        assert not table[0, 0].any()
        assert_within(table[0, 1:].detach(), encoding, grid(3, 3), roundings=1)
    config = CONFIG_MAPPING["aimv2_vision_model"](is_native=True, num_hidden_layers=1)
    ((_, encoding),) = load_position(config).additive
    theirs = module_of("aimv2_vision_model").build_2d_sinusoidal_position_embedding(3, 5, encoding.dim)
    assert_within(theirs, encoding, grid(3, 5), roundings=1)
    config = CONFIG_MAPPING["videomae"](num_hidden_layers=1, image_size=32)
    ((_, encoding),) = load_position(config).additive
    theirs = module_of("videomae").VideoMAEModel(config).embeddings.position_embeddings[0]
    assert_within(theirs, encoding, range(len(theirs)), roundings=1)
    config = CONFIG_MAPPING["omdet-turbo"]()
    ((_, encoding),) = load_position(config).additive
    theirs = module_of("omdet-turbo").OmDetTurboHybridEncoder.build_2d_sincos_position_embedding(4, 4, encoding.dim)
    assert_within(theirs[0], encoding, grid(4, 4), roundings=4, exponents=1)
