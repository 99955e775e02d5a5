"""GGUF byte by byte: every type of a value, the ends of files, and counts as large as their 64 bits allow."""

import struct

import numpy as np
import pytest

from posenc_core.formats.gguf_file import DamagedError, read_gguf
from posenc_core.huggingface import load_rope
from posenc_core.scaling import LongRoPE

from .test_formats_gguf import FREQS, HOSTILE, LONG, SHORT, head, key, metadata

NUMBERS = {  # the codes of the specification, each with a number that no narrower or other type has
    0: ("B", 200), 1: ("b", -100), 2: ("H", 50_000), 3: ("h", -30_000), 4: ("I", 4 * 10**9), 5: ("i", -(2**30)),
    6: ("f", 1.2), 7: ("?", True), 10: ("Q", 2**63 + 1), 11: ("q", -(2**62)), 12: ("d", 0.1),
}  # fmt: skip


def written(tmp_path, order, num_tensors, entries):
    """Return a file of version 3 with these entries, and nothing after them."""
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + struct.pack(f"{order}IQQ", 3, num_tensors, len(entries)) + b"".join(entries))
    return file


def entry(order, name, code, value):
    return struct.pack(f"{order}Q", len(name)) + name.encode() + struct.pack(f"{order}I", code) + value


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("code", NUMBERS)
def test_numbers_and_lists_of_each_type(code, order, tmp_path):
    """Those that are not kept are passed over: what follows is read."""
    form, value = NUMBERS[code]
    one, three = struct.pack(order + form, value), struct.pack(f"{order}IQ3{form}", code, 3, *[value] * 3)
    entries = [
        entry(order, "x", code, one), entry(order, "x.rope.one", code, one), entry(order, "y", 9, three),
        entry(order, "x.rope.three", 9, three),
    ]  # fmt: skip
    assert read_gguf(written(tmp_path, order, 0, entries)) == {"x.rope.one": value, "x.rope.three": [value] * 3}


ENDS = {
    "a text": (8, struct.pack("<Q", 3) + b"abc", "abc"),
    "no text": (8, struct.pack("<Q", 0), ""),
    "a number": (4, struct.pack("<I", 7), 7),
    "a list": (9, struct.pack("<IQ2H", 2, 2, 5, 6), [5, 6]),
    "an empty list": (9, struct.pack("<IQ", 2, 0), []),
    "a list of texts": (9, struct.pack("<IQQ", 8, 1, 3) + b"abc", None),
}


@pytest.mark.parametrize("name", ["x", "x.rope.one"])
@pytest.mark.parametrize("end", ENDS)
def test_a_file_may_end_with_any_value_and_not_a_byte_before(end, name, tmp_path):
    code, value, expected = ENDS[end]
    file = written(tmp_path, "<", 0, [entry("<", "x.rope.two", 0, b"\2"), entry("<", name, code, value)])
    kept = {} if name == "x" or expected is None else {name: expected}
    assert read_gguf(file) == {"x.rope.two": 2} | kept
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedError, match="announce"):
        read_gguf(file)


