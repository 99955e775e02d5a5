"""The Transformer against a second one, written from the paper with plain loops, and against itself in parts."""

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from posenc_backends import load
from posenc_core.encodings import Alibi, Binary, Learned, MixedRotary, PoPE, Rotary, Sinusoidal
from posenc_core.scaling import DynamicNTK
from posenc_core.transformer.config import END, PAD, START
from posenc_core.transformer.decoding import beam, greedy
from posenc_core.transformer.model import Transformer, answer, decode, encode, logsumexp, loss, read, shift_right

from ..catalogue import VALUES, in_transformers
from ..errors import rejects

HOST = load("numpy")
SIZES = {"vocabulary": 9, "max_len": 7, "num_hiddens": 12, "ffn_hiddens": 10, "num_heads": 3, "num_blocks": 2}
POSITIONS = [None, *in_transformers(dim=12, head_dim=4, num_heads=3, length=7, std=0.5)]
SINUSOIDAL, ROTARY = Sinusoidal(dim=12), Rotary(head_dim=4, layout="interleaved")
SOURCE = np.array([[3, 4, 5, 6, 3], [8, 7, 0, 0, 0]], np.int32)
TARGET = np.array([[6, 5, 8, 2], [7, 2, 0, 0]], np.int32)


def made(position, *, dtype=np.float64, **sizes):
    """Return a Transformer with all its arrays; those that start from 0 or 1 are random here."""
    model = Transformer(position=position, **{**SIZES, **sizes})
    numbers, weights = np.random.RandomState(7), model.initial(seed=1)
    drawn = {name: array + 0.1 * numbers.standard_normal(array.shape) for name, array in weights.items()}
    arrays = drawn | model.constants()
    return model, {name: array.astype(dtype) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def plain_loss(model, w, source, target):
    """Return the loss by loops over sentences, heads and positions, with sinusoidal positions or none."""
    lost, count = 0.0, 0
    for question, reply in zip(source, target, strict=True):
        read = [int(token) for token in reply if token != PAD]
        x = rows(model, w, [int(token) for token in question if token != PAD])
        for block in range(model.num_blocks):
            name = f"encoder.{block}"
            x = norm(w, f"{name}.attention", x + looked(model, w, f"{name}.attention", x, x, False))
            x = norm(w, f"{name}.feed_forward", x + layers(w, f"{name}.feed_forward", x))
        y = rows(model, w, [START, *read[:-1]])
        for block in range(model.num_blocks):
            name = f"decoder.{block}"
            y = norm(w, f"{name}.attention", y + looked(model, w, f"{name}.attention", y, y, True))
            y = norm(w, f"{name}.cross", y + looked(model, w, f"{name}.cross", y, x, False))
            y = norm(w, f"{name}.feed_forward", y + layers(w, f"{name}.feed_forward", y))
        for vector, token in zip(y, read, strict=True):
            likely = np.exp(w["embedding"] @ vector)
            lost, count = lost - math.log(likely[token] / likely.sum()), count + 1
    return lost / count


def rows(model, w, tokens):
    x = np.array([w["embedding"][token] * math.sqrt(model.num_hiddens) for token in tokens])
    if model.position is not None:
        for p, i in product(range(len(tokens)), range(model.num_hiddens // 2)):
            angle = p / 10000 ** (2 * i / model.num_hiddens)
            x[p, 2 * i] += math.sin(angle)
            x[p, 2 * i + 1] += math.cos(angle)
    return x


def looked(model, w, name, x, y, is_causal):
    q, k, v = x @ w[f"{name}.query"], y @ w[f"{name}.key"], y @ w[f"{name}.value"]
    result, width = np.zeros_like(x), model.num_hiddens // model.num_heads
    for head, i in product(range(model.num_heads), range(len(x))):
        part = slice(head * width, (head + 1) * width)
        seen = range(i + 1) if is_causal else range(len(y))
        likely = [math.exp(q[i, part] @ k[j, part] / math.sqrt(width)) for j in seen]
        result[i, part] = sum(a * v[j, part] for a, j in zip(likely, seen, strict=True)) / sum(likely)
    return result @ w[f"{name}.output"]


def norm(w, name, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * w[f"{name}.scale"] + w[f"{name}.shift"]


def layers(w, name, x):
    inner = np.clip(x @ w[f"{name}.inner"] + w[f"{name}.inner_bias"], 0, None)
    return inner @ w[f"{name}.outer"] + w[f"{name}.outer_bias"]


@pytest.mark.parametrize("position", [None, SINUSOIDAL], ids=repr)
def test_the_loss_is_that_of_the_paper(position):
    model, weights = made(position)
    wanted = plain_loss(model, weights, SOURCE, TARGET)
    assert abs(float(loss(model, weights, SOURCE, TARGET)) - wanted) < 1e-6  # the rows are rounded to float32
    single = {name: array.astype(np.float32) for name, array in weights.items()}
    assert abs(float(loss(model, single, SOURCE, TARGET)) - wanted) < 1e-5


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
def test_padding_and_later_tokens_change_nothing(position):
    model, weights = made(position)
    alone = answer(model, weights, SOURCE[1:, :2], TARGET[1:, :2])
    assert np.allclose(answer(model, weights, SOURCE, TARGET)[1:, :2], alone, rtol=0, atol=1e-12)
    other = TARGET.copy()
    other[0, 2] = 3
    assert np.array_equal(answer(model, weights, SOURCE, TARGET)[0, :3], answer(model, weights, SOURCE, other)[0, :3])
    assert not np.allclose(answer(model, weights, SOURCE, TARGET)[0, 3], answer(model, weights, SOURCE, other)[0, 3])


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_decoding_in_two_calls_changes_nothing(position, cut):
    model, weights = made(position)
    tokens, memory = shift_right(TARGET), read(model, weights, SOURCE)
    before, memory = decode(model, weights, tokens[:, :cut], memory)
    assert memory.length == cut
    after, memory = decode(model, weights, tokens[:, cut:], memory)
    whole = answer(model, weights, SOURCE, TARGET)
    assert np.allclose(np.concatenate([before, after], axis=1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
def test_the_encoder_sees_the_order_only_with_positions(position):
    model, weights = made(position)
    order = [3, 0, 2, 4, 1]
    same = encode(model, weights, SOURCE[:1, order]), encode(model, weights, SOURCE[:1])[:, order]
    assert np.allclose(*same, rtol=0, atol=1e-12) == (position is None)


def test_without_positions_all_orders_of_a_question_have_the_same_answer():
    """At most one of them can be answered correctly, after any training."""
    model, weights = made(None)
    source = np.array([[3, 4, 5, 6, 7], [7, 5, 3, 4, 6]], np.int32)
    logits = answer(model, weights, source, np.array([[7, 6, 5, 4, 3, 2]] * 2, np.int32))
    assert np.allclose(logits[0], logits[1], rtol=0, atol=1e-12)
    model, weights = made(SINUSOIDAL)
    logits = answer(model, weights, source, np.array([[7, 6, 5, 4, 3, 2]] * 2, np.int32))
    assert not np.allclose(logits[0], logits[1], rtol=0, atol=1e-2)


def likelihood(model, weights, question, tokens):
    """Return the log-likelihood of an answer, from one pass over all of it."""
    logits = answer(model, weights, question[None], np.array([tokens], np.int32))[0]
    parts = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return sum(parts[i, token] for i, token in enumerate(tokens))


def endings(vocabulary, length):
    """Yield all answers of up to `length` tokens: those that end, and those that are cut."""
    others = [token for token in range(vocabulary) if token not in (PAD, END)]
    for size in range(length):
        for begun in product(others, repeat=size):
            yield from ([*begun, END], [*begun, PAD])
    yield from (list(cut) for cut in product(others, repeat=length))


@pytest.mark.parametrize(
    "position", [SINUSOIDAL, ROTARY, MixedRotary(head_dim=4, layout="half", num_heads=3)], ids=repr
)
def test_a_beam_wide_enough_finds_the_likeliest_answers(position):
    model, weights = made(position, vocabulary=5)
    source = np.where(SOURCE > 4, 3, SOURCE)
    found = beam(model, weights, source, backend=HOST, width=200, length=3)
    for row, question in enumerate(source):
        ranked = sorted(((likelihood(model, weights, question, t), t) for t in endings(5, 3)), reverse=True)
        for place in range(20):
            assert abs(found.scores[row, place] - ranked[place][0]) < 1e-9
            assert found.tokens[row, place].tolist() == (ranked[place][1] + [PAD] * 3)[:3]


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
def test_greedy_decoding_writes_the_likeliest_token_each_time(position):
    model, weights = made(position)
    written = greedy(model, weights, SOURCE, backend=HOST, length=5)
    best = answer(model, weights, SOURCE, written).argmax(-1)
    ended = np.cumsum(np.isin(written, (END, PAD)), axis=1) - np.isin(written, (END, PAD))
    assert np.array_equal(written, np.where(ended > 0, PAD, best))
    narrow = beam(model, weights, SOURCE, backend=HOST, width=3, length=5)
    assert (narrow.scores[:, :-1] >= narrow.scores[:, 1:]).all()


@pytest.mark.parametrize("missing", ["from_numpy", "to_numpy"])
def test_a_backend_that_lacks_a_function_is_refused(missing):
    model, weights = made(None)
    half = SimpleNamespace(**{name: getattr(HOST, name) for name in {"from_numpy", "to_numpy"} - {missing}})
    with rejects(TypeError, "backend"):
        greedy(model, weights, SOURCE, backend=half, length=5)


def test_the_initial_values_are_the_same_on_all_machines():
    model = Transformer(position=Learned(dim=12, length=7), **SIZES)
    weights = model.initial(seed=0)
    assert list(weights) == list(model.parameters())
    assert weights["embedding"][0, :3].tolist() == [
        np.float32(x * 12**-0.5) for x in (1.764052345967664, 0.4001572083672233, 0.9787379841057392)
    ]
    assert weights["decoder.1.cross.scale"].tolist() == [1.0] * 12
    assert not np.array_equal(weights["encoder.position.table"], weights["decoder.position.table"])
    assert not np.array_equal(weights["embedding"], model.initial(seed=1)["embedding"])


def test_a_model_is_a_value():
    for position in POSITIONS:
        model = Transformer(position=position, **SIZES)
        assert Transformer.from_dict(model.to_dict()) == model
        assert eval(repr(model), VALUES | {"Transformer": Transformer}) == model


def test_a_scaling_that_depends_on_the_length_is_that_of_max_len():
    position = Rotary(head_dim=4, layout="half", scaling=DynamicNTK(factor=2.0, original_max_position_embeddings=4))
    model = Transformer(position=position, **SIZES)
    longer = replace(model, max_len=16)
    assert np.array_equal(model.constants()["position.cos"], position.at(7).constants(7)["cos"])
    assert not np.allclose(longer.constants()["position.cos"][:7], model.constants()["position.cos"])


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"num_heads": 5}, ("num_heads", "5")),
        ({"vocabulary": 0}, ("vocabulary", "0")),
        ({"position": Sinusoidal(dim=8)}, ("position", "Sinusoidal(dim=8)")),
        ({"position": Rotary(head_dim=6, layout="half")}, ("position", "Rotary(head_dim=6, layout='half')")),
        ({"position": Alibi(num_heads=2)}, ("position", "Alibi(num_heads=2)")),
        ({"position": MixedRotary(head_dim=4, layout="half", num_heads=2)}, ("position", "MixedRotary", "divide 3")),
        ({"position": PoPE(head_dim=4, num_heads=2)}, ("position", "PoPE(head_dim=4, num_heads=2)")),
        ({"position": Learned(dim=12, length=6)}, ("max_len", "7")),
        ({"position": Binary(dim=12), "max_len": 4097}, ("max_len", "4097")),
    ],
)
def test_what_does_not_fit_is_told(wrong, names):
    with rejects(ValueError, *names):
        Transformer(**{**SIZES, **wrong})


def test_what_is_no_encoding_is_told():
    with rejects(TypeError, "position", "'sin'"):
        Transformer(position="sin", **SIZES)


@pytest.mark.parametrize(("wrong", "names"), [({"length": 8}, ("length", "8")), ({"width": 0}, ("width", "0"))])
def test_decoding_tells_what_it_cannot(wrong, names):
    model, weights = made(None)
    with rejects(ValueError, *names):
        beam(model, weights, SOURCE, backend=HOST, **wrong)


def test_seeds_are_those_of_numpy():
    model = Transformer(**SIZES)
    assert model.initial(seed=2**32 - 1).keys() == model.parameters().keys()
    assert model.initial(seed=0).keys() == model.parameters().keys()
    for wrong in (-1, 2**32):
        with rejects(ValueError, "seed", wrong):
            model.initial(seed=wrong)


def test_the_logarithm_of_a_sum_is_that_of_its_largest_term_where_others_are_small():
    logits = np.array([[1000, 0], [-1000, -2000], [0, 0]], np.float32)
    np.testing.assert_array_equal(logsumexp(logits), np.array([[1000], [-1000], [math.log(2)]], np.float32))
