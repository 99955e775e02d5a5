"""Numbers just inside and just outside of the limits that the code has."""

import re
import struct
from contextlib import nullcontext
from decimal import Context, Decimal, localcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_core as p
from posenc_backends.check import check
from posenc_backends.numpy import MultiHeadAttention, RotaryEmbedding
from posenc_core.analysis.differences import difference
from posenc_core.attention import blockwise
from posenc_core.attention.attend import Additions
from posenc_core.formats import gguf_file
from posenc_core.formats.export import to_gguf
from posenc_core.formats.gguf_file import read_gguf
from posenc_core.formats.params import from_params
from posenc_core.huggingface import load_rope
from posenc_core.huggingface.config_file import _shorten_path
from posenc_core.huggingface.diffusers import diffusers_positions
from posenc_core.huggingface.facts.kinds import Patches
from posenc_core.layers.inputs import end_of, is_real, traced_limit
from posenc_core.scaling import Proportional
from posenc_core.tables.multi_axis import cos_sin_of_sums
from posenc_core.tables.sincos import Envelope, cos_sin, cos_sin_of_float32, write_cos_sin

from ..errors import rejects
from .corpus import shorten_search
from .gguf_writer import gguf_bytes


def test_a_last_block_of_one_query_sees_its_own_key():
    q, k, v = np.random.default_rng(3).normal(size=(3, 9, 4))  # blocks of 4, 4 and 1
    expected = p.attend(q, k, v, mask=p.causal(np.arange(9), np.arange(9)))
    np.testing.assert_allclose(p.attend_by_block(q, k, v, mask=p.causal, block=4), expected, rtol=1e-12)
    additions = Additions(mask=p.causal)
    assert not blockwise._comes_after(additions, slice(8, 9), slice(8, 9))
    assert blockwise._comes_after(additions, slice(7, 8), slice(8, 9))


def test_the_row_of_zeros_has_slopes_of_0():
    """Row 0 of the convention is 0 by definition; the rows after it follow the formula."""
    encoding = p.Sinusoidal(dim=6, convention="column_index")
    np.testing.assert_array_equal(encoding.rows([0])["table"], np.zeros((1, 6)))
    (slopes,) = encoding.derivatives([0, 1]).values()
    frequencies = 10000.0 ** (-2 * np.arange(6) / 6)
    expected = frequencies * np.where(np.arange(6) % 2 == 0, np.cos(frequencies), -np.sin(frequencies))
    np.testing.assert_allclose(slopes, [np.zeros(6), expected], rtol=1e-6)


@pytest.mark.parametrize(("ulp", "conforms"), [(0, True), (10, False)])
def test_a_function_that_is_off_by_10_ulp_does_not_conform(ulp, conforms, monkeypatch):
    shorten_search(monkeypatch, most=20)  # it has no name
    rotary = p.Rotary(head_dim=8, layout="half")

    def turn(x, positions):
        tables = rotary.rows(np.asarray(positions))
        return p.rotate(x, tables["cos"], tables["sin"], layout="half")

    def off(x, positions):
        turned = turn(x, positions)
        length = np.hypot(*np.split(turned.astype(np.float64), 2, axis=-1))
        return (turned + ulp * np.spacing(np.concatenate([length, length], axis=-1).astype(x.dtype))).astype(x.dtype)

    assert (check(off, rotary).status == 0) is conforms


def test_mscales_of_zero_leave_the_default_attention_factor():
    default = p.YaRN(factor=4, original_max_position_embeddings=1024)
    zeros = p.YaRN(factor=4, original_max_position_embeddings=1024, mscale=0, mscale_all_dim=0)
    one, other = (p.Rotary(head_dim=8, layout="half", scaling=scaling).rows([5]) for scaling in (default, zeros))
    for name in ("cos", "sin"):
        np.testing.assert_array_equal(one[name], other[name])
    assert one["cos"][0, -1] > 1.1  # 0.1 ln 4 + 1