COUNTS = (
    "tensors", "keys", "a name", "a text", "a text that is kept", "a list", "a list that is kept", "a list of texts",
    "a text in a list", "an axis", "four axes", "an offset",
)  # fmt: skip
LARGEST = 2**32 - 1
SAID = {name: (HOSTILE[name], "announce") for name in COUNTS} | {
    "axes": (HOSTILE["axes"], f"of {LARGEST} axes"),
    "five axes": (head(1, 0, key(FREQS, 5, b"\0" * 64)), "of 5 axes"),
    "a type": (head(0, 1, key("x", LARGEST, b"\0" * 64)), f"type {LARGEST}"),
    "the type of a list": (head(0, 1, key("x", 9, struct.pack("<IQ", LARGEST, 1))), f"type {LARGEST}"),
    "the type of a tensor": (head(1, 0, key(FREQS, 1, struct.pack("<QIQ", 1, LARGEST, 0))), f"type {LARGEST}"),
    "half a version": (b"GGUF\3\0\0", "has version 3"),
    "an alignment that is too large": (head(0, 1, key("general.alignment", 4, struct.pack("<I", 2**21))), str(2**21)),
    "an alignment that is a truth": (head(0, 1, key("general.alignment", 7, b"\1")), "alignment of True"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_wrong_is_said(name, tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(SAID[name][0])
    with pytest.raises(DamagedError, match=SAID[name][1]):
        read_gguf(file)


@pytest.mark.parametrize("alignment", [1, 2, 2**20])
def test_alignments_are_powers_of_2(alignment, tmp_path):
    file = written(tmp_path, "<", 0, [entry("<", "general.alignment", 4, struct.pack("<I", alignment))])
    assert read_gguf(file) == {}


@pytest.mark.parametrize("axes", [(), (3,), (1, 3), (3, 1, 1, 1), (0,)], ids=str)
def test_tensors_of_up_to_four_axes(axes, tmp_path):
    place = struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, 0, 0)
    start = b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, len(FREQS)) + FREQS.encode() + place
    values = np.arange(1, 1 + np.prod(axes, dtype=int), dtype="<f4")
    file = tmp_path / "model.gguf"
    file.write_bytes(start + b"\0" * (-len(start) % 32) + values.tobytes())
    assert read_gguf(file) == {FREQS: values.tolist()}


@pytest.mark.parametrize(("length", "attention", "expected"), [
    (8192, 1.0, {"attention_factor": 1.0}), (4096, 1.0, {"factor": 1.0}), (2048, 1.0, {"attention_factor": 1.0}),
    (8192, (1 + np.log(2) / np.log(4096)) ** 0.5, {"factor": 2.0}), (8192, 1.3, {"attention_factor": 1.3}),
])  # fmt: skip
def test_the_factor_of_the_length_is_that_of_the_attention_factor_or_none(length, attention, expected):
    """A context shorter than the original one stretches nothing."""
    keys = {
        "attention.key_length": 8, "rope.scaling.type": "longrope", "rope.scaling.original_context_length": 4096,
        "rope.scaling.attn_factor": float(attention), "context_length": length, SHORT: [1.0] * 4, LONG: [2.0] * 4,
    }  # fmt: skip
    lists = {"short_factor": [1] * 4, "long_factor": [2] * 4, "original_max_position_embeddings": 4096}
    found = load_rope(metadata("phi3", **keys)).scaling
    assert found.at(1) == LongRoPE(**lists | expected).at(1)


@pytest.mark.parametrize(
    ("scaling", "longest"),
    [({}, 4096), ({"type": "none"}, 4096), ({"type": "linear", "factor": 4.0}, 4096),
     ({"type": "yarn", "factor": 4.0, "original_context_length": 1024}, None)],
)  # fmt: skip
def test_the_length_of_a_context_is_that_of_the_model_unless_it_belongs_to_the_scaling(scaling, longest):
    """`max_len` is no part of the equality of encodings."""
    keys = {f"rope.scaling.{name}": value for name, value in scaling.items()}
    named = metadata("qwen2", **{"attention.key_length": 64, "context_length": 4096}, **keys)
    assert load_rope(named).max_len == longest
    del named["qwen2.context_length"]
    assert load_rope(named).max_len is None


@pytest.mark.parametrize(
    ("name", "unit"), [("deepseek2", 0.1), ("deepseek32", 0.1), ("mistral4", 0.1), ("mistral3", 1)]
)
def test_the_unit_of_the_multiplier_of_the_logarithm(name, unit):
    """Files of DeepSeek have a tenth of `mscale_all_dim`, those of Mistral 3 the number itself."""
    yarn = {"type": "yarn", "factor": 4.0, "original_context_length": 1024, "yarn_log_multiplier": 0.75 * unit}
    keys = {f"rope.scaling.{key}": value for key, value in yarn.items()}
    assert load_rope(metadata(name, **{"attention.key_length": 64}, **keys)).scaling.mscale_all_dim == 0.75


def test_a_key_that_is_read_stands_in_a_file_once(tmp_path):
    one = struct.pack("<f", 1.0)
    ends = [entry("<", "x.rope.one", 6, one)]
    passed = [entry("<", "x", 6, one)] * 2
    assert read_gguf(written(tmp_path, "<", 0, ends + passed)) == {"x.rope.one": 1.0}
    with pytest.raises(DamagedError, match=r"has the key 'x.rope.one' twice"):
        read_gguf(written(tmp_path, "<", 0, ends * 2))
