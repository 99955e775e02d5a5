"""`QueryScale` and `load_query_scale`; the factors are those of mpmath, to the last bit."""

from decimal import Decimal

import numpy as np
import pytest

from posenc_backends.conformance.cases import golden
from posenc_backends.numpy import QueryScaling
from posenc_core import (
    Alibi,
    AxialRotary,
    Encoding,
    LearnedQueryScale,
    Placed,
    QueryScale,
    Rotary,
    ShawBias,
    attend,
    attend_by_block,
    attention_weights,
    causal,
)
from posenc_core.huggingface import load_position, load_query_scale

from ..errors import rejects
from .load_cases import load_cases

BETA = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "llama_4_scaling_beta": 0.1}
MINISTRAL = {"model_type": "ministral3", "head_dim": 128, "max_position_embeddings": 262144}
CASES = load_cases("query_scale")
LEARNED = LearnedQueryScale(num_heads=64)


@pytest.mark.parametrize("case", golden("query_scale"), ids=lambda case: case["name"])
def test_factors_are_rounded_once(case):
    factors = Encoding.from_dict(case["encoding"]).factors(case["positions"])
    np.testing.assert_array_equal(factors[:, None], case["table"])


def test_the_formulas():
    positions = [0, 2046, 2047, 4094, 4095]
    steps = QueryScale(length=2048, scale=0.5).factors(positions)
    np.testing.assert_array_equal(
        steps, np.float32([1, 1, 1 + 0.5 * np.log(2), 1 + 0.5 * np.log(2), 1 + np.log(3) / 2])
    )
    logn = QueryScale(length=2048, growth="log").factors(positions)
    np.testing.assert_array_equal(logn, np.float32([1, 1, 1, np.log(4095) / np.log(2048), 12 / 11]))
    power = QueryScale(length=1, scale=0.5, growth="power").factors([[0, 3], [8, 15]])
    np.testing.assert_array_equal(power, np.sqrt(np.float32([[2, 5], [10, 17]])))
    assert logn.dtype == np.float32


def test_entries_that_float64_does_not_decide():
    """The logarithm times the scale lies within 2**-76 of the middle of 1 and the next float32 number."""
    middle = float(2.0**-24 / np.log(2))
    for scale in (np.nextafter(middle, 0), middle, np.nextafter(middle, 1)):
        (factor,) = QueryScale(length=8, scale=scale, start=0).factors([8])
        is_above = Decimal(float(scale)) * Decimal(2).ln() > Decimal(2) ** -24
        assert factor == np.float32(1 + is_above * 2.0**-23)


def test_it_is_a_value():
    scale = QueryScale(length=16384, scale=0.1, start=0)
    assert repr(scale) == "QueryScale(length=16384, scale=0.1, start=0)"
    assert Encoding.from_dict(scale.to_dict()) == scale


def test_wrong_positions_are_rejected():
    scale = QueryScale(length=8, scale=0.1)
    with rejects(TypeError, "positions", "real"):
        scale.factors([0.5])
    with rejects(ValueError, "positions", "-1"):
        scale.factors([-1])


@pytest.mark.parametrize(("config", "expected"), CASES["configs"].values(), ids=CASES["configs"])
def test_configs(config, expected):
    assert load_query_scale(config) == expected


def test_layers_that_multiply_queries():
    types = {"layer_types": ["chunked_attention", "full_attention"]}
    llama = {"model_type": "llama4_text", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2, **types}
    for config in (llama, {**llama, "model_type": "beam", "layer_types": ["sliding_attention", "full_attention"]}):
        rotated, full = config["layer_types"]
        assert load_query_scale(config, layer_type=full) == load_query_scale(config) is not None
        assert load_query_scale(config, layer_type=rotated) is None
    inkling = {"model_type": "inkling2_text", "layer_types": ["hybrid_sliding", "hybrid"]}
    assert load_query_scale(inkling, layer_type="hybrid").growth == "log"
    assert load_query_scale(inkling, layer_type="hybrid_sliding") is None
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "swa_num_attention_heads": 8}
    sizes |= {"rel_extent": 64, "sliding_window_size": 32}
    assert "in layers of type 'hybrid' alone" in " ".join(load_position(inkling | sizes).notes)
    with rejects(ValueError, "layer_type", "'full'"):
        load_query_scale(llama, layer_type="full")


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model_type": "llama4_text", "attn_scale": None}, "attn_scale"),
        ({"model_type": "llama4_text", "floor_scale": 0}, "floor_scale"),
        ({**MINISTRAL, "rope_parameters": BETA}, "original_max_position_embeddings"),
        ({"model_type": "qwen", "use_logn_attn": True, "seq_length": 1}, "seq_length"),
        ({"model_type": "mistral_large4_text", "num_attention_heads": 0}, "num_attention_heads"),
    ],
)
def test_wrong_configs_are_rejected(config, name):
    with rejects(ValueError, name):
        load_query_scale(config)


def test_float64():
    for growth in ("steps", "log", "power"):
        scale, positions = QueryScale(length=100, scale=0.3, growth=growth), np.arange(10**4)
        rows = scale.rows(positions, np.float64)["factors"]
        assert rows.dtype == np.float64
        np.testing.assert_array_equal(rows[:, 0].astype(np.float32), scale.factors(positions))


