"""The page on words: what Hugging Face and Keras call a thing is what their sources call it."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "words.md"
SOURCES = {
    "Hugging Face": [
        *(f"transformers/models/{name}/modeling_{name}.py" for name in ("llama", "bloom", "t5", "marian", "bert")),
        *(f"transformers/models/{name}/modeling_{name}.py" for name in ("qwen2_vl", "cohere")),
        "transformers/models/llama/configuration_llama.py",
        "transformers/modeling_rope_utils.py",
    ],
    "Keras": [
        "keras/src/layers/attention/multi_head_attention.py",
        "keras/src/layers/attention/grouped_query_attention.py",
        *(
            f"keras_hub/src/layers/modeling/{name}.py"
            for name in (
                "alibi_bias",
                "position_embedding",
                "rotary_embedding",
                "sine_position_encoding",
                "transformer_decoder",
            )
        ),
    ],
}


def words():
    """Every word in code of the two columns."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| our"):
            heads = cells
        elif line.startswith("| `"):
            for head, cell in zip(heads, cells, strict=True):
                if head in SOURCES:
                    yield from ((head, word) for word in re.findall(r"`(\w+)", cell))


@pytest.mark.parametrize("library", SOURCES)
def test_words_are_those_of_the_library(library):
    site = Path(find_spec("keras").origin).parents[1]
    source = "\n".join((site / name).read_text(encoding="utf-8") for name in SOURCES[library])
    found = [word for head, word in words() if head == library]
    assert len(found) > 10
    assert [word for word in found if not re.search(rf"\b_?{word}\b", source)] == []
