"""The kernel as an operator of compiled programs: the formula's bits in each way that Paddle runs or saves them."""

import itertools
import subprocess
import sys
import warnings

import numpy as np
import paddle
import pytest
from paddle.static import InputSpec

from posenc_backends.paddle import RotaryEmbedding, operator
from posenc_core import Rotary, rotate
from posenc_core.encodings import LearnedRotary
from posenc_core.rotation import pairing_of, rotate_reference

HALF = Rotary(head_dim=8, layout="half")
DYNAMIC = [InputSpec([None, 2, None, 8])]
pytestmark = pytest.mark.skipif(operator.level() == "off", reason="the compiled library is not here")

ELSEWHERE = """
import sys
import paddle

folder = sys.argv[1]
paddle.save(paddle.jit.load(f"{folder}/model")(paddle.load(f"{folder}/given")), f"{folder}/result")
assert not any(name.startswith("posenc") for name in sys.modules)
"""


PREDICTED = """
import sys
import paddle
from paddle import inference
from posenc_backends.paddle import RotaryEmbedding
from posenc_core import Rotary

path, layer = f"{sys.argv[1]}/layer", RotaryEmbedding(Rotary(head_dim=8, layout="half"))
paddle.jit.save(layer, path, input_spec=[paddle.static.InputSpec([1, 2, 3, 8])])
paddle.jit.to_static(layer, full_graph=True)(paddle.ones([1, 2, 3, 8]))
inference.create_predictor(inference.Config(f"{path}.json", f"{path}.pdiparams"))
"""


@pytest.fixture(autouse=True)
def _in_graphs():
    with operator.kernel_in_graphs():
        yield


class Model(paddle.nn.Layer):
    """A projection and a rotation."""

    def __init__(self, layer=None):
        super().__init__()
        self.projection = paddle.nn.Linear(8, 8)
        self.layer = RotaryEmbedding(HALF) if layer is None else layer

    def forward(self, x):
        return self.layer(self.projection(x))


class Rotation(paddle.nn.Layer):
    """The function with tables that it holds."""

    def __init__(self, cos, sin, **options):
        super().__init__()
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.options = options

    def forward(self, x):
        return rotate(x, self.cos, self.sin, **self.options)


class Unfollowed(Model):
    def forward(self, x):
        with paddle.no_grad():
            rotated = self.layer(x)
        return rotated * x


class Detached(Model):
    def forward(self, x):
        return self.layer(x.detach()) * x


class Autocast(Model):
    def forward(self, x):
        with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
            return self.layer(x * 2)


def tokens(*shape, dtype="float32", stop_gradient=False):
    x = paddle.to_tensor(np.random.default_rng(0).normal(size=shape).astype("float32")).astype(dtype)
    x.stop_gradient = stop_gradient
    return x


def compiled(model, spec=None, full_graph=True):
    return paddle.jit.to_static(model, input_spec=spec, full_graph=full_graph)


def has_operator(model):
    """Return whether calls of a compiled model run the operator."""
    return all(
        operator._has_operator(made) for _, run in model.forward._program_cache._caches.values() for made in [_Run(run)]
    )


class _Run:
    def __init__(self, run):
        self.main_program = run._origin_main_program


def numbers(x):
    return x.astype("float32").numpy()


def gradient(function, x):
    """Return the result and its gradient for a fixed direction."""
    result = function(x)
    (found,) = paddle.grad(result, x, paddle.ones_like(result) * 0.7, allow_unused=True)
    return numbers(result), None if found is None else numbers(found)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    ("layout", "placement", "blocks"),
    [
        *itertools.product(["half", "interleaved", "interleaved_to_half"], ["lead", "trail"], [1, 2]),
        ("half", "spread", 1),
    ],
)
def test_bits_of_the_reference_forward_and_back(dtype, layout, placement, blocks):
    pairing = pairing_of(layout, placement, blocks)
    cos, sin = (paddle.to_tensor(table) for table in Rotary(head_dim=8, layout="half").cos_sin(np.arange(5)))
    x = tokens(2, 3, 5, 12, dtype=dtype)
    model = compiled(Rotation(cos, sin, layout=layout, placement=placement, blocks=blocks))
    got, back = gradient(model, x)
    np.testing.assert_array_equal(got, numbers(rotate_reference(x, cos, sin, pairing)))
    to_x = paddle.ones_like(x) * 0.7
    np.testing.assert_array_equal(back, numbers(rotate_reference(to_x, cos, -sin, pairing.inverse)))
    assert has_operator(model)


@pytest.mark.parametrize("full_graph", [True, False], ids=["source", "bytecode"])
def test_sizes_that_change(full_graph):
    layer = RotaryEmbedding(HALF)
    model, wanted = Model(layer), Model(layer)
    wanted.set_state_dict(model.state_dict())
    model = compiled(model, DYNAMIC if full_graph else None, full_graph)
    for batch, length in ((2, 5), (3, 1), (1, 9)):
        for got, right in zip(
            gradient(model, tokens(batch, 2, length, 8)), gradient(wanted, tokens(batch, 2, length, 8)), strict=True
        ):
            np.testing.assert_array_equal(got, right)


