"""Run tiny models of transformers with our kernel by one entry of its mapping, or the page that shows how.

`compare NAME …` prints as JSON what came to us, and what differs; `page FILE` runs the cells of the page.

The package `kernels` of the version that this transformers asks for may not be published; the one that is installed is
taken for it.
"""

import json
import sys
from pathlib import Path
from unittest import mock

from transformers.utils import import_utils

if not import_utils.is_kernels_available():
    import_utils.is_kernels_available = lambda *versions: True
    sys.modules["transformers.utils"].is_kernels_available = import_utils.is_kernels_available

import torch
import transformers
from transformers.integrations.hub_kernels import get_kernel_mapping_transformers

from posenc_backends.torch import apply_rotary_transformers, rotary_kernel
from posenc_backends.torch.huggingface import apply_rotary as ours
from tests.pages import run

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 11,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}


def model_of(name):
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**SIZES)).train()


def trained(model):
    """Return the numbers of a forward pass, and the gradients of all parameters."""
    ids = torch.arange(10)[None]
    result = model(input_ids=ids, labels=ids)
    result.loss.backward()
    return [result.logits, *(parameter.grad for parameter in model.parameters())]


def compared(name):
    """Return the shapes of queries that came to us, and the largest difference of a number from the model without."""
    wanted, model, seen = trained(model_of(name)), model_of(name), []

    def seeing(q, *arguments, **options):
        seen.append([*q.shape])
        return apply_rotary_transformers(q, *arguments, **options)

    model.set_use_kernels(True)
    with mock.patch.object(ours, "apply_rotary_transformers", seeing):
        found = trained(model)
    return seen, max((one - other).abs().max().item() for one, other in zip(found, wanted, strict=True))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "page":
        run(Path(arguments[0]))
    else:
        get_kernel_mapping_transformers()["rotary_pos_emb"]["cpu"] = rotary_kernel
        print(json.dumps({name: compared(name) for name in arguments}))  # noqa: T201
