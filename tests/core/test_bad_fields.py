"""Fields of encodings and scalings that do not fit each other; `test_bad_values` tries each field alone."""

import pytest

from posenc_core import encodings as e
from posenc_core import scaling as s

from ..errors import rejects

HALF = {"head_dim": 12, "layout": "half"}
AXIAL = HALF | {"axes_dims": (4, 4, 4)}
TENTH, SHARE = (s.Proportional(partial_rotary_factor=share) for share in (0.1, 0.5))
LENGTH = {"original_max_position_embeddings": 4096}
DYNAMIC = s.DynamicNTK(factor=2, **LENGTH)
LISTS = {"short_factor": [1.0, 2.0], "long_factor": [4.0, 8.0]} | LENGTH
UNEVEN = s.LongRoPE(**LISTS | {"short_factor": [1.0] * 6}, factor=2)
HEADS = {"num_heads": 2, "head_dim": 4}

# the class, its fields, and what the error must name: an argument, then values
VALUES = [
    (e.Binary, {"dim": 64, "start": 2**31}, "start", 2**31),
    (e.Sine, {"dim": 151, "frequencies": "powers_of_two"}, "dim", 151),
    (e.Sine, {"dim": 2, "frequencies": "powers_of_two", "base": 3}, "base", 3),
    (e.Sinusoidal, {"dim": 4, "base": 10**400}, "base", f"1{'0' * 77} …"),
    (e.Timestep, {"dim": 2, "shift": 1.5}, "shift", 1.5),
    (e.GridSinusoidal, {"dim": 8, "convention": "diffusers", "num_axes": 3}, "dim", 8),
    (e.GridSinusoidal, {"dim": 16, "convention": "diffusers"}, "num_axes", 2),
    (e.GridSinusoidal, {"dim": 16, "convention": "tatp22", "num_axes": 4}, "num_axes", 4),
    (e.FourierFeatures, {"dim": 8, "num_axes": 3}, "dim", 8),
    (e.FourierFeatures, {"dim": 260, "num_axes": 2}, "dim", 260),
    (e.Rotary, {"head_dim": 7, "layout": "half"}, "head_dim", 7),
    (e.Rotary, HALF | {"frequencies": [1] * 6, "base": 500}, "base", 500),
    (e.Rotary, HALF | {"frequencies": [1] * 6, "scaling": s.Linear(factor=2)}, "scaling", s.Linear(factor=2)),
    (e.Rotary, HALF | {"placement": "trail", "scaling": SHARE}, "placement", "'trail'"),
    (e.Rotary, HALF | {"layout": "interleaved_to_half", "scaling": SHARE}, "layout", "'interleaved_to_half'"),
    (e.Rotary, HALF | {"scaling": TENTH}, "scaling", TENTH),
    (e.Rotary, HALF | {"rotary_dim": 4, "scaling": SHARE}, "rotary_dim", 4),
    (e.Rotary, HALF | {"scaling": UNEVEN}, "long_factor", 2),
    (e.MultimodalRotary, HALF | {"arrangement": (0, 1, 2)}, "arrangement", "6 pairs", "3 axes"),
    (e.MultimodalRotary, HALF | {"arrangement": ()}, "arrangement", "0 axes"),
    (e.MultimodalRotary, HALF | {"arrangement": (0, 1, 2, 0, 1, 64)}, "arrangement", 64),
    (e.MultimodalRotary, HALF | {"arrangement": (0, 1, 2, 0, 1, -1)}, "arrangement", -1),
    (e.MultimodalRotary, HALF | {"sections": (3, 2, 1), "arrangement": (0, 1) * 3}, "sections", "arrangement",
     (3, 3, 0), (3, 2, 1)),
    (e.MultimodalRotary, HALF | {"sections": (3, 3), "arrangement": "interleaved"}, "sections", (3, 3)),
    (e.MultimodalRotary, HALF | {"sections": (1, 4, 1), "arrangement": "interleaved"}, "sections", "'interleaved'",
     (1, 4, 1), (3, 2, 1)),
    (e.MultimodalRotary, HALF | {"sections": (1, 2, 3), "arrangement": "ernie"}, "sections", "'ernie'", (3, 1, 2),
     (3, 1, 1)),
    (e.MultimodalRotary, HALF | {"sections": (2, 2, 2), "scaling": SHARE}, "scaling", SHARE),
    (e.AxialRotary, AXIAL | {"arrangement": (0, 1, 2)}, "arrangement", "6 pairs", "3 axes"),
    (e.AxialRotary, AXIAL | {"arrangement": (0, 1) * 3}, "axes_dims / 2", (3, 3, 0), (2, 2, 2)),
    (e.AxialRotary, AXIAL | {"arrangement": (0, 1, 2) * 2, "series": "dealt"}, "series", "'dealt'", "MultimodalRotary"),
    (e.AxialRotary, HALF | {"axes_dims": (2, 4), "series": "dealt"}, "axes_dims", (2, 4)),
    (e.AxialRotary, AXIAL | {"base": (2, 3, 4), "series": "dealt"}, "base", (2, 3, 4)),
    (e.AxialRotary, AXIAL | {"placement": "spread", "arrangement": "blocks"}, "placement", "'half'"),
    (e.XPos, HALF | {"scaling": SHARE}, "scaling", SHARE),
    (e.LearnedRotary, HALF | {"scaling": DYNAMIC}, "scaling", DYNAMIC),
    (e.QueryScale, {"length": 8, "scale": 0.6, "growth": "power"}, "scale"),
    (e.QueryScale, {"length": 8}, "scale"),
    (e.T5Bias, {"num_heads": 2, "max_distance": 16, "sides": "past"}, "max_distance", 16),
    (e.TransformerXLBias, {"num_heads": 3, "head_dim": 3, "max_distance": 2}, "dim", 9),
    (e.DebertaBias, HEADS | {"max_distance": 9, "num_buckets": 10}, "max_distance", 9),
    (s.YaRN, LENGTH | {"factor": 2, "beta_fast": 1, "beta_slow": 2}, "beta_fast", "`beta_slow`"),
    (s.Llama3, LENGTH | {"factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}, "high_freq_factor", 4, 1),
    (s.LongRoPE, LISTS, "factor", "`attention_factor`"),
    (s.LongRoPE, LISTS | {"short_mscale": 1.0}, "short_mscale", "`long_mscale`"),
]  # fmt: skip
TYPES = [
    (e.Sine, {"dim": 2, "frequencies": {1.0, 0.5}}, "frequencies", {1.0, 0.5}),
    (e.Sine, {"dim": 2, "frequencies": None}, "frequencies", None),
    (e.Rotary, HALF | {"frequencies": ["1"] * 6}, "frequencies", "'1'"),
    (e.MultimodalRotary, HALF, "sections", "arrangement", "none"),
    (e.MultimodalRotary, HALF | {"sections": 6}, "sections", 6),
    (e.MultimodalRotary, HALF | {"arrangement": (0, 1, 2, 0, 1, 1.5)}, "arrangement", 1.5),
    (e.AxialRotary, HALF | {"axes_dims": 4}, "axes_dims", 4),
    (s.LongRoPE, LISTS | {"long_factor": "12"}, "long_factor", "'12'"),
    (s.LongRoPE, LISTS | {"long_factor": 2.0}, "long_factor", 2.0),
]


@pytest.mark.parametrize(
    ("error", "kind", "fields", "named"),
    [(error, *one[:2], one[2:]) for error, table in ((ValueError, VALUES), (TypeError, TYPES)) for one in table],
)
def test_fields_that_do_not_fit_each_other_are_named(error, kind, fields, named):
    with rejects(error, *named):
        kind(**fields)


def test_a_scaling_without_a_field_says_which():
    with pytest.raises(TypeError, match="original_max_position_embeddings"):
        s.DynamicNTK(factor=2)
