"""Explanations of published configs against formulas written anew here and `tests/golden/rope_models.json`."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from posenc_core import NTK, Linear, Proportional, Rotary, rotate
from posenc_core.analysis import precision
from posenc_core.analysis.explain import explain
from posenc_core.analysis.pairs import describe_scaling, pairs_of
from posenc_core.analysis.precision import loss
from posenc_core.huggingface.facts.models import MODELS

from ..errors import rejects
from .load_cases import load_cases

CASES = json.loads((Path(__file__).parents[1] / "golden" / "rope_models.json").read_text(encoding="utf-8"))
LLAMA31, DEEPSEEK, PHI, GEMMA3, QWEN2_VL, COHERE2, FOPE = load_cases("explained").values()
YARN = DEEPSEEK["rope_scaling"]


@pytest.fixture
def few_positions(monkeypatch):
    """Search few positions for errors of low precision, as that takes most of an explanation."""
    monkeypatch.setattr(precision, "LIMIT", 2**10)


def wavelengths(dim, base):
    return math.tau * base ** (np.arange(0, dim, 2) / dim)


def only(config, **options):
    (layers,) = explain(config, **options)
    return layers


def column(pairs, name):
    return np.array([getattr(pair, name) for pair in pairs], np.float64)


@pytest.mark.usefixtures("few_positions")
def test_llama_31_keeps_blends_and_divides():
    layers = only(LLAMA31)
    (regime,) = layers.regimes
    plain = wavelengths(128, 5e5)
    kept = np.clip((8192 / plain - 1) / 3, 0, 1)
    divisors = 1 / (kept + (1 - kept) / 8)
    np.testing.assert_allclose(column(regime.pairs, "plain_wavelength"), plain, rtol=1e-13)
    np.testing.assert_allclose(column(regime.pairs, "slowed_by"), divisors, rtol=1e-12)
    np.testing.assert_allclose(column(regime.pairs, "wavelength"), plain * divisors, rtol=1e-12)
    np.testing.assert_allclose(column(regime.pairs, "frequency"), math.tau / plain / divisors, rtol=1e-12)
    np.testing.assert_allclose(column(regime.pairs, "turns_in_original"), 8192 / plain / divisors, rtol=1e-12)
    np.testing.assert_allclose(column(regime.pairs, "turns_in_longest"), 131072 / plain / divisors, rtol=1e-12)
    (fast,), (slow,) = np.nonzero(8192 / plain > 4), np.nonzero(8192 / plain < 1)
    between = divisors[fast[-1] + 1 : slow[0]]
    assert regime.slowing == (
        f"kept: pairs 0–{fast[-1]}; blended, divided by {min(between):.3g} to {max(between):.3g}: "
        f"pairs {fast[-1] + 1}–{slow[0] - 1}; divided by 8: pairs {slow[0]}–63"
    )
    assert (layers.original_length, layers.longest_length) == (8192, 131072)


def test_llama_31_is_off_where_the_survey_has_it():
    """SURVEY.md, section 5, has 1.9e-4 at 4096 and 6.2e-3 at 131072; in bfloat16, already the first angle is off."""
    float32, bfloat16 = only(LLAMA31).regimes[0].losses
    assert (float32.arithmetic, bfloat16.arithmetic) == ("float32", "bfloat16")
    bounds, firsts = zip(*float32.first_off, strict=True)
    assert bounds == (1e-3, 1e-2, 1e-1)
    assert 4096 < firsts[0] < 131072 < firsts[1] < firsts[2] < 2**22
    assert bfloat16.first_off[0] == (1e-3, 1)


@pytest.mark.usefixtures("few_positions")
@pytest.mark.parametrize(
    ("name", "seq_len"),
    [
        ("llama-3.1-8b", None),
        ("deepseek-v3 (rope part)", None),
        ("phi-3.5-mini", 4096),
        ("phi-3.5-mini", 4097),
        ("gemma-4 (full)", None),
        ("gpt-oss-20b", None),
        ("hunyuan-dense/moe", None),
    ],
)
def test_frequencies_and_factors_are_the_golden_ones(name, seq_len):
    case = next(case for case in CASES if case["name"] == name and case["seq_len"] == seq_len)
    regimes = only(case["config"]).regimes
    regime = regimes[seq_len is not None and seq_len > 4096]
    np.testing.assert_allclose(column(regime.pairs, "frequency"), case["frequencies"], rtol=1e-14)
    assert regime.attention_factor == pytest.approx(case["attention_factor"], rel=1e-14)
    assert regime.score_factor == pytest.approx(case["attention_factor"] ** 2, rel=1e-14)


@pytest.mark.usefixtures("few_positions")
@pytest.mark.filterwarnings("ignore:`qk_rope_head_dim` 64 is used:UserWarning")  # by llama, which does not read it
@pytest.mark.parametrize(
    ("config", "factor"),
    [
        (DEEPSEEK, (0.1 * math.log(40) + 1) ** 2),
        (DEEPSEEK | {"model_type": "kimi_k2"}, (0.1 * math.log(40) + 1) ** 2),
        (
            DEEPSEEK
            | {"model_type": "deepseek_v2", "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}},
            (0.0707 * math.log(40) + 1) ** 2,
        ),
        (DEEPSEEK | {"rope_scaling": {k: v for k, v in YARN.items() if "mscale" not in k}}, 1),
        (DEEPSEEK | {"rope_scaling": None}, 1),
        (DEEPSEEK | {"model_type": "llama", "head_dim": 64}, 1),
        (LLAMA31, 1),
    ],
)
def test_the_softmax_scale_is_multiplied_by_some_models(config, factor):
    assert only(config).softmax_factor == pytest.approx(factor, rel=1e-14)


@pytest.mark.usefixtures("few_positions")
@pytest.mark.filterwarnings("ignore:`model_type` .* does more:UserWarning")  # mistral_large4 scales its queries
def test_every_model_with_a_softmax_factor_has_one():
    squaring = [name for name, model in MODELS.items() if model.squares_factor]
    assert "deepseek_v3" in squaring
    for model_type in squaring:
        config = DEEPSEEK | {"model_type": model_type, "qk_rope_head_dim": 8}
        assert explain(config)[0].softmax_factor == pytest.approx((0.1 * math.log(40) + 1) ** 2), model_type


def test_longrope_has_two_regimes():
    layers = only(PHI)
    short, long = layers.regimes
    np.testing.assert_allclose(column(short.pairs, "slowed_by"), [1, 1.25, 1.25, 2], rtol=1e-15)
    np.testing.assert_allclose(column(long.pairs, "slowed_by"), [1.5, 4, 16, 64], rtol=1e-15)
    for regime in (short, long):
        assert regime.attention_factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)), rel=1e-15)
        assert regime.score_factor == pytest.approx(1 + 5 / 12, rel=1e-14)
    assert (short.lengths, short.seq_len) == ("up to 4,096 positions", None)
    assert (long.lengths, long.seq_len) == ("longer", 4097)
    assert (short.losses[0].searched, long.losses[0].searched) == (4096, 2**22)
    assert short.slowing == "kept: pair 0; divided by 1.25 to 2: pairs 1–3"
    assert long.slowing == "divided by 1.5 to 64: pairs 0–3"
    assert {pair.turns_in_longest for pair in short.pairs} == {None}
    np.testing.assert_allclose(
        column(long.pairs, "turns_in_longest"), 131072 / wavelengths(8, 1e4) / [1.5, 4, 16, 64], rtol=1e-14
    )


def test_dynamic_ntk_is_explained_for_the_length_of_its_factor():
    config = {"head_dim": 64, "max_position_embeddings": 4096, "rope_scaling": {"type": "dynamic", "factor": 4.0}}
    layers = only(config)
    short, long = layers.regimes
    base = 10000 * (4 * 16384 / 4096 - 3) ** (64 / 62)
    np.testing.assert_allclose(column(short.pairs, "wavelength"), wavelengths(64, 10000), rtol=1e-13)
    np.testing.assert_allclose(column(long.pairs, "wavelength"), wavelengths(64, base), rtol=1e-12)
    assert (long.seq_len, long.lengths) == (16384, "e.g. 16,384 positions")
    assert (short.losses[1].searched, long.losses[1].searched) == (4096, 16384)
    assert short.slowing == "kept: pairs 0–31"
    assert long.slowing == "kept: pair 0; divided by 1.09 to 13: pairs 1–31"


@pytest.mark.usefixtures("few_positions")
def test_layer_types_are_explained_one_by_one():
    full, sliding = explain(GEMMA3)
    assert (full.layer_type, sliding.layer_type) == ("full_attention", "sliding_attention")
    np.testing.assert_allclose(column(full.regimes[0].pairs, "wavelength"), 8 * wavelengths(256, 1e6), rtol=1e-13)
    np.testing.assert_allclose(column(sliding.regimes[0].pairs, "wavelength"), wavelengths(256, 1e4), rtol=1e-13)
    assert full.regimes[0].slowing == "divided by 8: pairs 0–127"
    assert (full.scaling, sliding.scaling) == ("Linear(factor=8.0)", "None")
    assert only(GEMMA3, layer_type="sliding_attention") == sliding


@pytest.mark.usefixtures("few_positions")
def test_layers_without_rope_are_explained():
    sliding, full = explain(COHERE2)
    assert (sliding.layer_type, sliding.kind, sliding.layout) == ("sliding_attention", "Rotary", "interleaved")
    assert (full.layer_type, full.kind, full.regimes) == ("full_attention", None, ())
    assert only({"model_type": "bloom", "n_head": 16, "hidden_size": 1024, "alibi": True}).kind is None


@pytest.mark.usefixtures("few_positions")
def test_pairs_of_several_axes_name_theirs():
    layers = only(QWEN2_VL)
    assert layers.kind == "MultimodalRotary"
    axes = [pair.axis for pair in layers.regimes[0].pairs]
    assert axes == ["time"] * 16 + ["height"] * 24 + ["width"] * 24
    assert only(DEEPSEEK).regimes[0].pairs[0].axis is None


@pytest.mark.usefixtures("few_positions")
@pytest.mark.parametrize(
    ("config", "layout", "source"),
    [
        (LLAMA31, "half", "model_type"),
        (COHERE2 | {"sliding_window": None}, "interleaved", "model_type"),
        ({"head_dim": 8}, "half", None),
        ({"head_dim": 8, "model_type": "unheard_of", "rope_theta": 1e4}, "half", None),
        (DEEPSEEK | {"rope_interleave": False}, "half", "rope_interleave"),
        ({"head_dim": 8, "rotary_emb_interleaved": True}, "interleaved", "rotary_emb_interleaved"),
    ],
)
@pytest.mark.filterwarnings("ignore:`model_type` 'unheard_of' is unknown:UserWarning")
def test_the_key_that_determines_the_layout_is_named(config, layout, source):
    layers = explain(config)[0]
    assert (layers.layout, layers.layout_from) == (layout, source)


@pytest.mark.parametrize("layout", ["interleaved", "half", "interleaved_to_half"])
@pytest.mark.parametrize("options", [{}, {"rotary_dim": 4}, {"rotary_dim": 4, "placement": "trail"}])
def test_channels_are_those_that_are_rotated(layout, options):
    rotary = Rotary(head_dim=10, layout=layout, **options)
    check_channels(rotary, layout, rotary.placement)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_channels_of_spread_pairs_are_those_that_are_rotated(layout):
    rotary = Rotary(head_dim=12, layout=layout, placement="spread", scaling=Proportional(partial_rotary_factor=0.5))
    check_channels(rotary, layout, "spread")
    check_channels(Rotary(head_dim=12, rotary_dim=4, layout=layout, placement="spread"), layout, "spread")


def check_channels(rotary, layout, placement):
    """Rotate one pair by π: ones in its two channels become -1, in whichever channel of the result."""
    for pair in pairs_of(rotary)[: rotary.pairs]:
        cos = np.ones((1, rotary.pairs))
        cos[0, pair.index] = -1
        for channel in range(rotary.head_dim):
            rotated = rotate(np.eye(rotary.head_dim)[[channel]], cos, 0 * cos, layout=layout, placement=placement)
            assert (rotated.sum() < 0) == (channel in pair.channels)


def test_pairs_that_are_not_rotated_are_named():
    rotary = Rotary(
        head_dim=16, layout="half", placement="spread", scaling=Proportional(partial_rotary_factor=0.25, factor=2)
    )
    pairs = pairs_of(rotary, longest=100)
    assert describe_scaling(rotary, pairs) == "divided by 2: pairs 0–1; not rotated: pairs 2–7"
    assert (pairs[7].frequency, pairs[7].wavelength, pairs[7].slowed_by, pairs[7].turns_in_longest) == (
        0,
        None,
        None,
        0,
    )
    np.testing.assert_allclose(column(pairs, "plain_wavelength"), wavelengths(16, 1e4), rtol=1e-14)


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        (None, "kept: pairs 0–2"),
        (Linear(factor=1), "kept: pairs 0–2"),
        (Linear(factor=2.5), "divided by 2.5: pairs 0–2"),
        (NTK(factor=9), "kept: pair 0; divided by 3 to 9: pairs 1–2"),
    ],
)
def test_a_scaling_is_described_in_words(scaling, words):
    rotary = Rotary(head_dim=6, layout="half", scaling=scaling)
    assert describe_scaling(rotary, pairs_of(rotary)) == words


@pytest.mark.usefixtures("few_positions")
@pytest.mark.parametrize("config", [LLAMA31, PHI, DEEPSEEK, GEMMA3, QWEN2_VL, COHERE2])
def test_all_of_it_can_be_written_as_json(config):
    layers = explain(config)
    written = json.loads(json.dumps([asdict(each) for each in layers], allow_nan=False))
    assert [each["base"] for each in written] == [each.base for each in layers]
    assert written[0]["regimes"][0]["pairs"][1]["channels"] == list(layers[0].regimes[0].pairs[1].channels)


@pytest.mark.parametrize(
    ("config", "options", "names"),
    [
        (LLAMA31 | {"max_position_embeddings": "long"}, {}, ("max_position_embeddings", "'long'")),
        (GEMMA3, {"layer_type": "global"}, ("layer_type", "'global'")),
        (
            {"head_dim": 8, "rope_scaling": {"type": "ntk", "factor": 2}},
            {},
            ("rope_type", "'ntk'", "`NTK`", "`NTKAlpha`"),
        ),
    ],
)
def test_a_config_that_cannot_be_honoured_is_told(config, options, names):
    with rejects((TypeError, ValueError), *names):
        explain(config, **options)


def test_pairs_of_sums_of_frequencies():
    (layers,) = explain(FOPE)
    (regime,) = layers.regimes
    assert (layers.kind, layers.base, layers.scaling, layers.longest_length) == ("FoPE", 10000, "None", 1024)
    assert regime.slowing == "mixed: pairs 0–2; constant: pair 3"
    assert [pair.frequency for pair in regime.pairs] == [1.0, 0.1, 0.01, 0.0]
    assert regime.pairs[3].plain_wavelength == pytest.approx(2000 * math.pi)
    turning = Rotary(head_dim=6, layout="half", frequencies=[1.0, 0.1, 0.01])
    assert regime.losses == tuple(loss(turning, arithmetic=one.arithmetic) for one in regime.losses)
