"""Names that frameworks and models have for our arguments: the one table, by our names.

A message that refuses an argument names ours; nothing is translated.
"""

from __future__ import annotations

#: By our names, in the order in which they are tried, those of others.
NAMES = {
    "start": "offset start_index start_pos past_length past_key_values_length cache_position seqlen_offset "
    "seqlen_offsets input_offset",
    "positions": "position_ids input_pos input_positions position pos token_positions t indices",
    "seq_axis": "sequence_axis seq_dim sequence_dim seq_dimension axis time_axis",
    "seq_len": "seqlen sequence_length",
    "causal": "is_causal use_causal_mask causal_mask",
    "mask": "attn_mask attention_mask attention_bias_mask key_padding_mask src_mask src_key_padding_mask visible",
    "valid_lens": "valid_length valid_lengths lengths seq_lens key_lengths cache_seqlens",
    "cache": "past_key_value past_key_values layer_past kv_cache use_cache caches",
    "weights": "need_weights return_attention_scores output_attentions return_weights average_attn_weights",
    "queries": "query q hidden_states inputs_q",
    "keys": "key k inputs_k inputs_kv",
    "values": "value v inputs_v",
    "q": "query query_states xq",
    "k": "key key_states xk",
    "scores": "attention_scores attn_scores attn_weights logits",
    "base": "theta rope_theta rotary_base rotary_emb_base rope_base max_wavelength wavelength b",
    "scaling": "rope_scaling scaling_factor scale scale_factor factor interpolation_factor rope_parameters",
    "head_dim": "dim dims d_head dim_head head_size size_per_head rotary_ndims d_k key_dim head_features",
    "num_hiddens": "dim dims d_model embed_dim embedding_dim hidden_size hidden_dim model_dim units features "
    "qkv_features n_embd embed_size",
    "num_heads": "heads n_heads n_head nhead num_attention_heads nheads head_num",
    "num_kv_heads": "kv_heads n_kv_heads num_key_value_heads num_query_groups num_gqa_groups n_kv_head",
    "max_len": "max_seq_len max_seqlen max_length max_position_embeddings max_positions max_position n_positions "
    "context_length num_positions num_embeddings input_dim length",
    "length": "max_len max_length num_positions num_embeddings input_dim max_position_embeddings n_positions",
    "dropout": "dropout_rate dropout_p p rate drop_rate attn_drop attn_dropout attention_dropout resid_pdrop",
    "bias": "use_bias qkv_bias attn_bias bias_attr attention_bias add_bias",
    "layout": "traditional interleaved interleave is_neox_style is_neox use_neox_rotary_style neox_style style",
    "rotary_dim": "pct rotary_pct rotary_percentage partial_rotary_factor rotary_percent rotary_embedding_fraction",
    "frequencies": "inv_freq freqs custom_freqs freq",
    "sections": "mrope_section mrope_sections axes_lens",
    "axes_dims": "axes_dim rope_axes_dim",
    "num_buckets": "relative_attention_num_buckets buckets",
    "max_distance": "relative_attention_max_distance max_relative_position max_relative_positions",
    "window": "sliding_window window_size local_attention attention_window",
    "position": "rotary_emb rope pos_encoding position_embedding position_embeddings encoding pos_embed",
    "encoding": "position rotary rope pos_encoding",
    "combine": "mode",
}

#: Of arguments that mean another thing than ours, what else to say.
NOTES = {
    "mask": "True where a query sees a key",
    "layout": '"interleaved" for neighbouring channels, "half" for halves',
    "rotary_dim": "a number of channels",
}

#: Words of others for values, by our argument and value.
VALUES = {
    "layout": {
        "half": "neox gpt-neox gpt_neox neox_style rotate_half half_rotation split concatenated"
        " non_interleaved blocked",
        "interleaved": "gptj gpt-j gpt_j rotate_every_two every_two adjacent pairwise pairs complex traditional "
        "interleave alternating",
    },
    "combine": {"add": "sum", "concat": "concatenate cat"},
}


def ours(name: str) -> list[str]:
    """Return what we may call an argument of this name, the likeliest first.

    >>> ours("rope_theta"), ours("dim")
    (['base'], ['head_dim', 'num_hiddens'])
    """
    return [own for own, others in NAMES.items() if name in others.split()]


def our_value(name: str, value: object) -> str | None:
    """Return what we call a value of the argument `name`; None if it is in no table.

    >>> our_value("layout", "neox")
    'half'
    """
    words = VALUES.get(name, {}) if isinstance(value, str) else {}
    return next((own for own, others in words.items() if str(value).lower() in others.split()), None)
