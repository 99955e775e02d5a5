"""The order of Paddle's tests."""


def pytest_collection_modifyitems(items):
    """Move the tests that make predictors to the front: after a program with our operator, Paddle makes none."""
    items.sort(key=lambda item: "predicted" not in item.nodeid)
