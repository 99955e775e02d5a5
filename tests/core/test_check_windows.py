"""`check` of the biases of small windows, as of Swin: a window may have fewer tokens than other calls."""

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_core.encodings import Sinusoidal, SwinBias


def bias_of(encoding, table, change):
    """Return the function of a bias that Swin looks up: row `(dy + h - 1) * (2 * w - 1) + dx + w - 1`."""
    height, width = encoding.window

    def bias(queries, keys):
        dy, dx = (change(of(queries)[:, None] - of(keys)) for of in (lambda at: at // width, lambda at: at % width))
        rows = table[(dy + height - 1) * (2 * width - 1) + dx + width - 1]
        return np.moveaxis(rows, -1, 0).astype(np.float32)

    return bias


@pytest.mark.parametrize("window", [(2, 2), (3, 4), (4, 3), (5, 5), (1, 7)])
@pytest.mark.parametrize(("change", "names"), [(np.positive, ()), (np.negative, ("sign of offsets flipped",))])
def test_windows_of_any_size_are_checked(window, change, names):
    encoding = SwinBias(num_heads=2, window=window)
    (name, parameter), *_ = encoding.parameters().items()
    table = np.random.default_rng(0).standard_normal(parameter.shape).astype(np.float32)
    result = check(bias_of(encoding, table, change), encoding, parameters={name: table})
    assert (result.status, result.names) == (bool(names), names), result


def test_rows_kept_for_padding_are_named():
    """As in fairseq: rows begin at `padding_idx + 1`."""
    encoding = Sinusoidal(dim=16)
    assert check(lambda at: encoding.table(at + 2), encoding).names == ("wrong offset",)
