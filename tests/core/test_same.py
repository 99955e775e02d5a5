"""Comparisons of configs: the verdict against a search of all positions, and the key that differs."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_backends.cli.main import main
from posenc_core import AxialRotary, Linear, MultimodalRotary, Rotary, YaRN, rotate
from posenc_core.analysis import compare_rope
from posenc_core.analysis.differences import HALF_ULP, difference, first_off
from posenc_core.analysis.same import RELAY, REORDERED, _which

from ..errors import rejects
from .load_cases import load_cases

LLAMA = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "max_position_embeddings": 8192}
PHI = load_cases("explained")["PHI"]


def only(a, b, **options):
    (layers,) = compare_rope(a, b, **options).layers
    return layers


def keys(layers):
    return [cause.key for cause in layers.causes]


def distances(a, b, positions):
    """Return the largest distance of unit vectors at each position, of rotations of the same channels: (length,)."""
    phases = [
        encoding.attention_factor * np.exp(1j * np.multiply.outer(positions, encoding.frequencies()))
        for encoding in (a, b)
    ]
    return np.abs(phases[0] - phases[1]).max(axis=-1)


@pytest.mark.parametrize(
    "other",
    [
        {"base": 500_010},
        {"base": 501_000},
        {"scaling": Linear(factor=1.0001)},
        {"scaling": YaRN(factor=4, original_max_position_embeddings=2048, attention_factor=1.0005)},
        {"scaling": YaRN(factor=4, original_max_position_embeddings=2048)},
    ],
    ids=str,
)
def test_first_positions_are_those_of_a_search(other):
    """The last of the two differs at position 0 already, by its attention factor."""
    a = Rotary(head_dim=64, layout="half", base=5e5)
    b = replace(a, **other)
    found, searched = difference(a, b, positions=2**16), distances(a, b, np.arange(2**16))
    for bound, position in found.first_off:
        beyond = np.flatnonzero(searched > bound)
        assert position == (beyond[0] if beyond.size else position)
        assert beyond.size or position is None or position >= 2**16
    assert found.same == (not np.any(searched > 1e-3))
    assert max(pair.distance for pair in found.pairs) == pytest.approx(searched.max(), abs=1e-3)


@given(
    st.floats(0.5, 2),
    st.floats(-1e-2, 1e-2),
    st.floats(-4, 4).filter(lambda rate: abs(rate) > 1e-4),
    st.floats(1e-3, 1),
)
def test_first_off_of_one_pair(factor, more, rate, bound):
    positions = np.arange(2**16)
    searched = np.abs(factor - (factor + more) * np.exp(1j * rate * positions))
    found = first_off(factor, factor + more, rate, bound)
    if found is None:
        assert np.all(searched <= bound + 1e-9)
    elif found < len(positions):
        assert searched[found] > bound - 1e-9
        assert np.all(searched[:found] <= bound + 1e-9)


def test_a_pair_tells_its_angle_at_the_last_position():
    a, b = Rotary(head_dim=4, layout="half"), Rotary(head_dim=4, layout="half", scaling=Linear(factor=2))
    first, second = difference(a, b, positions=1001).pairs
    assert (first.channels_a, first.channels_b) == ((0, 2), (0, 2))
    assert first.angle == pytest.approx(500)
    assert second.angle == pytest.approx(5)
    assert second.farthest == round(math.pi / 0.005)
    assert second.distance == pytest.approx(2, abs=1e-5)


def test_other_channels_differ_from_the_first_position_on_which_matrices_do():
    """The pairs turn so slowly that only the third position is off by the tolerance."""
    a = Rotary(head_dim=4, layout="half", frequencies=[4e-4, 1e-4])
    b = replace(a, layout="interleaved")
    eye, found = np.eye(4), difference(a, b, positions=100)
    matrices = [[rotate(eye, *one.cos_sin([position]), layout=one.layout) for one in (a, b)] for position in range(100)]
    off = [np.linalg.norm(one - other, ord=2) for one, other in matrices]
    for bound, position in found.first_off:
        assert position == next(index for index, one in enumerate(off) if one > bound)
    assert dict(found.first_off)[1e-3] > 1
    assert not found.pairs
    assert not found.same
    assert difference(a, b, positions=100, any_layout=True).same


def properties(a, b):
    return [(one.name, one.a, one.b) for one in difference(a, b, positions=9).properties]


def test_placement_is_a_property_of_heads_that_rotate_in_part():
    whole, part = Rotary(head_dim=8, layout="half"), Rotary(head_dim=8, layout="half", rotary_dim=6)
    assert properties(part, replace(part, placement="trail")) == [("placement", "lead", "trail")]
    assert properties(whole, replace(whole, placement="trail", layout="interleaved")) == [
        ("layout", "half", "interleaved")
    ]
    assert ("rotated channels", 8, 6) in properties(whole, part)


def test_inverse_rotation_differs():
    a = Rotary(head_dim=4, layout="half")
    found = difference(a, replace(a, direction="inverse"), positions=10)
    assert [pair.frequency_b for pair in found.pairs] == [-1.0, -0.01]
    assert [one.name for one in found.properties] == ["direction"]


def test_axes_differ_where_angles_of_text_do_not():
    text = Rotary(head_dim=16, layout="half")
    vision = MultimodalRotary(head_dim=16, layout="half", sections=(2, 3, 3))
    found = difference(text, vision, positions=100)
    assert not found.same
    assert [pair.axis_b for pair in found.pairs] == [1, 1, 1, 2, 2, 2]
    assert found.first_off == ((1e-3, None), (HALF_ULP, None))


def test_grids_are_compared():
    a = AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4))
    assert difference(a, a, positions=100).same
    found = difference(a, replace(a, arrangement="alternating"), positions=100)
    assert [pair.index for pair in found.pairs] == [1, 2]
    assert not found.same


def test_the_same_in_two_spellings():
    modern = {
        "model_type": "llama",
        "hidden_size": 512,
        "num_attention_heads": 4,
        "rope_parameters": {"rope_theta": 5e5},
    }
    found = compare_rope(LLAMA, modern)
    assert found.same
    assert found.positions == 8192
    assert only(LLAMA, modern).causes == ()


def test_differences_beyond_the_longest_length_are_told():
    found = only(LLAMA, LLAMA | {"rope_theta": 500_001})
    assert found.same
    assert found.first_off[0][1] > 8192
    (bound, first), *_ = found.first_off
    assert f"beyond them, they differ by more than {bound:g} from {first:,} on" in found.verdict
    assert not only(LLAMA, LLAMA | {"rope_theta": 500_001}, positions=10**6).same
    assert not only(LLAMA, LLAMA | {"rope_theta": 500_001}, tolerance=1e-4).same


@pytest.mark.parametrize("key", ["qwen2_vl", "qwen2"])
def test_without_a_length_131072_positions_are_compared(key):
    assert compare_rope({"model_type": key, "head_dim": 128}, {"model_type": key, "head_dim": 128}).positions == 131072


def test_another_layout_is_a_difference_unless_weights_are_relaid():
    cohere = LLAMA | {"model_type": "cohere"}
    layers = only(LLAMA, cohere)
    assert not layers.same
    assert keys(layers) == ["layout"]
    assert layers.causes[0].a_from == "model_type"
    assert layers.remarks == (RELAY,)
    assert compare_rope(LLAMA, cohere, any_layout=True).same
    assert keys(only(LLAMA, cohere | {"rope_theta": 1e4}, any_layout=True)) == ["rope_theta"]
    assert only(LLAMA, cohere | {"rope_theta": 1e4}).remarks == ()


def test_the_order_of_the_result_is_no_difference():
    """DeepSeek in transformers writes pairs of neighbours where halves have them, for queries and for keys."""
    mla = {"qk_rope_head_dim": 64, "rope_theta": 1e4}
    layers = only({"model_type": "deepseek_v3"} | mla, {"model_type": "deepseek_v2"} | mla)
    assert layers.same
    assert layers.remarks == (REORDERED,)


def test_a_difference_only_in_long_sequences():
    changed = PHI | {"rope_scaling": PHI["rope_scaling"] | {"long_factor": [1.5, 4.0, 16.0, 32.0]}}
    layers = only(PHI, changed)
    assert [(one.seq_len, one.same) for one in layers.differences] == [(4096, True), (4097, False), (131072, False)]
    assert keys(layers) == ["long_factor"]
    assert "in sequences of 4,097" in layers.verdict


def test_layer_types_are_compared_one_by_one():
    gemma = {"model_type": "gemma3_text", "head_dim": 256}
    found = compare_rope(gemma, gemma | {"rope_local_base_freq": 2e4})
    assert [(one.layer_type, one.same) for one in found.layers] == [
        ("full_attention", True),
        ("sliding_attention", False),
    ]
    assert found.layers[1].causes[0].b_from == "rope_local_base_freq"
    uniform = compare_rope(gemma, {"model_type": "llama", "head_dim": 256, "rope_theta": 1e6})
    assert [one.same for one in uniform.layers] == [True, False]
    assert only(gemma, gemma | {"rope_local_base_freq": 2e4}, layer_type="full_attention").same


def test_layer_types_of_other_names_are_compared_where_both_have_them():
    gemma = {"model_type": "gemma3_text", "head_dim": 128}
    other = {"head_dim": 128, "rope_parameters": {"full_attention": {"rope_theta": 1e6}, "chunked_attention": None}}
    with rejects(ValueError, "layer_type", "sliding_attention"):
        compare_rope(gemma, other)
    with rejects(ValueError, "layer_type", "chunked_attention"):
        compare_rope(gemma, other, layer_type="chunked_attention")
    assert only(gemma, other, layer_type="full_attention").same


def test_layers_without_rope():
    nope = LLAMA | {"rope_scaling": None, "position_embedding_type": "nope"}
    layers = only(nope, LLAMA)
    assert not layers.same
    assert (layers.rotates_a, layers.rotates_b) == (False, True)
    assert keys(layers) == ["position_embedding_type"]
    assert only(nope, nope).same


@pytest.mark.filterwarnings(
    "ignore:`partial_rotary_factor` 0.5 is used:UserWarning"
)  # by llama, which does not read it
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"rope_theta": 1e4}, ["rope_theta"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor"]),
        ({"head_dim": 64}, ["head_dim"]),
        ({"rope_scaling": {"type": "linear", "factor": 8.0}}, ["rope_scaling"]),
        ({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 8.0}}, ["rope_theta", "rope_scaling"]),
        ({"rope_theta": 1e4, "model_type": "cohere"}, ["layout", "rope_theta"]),
        ({"model_type": "nanochat"}, ["direction"]),
        ({"rope_parameters": {"mrope_section": [16, 24, 24]}}, ["mrope_section"]),
    ],
    ids=str,
)
def test_the_smallest_set_of_keys_is_named(changed, expected):
    assert keys(only(LLAMA, LLAMA | changed)) == expected
    assert keys(only(LLAMA | changed, LLAMA)) == expected


def test_keys_without_effect_are_not_named():
    """The ends of the blended band are rounded to whole pairs, so that this `beta_slow` changes none."""
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    a = LLAMA | {"rope_scaling": yarn}
    b = LLAMA | {"rope_scaling": yarn | {"beta_slow": 1.0001, "factor": 8.0}}
    assert keys(only(a, b)) == ["factor"]


def test_values_and_places_of_a_key():
    layers = only(LLAMA, {"model_type": "llama", "head_dim": 128, "rope_parameters": {"rope_theta": 1e6}})
    (cause,) = layers.causes
    assert (cause.a, cause.a_from, cause.b, cause.b_from) == (5e5, "rope_theta", 1e6, "rope_parameters.rope_theta")
    (cause,) = only(
        LLAMA, {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 64, "rope_theta": 5e5}
    ).causes
    assert (cause.key, cause.b, cause.b_from) == ("head_dim", 64, "hidden_size / num_attention_heads")
    (cause,) = only(LLAMA, {"model_type": "llama", "head_dim": 128}).causes
    assert (cause.b, cause.b_from) == (10000, None)


@pytest.mark.parametrize(
    ("other", "key", "value", "place"),
    [
        ("--use-rope-scaling --rope-scaling-factor 16", "factor", 16, "rope_scaling_factor"),
        ("--use-rope-scaling", "factor", 8.0, None),
        ({"use_scaled_rope": True, "rope_scaling_factor": 8}, "factor", 8, "rope_scaling_factor"),
        ({"rope_theta": 1e4, "use_scaled_rope": True, "rope_scaling_factor": 32}, "rope_theta", 1e4, "rope_theta"),
        ({"llama.rope.freq_base": 1e4}, "rope_theta", 1e4, "rope.freq_base"),
    ],
)
def test_a_key_of_another_format_is_named_as_its_file_spells_it(other, key, value, place):
    llama3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1, "high_freq_factor": 4}
    a = LLAMA | {"rope_scaling": llama3 | {"original_max_position_embeddings": 8192}}
    if isinstance(other, str):
        b = f"--position-embedding-type rope --rotary-base 500000 --kv-channels 128 {other}"
    elif "llama.rope.freq_base" in other:
        b = other | {"general.architecture": "llama", "llama.attention.key_length": 128}
    else:
        b = {"dim": 4096, "n_heads": 32, "rope_theta": 5e5} | other
    (layers,) = compare_rope(a, b, any_layout=True).layers
    found = {cause.key: (cause.b, cause.b_from) for cause in layers.causes}
    assert found[key] == (value, place)


def test_other_keys_of_sliding_layers_do_not_come_from_the_key_of_their_base():
    gemma = {"model_type": "gemma3_text", "head_dim": 8, "sliding_window": 4, "rope_local_base_freq": 10000.0}
    for layers in compare_rope(gemma, gemma | {"head_dim": 16}).layers:
        assert [(cause.key, cause.a_from, cause.b_from) for cause in layers.causes] == [
            ("head_dim", "head_dim", "head_dim")
        ]
    layers = compare_rope(gemma, gemma | {"rope_local_base_freq": 500.0}).layers
    assert [[(cause.key, cause.b_from) for cause in one.causes] for one in layers if not one.same] == [
        [("rope_theta", "rope_local_base_freq")]
    ]


def test_the_text_of_a_comparison():
    lines = str(compare_rope(LLAMA, LLAMA | {"rope_theta": 1e4})).splitlines()
    assert lines[0] == "different"
    assert lines[-1] == "  rope_theta: 500000.0 (`rope_theta`) in A, 10000.0 (`rope_theta`) in B"
    assert str(compare_rope(LLAMA, LLAMA)).startswith("the same\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0}, "tolerance"),
        ({"tolerance": 2}, "tolerance"),
        ({"positions": 0}, "positions"),
        ({"positions": 2**31 + 1}, "positions"),
        ({"layer_type": "full_attention"}, "layer_type"),
    ],
    ids=str,
)
def test_bad_arguments(options, message):
    with rejects(ValueError, message):
        compare_rope(LLAMA, LLAMA, **options)


def write(folder, **configs):
    for name, config in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    return [str(folder / f"{name}.json") for name in configs]


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    write(tmp_path, a=LLAMA, b=LLAMA | {"rope_theta": 1e4}, c=LLAMA | {"model_type": "cohere"})
    assert main(["same", "a.json", "a.json"]) == 0
    assert main(["same", "a.json", "c.json"]) == 1
    assert main(["same", "a.json", "c.json", "--any-layout"]) == 0
    capsys.readouterr()
    assert main(["same", "a.json", "b.json", "--json", "x.json"]) == 1
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    for text in ("different from position 1 on", "rope_theta", "500,000", "10,000"):
        assert text in printed
    write(tmp_path, d=LLAMA | {"model_type": "cohere", "rope_theta": 1e4})
    assert main(["same", "a.json", "d.json", "--any-layout"]) == 1
    assert "…" not in capsys.readouterr().out.replace("0 … ", "")
    (layers,) = json.loads((tmp_path / "x.json").read_text())["layers"]
    assert layers["causes"][0]["key"] == "rope_theta"
    assert len(layers["differences"][0]["pairs"]) == 63


@pytest.mark.parametrize("content", ["", "[]", "{", '{"rope_theta": "x", "head_dim": 8}', '{"model_type": "me"}'])
def test_bad_files_are_no_difference(content, tmp_path, capsys):
    (good,) = write(tmp_path, good=LLAMA)
    (tmp_path / "bad.json").write_text(content)
    assert main(["same", good, str(tmp_path / "bad.json")]) == 2
    assert main(["same", str(tmp_path / "bad.json"), good]) == 2
    assert main(["same", good, str(tmp_path / "none.json")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert all(line.startswith("posenc: ") for line in errors)


@pytest.mark.parametrize(("nearest", "found"), [(2**31 - 1, 2**31 - 1), (2**31, None)])
def test_the_last_position_that_is_searched_is_below_2_to_the_31(nearest, found):
    rate = 2 * math.asin(0.25) / (nearest - 0.5)
    assert first_off(1.0, 1.0, rate, 0.5) == found


@pytest.mark.parametrize(
    ("indices", "words"),
    [([4], "pair 4"), ([4, 5], "pairs 4–5"), ([4, 5, 6], "pairs 4–6"), ([4, 6], "2 pairs from 4 to 6"),
     ([4, 5, 7, 9], "4 pairs from 4 to 9")],
)  # fmt: skip
def test_pairs_in_words(indices, words):
    assert _which([SimpleNamespace(index=index) for index in indices]) == words