def test_the_positions_of_the_first_row_for_all_rows_do_not_conform():
    """Rows of a batch that all ask for the same positions would not tell the two apart."""
    rotary = p.Rotary(head_dim=8, layout="half")

    def first_row(x, positions):
        tables = rotary.rows(positions if positions.ndim == 1 else positions[0])
        return p.rotate(x, tables["cos"], tables["sin"], layout="half")

    found = check(first_row, rotary)
    assert found.status == 1
    assert str(found).startswith("does not conform: positions of the first row;")
    assert [error > 1e3 for name, _, error in found.answers if name == "each row its own"] == [True]


@pytest.mark.parametrize(("rows", "advice"), [(63, "max_len=65"), (64, "at(seq_len)"), (128, "at(seq_len)")])
def test_traced_code_is_told_of_longer_tables_only_where_they_help(rows, advice):
    limit, message = traced_limit(rows, SimpleNamespace(max_seq_len=64))
    assert limit == min(rows, 64)
    assert advice in message(65)
    assert re.search(r"osition 64\b", message(65))


@pytest.mark.parametrize("sections", [(0, 4, 4), (4, 0, 4), (0, 0, 8)])
def test_sections_of_gguf_are_above_0(sections):
    rotary = p.MultimodalRotary(head_dim=16, layout="half", sections=sections)
    with pytest.raises(ValueError, match="three numbers above 0 for GGUF"):
        to_gguf(rotary, architecture="qwen2vl")
    assert to_gguf(p.MultimodalRotary(head_dim=16, layout="half", sections=(4, 4, 0)), architecture="qwen2vl")


@pytest.mark.parametrize(("kind", "count"), [("keys", 40), ("tensors", 40)])
def test_a_file_of_the_shortest_entries_is_not_taken_as_damaged(tmp_path, kind, count):
    """A key without a name and of one byte has 13 bytes, a tensor without a name and axes 24."""
    counts = (0, count) if kind == "keys" else (count, 0)
    entry = struct.pack("<QIB", 0, 7, 0) if kind == "keys" else struct.pack("<QIIQ", 0, 0, 0, 0)
    path = tmp_path / "short.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, *counts) + count * entry)
    assert read_gguf(path) == {}


KEPT, OTHER = "llama.rope.dimension_sections", "tokenizer.ggml.tokens"


@pytest.mark.parametrize(
    ("constant", "limit", "made", "message"),
    [
        (None, 2**16, lambda size: gguf_bytes({"x" * size: 1}), "announces a name of"),
        ("MAX_KEYS", 3, lambda size: gguf_bytes({f"key {i}": 1 for i in range(size)}), "announces 4 keys"),
        ("MAX_TENSORS", 3, lambda size: gguf_bytes({}, {f"{i}": [1.0] for i in range(size)}), "announces 4 tensors"),
        ("MAX_ITEMS", 3, lambda size: gguf_bytes({OTHER: ["x"] * size}), "announces a list of 4 strings"),
        ("MAX_TEXT", 3, lambda size: gguf_bytes({}, {"rope_freqs.weight": [1.0] * size}), "announces 4 values"),
        (None, 2**20, lambda size: gguf_bytes({"general.alignment": 2 * size - 2**20}), "has an alignment"),
    ],
    ids=["name", "keys", "tensors", "strings", "values", "alignment"],
)
def test_a_file_is_read_up_to_each_limit(tmp_path, monkeypatch, constant, limit, made, message):
    if constant is not None:
        monkeypatch.setattr(gguf_file, constant, limit)
    path = tmp_path / "model.gguf"
    for size in (limit, limit + 1):
        path.write_bytes(made(size))
        with nullcontext() if size == limit else pytest.raises(gguf_file.DamagedError, match=message):
            read_gguf(path)


def test_a_file_that_ends_within_what_is_not_kept_is_damaged(tmp_path):
    path, whole = tmp_path / "model.gguf", gguf_bytes({OTHER: [2**32 - 1] * 8}).rstrip(b"\0")
    for content in (whole, whole[:-1]):
        path.write_bytes(content)
        with nullcontext() if content is whole else pytest.raises(gguf_file.DamagedError, match="ends at byte"):
            read_gguf(path)


