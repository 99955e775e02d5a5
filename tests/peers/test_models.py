"""Small random models of transformers beside what `load_rope` makes of their configs."""

import numpy as np
import pytest

from posenc_core import rotate, unrotate
from posenc_core.huggingface import layer_types, load_rope
from posenc_core.huggingface.facts.models import MODELS as OURS
from posenc_core.huggingface.facts.models import model_type

from .coverage import of_transformers
from .models import MODELS, TWO_KINDS
from .rounding import angle_slack, entry_ulps, pair_slack, rotated, ulps, with_frequencies
from .watching import small, watch

POSITIONS = [0, 1, 2, 3, 4, 5, 6, 7, 4097, 131071]
AXES = [POSITIONS, [5, 0, 3, 1, 4, 2, 7, 6, 131071, 9], [1, 9, 2, 8, 0, 7, 3, 6, 12, 4097]]  # time, height, width
LONGEST = 131072

pytestmark = [
    pytest.mark.filterwarnings("ignore:`llama_4_scaling_beta` is not a rotation:UserWarning"),  # of Ministral 3
    pytest.mark.filterwarnings("ignore:.* does more than this encoding says:UserWarning"),
    pytest.mark.filterwarnings("ignore:`rotary_dim` 64 is used:UserWarning"),  # of MiniMax-M3
]


LEFT_OUT = ("head_dim", "partial_rotary_factor", "rope_interleave", "rope_parameters")
NOT_TOGETHER = {  # defaults that contradict each other: 21 channels of 42, sections of other pairs
    *("glm4_moe", "glm4v_moe_text", "glm4v_text", "glm_image_text", "qwen3_omni_moe_text", "qwen4_exp_text"),
    "qwen3_omni_moe_talker_text",
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


def known():
    """Return the configs of one part whose defaults `load_rope` knows, by their types."""
    found = {cls.model_type: cls for cls in of_transformers.configs() if not cls.sub_configs_defaults}
    names = {name: model_type({"model_type": name}) for name in found}
    together = [name for name in found if names[name] in OURS and not {name, names[name]} & NOT_TOGETHER]
    ours = {name: OURS[names[name]] for name in together}
    return {name: found[name] for name, model in ours.items() if not (model.needs_parameters or model.refused)}


KNOWN = known()


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_what_a_config_leaves_out_is_as_the_class_has_it(name):
    whole = KNOWN[name]()
    sparse = {key: value for key, value in whole.to_dict().items() if key not in LEFT_OUT}
    for layer_type in layer_types(whole) or (None,):
        assert load_rope(sparse, layer_type=layer_type) == load_rope(whole, layer_type=layer_type)
