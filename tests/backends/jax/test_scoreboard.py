"""The implementations in JAX of the scoreboard."""

import flax.linen
import flax.nnx
import pytest

from ...peers.scoreboard.boards import check_board, row
from ...peers.scoreboard.of_jax import peers


def test_the_scoreboard_is_that_of_the_installed_versions():
    assert len(check_board("jax", peers())) == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(peers())))
def test_a_row_is_measured_again(number):
    assert row(peers()[number]) == check_board("jax", peers())[number]


def test_flax_has_no_rotary_layer_as_the_page_says():
    names = [*dir(flax.linen), *dir(flax.nnx)]
    assert "Einsum" in names
    assert not [name for name in names if "rotary" in name.lower() or "rope" in name.lower()]
