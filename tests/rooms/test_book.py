import pytest

from posenc_backends import NAMES

from ..pages import PAGES, run

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_cells_of_a_page_print_what_it_shows(page, request):
    """Every framework in turn: so it is the same in all of them."""
    name = request.config.getoption("--backend")
    if name not in NAMES:
        pytest.skip("Pages are for frameworks.")
    run(page, name)
