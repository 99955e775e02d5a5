"""`check_model` on decoders of each framework: right layers conform, and planted mistakes are named."""

import pytest

from posenc_backends.check.model import check_model
from posenc_core import Alibi, Learned, Rotary, Sinusoidal

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
BIASES = {
    "ALiBi": (lambda of: of.Bias(1 / 16, 1 / 256), ()),
    "ALiBi in the framework's own attention": (lambda of: of.Bias(1 / 16, 1 / 256, is_fused=True), ()),
    "the other sign": (lambda of: of.Bias(-1 / 16, -1 / 256), ("sign flipped",)),
    "the other sign in the framework's own attention": (
        lambda of: of.Bias(-1 / 16, -1 / 256, is_fused=True), ("sign flipped",),
    ),
    "slopes in another order": (lambda of: of.Bias(1 / 256, 1 / 16), ("heads reversed",)),
    "no bias": (lambda of: None, ("bias missing",)),
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


def test_biases_of_scores(of):
    result = check_model(of.Decoder(*(bias(of) for bias, _ in BIASES.values())), spec=Alibi(num_heads=2))
    found = [tuple(one.name for one in layer.mistakes) for layer in result.layers]
    assert dict(zip(BIASES, found, strict=True)) == {name: names for name, (_, names) in BIASES.items()}
    assert "not looked at" not in str(result)


@pytest.mark.parametrize("first", [0, 1])
def test_a_table_that_is_added_to_tokens(of, first):
    result = check_model(of.Decoder(None, rows=of.Rows(first)), spec=Sinusoidal(dim=32, convention="concatenated"))
    assert result.names == (("positions off by one",) if first else ()), result
    assert len(result.tables) == 1


@pytest.mark.parametrize("length", [200, 201])
def test_a_table_that_is_learned(of, length):
    result = check_model(of.Decoder(None, rows=of.Learned(200)), spec=Learned(dim=32, length=length))
    assert not result.names, result
    assert ("not judged" in str(result)) is (length == 201)


def test_what_the_config_does_not_have(of):
    result = check_model(of.Decoder(of.Table(), of.Bias(1 / 16, 1 / 256), of.Factor(), rows=of.Rows()), spec=ROTARY)
    words = " that the config does not have"
    found = [[one.name for one in layer.mistakes if words in one.name] for layer in result.layers]
    assert found == [[], [f"bias{words}"], [f"factor of queries{words}"]], result
    assert [one.name for one in result.tables[0].mistakes] == [f"table{words}"], result
