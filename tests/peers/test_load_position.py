"""`load_position` beside every config class of transformers, and the learned tables of its models."""

import importlib
import inspect
import json
import math
import re
from pathlib import Path

import pytest
import torch
import transformers.models
from transformers.initialization import no_init_weights

from posenc_core.huggingface import PositionEncodings, load_position

from .positions import ONE_LAYER, model_classes, parts_of


def config_classes():
    """Every config class of the models of transformers."""
    folder = Path(transformers.models.__path__[0])
    for path in sorted(folder.glob("*/configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for one in vars(module).values():
            is_own = inspect.isclass(one) and one.__module__ == module.__name__
            if is_own and issubclass(one, transformers.PreTrainedConfig):
                yield one


CONFIGS = {one.__name__: one for one in config_classes()}
SECTIONS = {name for name, one in CONFIGS.items() if not one.model_type}  # of other configs: no models of their own
BROKEN = {"Gemma4AssistantConfig", "NougatConfig"}  # their defaults are not a config in transformers itself
REFUSED = {  # their defaults do not go together, or lack what the model needs
    "EsmConfig": "`pad_token_id` is missing",
    **dict.fromkeys(("Glm46VConfig", "Glm4vConfig", "GlmImageConfig", "GlmgaConfig"), "`text_config`: `mrope_section`"),
    **dict.fromkeys(
        ("Glm4vTextConfig", "GlmImageTextConfig", "Qwen3OmniMoeTalkerTextConfig", "Qwen4ExpTextConfig"),
        "`mrope_section` must add up",
    ),
    **dict.fromkeys(("Glm4MoeConfig", "Glm4vMoeTextConfig", "Qwen3OmniMoeTextConfig"), "`hidden_size`"),
    "Glm4vMoeConfig": "`text_config`: `hidden_size`",
    "Qwen3OmniMoeThinkerConfig": "`text_config`: `hidden_size`",
    "Qwen3OmniMoeConfig": "`thinker_config`: `text_config`: `hidden_size`",
    "Qwen4ExpConfig": "`text_config`: `mrope_section`",
}


WARNED = pytest.mark.filterwarnings(
    "ignore:`llama_4_scaling_beta` is not a rotation:UserWarning",
    "ignore:`model_type` .* does more than this encoding says:UserWarning",
    "ignore:`rotary_dim` .* is used:UserWarning",
    "ignore:the class token rotates by learned angles:UserWarning",
    "ignore:`rope_theta` is missing:UserWarning",  # of configs without a base
    "ignore:Initializing zero-element tensors:UserWarning",  # of PyTorch
)


@WARNED
@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - BROKEN - SECTIONS))
def test_every_config_class(name):
    config = CONFIGS[name]()
    if name in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name]):
            load_position(config)
        return
    position = load_position(config)
    parts = [part for _, part in parts_of(position)]
    assert all(part.additive or part.rotary or part.scoring or part.lacks or part.notes or part.parts for part in parts)
    assert PositionEncodings.from_dict(json.loads(json.dumps(position.to_dict()))) == position


TABLE_NAMES = re.compile(
    r"wpe|pos_emb|pos_embed|position_emb|positions_embed|embed_position|positional_emb|position_embedding_table|"
    r"relative_position_bias_table|rel_pos_[hw]|relative_attention_bias|row_embedder|column_embedder"
)


def position_tables(model):
    """The learned arrays of a model whose names say that they are of positions: name and shapes, as a table."""
    for name, parameter in model.named_parameters():
        is_table = TABLE_NAMES.search(name) and not re.search("proj|query|conv", name)
        if is_table and parameter.requires_grad and parameter.ndim > 1 and type(model).__name__ != "FSMTModel":
            whole = (math.prod(parameter.shape[:-1]), parameter.shape[-1])
            channels_first = (math.prod(parameter.shape[2:]), parameter.shape[1])
            yield name, {whole, tuple(parameter.shape[-2:]), channels_first}


def shallow(config):
    """The config with at most two layers, in all its parts."""
    for key in ONE_LAYER:
        if isinstance(vars(config).get(key), int) and not getattr(config, "layer_types", None):
            setattr(config, key, min(getattr(config, key), 2))
    for part in vars(config).values():
        if isinstance(part, transformers.PreTrainedConfig):
            shallow(part)
    return config


@WARNED
@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - BROKEN - REFUSED.keys() - SECTIONS))
def test_learned_tables_of_every_model(name):
    config = CONFIGS[name]()
    parts = [part for _, part in parts_of(load_position(config))]
    try:
        models = model_classes(type(config))
    except ModuleNotFoundError as error:
        pytest.skip(f"transformers has no code for it here: {error}")
    if not models:
        pytest.skip("transformers has no model that takes this config alone")
    try:
        with torch.device("meta"), no_init_weights():
            model = models[0](shallow(config))
    except (AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
        pytest.skip(f"transformers cannot build it from its default config: {error!r}"[:200])
    encodings = [one for part in parts for _, one in (*part.additive, *part.scoring)]
    shapes = {parameter.shape for one in encodings for parameter in one.parameters().values()}
    shapes |= {shape[::-1] for shape in shapes}
    lacks = any(part.lacks for part in parts)
    tables = dict(position_tables(model))
    if any("`mixture` is the matrix of the checkpoint" in note for part in parts for note in part.notes):
        tables = {name: table for name, table in tables.items() if not name.endswith("positional_embedding")}
    if any("each offset below `bias_max_distance` has a bucket" in note for part in parts for note in part.notes):
        tables = {name: table for name, table in tables.items() if not name.endswith("bias_values.weight")}
    assert lacks or not [(name, table) for name, table in tables.items() if not table & shapes]