def test_a_list_is_kept_up_to_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_file, "MAX_KEPT", 3)
    path = tmp_path / "model.gguf"
    for size in (3, 4):
        path.write_bytes(gguf_bytes({KEPT: [1] * size}))
        assert (KEPT in read_gguf(path)) == (size == 3)


def test_no_pair_with_axes_stands_still():
    scaling = Proportional(partial_rotary_factor=0.75)
    with pytest.raises(ValueError, match="leave no pair standing still"):
        p.MultimodalRotary(head_dim=16, layout="half", sections=(2, 2, 2), scaling=scaling)


META_OF_LLAMA4 = {"nope_layer_interval": 4, "use_qk_norm": True, "moe_args": {}}


@pytest.mark.parametrize(
    ("keys", "factor", "high"),
    [({}, 8, 4), *(({key: value}, 16, 1) for key, value in META_OF_LLAMA4.items())],
)
def test_the_numbers_of_meta_where_params_lack_them(keys, factor, high):
    params = {"dim": 64, "n_heads": 4, "n_layers": 1, "rope_theta": 500000.0, "use_scaled_rope": True, **keys}
    with pytest.warns(UserWarning, match=f"{factor}, that of Meta's code"):
        scaling = from_params(params)["rope_parameters"]
    assert (scaling["factor"], scaling["high_freq_factor"], scaling["low_freq_factor"]) == (factor, high, 1)


def test_other_tokens_come_before_the_patches():
    config = {"image_size": 32, "patch_size": 16, "hidden_size": 8}
    assert Patches().read(config)["notes"] == ("the rows are 1 other token, then a grid of 2 x 2 patches, row by row",)


def test_tables_in_traced_code_have_the_attention_factor():
    scaling = p.YaRN(factor=4.0, original_max_position_embeddings=64, attention_factor=1.5)
    for direction in ("forward", "inverse"):
        rotary = p.Rotary(head_dim=8, layout="half", scaling=scaling, direction=direction)
        for found, expected in zip(rotary.traced_rows(np.arange(9)), rotary.cos_sin(np.arange(9)), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-6)


def test_an_array_has_a_shape_and_items():
    assert not is_real(SimpleNamespace(shape=(2,), dtype="float32"))
    assert not is_real([1.0, 2.0])
    assert not is_real(np.ones(2))


def test_the_end_of_no_positions_is_the_length():
    assert end_of(None, np.zeros(0, np.int64), 4) == 4
    assert end_of(None, np.array([2, 5]), 4) == 9
    assert end_of(None, 3, 4) == 7
    assert end_of(np.array([2.5]), 0, 1) == 4
    assert end_of(object(), 0, 4) == 0
    assert end_of(np.zeros(0, np.int64), 0, 4) == 0


def test_the_least_number_of_padding_is_that_of_int64():
    tokens = np.array([[3, -(2**63)]])
    np.testing.assert_array_equal(p.padding(tokens, pad=-(2**63)), [[[[True, False]]]])
    with pytest.raises(ValueError, match="pad"):
        p.padding(tokens, pad=-(2**63) - 1)


def test_frames_of_cosmos_are_counted_as_24_per_second():
    config = {"_class_name": "CosmosTransformer3DModel"}
    slow, usual = (diffusers_positions(config, height=4, width=4, frames=3, **fps) for fps in ({"fps": 12}, {}))
    np.testing.assert_array_equal(slow, usual * [[2], [1], [1]])


def test_the_difference_of_axes_counts_them():
    one, two = p.Rotary(head_dim=8, layout="half"), p.AxialRotary(head_dim=8, layout="half", axes_dims=(2, 6))
    (axes,) = (each for each in difference(one, two, positions=9).properties if each.name == "axes")
    assert (axes.a, axes.b) == ("one", "2, with 1, 3 pairs")


