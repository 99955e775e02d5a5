import pytest

from posenc_backends import NAMES

from ..pages import FRONT, HOWTO, PAGES, has_tabs, run

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("page", [FRONT, *PAGES, *filter(has_tabs, HOWTO)], ids=lambda page: page.stem)
def test_the_cells_of_a_page_print_the_shown_output(page, request, tmp_path, monkeypatch):
    """The output is the same in every framework."""
    monkeypatch.chdir(tmp_path)  # some write files
    name = request.config.getoption("--backend")
    if name not in NAMES:
        pytest.skip("Pages have no tab for this backend.")
    run(page, name)
