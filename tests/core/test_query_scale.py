"""`QueryScale` and `load_query_scale`; the factors are those of mpmath, to the last bit."""

from decimal import Decimal

import numpy as np
import pytest

from posenc_backends.conformance.cases import golden
from posenc_core import Encoding, QueryScale
from posenc_core.huggingface import load_position, load_query_scale

from ..errors import rejects

BETA = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "llama_4_scaling_beta": 0.1}
MINISTRAL = {"model_type": "ministral3", "head_dim": 128, "max_position_embeddings": 262144}
LENGTH = {"original_max_position_embeddings": 16384}
CONFIGS = {
    "llama4": ({"model_type": "llama4_text"}, QueryScale(length=8192, scale=0.1)),
    "llama4, other numbers": (
        {"model_type": "llama4", "text_config": {"model_type": "llama4_text", "attn_scale": 0.2, "floor_scale": 4096}},
        QueryScale(length=4096, scale=0.2),
    ),
    "llama4, off": ({"model_type": "llama4_text", "attn_temperature_tuning": False}, None),
    "ministral3": ({**MINISTRAL, "rope_parameters": BETA | LENGTH}, QueryScale(length=16384, scale=0.1, start=0)),
    "ministral3, without": ({**MINISTRAL, "rope_parameters": BETA | LENGTH | {"llama_4_scaling_beta": None}}, None),
    "beam": ({"model_type": "beam"}, QueryScale(length=2048, scale=0.1, growth="power")),
    "inkling": ({"model_type": "inkling_text"}, None),
    "inkling2": ({"model_type": "inkling2_text"}, QueryScale(length=128000, scale=0.1, growth="log")),
    "qwen": ({"model_type": "qwen", "use_logn_attn": True, "seq_length": 2048}, QueryScale(length=2048, growth="log")),
    "qwen, off": ({"model_type": "qwen", "use_logn_attn": False, "seq_length": 2048}, None),
    "llama": ({"model_type": "llama"}, None),
}


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


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"length": 0, "scale": 0.1}, "length"),
        ({"length": 8, "scale": 0}, "scale"),
        ({"length": 8, "scale": 2.0**17}, "scale"),
        ({"length": 8, "scale": 0.6, "growth": "power"}, "scale"),
        ({"length": 8}, "scale"),
        ({"length": 1, "growth": "log"}, "length"),
        ({"length": 8, "scale": 0.1, "growth": "cubic"}, "growth"),
        ({"length": 8, "scale": 0.1, "start": 2}, "start"),
    ],
)
def test_wrong_fields_are_rejected(fields, name):
    with rejects(ValueError, name):
        QueryScale(**fields)


def test_wrong_positions_are_rejected():
    scale = QueryScale(length=8, scale=0.1)
    with rejects(TypeError, "positions", "real"):
        scale.factors([0.5])
    with rejects(ValueError, "positions", "-1"):
        scale.factors([-1])


@pytest.mark.parametrize(("config", "expected"), CONFIGS.values(), ids=CONFIGS)
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
    assert "in layers of type 'hybrid' alone" in load_position(inkling).notes[0]
    with rejects(ValueError, "layer_type", "'full'"):
        load_query_scale(llama, layer_type="full")


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"model_type": "llama4_text", "attn_scale": None}, "attn_scale"),
        ({"model_type": "llama4_text", "floor_scale": 0}, "floor_scale"),
        ({**MINISTRAL, "rope_parameters": BETA}, "original_max_position_embeddings"),
        ({"model_type": "qwen", "use_logn_attn": True, "seq_length": 1}, "seq_length"),
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