def test_two_pairings_in_one_program():
    """Paddle finds an operator by its name."""

    class Both(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.outer = RotaryEmbedding(HALF)
            self.inner = RotaryEmbedding(Rotary(head_dim=8, layout="interleaved"))

        def forward(self, x):
            return self.inner(self.outer(x))

    model, x = Both(), tokens(1, 2, 3, 8)
    wanted = gradient(model, x)
    for got, right in zip(gradient(compiled(model), x), wanted, strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("kind", [Unfollowed, Detached])
def test_no_gradient_where_none_is_asked_for(kind):
    x = tokens(2, 2, 5, 8)
    model = kind()
    wanted = gradient(model, x)
    for got, right in zip(gradient(compiled(model), x), wanted, strict=True):
        np.testing.assert_array_equal(got, right)
    assert has_operator(model)


def test_autocast_changes_no_bit():
    x = tokens(2, 2, 5, 8)
    model = Autocast()
    wanted = numbers(model.layer(x * 2))
    np.testing.assert_array_equal(numbers(compiled(model)(x)), wanted)
    assert has_operator(model)


def test_learned_frequencies_have_their_gradient():
    layer = RotaryEmbedding(LearnedRotary(head_dim=8, layout="half"))
    model, x = Model(layer), tokens(1, 2, 5, 8)

    def learned(function):
        return [numbers(each) for each in paddle.grad((function(x) * x).sum(), layer.parameters())]

    wanted = learned(model)
    for got, right in zip(learned(compiled(model)), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=0, atol=1e-5)
        assert np.abs(right).max() > 1e-3


def test_a_gradient_of_a_gradient_is_refused():
    """Paddle drops `create_graph` while it traces, and has no second derivative of what it compiled."""

    class Penalty(Model):
        def forward(self, x):
            y = self.layer(x)
            return paddle.grad((y * y * y).sum(), x, create_graph=True)[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Paddle's, about `create_graph`
        with pytest.raises(ValueError, match="backward_function_id"):
            gradient(compiled(Penalty()), tokens(1, 2, 3, 8))


def test_evaluation_and_training():
    x, model = tokens(1, 2, 5, 8), Model()
    wanted = gradient(model, x)
    made = compiled(model)
    for mode in (model.eval, model.train, model.eval):
        mode()
        np.testing.assert_array_equal(numbers(made(x)), wanted[0])
        with paddle.no_grad():
            np.testing.assert_array_equal(numbers(made(x)), wanted[0])
    model.train()
    np.testing.assert_array_equal(gradient(made, x)[1], wanted[1])


def _called(model):
    """Compile; call with two lengths, and keep a program for each."""
    made = compiled(model)
    made(tokens(1, 2, 3, 8)), made(tokens(2, 2, 5, 8))
    return made


def _called_with_spec(model):
    made = compiled(model, DYNAMIC)
    made.eval()
    made(tokens(2, 2, 5, 8))
    return made


def _by_bytecode(model):
    made = compiled(model, full_graph=False)
    made(tokens(2, 2, 5, 8))
    return made


@pytest.mark.parametrize(
    ("prepare", "spec"),
    [
        (lambda model: model, DYNAMIC),
        (lambda model: compiled(model, DYNAMIC), None),
        (_called, None),
        (_called_with_spec, None),
        (_by_bytecode, None),
    ],
    ids=["never called", "never called, with a spec", "called", "spec, called", "bytecode"],
)
def test_a_process_without_posenc_runs_what_is_saved(prepare, spec, tmp_path):
    model, x = Model(), tokens(2, 2, 5, 8)
    wanted = numbers(model(x))
    made = prepare(model)
    paddle.jit.save(made, str(tmp_path / "model"), input_spec=spec)
    paddle.save(x, str(tmp_path / "given"))
    command = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path, capture_output=True)
    np.testing.assert_array_equal(numbers(paddle.load(str(tmp_path / "result"))), wanted)
    np.testing.assert_array_equal(numbers(made(x)), wanted)


def test_calls_run_the_operator_after_saving(tmp_path):
    model, x = compiled(Model()), tokens(2, 2, 5, 8)
    wanted = gradient(model, x)
    paddle.jit.save(model, str(tmp_path / "model"))
    for got, right in zip(gradient(model, x), wanted, strict=True):
        np.testing.assert_array_equal(got, right)
    assert has_operator(model)
    assert not any(map(operator._has_operator, model.forward._program_cache.concrete_programs()))


def test_a_predictor_is_made_after_a_program_that_did_not_ask_for_the_operator(tmp_path):
    """Paddle ends the process that makes one after a program with an operator of Python."""
    command = [sys.executable, "-W", "ignore", "-c", PREDICTED, str(tmp_path)]
    subprocess.run(command, check=True, timeout=120, cwd=tmp_path, capture_output=True)


def test_only_programs_traced_in_the_context_have_it():
    model, x = Model(), tokens(1, 2, 3, 8)
    token = operator._is_in_graphs.set(False)
    made = compiled(model)
    made(x)
    operator._is_in_graphs.reset(token)
    assert not has_operator(made)


RENAMED = """
import paddle

del paddle.jit.api._register_save_pre_hook
from posenc_backends.paddle import RotaryEmbedding, operator
from posenc_core import Rotary

layer, x = RotaryEmbedding(Rotary(head_dim=8, layout="half")), paddle.ones([1, 2, 3, 8])
layer(x)
try:
    with operator.kernel_in_graphs():
        pass
except ImportError as error:
    assert str(error).startswith("`kernel_in_graphs` must be left out with Paddle"), error
else:
    raise AssertionError("no error")
"""


def test_another_paddle_lacks_the_operator_alone(tmp_path):
    subprocess.run([sys.executable, "-c", RENAMED], check=True, cwd=tmp_path)  # not beside sources without a library
