import doctest
from pathlib import Path


def test_the_examples_of_the_page_run():
    page = Path(__file__).parents[2] / "docs" / "explanation" / "arrays.md"
    failed, run = doctest.testfile(str(page), module_relative=False)
    assert run > 5
    assert failed == 0
