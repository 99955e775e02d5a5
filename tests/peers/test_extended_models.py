"""What `posenc extend` writes for transformers, run by transformers: its own modules give the same frequencies."""

import json
from importlib.metadata import version

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from posenc_core.analysis import plan_extension

SIZES = {
    "hidden_size": 32, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
    "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 20, "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
CONFIGS = {
    "Qwen3": (
        {"model_type": "qwen3", "rope_theta": 1e6, "rope_scaling": None, "max_position_embeddings": 40960},
        {"to": 131072, "trained_length": 32768},
    ),
    "Llama 3.1": (
        {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": LLAMA3, "max_position_embeddings": 131072},
        {"to": 2**20},
    ),
    "no scaling": ({"model_type": "llama", "rope_theta": 1e4, "max_position_embeddings": 4096}, {"to": 10000}),
}
PLANS = {name: (config, plan_extension(SIZES | config, **options)) for name, (config, options) in CONFIGS.items()}
CASES = [(name, one.name) for name, (_, plan) in PLANS.items() for one in plan.extensions]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("model", "name"), CASES)
def test_transformers_runs_what_is_written_for_it(tmp_path, model, name):
    config, plan = PLANS[model]
    engine = f"transformers {version('transformers').partition('.')[0]}"
    lines = next(one for one in plan.lines(name) if one.engine == engine)
    written = {key: value for key, value in (SIZES | config).items() if key not in lines.remove}
    (tmp_path / "config.json").write_text(json.dumps(written | json.loads(lines.text)), encoding="utf-8")
    built = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path)).eval()
    encoding = plan.extension(name).rotary
    positions = torch.tensor([[0, 1, plan.trained_length, plan.to - 1]])
    rotary = built.get_decoder().rotary_emb
    cosine, sine = rotary(torch.zeros(1, 4, 32), positions)
    frequencies = encoding.at(plan.to).frequencies()
    np.testing.assert_allclose(rotary.inv_freq.numpy(), frequencies, rtol=2e-6)
    size = torch.hypot(cosine, sine).double().numpy()
    np.testing.assert_allclose(size, encoding.at(plan.to).attention_factor, rtol=1e-5)