def test_zeros_with_a_gradient_have_an_axis_for_columns():
    layer = RotaryEmbedding(p.Rotary(head_dim=4, layout="half"))
    zeros = layer._zero(np.arange(3.0), np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(zeros, np.zeros((3, 1)))


def test_a_shared_layer_is_checked_and_an_encoding_is_not(monkeypatch):
    rotary = p.Rotary(head_dim=4, layout="half")
    layer, checked = RotaryEmbedding(rotary), []
    monkeypatch.setattr(type(layer.backend), "check_shared", lambda self, shared: checked.append(shared))
    for position in (rotary, layer, None):
        MultiHeadAttention(8, 2, position=position)
    assert checked == [layer]


def test_a_base_of_params_is_above_1():
    sizes = {"dim": 64, "n_heads": 4, "n_layers": 1}
    assert from_params(sizes | {"rope_theta": 1.5})["rope_parameters"]["rope_theta"] == 1.5
    with pytest.raises(ValueError, match="rope_theta"):
        from_params(sizes | {"rope_theta": 1.0})


def test_a_scaling_has_as_many_factors_as_the_widest_head_has_pairs():
    config = {"model_type": "phi3", "head_dim": 2**16, "original_max_position_embeddings": 8}
    for count, error in ((2**15, None), (2**15 + 1, "must have a number for each pair")):
        factors = {"short_factor": [1.0] * count, "long_factor": [2.0] * count}
        rope = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 2.0}
        with nullcontext() if error is None else pytest.raises(ValueError, match=error):
            load_rope(config | {"rope_parameters": rope | factors})


@pytest.mark.parametrize(("length", "max_len"), [(0, None), (1, 1), (2, 2)])
def test_a_length_of_1_is_a_length(length, max_len):
    config = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "max_position_embeddings": length}
    assert load_rope(config).max_len == max_len


@pytest.mark.parametrize(("length", "shown"), [(149, 149), (150, 150), (151, 150), (400, 150)])
def test_a_message_has_the_last_150_characters_of_a_path(length, shown):
    path = Path("x" * (length - 5) + "/last")
    assert _shorten_path(path).endswith("/last")
    assert len(_shorten_path(path)) == shown
    assert _shorten_path(path).startswith("…") == (length > 150)


@pytest.mark.parametrize("factor", [2.0**-126, 2.0**126 * 1.5, np.nextafter(2.0**127, 0)])
@pytest.mark.parametrize("below", [False, True])
def test_attention_factors_are_those_that_float32_holds(factor, below):
    make = partial(p.YaRN, factor=2.0, original_max_position_embeddings=16)
    assert make(attention_factor=float(factor)).attention_factor == factor
    with localcontext(Context(prec=3)):  # the caller's precision does not matter
        assert make(attention_factor=float(factor)).attention_factor == factor
    wrong = np.nextafter(2.0**-126, 0) if below else 2.0**127
    with rejects(ValueError, "attention_factor", "2**-126"):
        make(attention_factor=float(wrong))


def test_angles_of_float32_are_below_the_limit():
    for position in (2**31 - 128, 128 - 2**31):  # the next float32 number is 2**31
        cos_sin_of_float32(np.array([position]), (Decimal(1),))
    for position in (2**31 - 1, 1 - 2**31):
        with rejects(ValueError, "positions", "2**31 radians"):
            cos_sin_of_float32(np.array([0, position]), (Decimal(1),))


def test_turns_are_below_the_limit():
    for turns in (2.0**64, -(2.0**64), np.nan):
        with rejects(TypeError, "turns"):
            cos_sin_of_sums(np.ones((1, 2)), np.array([[1.0, turns]]))
    largest = np.nextafter(2.0**64, 0)  # a whole number
    np.testing.assert_array_equal(cos_sin_of_sums(np.ones((1, 2)), np.array([[largest, -largest]]))[0], np.ones((2, 2)))


def test_tables_have_one_dtype_and_may_have_no_columns():
    arguments = np.arange(3), (Decimal(1), Decimal(0))
    with rejects(TypeError, None, "float32 and float64"):
        write_cos_sin(*arguments, cos=np.empty((3, 2), np.float32), sin=np.empty((3, 2)))
    cos, sin = cos_sin(np.array([0, 10**6]), (), envelope=Envelope(()))
    assert cos.shape == sin.shape == (2, 0)
