"""No integer of a file is a size or a loop before it meets a bound: time and memory follow the size of the file.

Each integer key of each format is 10**9, a negative number and 2**63 in turn; the answer is a result or one sentence.
"""

import copy
import json
import re
import tracemalloc
import warnings
from functools import partial
from pathlib import Path

import pytest

from posenc_backends.cli.explorer.models import read_config
from posenc_backends.cli.relayout.checkpoint import relayout_checkpoint
from posenc_core.analysis import compare_rope
from posenc_core.formats.safetensors import read_header
from posenc_core.huggingface import load_position
from posenc_core.huggingface.diffusers import load_diffusers
from posenc_core.huggingface.timm import load_timm

from ..hostile import complaint
from .gguf_writer import gguf_bytes

CASES = Path(__file__).with_name("cases")
READERS = {"_class_name": load_diffusers, "architecture": load_timm, "model_type": load_position}
HUGE = (10**9, -1, 2**63)
MOST = 2**25  # bytes
HEADER = {"layers.0.attn.q_proj.weight": {"dtype": "F32", "shape": [8, 8], "data_offsets": [0, 256]}}
LLAMA = {"model_type": "llama", "head_dim": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "hidden_size": 8}
LATENT = {
    "model_type": "deepseek_v3", "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "kv_lora_rank": 4, "q_lora_rank": 8,
    "v_head_dim": 4, "num_attention_heads": 1, "hidden_size": 8, "max_position_embeddings": 64,
}  # fmt: skip
NTK = LLAMA | {"model_type": "new", "rope_scaling": {"type": "ntk", "factor": 8.0}}


def configs(tree):
    """Yield the dicts that are configs."""
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    if isinstance(tree, dict) and not READERS.keys().isdisjoint(tree):
        yield tree
    else:
        for part in parts:
            yield from configs(part)


def places(tree, before=()):
    """Yield the path of each integer, of lists the first alone."""
    if type(tree) is int:
        yield before
    for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree[:1]) if isinstance(tree, list) else ():
        yield from places(part, (*before, key))


def changed(tree, place, value):
    tree = inner = copy.deepcopy(tree)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return tree


def of_configs():
    """Yield a reader and a config for each integer key of a config that any case of the tests has."""
    done = set()
    for path in (*sorted(CASES.glob("*.json")), *sorted(Path(__file__).with_name("published").glob("*.json"))):
        for config in configs(json.loads(path.read_text(encoding="utf-8"))):
            reader = next(each for key, each in READERS.items() if key in config)
            for place in places(config):
                name = [key for key in place if type(key) is str][-1]
                if name not in done:
                    done.add(name)
                    yield reader, config, place
    yield load_position, NTK, ("num_attention_heads",)  # an exponent
    yield from ((lambda config: read_config(json.dumps(config)), LATENT, place) for place in places(LATENT))
    yield from ((lambda config: compare_rope(config, LATENT), LATENT, place) for place in places(LATENT))
    for table in json.loads((CASES / "params.json").read_text(encoding="utf-8")).values():
        for case in table.values() if isinstance(table, dict) else table:
            given = case[0] if isinstance(case, list) else case
            yield from ((load_position, given, place) for place in places(given) if isinstance(given, dict))


def of_megatron():
    """Yield command lines, one for each option that has an integer and each product of lists."""
    text = (CASES / "megatron.json").read_text(encoding="utf-8")
    found = {}
    for line in re.findall(r'"([^"]*--[^"]*)"', text):
        for number in re.finditer(r"(--[\w-]+[ =]|\] *\* *)(\d+)(?![\w.])", line):
            found.setdefault(number[1], (line[: number.start(2)], line[number.end(2) :]))
    return found.values()


def run(calls):
    """Return what is wrong with each call that ends in something else, or takes more memory than a file has."""
    wrong = []
    tracemalloc.start()
    try:
        for name, call in calls:
            tracemalloc.reset_peak()
            held, _ = tracemalloc.get_traced_memory()
            said = complaint(call)
            taken = tracemalloc.get_traced_memory()[1] - held
            if taken > MOST or (said and re.match(r"\w*(Error|Slow|Exit)\b", said)):
                wrong.append((name, taken, said))
    finally:
        tracemalloc.stop()
    return wrong


@pytest.mark.parametrize("value", HUGE)
def test_integers_of_configs(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [
            ((config.get("model_type"), place), lambda r=reader, c=config, p=place: r(changed(c, p, value)))
            for reader, config, place in of_configs()
        ][:: 1 if value == 10**9 else 7]
        assert len(calls) > 40
        assert run(calls) == []


@pytest.mark.parametrize("value", HUGE)
def test_integers_of_command_lines(value):
    lines = [f"{before}{value}{after}" for before, after in of_megatron()]
    assert len(lines) > 10
    assert run((line, lambda text=line: load_position(text)) for line in lines) == []


@pytest.mark.parametrize("value", [10**9, 2**32 - 1])
def test_integers_of_gguf_files(value, tmp_path):
    calls = []
    for place, given in enumerate(configs_of_gguf()):
        for key in [key for key, number in given.items() if type(number) is int]:
            path = tmp_path / f"{place}-{key}.gguf"
            path.write_bytes(gguf_bytes(given | {key: value}))
            calls.append(((given["general.architecture"], key), lambda path=path: load_position(path)))
    assert len(calls) > 30
    assert run(calls) == []


def configs_of_gguf():
    """Yield the metadata of a file for each key with an integer that the cases have."""
    whole = {"attention.key_length": 64, "context_length": 64, "block_count": 8, "attention.head_count": 4}
    done = set()
    for table in json.loads((CASES / "gguf.json").read_text(encoding="utf-8")).values():
        for case in table.values() if isinstance(table, dict) else table:
            if isinstance(case, list) and len(case) > 1 and isinstance(case[1], dict):
                keys = {key for key, number in case[1].items() if type(number) is int} - done
                if keys or case[0] not in done:
                    done |= {*keys, case[0]}
                    named = {key: number for key, number in (whole | case[1]).items() if number is not None}
                    yield {"general.architecture": case[0]} | {f"{case[0]}.{key}": named[key] for key in named}


@pytest.mark.parametrize("value", HUGE)
def test_integers_of_checkpoints(value, tmp_path):
    """Of the header of a file of safetensors, its length, and of the config that is given with it."""
    calls = []

    def write(header, length=None):
        path, text = tmp_path / f"{len(list(tmp_path.iterdir()))}.safetensors", json.dumps(header).encode()
        path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(256))
        return path

    paths = [*(write(changed(HEADER, place, value)) for place in places(HEADER)), write(HEADER, max(value, 0))]
    calls += [(path.name, partial(read_header, path)) for path in paths]
    whole = write(HEADER)
    for config in (LLAMA, LATENT):
        for place in places(config):
            options = {"config": changed(config, place, value), "to": "interleaved"}
            calls.append((place, partial(relayout_checkpoint, whole, tmp_path / "new", **options)))
    assert run(calls) == []
