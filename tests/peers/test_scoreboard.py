"""The committed scoreboard is that of the installed versions."""

import json
from importlib.metadata import version

import pytest

from .scoreboard.__main__ import RESULTS, row
from .scoreboard.peers import peers

BOARD = json.loads(RESULTS.read_text(encoding="utf-8"))
PEERS = peers()


def test_the_scoreboard_is_that_of_the_installed_versions():
    assert all(version(package) == number for package, number in BOARD["versions"].items())
    assert [(one["package"], one["name"]) for one in BOARD["rows"]] == [(peer.package, peer.name) for peer in PEERS]
    assert len(PEERS) >= 25


@pytest.mark.parametrize("number", range(0, len(PEERS), 9))
def test_a_row_is_measured_again(number):
    assert row(PEERS[number]) == BOARD["rows"][number]
