import pytest

from ...pages import FOLDER, run

pytestmark = pytest.mark.whole


def test_the_page_on_a_llama_prints_what_it_shows():
    run(FOLDER.with_name("howto") / "replace_paddlenlp.md")
