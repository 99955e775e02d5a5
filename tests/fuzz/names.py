"""The names that an input of the fuzz session is written in: an input is the text of one expression of Python.

So each input that is found can be pasted into `found.py`, and each one fails for itself, without a seed.
"""

import json
import math
import tempfile
from contextlib import redirect_stderr, suppress
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np

import posenc_core
from posenc_backends.conformance.cases import backend_under_test
from posenc_core import encodings, scaling
from posenc_core.analysis import compare_rope
from posenc_core.analysis.explain import explain
from posenc_core.encodings import Encoding
from posenc_core.encodings.notation import parse
from posenc_core.formats.safetensors import read_header, read_shards
from posenc_core.huggingface import layer_types, load_position, load_rope, multimodal_positions, vision_positions
from posenc_core.huggingface.diffusers import load_diffusers
from posenc_core.huggingface.timm import load_timm
from posenc_core.scaling import Scaling

from ..backends.test_hostile_layers import CALLED, MADE, OWN
from ..core.gguf_writer import gguf_bytes
from ..core.test_hostile_arguments import CALLS, called
from ..core.test_hostile_documented import CALLS as DOCUMENTED
from ..hostile import VALUES, complaint
from .ties import rounded

FUNCTIONS = {
    call.__name__: (call, valid)
    for call, valid in CALLS.items()
    if valid and getattr(posenc_core, getattr(call, "__name__", ""), None) is call
} | {call.__name__: (call, DOCUMENTED[call]) for call in (multimodal_positions, vision_positions)}
CONFIG = {"model_type": "llama", "head_dim": 8, "rope_theta": 1e4, "max_position_embeddings": 64}
GGUF = gguf_bytes(
    {
        "general.architecture": "llama", "llama.attention.key_length": 8, "llama.rope.freq_base": 1e4,
        "llama.context_length": 64, "llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2.0,
        "llama.rope.scaling.original_context_length": 32, "llama.attention.sliding_window_pattern": [True, False],
    },
    {"rope_freqs.weight": [1.0, 2.0, 4.0, 8.0]},
)  # fmt: skip
HEADERS = {"Host": "127.0.0.1:8050", "Content-Type": "application/json"}
SAFETENSORS = {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, "__metadata__": {"format": "pt"}}


def array(shape, dtype):
    """Return numbers from 0 on."""
    return np.arange(math.prod(shape)).reshape(shape).astype(dtype)


def used(kind, **fields):
    """Make a value, read it back from its texts, and ask it for the numbers of a few positions."""
    value = kind(**fields)
    family = Encoding if isinstance(value, Encoding) else Scaling
    same(family.from_dict(json.loads(json.dumps(value.to_dict()))), value)
    if family is Scaling:
        return
    same(parse(repr(value)), value)
    if max(value.to_dict().get(name) or 0 for name in ("dim", "head_dim")) > 4096:
        return  # so many frequencies take seconds, and tables gigabytes
    real = {name: table for name, table in value.constants(3).items() if table.dtype.kind == "f"}
    if kind is encodings.DecomposedBias:  # which marks tokens outside the window by NaN at both ends
        real = {name: table[1:-1] for name, table in real.items()}
    wrong = [name for name, table in real.items() if not np.isfinite(table).all()]
    if wrong:
        raise ArithmeticError(f"not finite: {wrong}")


def same(again, value):
    """Raise unless texts keep a value."""
    if again != value:
        raise ArithmeticError(f"{again!r} of {value!r}")


def from_json(text):
    """Read an encoding from JSON."""
    return used_again(Encoding.from_dict(json.loads(text)))


def from_notation(text):
    """Read an encoding from its notation."""
    return used_again(parse(text))


def used_again(value):
    """Use an encoding that was read."""
    return used(type(value), **value._arguments())


def edited(content, edits, length):
    """Return bytes with some exchanged and the end cut off, or zeros behind."""
    given = bytearray(content)
    for place, byte in edits:
        given[place % len(given)] = byte
    return bytes(given[:length]) + bytes(max(length - len(given), 0))


def gguf(edits=(), length=None):
    """Load the RoPE of a GGUF file of which some bytes are other ones."""
    content = edited(GGUF, edits, len(GGUF) if length is None else length)
    return from_file("model.gguf", content, load_rope)


def safetensors(header, *, size=None, data=16):
    """Read a file with this header, of this pretended size."""
    text = header if isinstance(header, bytes) else header.encode()
    size = len(text) if size is None else size
    return from_file("model.safetensors", size.to_bytes(8, "little") + text + bytes(data), read_header)


def shards(text):
    """Read an index of several files."""
    return from_file("model.safetensors.index.json", text.encode(), read_shards)


