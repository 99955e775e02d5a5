"""The saved state of a model loads into layers of another encoding where the fields that may differ are named."""

import numpy as np
import pytest

from posenc_core import Alibi, Rotary, SelfExtend, SwinV2Bias, T5Bias, YaRN, allow_change
from posenc_core.layers.saved_encodings import changed_fields

ROTARY = Rotary(head_dim=4, layout="half")
LONGER = Rotary(head_dim=4, layout="half", scaling=YaRN(factor=4.0, original_max_position_embeddings=8))
SWIN = SwinV2Bias(num_heads=2, window=(2, 2), hidden=3)
CHANGES = {  # the saved encoding, that of the layer, the fields
    "longer": (ROTARY, LONGER, ["scaling"]),
    "wider": (
        SWIN,
        SwinV2Bias(num_heads=2, window=(3, 3), trained_window=(2, 2), hidden=3),
        ["trained_window", "window"],
    ),
    "farther": (T5Bias(num_heads=2, max_distance=64), T5Bias(num_heads=2, max_distance=99), ["max_distance"]),
    "both": ((ROTARY, Alibi(num_heads=2)), (LONGER, Alibi(num_heads=2)), ["scaling"]),
    "remapped": (ROTARY, SelfExtend(rotary=ROTARY, window=4, group_size=2), ["kind"]),
}


def keras_loading(layer, make, x, folder):
    """Save the weights of a model of Keras with this layer; return a function that loads them into a new one."""
    import keras

    def model_of(layer):
        tokens = keras.Input(x.shape[1:])
        return keras.Model(tokens, layer(tokens, tokens, tokens))

    def load():
        model_of(new := make()).load_weights(folder / "model.weights.h5")
        return new

    model_of(layer).save_weights(folder / "model.weights.h5")
    return load


@pytest.mark.filterwarnings("ignore:Skipping nested container:UserWarning")  # Keras warns before it raises
@pytest.mark.parametrize(("old", "new", "fields"), CHANGES.values(), ids=CHANGES)
def test_weights_load_where_what_may_differ_is_named(on, to_backend, old, new, fields, tmp_path):
    framework = on.backend.__name__.rpartition(".")[2]
    if not hasattr(on.testing, "load_layer"):
        pytest.skip("The layers of this backend have no file format.")
    layer, fresh = (
        lambda position=position: on.testing.eval_mode(on.backend.MultiHeadAttention(8, 2, position=position))
        for position in (old, new)
    )
    x, saved = to_backend(np.ones((1, 4, 8))), layer()
    if framework == "keras":
        load = keras_loading(saved, fresh, x, tmp_path)
    else:
        on.testing.save_layer(saved, tmp_path)
        load = lambda: on.testing.load_layer(fresh, tmp_path)
    if framework != "paddle" or (hasattr(old, "parameters") and old.parameters()):  # the others are not in its states
        advice = f"in `with posenc_core.allow_change\\({', '.join(map(repr, fields))}\\):`"
        with pytest.raises((ValueError, RuntimeError), match=advice), allow_change("base"):
            load()
    with allow_change("base", *fields):
        loaded = load()
    assert loaded.position == new
    np.testing.assert_array_equal(*[on.backend.to_numpy(attention.W_v(x)) for attention in (loaded, saved)])


def test_fields_that_change_no_number_do_not_count():
    assert changed_fields(T5Bias(num_heads=2, std=0.5), T5Bias(num_heads=2)) == set()
    assert changed_fields(None, None) == set()
    assert changed_fields("T5Bias(num_heads=", T5Bias(num_heads=2)) == {"kind"}


@pytest.mark.parametrize("wrong", ["scalng", None, 3])
def test_only_fields_of_encodings_may_differ(wrong):
    with pytest.raises(ValueError, match="`names` must be fields of encodings, like"), allow_change("base", wrong):
        pass
