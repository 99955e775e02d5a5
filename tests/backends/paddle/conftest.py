"""The order of Paddle's tests."""


def pytest_collection_modifyitems(items):
    """Move the tests of the operator to the end: after them, Paddle ends the process when it makes a predictor."""
    items.sort(key=lambda item: item.path.name == "test_operator.py")
