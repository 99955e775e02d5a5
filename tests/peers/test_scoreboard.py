"""The committed scoreboard is that of the installed versions."""

import pytest

from .scoreboard.boards import check_board, row
from .scoreboard.peers import peers

PEERS = peers()


def test_the_scoreboard_is_that_of_the_installed_versions():
    assert len(check_board("peers", PEERS)) >= 25


@pytest.mark.parametrize("number", range(0, len(PEERS), 13))
def test_a_row_is_measured_again(number):
    assert row(PEERS[number]) == check_board("peers", PEERS)[number]
