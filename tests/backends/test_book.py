import pytest

from posenc_backends import NAMES

from ..pages import HOWTO, PAGES, has_tabs, run

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("page", [*PAGES, *filter(has_tabs, HOWTO)], ids=lambda page: page.stem)
def test_the_cells_of_a_page_print_what_it_shows(page, request, tmp_path, monkeypatch):
    """Every framework in turn: so it is the same in all of them."""
    monkeypatch.chdir(tmp_path)  # some write files
    name = request.config.getoption("--backend")
    if name not in NAMES:
        pytest.skip("Pages are for frameworks.")
    run(page, name)
