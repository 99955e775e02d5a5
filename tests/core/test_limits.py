"""Numbers just inside and just outside of the limits that the code has."""

from types import SimpleNamespace

import numpy as np
import pytest

from posenc_backends.check import check
from posenc_core import Rotary, Sinusoidal, YaRN, attend, attend_by_block, causal, rotate
from posenc_core.attention import blockwise
from posenc_core.layers.inputs import traced_limit


def test_a_last_block_of_one_query_sees_its_own_key():
    q, k, v = np.random.default_rng(3).normal(size=(3, 9, 4))  # blocks of 4, 4 and 1
    expected = attend(q, k, v, mask=causal(np.arange(9), np.arange(9)))
    np.testing.assert_allclose(attend_by_block(q, k, v, mask=causal, block=4), expected, rtol=1e-12)
    additions = blockwise._Additions(None, None, causal)
    assert not blockwise._comes_after(additions, slice(8, 9), slice(8, 9))
    assert blockwise._comes_after(additions, slice(7, 8), slice(8, 9))


def test_the_row_of_zeros_has_slopes_of_0():
    """Row 0 of the convention is 0 by definition; the rows after it follow the formula."""
    encoding = Sinusoidal(dim=6, convention="column_index")
    np.testing.assert_array_equal(encoding.rows([0])["table"], np.zeros((1, 6)))
    (slopes,) = encoding.derivatives([0, 1]).values()
    frequencies = 10000.0 ** (-2 * np.arange(6) / 6)
    expected = frequencies * np.where(np.arange(6) % 2 == 0, np.cos(frequencies), -np.sin(frequencies))
    np.testing.assert_allclose(slopes, [np.zeros(6), expected], rtol=1e-6)


@pytest.mark.parametrize(("ulp", "conforms"), [(0, True), (10, False)])
def test_a_function_that_is_off_by_10_ulp_does_not_conform(ulp, conforms):
    rotary = Rotary(head_dim=8, layout="half")

    def turn(x, positions):
        tables = rotary.rows(np.asarray(positions))
        return rotate(x, tables["cos"], tables["sin"], layout="half")

    def off(x, positions):
        turned = turn(x, positions)
        length = np.hypot(*np.split(turned.astype(np.float64), 2, axis=-1))
        return (turned + ulp * np.spacing(np.concatenate([length, length], axis=-1).astype(x.dtype))).astype(x.dtype)

    assert (check(off, rotary).status == 0) is conforms


def test_mscales_of_zero_leave_the_default_attention_factor():
    default = YaRN(factor=4, original_max_position_embeddings=1024)
    zeros = YaRN(factor=4, original_max_position_embeddings=1024, mscale=0, mscale_all_dim=0)
    one, other = (Rotary(head_dim=8, layout="half", scaling=scaling).rows([5]) for scaling in (default, zeros))
    for name in ("cos", "sin"):
        np.testing.assert_array_equal(one[name], other[name])
    assert one["cos"][0, -1] > 1.1  # 0.1 ln 4 + 1


def test_the_positions_of_the_first_row_for_all_rows_do_not_conform():
    """Rows of a batch that all ask for the same positions would not tell the two apart."""
    rotary = Rotary(head_dim=8, layout="half")

    def first_row(x, positions):
        tables = rotary.rows(positions if positions.ndim == 1 else positions[0])
        return rotate(x, tables["cos"], tables["sin"], layout="half")

    found = check(first_row, rotary)
    assert found.status == 1
    assert str(found).startswith("does not conform: positions of the first row;")
    assert [error > 1e3 for name, _, error in found.answers if name == "each row its own"] == [True]


@pytest.mark.parametrize(("rows", "advice"), [(63, "max_len=65"), (64, "at(seq_len)"), (128, "at(seq_len)")])
def test_traced_code_is_told_of_longer_tables_only_where_they_help(rows, advice):
    limit, message = traced_limit(rows, SimpleNamespace(max_seq_len=64))
    assert limit == min(rows, 64)
    assert advice in message(65)
