"""`check_model` on decoders of each framework: right layers conform, and planted mistakes are named."""

import pytest

from posenc_backends.check.model import check_model
from posenc_core import Rotary

from .decoders import FRAMEWORKS, decoders

pytestmark = pytest.mark.whole
ROTARY = Rotary(head_dim=16, layout="half")
PLANTED = {
    "cosine and sine": (lambda of: of.Table(), ()),
    "compiled": (lambda of: of.Table(compiles=True), ()),
    "a table": (lambda of: of.Table(2**17), ()),
    "a layer of ours": (lambda of: of.Ours(ROTARY), ()),
    "another base": (lambda of: of.Table(base=500.0), ("wrong base",)),
    "neighbours are pairs": (lambda of: of.Table(layout="interleaved"), ("layout swapped",)),
    "half of the channels": (lambda of: of.Table(pairs=4), ("wrong rotary_dim",)),
    "positions from 1": (lambda of: of.Table(first=1), ("positions off by one",)),
    "a table that ends": (lambda of: of.Table(4096), ("positions clamped",)),
    "frequencies in bfloat16": (lambda of: of.Table(dtype="bfloat16"), ("bfloat16 frequencies",)),
    "frequencies in float16": (lambda of: of.Table(dtype="float16"), ("float16 frequencies",)),
    "another base in a layer of ours": (
        lambda of: of.Ours(Rotary(head_dim=16, layout="half", base=500.0)), ("wrong base",),
    ),
}  # fmt: skip
CONFIG = {
    "model_type": "smollm3", "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
    "num_hidden_layers": 3, "rope_theta": 1e4, "no_rope_layers": [1, 0, 0], "max_position_embeddings": 2048,
}  # fmt: skip


@pytest.fixture(scope="module")
def of(request):
    name = request.config.getoption("--backend")
    if name not in FRAMEWORKS:
        pytest.skip(f"no decoder is written for {name}, whose models `check_model` refuses")
    return decoders(name)


def test_each_layer_is_judged(of):
    model = of.Decoder(*(rotate(of) for rotate, _ in PLANTED.values()))
    result = check_model(model, spec=ROTARY)
    found = [tuple(dict.fromkeys(one.name for one in layer.mistakes)) for layer in result.layers]
    assert dict(zip(PLANTED, found, strict=True)) == {name: names for name, (_, names) in PLANTED.items()}
    assert [(one.module, one.number) for one in result.layers] == [(f"blocks.{n}", n) for n in range(len(PLANTED))]
    assert "not run: a token after a cache" in str(result)
    assert "not judged" not in str(result)


def test_a_layer_that_must_not_rotate(of):
    result = check_model(of.Counting(of.Table(), None, of.Table()), CONFIG)
    assert [[one.name for one in layer.mistakes] for layer in result.layers] == [[], [], ["NoPE ignored"]]
    assert "not run: positions past 66" in str(result)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_cache(of, forgets):
    model = of.Decoder(of.Table(), forgets=forgets)

    def call(tokens, positions, cache):
        return model(tokens, positions=positions, past=cache)[1]

    result = check_model(model, spec=ROTARY, call=call)
    assert result.calls == ("near 0", "up to 131,071", "of pairs up to 191", "after a cache of 5")
    assert result.names == (("positions ignored",) if forgets else ()), result


def test_a_model_in_bfloat16(of):
    result = check_model(of.half(lambda: of.Decoder(of.Table(), of.Table(dtype="bfloat16"))), spec=ROTARY)
    assert [[one.name for one in layer.mistakes] for layer in result.layers] == [[], ["bfloat16 frequencies"]], result
