from posenc_backends.jax.modes import MODES


def test_what_modes_ask_for_is_installed():
    assert {"exported", "in a model"} <= set(MODES)
