"""Small random models of transformers beside what `load_rope` makes of their configs."""

import numpy as np
import pytest
from transformers import CONFIG_MAPPING

from posenc_core import rotate, unrotate
from posenc_core.huggingface import layer_types, load_rope

from .models import MODELS, TWO_KINDS
from .rounding import angle_slack, entry_ulps, pair_slack, rotated, ulps, with_frequencies
from .watching import small, watch

POSITIONS = [0, 1, 2, 3, 4, 5, 6, 7, 4097, 131071]
AXES = [POSITIONS, [5, 0, 3, 1, 4, 2, 7, 6, 131071, 9], [1, 9, 2, 8, 0, 7, 3, 6, 12, 4097]]  # time, height, width
LONGEST = 131072

pytestmark = pytest.mark.filterwarnings("ignore:`llama_4_scaling_beta` is no rotation:UserWarning")  # of Ministral 3


LEFT_OUT = ("head_dim", "partial_rotary_factor", "rope_interleave", "rope_parameters")
SPELLED_OUT = {  # defaults with a scaling or with layer types, which `load_rope` only knows from writing
    *("apertus", "cwm", "gemma4_text", "gpt_oss", "laguna", "mellum", "ministral3", "zaya"),
    *("glm4_moe", "glm4v_text"),  # whose defaults do not go together: 21 channels, 32 of 64 pairs
}


def positions_of(config):
    return AXES if "mrope_section" in (getattr(config, "rope_parameters", None) or {}) else POSITIONS


@pytest.fixture
def watched(request, monkeypatch):
    model = request.param
    config = small(model.model_type, model.fields)
    return config, watch(config, positions_of(config), model.rotations, monkeypatch)


def each(models):
    return pytest.mark.parametrize("watched", models, indirect=True, ids=str)


@each(MODELS)
def test_queries_and_keys_are_turned_alike(watched):
    config, seen = watched
    assert seen.turns
    for turn in seen.turns:
        encoding = load_rope(config, layer_type=turn.layer_type).at(LONGEST)
        table = encoding.cos_sin(positions_of(config))
        ours = rotated(turn.before, table, encoding, unrotate if turn.back else rotate)
        slack = pair_slack(turn.before, encoding, angle_slack(encoding, positions_of(config)))
        assert np.all(np.abs(ours - turn.after) <= slack)


@each([model for model in MODELS if model.model_type not in ("codegen", "gptj")])  # which keep no frequencies
def test_tables_of_their_own_frequencies(watched):
    config, seen = watched
    assert seen.tables
    for table in seen.tables:
        encoding = load_rope(config, layer_type=table.layer_type)
        cos, sin = with_frequencies(encoding, table.frequencies, table.factor).cos_sin(positions_of(config))
        assert max(ulps(cos, table.cos), ulps(sin, table.sin)) <= entry_ulps(table.factor)


@pytest.mark.parametrize("model_type", ["afmoe", "cohere2", "exaone4"])
def test_layers_that_do_not_turn(model_type, monkeypatch):
    config = small(model_type, TWO_KINDS)
    seen = watch(config, POSITIONS, MODELS[0].rotations, monkeypatch)
    assert len(seen.turns) == 2  # the queries and the keys of one layer
    assert load_rope(config, layer_type="sliding_attention")
    assert load_rope(config, layer_type="full_attention") is None


@pytest.mark.parametrize("model_type", sorted({model.model_type for model in MODELS} - SPELLED_OUT))
def test_what_a_config_leaves_out_is_as_the_class_has_it(model_type):
    whole = CONFIG_MAPPING[model_type]()
    sparse = {key: value for key, value in whole.to_dict().items() if key not in LEFT_OUT}
    for layer_type in layer_types(whole) or (None,):
        assert load_rope(sparse, layer_type=layer_type) == load_rope(whole, layer_type=layer_type)
