"""Recorded pictures: the arguments of d2l's drawing functions."""

from types import SimpleNamespace

import numpy as np


class Notes:
    """As much of `matplotlib.pyplot`, and of its axes, as d2l's `plot` and `show_heatmaps` ask for.

    Attributes:
        curves: the numbers along both axes of each curve.
        images: the matrix of each image.
        names: those of the curves.
    """

    def __init__(self):
        self.curves, self.images, self.names = [], [], []
        self.rcParams = {}

    def plot(self, x, y, *_):
        self.curves.append((np.asarray(x), np.asarray(y)))

    def imshow(self, matrix, **_):
        self.images.append(np.asarray(matrix))

    def legend(self, names):
        self.names = list(names)

    def gca(self):
        return self

    def subplots(self, rows, columns, **_):
        return SimpleNamespace(colorbar=self.nothing), np.full((rows, columns), self, dtype=object)

    def nothing(self, *_, **__):
        """Whatever else they ask for."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.nothing
