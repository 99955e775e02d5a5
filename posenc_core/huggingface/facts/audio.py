"""Facts about models of sound and speech, by `model_type`: their positional encodings.

Source: the code of the models in transformers 5.23.
"""

from __future__ import annotations

from math import prod

from .kinds import CONVOLUTIONAL, Config, Fact, Facts, If, Lack, Note, Part, Rope, Rows, Sines, Table, size
from .records import by_model_type
from .scores import Buckets, Disentangled, Offsets, Shifted, Windows

_CONVOLUTIONS = Lack(
    "a convolutional positional embedding: a grouped convolution, added to the frames", "ConvolutionalEncoding"
)
_FACTOR = (Sines("interleaved"), Note("rows are multiplied by a learned factor, `alpha`"))
_PROJECTED = Note(
    "the vectors of a head are sinusoids of the offset, `Timestep(order='sin_first', shift=1)`, projected by "
    "`relative_k_proj` or `pos_proj`; keys are those of blocks, and scores have a soft cap"
)
_CLIPPED = Note("offsets beyond `right_max_position_embeddings` share a row: repeat it when the table is loaded")
_UNKNOWN = Lack("an encoding of this `position_embeddings_type`, which the model does not know", None)


def _by_type(types: dict[str | None, Facts], default: str) -> Fact:
    """Return the facts for each value of `position_embeddings_type`."""
    chain: Fact = _UNKNOWN
    for name, facts in types.items():
        chain = If("position_embeddings_type", (name,), facts, chain, default=default)
    return chain


_TYPES: dict[str | None, Facts] = {"relative": Shifted(), "rotary": Rope(), None: CONVOLUTIONAL}
_KEYS = (Offsets("left_max_position_embeddings"), _CLIPPED)
_SEAMLESS = (
    Part("text encoder", Sines("tensor2tensor", start="padding")),
    Part("text decoder", Sines("tensor2tensor", start="padding")),
)
_SPEECH = Shifted(heads="speech_encoder_attention_heads")
_NO_KEYS = Lack("the rotary encoding of the speech encoder, whose keys the config does not have", None)
_UNITS = Note("in an encoder and a decoder; the first token has the position after `t2u_pad_token_id`")
_BLOCK = Note("keys are those of the block of the query; rows are in the order of the query less the key: flip them")