def test_logarithms_of_learned_factors_are_rounded_once():
    positions = [0, 1, 2, 12345, 2**24, 2**31 - 2]
    (rows,) = LEARNED.rows(np.array(positions)).values()
    assert rows.tolist() == [[float(np.float32(Decimal(p + 1).ln()))] for p in positions]
    (wide,) = LEARNED.rows(np.array(positions), np.float64).values()
    np.testing.assert_allclose(wide[:, 0], [float(Decimal(p + 1).ln()) for p in positions], rtol=2**-50)
    with rejects(TypeError, "positions", "real"):
        LEARNED.rows(np.array([0.5]))


RNG = np.random.default_rng(4)
Q, K, V = (RNG.normal(size=(2, 2, length, 8)) for length in (5, 7, 7))
PLACES = (range(2, 7), range(7))
SCALE, BY_HEAD = QueryScale(length=2, scale=0.75), LearnedQueryScale(num_heads=2)
NUMBERS = {"slope": np.float32([0.25, -0.5]), "intercept": np.float32([1, 1.5])}
IN_ATTENTION = [
    None,
    Rotary(head_dim=8, layout="half"),
    Alibi(num_heads=2),
    ShawBias(num_heads=2, head_dim=8, max_distance=2),
]


@pytest.mark.parametrize("encoding", IN_ATTENTION, ids=lambda encoding: type(encoding).__name__)
@pytest.mark.parametrize("learned", [False, True])
def test_attention_multiplies_queries(encoding, learned):
    """By hand: the rotated queries times the factors, then the scores of the encoding."""
    weights = {} if encoding is None else {n: RNG.normal(size=p.shape) for n, p in encoding.parameters().items()}
    scaled = (BY_HEAD, NUMBERS) if learned else (SCALE, None)
    position = Placed(encoding, *PLACES, weights or None, *scaled)
    factors = SCALE.rows(np.arange(2, 7), np.float64)["factors"]
    if learned:
        (logarithms,) = BY_HEAD.rows(np.arange(2, 7)).values()
        factors = NUMBERS["slope"][:, None, None] * logarithms + NUMBERS["intercept"][:, None, None]
    plain = None if encoding is None else Placed(encoding, *PLACES, weights or None)
    q, k = (Q, K) if plain is None else plain.rotate(Q, K)
    scoring = None if isinstance(encoding, Rotary) else plain
    mask = causal(np.arange(2, 7), np.arange(7))
    wanted = attend(q * factors, k, V, position=scoring, mask=mask)
    np.testing.assert_allclose(attend(Q, K, V, position=position, mask=mask), wanted, atol=1e-14)
    np.testing.assert_allclose(attend_by_block(Q, K, V, position=position, mask=causal, block=3), wanted, atol=1e-14)
    shares = attention_weights(q * factors, k, position=scoring, mask=mask)
    np.testing.assert_allclose(attention_weights(Q, K, position=position, mask=mask), shares, atol=1e-14)


def test_rows_have_factors_of_their_own_positions():
    at = RNG.integers(0, 9, (2, 5))
    got = attend(Q, K, V, position=Placed(None, at, range(7), query_scale=SCALE))
    factors = SCALE.rows(at, np.float64)["factors"][:, None]
    np.testing.assert_allclose(got, attend(Q * factors, K, V), atol=1e-14)


def test_what_cannot_be_placed_is_rejected():
    with rejects(TypeError, "query_scale", "0.1"):
        Placed(None, *PLACES, query_scale=0.1)
    with rejects(TypeError, "encoding", "None"):
        Placed(None, *PLACES)
    with rejects(TypeError, "encoding", "QueryScale"):
        Placed(SCALE, *PLACES, query_scale=SCALE)
    with rejects(ValueError, "scale_weights", "'slope'"):
        Placed(None, *PLACES, query_scale=BY_HEAD)
    with rejects(ValueError, "scale_weights", "(2,)"):
        Placed(None, *PLACES, query_scale=BY_HEAD, scale_weights=NUMBERS | {"slope": np.ones(3)})
    with rejects(ValueError, "query_scale", "AxialRotary"):
        Placed(AxialRotary(head_dim=8, layout="half", axes_dims=(4, 4)), *PLACES, query_scale=SCALE)
    three = Placed(
        None, *PLACES, query_scale=LearnedQueryScale(num_heads=3), scale_weights=dict.fromkeys(NUMBERS, np.ones(3))
    )
    with rejects(ValueError, "q", "3 heads"):
        attend(Q, K, V, position=three)
    with rejects(ValueError, "query_positions"):
        attend(Q, K, V, position=Placed(None, range(6), range(7), query_scale=SCALE))


def test_the_shortest_length_of_logn_is_2():
    wanted = [1, 1, np.log2(3), 2, np.log2(5)]
    np.testing.assert_allclose(QueryScale(length=2, growth="log").factors(range(5)), wanted, rtol=1e-7)
    with rejects(ValueError, "length", 1):
        QueryScale(length=1, growth="log")


@pytest.mark.parametrize(("length", "rows"), [(1, 2048), (512, 2048), (513, 2052), (65536, 2**18), (65537, 2**18)])
def test_a_layer_has_rows_for_four_times_the_length_within_its_limits(length, rows):
    assert len(QueryScaling(QueryScale(length=length, scale=1.0)).tables[0]) == rows
    assert len(QueryScaling(LearnedQueryScale(num_heads=2)).tables[0]) == 2048