def from_file(name, content, read):
    """Read a file of this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            return read(path)
        except FileNotFoundError as error:  # of a shard
            raise ValueError(f"`index`: {Path(error.filename).name} is missing.") from error
        except ValueError as error:  # the name of the folder is another one each time
            raise type(error)(str(error).replace(str(path), f"`{name}`")) from error


@cache
def client():
    """Return a client of the explorer."""
    from posenc_backends.cli.explorer.app import make_app

    return make_app().server.test_client()


@cache
def callbacks():
    """Return the outputs of the callbacks that the explorer runs in Python."""
    answer = client().get("/_dash-dependencies", headers=HEADERS)
    return [each["output"] for each in answer.json if not each["clientside_function"]]


def explorer(path, body=None):
    """Ask the explorer; raise if it answers with an error of its own."""
    with redirect_stderr(StringIO()) as shown:
        answer = (
            client().get(path, headers=HEADERS) if body is None else client().post(path, data=body, headers=HEADERS)
        )
    if answer.status_code >= 500 or "Traceback" in shown.getvalue():
        raise ArithmeticError(f"status {answer.status_code}: {answer.text[:100]}")


def update(number, body):
    """Call back one of the functions of the explorer."""
    text = json.dumps({**body, "output": callbacks()[number % len(callbacks())]})
    explorer("/_dash-update-component", text.encode())


def link(query):
    """Open a link to the explorer, and have all of its pictures drawn."""
    from posenc_backends.cli.explorer import figures, links

    texts = links.texts_of(query)
    values, _ = links.read(texts)
    links.query_of(values)
    view = links.view_of(values)
    for draw in (figures.table, figures.columns, figures.wavelengths, figures.dot_products, figures.slopes):
        draw(view)


class Backend:
    """The calls that depend on the framework."""

    def __init__(self, name):
        self.on = backend_under_test(name)
        self.arrays = {}
        for each, value in VALUES.items():
            try:
                self.arrays[each] = self.on.backend.from_numpy(value) if type(value) is np.ndarray else value
            except Exception:  # noqa: BLE001 - a dtype that it lacks
                self.arrays[each] = value

    def of(self, value):
        """Return an array of the framework, where it has such; other values as they are."""
        if type(value) is not np.ndarray:
            return value
        number = np.float32 if value.dtype == np.float64 else value.dtype
        try:
            return self.on.backend.from_numpy(value.astype(number))
        except Exception:  # noqa: BLE001 - a dtype that it lacks
            return value

    def function(self, name, **wrong):
        """Call a function of the core; arguments that are not given are right ones, arrays of the framework."""
        call, valid = FUNCTIONS[name]
        given = {each: self.of(value) for each, value in valid.items()} | wrong
        first = next(iter(given))
        with suppress(FileNotFoundError):  # documented of a text, which is the path of a config
            return called(call, given, first, given[first][0] if first.startswith("*") else given[first])

    def layer(self, name, made, **wrong):
        """Make a layer and call it; arguments of the constructor that are not given are right ones."""
        needed = [each for each in CALLED[name] if each in ("x", "q", "scores", "queries", "keys", "values")]
        needed = [each for each in needed if name != "AttentionBias" or each == "scores"]
        own = next((OWN[name][each] for each in wrong if each in OWN.get(name, {})), None)
        layer = getattr(self.on.backend, name)(**MADE[name] | ({"encoding": own} if own else {}) | made)
        tokens = {each: self.of(CALLED[name][each]) for each in needed}
        return self.on.testing.eval_mode(layer)(**tokens | wrong)


@cache
def names_of(backend):
    """Return all names that inputs are written in."""
    framework = Backend(backend)
    kinds = {name: getattr(module, name) for module in (encodings, scaling) for name in module.__all__}
    readers = (
        load_rope,
        load_position,
        load_diffusers,
        load_timm,
        layer_types,
        explain,
        from_json,
        from_notation,
        gguf,
        safetensors,
        shards,
    )
    tools = (array, used, explorer, update, link, rounded, *readers)
    return {
        **kinds, **{each.__name__: each for each in tools}, "CONFIG": CONFIG, "nan": math.nan, "inf": math.inf,
        "V": VALUES, "F": framework.arrays, "function": framework.function, "layer": framework.layer,
        "of": framework.of, "compare_rope": lambda config: compare_rope(config, CONFIG, positions=64),
    }  # fmt: skip


def wrong(text, backend="numpy"):
    """Return what is wrong with how an input ends, in a sentence; None if nothing is."""
    names = dict(names_of(backend))  # before the clock runs: an import that it interrupts leaves half a framework
    return complaint(lambda: eval(text, names))
