"""Models: one record for each `model_type`, of the facts about RoPE that are in a model's code and not in its config.

`models.json` has the fields of each `Model` that differ from the usual ones, in groups that say what sets their models
apart; models with the same fields share a line. Models of sequences are listed, of text or of audio; `"name"` also
stands for `"name_text"` and `"name_text_model"`. Below `within` stand models of several parts, each with the type of
its text model, for configs that leave it out; `others` have no RoPE, or one that is not known, but other facts.

Source: defaults of the config classes and the code of the models in transformers 5.23. Those not in transformers follow
vLLM 0.33 (chatglm, exaone, hunyuan, internlm2, kimi_k2, mimo, minimax_m3, minimax_text_01, molmo, nemotron-nas, new,
openpangu_vl, phi4mm), vLLM-Omni 0.14 (bailing_moe_v2), their checkpoints (qwen) and their authors (hunyuan_image_3_moe,
xlm-roberta).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .records import Model, by_model_type, read_model

_FACTS = json.loads(Path(__file__).with_name("models.json").read_text(encoding="utf-8"))
MODELS = by_model_type(
    {names: read_model(fields) for group in _FACTS["models"].values() for names, fields in group.items()}
)
MODELS |= {name: MODELS[text] for name, text in _FACTS["within"].items()}
OTHERS = {name: read_model(fields) for name, fields in _FACTS["others"].items()}


def model_type(config: Mapping[str, Any]) -> str:
    """Return the name of the model in `MODELS`."""
    name = str(config.get("model_type") or "")
    return name if name in MODELS else name.removesuffix("_text_model").removesuffix("_text")


def find_model(config: Mapping[str, Any]) -> Model:
    """Return the record of the model of a config."""
    name = model_type(config)
    return MODELS.get(name) or OTHERS.get(name, Model())