def _count_overlapping(config: Config) -> int:
    """Return the number of patches of a spectrogram."""
    sides = (("num_mel_bins", 128, "frequency_stride"), ("max_length", 1024, "time_stride"))
    patch = size(config, ("patch_size", 16))
    return prod((size(config, (key, n)) - patch) // size(config, (stride, 10)) + 1 for key, n, stride in sides)


_TABLE: dict[str, Facts] = {
    # Sinusoids and learned rows.
    "whisper": (
        Part(
            "encoder",
            (Sines("tensor2tensor", dim="d_model"), Note("the rows come with a checkpoint and are not trained")),
        ),
        Part("decoder", Rows("max_target_positions", "d_model")),
    ),
    "qwen2_audio_encoder": (
        Sines("tensor2tensor", dim="d_model"),
        Note("the rows come with a checkpoint and are not trained"),
    ),
    """
        audioflamingo3_encoder moss_transcribe_diarize_audio voxtral_encoder
    """: (Sines("tensor2tensor"), Note("the rows come with a checkpoint and are not trained")),
    """
        qwen2_5_omni_audio_encoder qwen3_asr_encoder qwen3_omni_moe_audio_encoder
    """: (Sines("tensor2tensor", dim="d_model"), Note("each chunk of the sound starts from 0")),
    "fun_asr_nano_encoder": Sines("tensor2tensor", dim="num_mel_bins * num_stacked_frames", start=1),
    "canary_decoder": (Sines("concatenated"), Note("rows are divided by the root of `hidden_size`")),
    # Relative positions.
    "parakeet_encoder nemotron_asr_streaming_encoder": Shifted("max_position_embeddings"),
    "wav2vec2-bert": _by_type(_TYPES | {"relative_key": _KEYS}, "relative_key"),
    "wav2vec2-conformer": (_by_type(_TYPES, "relative"), _CONVOLUTIONS),
    "fastspeech2_conformer": (
        Part("encoder", Shifted(heads="encoder_num_attention_heads")),
        Part("decoder", Shifted(heads="decoder_num_attention_heads")),
    ),
    "seamless_m4t": (
        *_SEAMLESS,
        Part("speech encoder", _by_type({"relative": _SPEECH, "rotary": _NO_KEYS, None: CONVOLUTIONAL}, "relative")),
        Part("text to units", (Sines("tensor2tensor"), _UNITS)),
    ),
    "seamless_m4t_v2": (
        *_SEAMLESS,
        Part(
            "speech encoder",
            _by_type(
                {
                    "relative_key": (
                        Offsets("left_max_position_embeddings", "speech_encoder_attention_heads"),
                        _CLIPPED,
                    ),
                    None: CONVOLUTIONAL,
                },
                "relative_key",
            ),
        ),
        Part(
            "text to units",
            (
                Sines("tensor2tensor"),
                _UNITS,
                Note("rows are multiplied by learned factors, `pos_emb_alpha` and `pos_emb_alpha_char`"),
            ),
        ),
    ),
    "granite_speech_encoder granite_speech_plus_encoder": (
        Offsets("max_pos_emb", "num_heads", width="dim_head"),
        _BLOCK,
    ),
    "granite_speech5_encoder": (Offsets("max_position_embeddings"), _BLOCK),
    "vits": (
        Offsets("window_size", more=1, values=True),
        Note("offsets beyond `window_size` have no vector: the first and last rows are zeros when tables are loaded"),
    ),
    "speecht5": (
        Part(
            "speech encoder",
            (
                _CONVOLUTIONS,
                Sines("tensor2tensor", start="padding"),
                Offsets("encoder_max_relative_position", "encoder_attention_heads"),
                Note(
                    "rows are in the order of the query less the key: flip them; the most distant key before the query "
                    "shares a row with the next"
                ),
            ),
        ),
        Part("text encoder", _FACTOR),
        Part("speech decoder", _FACTOR),
        Part("text decoder", Sines("tensor2tensor", start="padding")),
    ),
    "wavlm": (
        _CONVOLUTIONS,
        Buckets("both", "num_attention_heads", "num_buckets", "max_bucket_distance"),
        Lack("a gate of the bias, computed from the queries", "T5Bias.gate"),
    ),
    "sew-d": (_CONVOLUTIONS, Disentangled(defaults={"pos_att_type": ("p2c", "c2p"), "position_buckets": 256})),
    "phi4_multimodal_audio": (
        Buckets("both", "num_attention_heads", "bias_max_distance * 4", "bias_max_distance * 2"),
        Note(
            "each offset below `bias_max_distance` has a bucket, and the checkpoint its number in the row `offset + "
            "bias_max_distance`: offsets beyond have that of the last, which is one less for keys after the query"
        ),
    ),
    "gemma3n_audio": (Offsets("conf_attention_context_left", "conf_num_attention_heads", per_head=True), _PROJECTED),
    "gemma4_audio": (Offsets("attention_context_left", per_head=True), _PROJECTED),
    # Convolutions, patches and windows.
    "data2vec-audio hubert sew unispeech unispeech-sat wav2vec2": _CONVOLUTIONS,
    "clap_audio_model": Windows(heads="num_attention_heads"),
    "audio-spectrogram-transformer": (
        Table("patches", lambda c: 2 + _count_overlapping(c)),
        Note("the rows are 2 other tokens, then patches"),
    ),
    """
        dac encodec fastspeech2_conformer_hifigan gemma4_unified_audio muse_spark_audio
        moonshine_streaming_encoder qwen2_5_omni_bigvgan speecht5_hifigan univnet vibevoice_acoustic_tokenizer
        vibevoice_acoustic_tokenizer_decoder vibevoice_acoustic_tokenizer_encoder
    """: CONVOLUTIONAL,
    "inkling_audio inkling_vision": Note(
        "no positional encoding: frames and patches are projected one by one, and the text model has the order"
    ),
    "fun_asr_nano_adaptor": Note("no positional encoding of its own"),
    "qwen2_5_omni_dit qwen3_omni_moe_code2wav": Rope(),
    "vibevoice_diffusion": Note("no positional encoding: the inputs are single vectors"),
}

AUDIO = by_model_type(_TABLE)
