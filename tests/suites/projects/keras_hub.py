"""KerasHub: its layers of RoPE and ALiBi."""

from posenc_suites import Project, replace

PROJECT = Project(
    "keras-team/keras-hub",
    "71453d08f59edc90d276e999319fc51e61cbf82c",
    "keras",
    tests=(
        "keras_hub/src/layers/modeling/rotary_embedding_test.py",
        "keras_hub/src/layers/modeling/sine_position_encoding_test.py",
        "keras_hub/src/layers/modeling/alibi_bias_test.py",
    ),
    replaced="`RotaryEmbedding.call`, `SinePositionEncoding.call`, `AlibiBias.call`",
    requires=("keras-hub",),
    variables={"KERAS_BACKEND": "jax"},
)


def shim():
    import keras
    from keras_hub.src.layers.modeling import alibi_bias, rotary_embedding, sine_position_encoding

    from posenc_backends.keras import AttentionBias, PositionalEncoding, RotaryEmbedding
    from posenc_core import Alibi, Linear, Rotary, Sinusoidal

    def rotate(self, inputs, start_index=0, positions=None):
        axis, last = self._normalize_axes(inputs.shape)
        if self.rope_type != "linear" or self.denominator_dim:
            return theirs(self, inputs, start_index, positions)
        x = keras.ops.moveaxis(inputs, last, -1)
        scaling = Linear(factor=self.scaling_factor) if self.scaling_factor != 1 else None
        encoding = Rotary(head_dim=x.shape[-1], layout="half", base=self.max_wavelength, scaling=scaling)
        where = {"start": start_index} if positions is None else {"positions": positions}
        layer = RotaryEmbedding(encoding, seq_axis=axis - (last < axis), dtype=self.dtype_policy)
        return keras.ops.moveaxis(layer(x, **where), -1, last)

    def sinusoids(self, inputs, start_index=0, positions=None):
        dim, length = inputs.shape[-1], keras.ops.shape(inputs)[-2]
        layer = PositionalEncoding(dim, encoding=Sinusoidal(dim=dim, base=self.max_wavelength), dtype=self.dtype_policy)
        positions = keras.ops.arange(length) + start_index if positions is None else positions
        return keras.ops.broadcast_to(keras.ops.cast(layer.rows(positions), self.compute_dtype), inputs.shape)

    def add_alibi(self, attention_scores):
        if len(attention_scores.shape) != 4:
            raise ValueError(
                f"Expected (batch_size, num_heads, query_length, key_length), not {attention_scores.shape}"
            )
        _, heads, queries, keys = attention_scores.shape
        encoding = Alibi(num_heads=heads, max_bias=self.alibi_bias_max)
        return AttentionBias(encoding, dtype=self.dtype_policy)(attention_scores, start=keys - queries)

    theirs = rotary_embedding.RotaryEmbedding.call
    replace(rotary_embedding.RotaryEmbedding, call=rotate)
    replace(sine_position_encoding.SinePositionEncoding, call=sinusoids)
    replace(alibi_bias.AlibiBias, call=add_alibi)
