"""Safetensors files and their index are read correctly, or rejected with one sentence."""

import json
import re

import pytest

from posenc_core.formats.safetensors import Tensor, read_header, read_shards


def entry(shape, *offsets, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def write(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_tensors_are_in_the_order_of_their_bytes(tmp_path):
    header = {"__metadata__": {"format": "pt"}, "b": entry([1, 1], 8, 12), "a": entry([2], 0, 8)}
    path = write(tmp_path / "file", header, b"123456789012")
    first = path.stat().st_size - 12
    wanted = [Tensor("a", "F32", (2,), first, first + 8), Tensor("b", "F32", (1, 1), first + 8, first + 12)]
    assert read_header(path) == wanted
    assert read_shards(path) == {path: wanted}


@pytest.mark.parametrize("dtype", [["F32"], {"F32": 1}, None, 3])
def test_a_dtype_that_is_not_a_string_is_rejected(dtype, tmp_path):
    path = write(tmp_path / "file", {"a": entry([2], 0, 8, dtype=dtype)}, b"12345678")
    with pytest.raises(ValueError, match=re.escape(f"(`dtype` of `a` must be a string, got {dtype!r}).")):
        read_header(path)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"a": entry([2], 0, 8)}, b"1234567"),
        ({"a": entry([2], 0, 8)}, b"123456789"),
        ({"a": entry([2], 1, 9)}, b"123456789"),
        ({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, b"12345678"),
        ({"a": entry([2], 0, 8), "b": entry([1], 12, 16)}, b"1234567890123456"),
        ({"a": entry([3], 0, 8)}, b"12345678"),
        ({"a": entry([-1, -2], 0, 8)}, b"12345678"),
        ({"a": entry([-1], 0, 8, dtype="F6")}, b"12345678"),  # of a dtype whose size is not known
        ({"a": entry([0], 0, 8)}, b"12345678"),
        ({"a": entry([2], 8, 0)}, b"12345678"),
        ({"a": entry([2], 0)}, b"12345678"),
        ({"a": entry(2, 0, 8)}, b"12345678"),
        ({"a": entry(["2"], 0, 8)}, b"12345678"),
        ({"a": entry([2.0], 0, 8)}, b"12345678"),
        ({"a": entry([True, 2], 0, 8)}, b"12345678"),
        ({"a": entry([-2, -1], 0, 8)}, b"12345678"),
        ({"a": entry([2], 0.0, 8)}, b"12345678"),
        ({"a": [2]}, b"12345678"),
        ([], b""),
        ("text", b""),
    ],
)
def test_damaged_files_are_rejected(header, data, tmp_path):
    path = write(tmp_path / "damaged", header, data)
    with pytest.raises(ValueError, match=r"is not a (complete )?file of safetensors"):
        read_header(path)


@pytest.mark.parametrize(
    "content", [b"", b"short", b"\xff" * 64, b"PK\3\4" + bytes(100), (20).to_bytes(8, "little") + b"{}"]
)
def test_files_of_other_formats_are_rejected(content, tmp_path):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is not a (complete )?file of safetensors"):
        read_header(path)


@pytest.mark.parametrize(
    "content",
    [
        '{"weight_map": {"a": "../a.safetensors"}}',
        '{"weight_map": 3}',
        "{}",
        "[]",
        "no JSON",
        '{"weight_map": {"a": 1}}',
    ],
)
def test_an_invalid_index_is_rejected(content, tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    with pytest.raises(ValueError, match="`source` must be a file of safetensors or the index of several") as raised:
        read_shards(index)
    assert ("it has no `weight_map`" in str(raised.value)) == (content == "{}")


@pytest.mark.parametrize(
    ("tensor", "file", "message"),
    [("c", "one", "`c` must be in one by the index"), ("a", "two", "`a` must be in two by the index")],
)
def test_an_index_must_match_its_files(tensor, file, message, tmp_path):
    for path, name in (("one", "a"), ("two", "b")):
        write(tmp_path / path, {name: entry([2], 0, 8)}, b"12345678")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "one", "b": "two"}}))
    assert {path.name: tensors[0].name for path, tensors in read_shards(index).items()} == {"one": "a", "two": "b"}
    index.write_text(json.dumps({"weight_map": {"a": "one", "b": "two", tensor: file}}))
    with pytest.raises(ValueError, match=re.escape(message)):
        read_shards(index)


def test_a_folder_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"`source` must be a file, got the folder {tmp_path}: name the")):
        read_shards(tmp_path)
