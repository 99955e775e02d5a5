"""Small models of transformers, to compare what `load_position` makes of their configs."""

import importlib
import inspect

import torch
from transformers import CONFIG_MAPPING, PreTrainedModel

from posenc_core.huggingface import load_position

ONE_LAYER = (
    *(
        "num_hidden_layers",
        "num_layers",
        "num_decoder_layers",
        "encoder_layers",
        "decoder_layers",
        "n_layer",
        "n_layers",
    ),
    *("num_encoder_layers", "layers", "speech_encoder_layers", "t2u_encoder_layers", "t2u_decoder_layers"),
)
NARROW = (
    *("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "encoder_intermediate_size"),
    *("decoder_intermediate_size", "speech_encoder_intermediate_size", "t2u_encoder_ffn_dim", "hidden_dim"),
)
LENGTHS = {"max_position_embeddings": 40, "n_positions": 40, "block_size": 40, "max_target_positions": 40}
TOKENS = 6


def tiny(model_type, **fields):
    """The config of a model with one layer, few tokens and short tables; `fields` come last."""
    default = CONFIG_MAPPING[model_type]().to_dict()
    small = dict.fromkeys(ONE_LAYER, 1) | dict.fromkeys(NARROW, 32) | {"vocab_size": 64} | LENGTHS
    small |= {
        key: 3 for key in default if key.endswith("token_id") and isinstance(default[key], int) and default[key] > 63
    }
    return CONFIG_MAPPING[model_type](**{key: value for key, value in small.items() if key in default} | fields)


def model_classes(config_class):
    """The models that take a config, those called Model first."""
    name = config_class.__module__.replace(".configuration_", ".modeling_")
    models = [one for one in vars(importlib.import_module(name)).values() if inspect.isclass(one)]
    models = [one for one in models if issubclass(one, PreTrainedModel) and one.__module__ == name]
    fitting = [one for one in models if config_class in (one.config_class, one.__init__.__annotations__.get("config"))]
    fitting = [one for one in fitting if "PreTrained" not in one.__name__]
    return sorted(
        fitting, key=lambda one: (not one.__name__.endswith("Model"), "For" not in one.__name__, len(one.__name__))
    )


def build(config):
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    return model_classes(type(config))[0](config).eval()


def parts_of(positions, path=""):
    """Each part with the names that lead to it."""
    yield path, positions
    for name, part in positions.parts:
        yield from parts_of(part, f"{path}/{name}")


def found(config, kind):
    """The encodings of a kind, in all parts."""
    of_config = [part for _, part in parts_of(load_position(config))]
    pairs = [pair for part in of_config for pair in (*part.additive, *part.scoring)]
    return [encoding for _, encoding in pairs if isinstance(encoding, kind)]


def module_of(model_type):
    return importlib.import_module(
        type(CONFIG_MAPPING[model_type]()).__module__.replace(".configuration_", ".modeling_")
    )
