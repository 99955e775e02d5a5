"""A converted checkpoint is complete or absent: rows of queries and keys move, and nothing else changes."""

import json
import os
import re
import signal
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, pairwise
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import safetensors.numpy

from posenc_backends.cli.relayout.checkpoint import PIECE, relayout_checkpoint
from posenc_core._requirement import requirement

from ..errors import rejects
from .gguf_writer import write_gguf

RNG = np.random.default_rng(11)
HIDDEN = 12
ITEM = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "I32": 4, "U8": 1, "BOOL": 1}
HELIUM = {
    "model_type": "helium", "hidden_size": HIDDEN, "head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rope_theta": 10000.0, "max_position_embeddings": 64,
}  # fmt: skip
LLAMA = HELIUM | {"model_type": "llama"}


def save(path, tensors, metadata=None):
    """Write a safetensors file from name to (dtype, shape, bytes), with the data in reverse order."""
    data = {name: (dtype, shape, raw) for name, (dtype, shape, raw) in reversed(tensors.items())}
    bounds = pairwise(accumulate((len(raw) for *_, raw in data.values()), initial=0))
    places = dict(zip(data, bounds, strict=True))
    header = {"__metadata__": metadata} if metadata else {}
    header |= {n: {"dtype": d, "shape": s, "data_offsets": places[n]} for n, (d, s, _) in tensors.items()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(raw for *_, raw in data.values()))
    return path


def load(path):
    """Return the tensors of a file: name to (dtype, shape, bytes)."""
    whole = path.read_bytes()
    first = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:first])
    header.pop("__metadata__", None)
    return {
        name: (t["dtype"], t["shape"], whole[first + t["data_offsets"][0] : first + t["data_offsets"][1]])
        for name, t in header.items()
    }


def noise(dtype, *shape):
    """Return random bytes, with infinities and NaN among them."""
    return dtype, list(shape), RNG.bytes(int(np.prod(shape)) * ITEM[dtype])


def layer(*, dtype="BF16", heads=4, key_heads=2, head_dim=8, at="model.layers.0"):
    """Return a layer of Qwen3 with the biases of Qwen2."""
    rows = {"q": heads * head_dim, "k": key_heads * head_dim}
    tensors = {
        "model.embed_tokens.weight": noise(dtype, 5, HIDDEN),
        f"{at}.mlp.up_proj.weight": noise(dtype, 9, HIDDEN),
    }
    for name, width in (*rows.items(), ("v", rows["k"])):
        tensors[f"{at}.self_attn.{name}_proj.weight"] = noise(dtype, width, HIDDEN)
        tensors[f"{at}.self_attn.{name}_proj.bias"] = noise("F32", width)
    for name in rows:
        tensors[f"{at}.self_attn.{name}_norm.weight"] = noise("F16", head_dim)
    tensors[f"{at}.self_attn.o_proj.weight"] = noise("F8_E4M3", HIDDEN, rows["q"])
    tensors[f"{at}.input_layernorm.weight"] = noise(dtype, HIDDEN)
    tensors[f"{at}.self_attn.rotary_emb.inv_freq"] = noise("F32", head_dim // 2)
    tensors[f"{at}.post_attention_layernorm.weight"] = noise(dtype, HIDDEN)
    return tensors


def test_rows_change_places_and_nothing_else(tmp_path):
    tensors = layer() | {"empty": noise("F32", 0, 3), "lm_head.weight": noise("BOOL", 3, HIDDEN)}
    tensors |= {
        "model.layers.1.self_attn.v_proj.weight": noise("I32", 3),
        "model.layers.2.self_attn.v_proj.bias": noise("U8", 1),
    }
    source = save(tmp_path / "in.safetensors", tensors, {"format": "pt", "note": "ünïcode"})
    done = relayout_checkpoint(source, tmp_path / "out.safetensors", config=HELIUM, to="half")
    at, head = "model.layers.0.self_attn", [0, 2, 4, 6, 1, 3, 5, 7]
    relaid = {f"{at}.{n}_{kind}" for n in "qk" for kind in ("proj.weight", "proj.bias", "norm.weight")}
    assert set(done.relaid) == relaid
    assert set(done.relaid + done.copied) == set(tensors)
    got = load(tmp_path / "out.safetensors")
    assert list(got) == list(tensors)
    for name, (dtype, shape, raw) in tensors.items():
        assert got[name][:2] == (dtype, shape)
        if name not in relaid:
            assert got[name][2] == raw
            continue
        rows = np.frombuffer(raw, np.uint8).reshape(shape[0] // 8, 8, -1)
        assert got[name][2] == rows[:, head].tobytes()
        assert got[name][2] != raw
    first = 8 + int.from_bytes(source.read_bytes()[:8], "little")
    assert (tmp_path / "out.safetensors").read_bytes()[:first] == source.read_bytes()[:first]


def test_an_adapter_of_rank_0_has_nothing_to_move(tmp_path):
    tensors = layer() | {"layers.0.self_attn.q_proj.lora_B.weight": noise("F32", 32, 0)}
    source = save(tmp_path / "in", tensors)
    relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert load(tmp_path / "out")["layers.0.self_attn.q_proj.lora_B.weight"] == ("F32", [32, 0], b"")


@pytest.mark.parametrize("config", [HELIUM, HELIUM | {"model_type": "glm4", "partial_rotary_factor": 0.5}])
def test_there_and_back_is_the_same_file(config, tmp_path):
    source = save(tmp_path / "in.safetensors", layer(), {"format": "pt"})
    there, back = tmp_path / "there.safetensors", tmp_path / "back.safetensors"
    relayout_checkpoint(source, there, config=config, to="half")
    relayout_checkpoint(str(there), str(back), config=config, to="interleaved_to_half", layout="half")
    assert there.read_bytes() != source.read_bytes()
    assert back.read_bytes() == source.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "back.safetensors",
        "in.safetensors",
        "there.safetensors",
    ]


def test_the_library_of_the_format_reads_it(tmp_path):
    tensors = layer()
    source = save(tmp_path / "in.safetensors", tensors, {"format": "pt"})
    relayout_checkpoint(source, tmp_path / "out.safetensors", config=HELIUM, to="half")
    with safetensors.safe_open(tmp_path / "out.safetensors", "np") as opened:
        assert opened.metadata() == {"format": "pt"}
        assert set(opened.keys()) == set(tensors)
        bias = "model.layers.0.self_attn.k_proj.bias"
        raw = np.frombuffer(tensors[bias][2], np.float32)
        np.testing.assert_array_equal(opened.get_tensor(bias)[:8], raw[[0, 2, 4, 6, 1, 3, 5, 7]])


def test_a_checkpoint_of_the_library_is_read(tmp_path):
    name, key = "layers.3.attention.wq.weight", "layers.3.attention.wk.weight"
    queries = np.arange(64, dtype=np.int16).astype(np.float16).reshape(32, 2)
    safetensors.numpy.save_file({name: queries, key: np.zeros((16, 2), np.float16)}, tmp_path / "in")
    config = LLAMA | {"hidden_size": 2}
    relayout_checkpoint(tmp_path / "in", tmp_path / "out", config=config, to="half", layout="interleaved")
    np.testing.assert_array_equal(
        safetensors.numpy.load_file(tmp_path / "out")[name][:8, 0], [0, 4, 8, 12, 2, 6, 10, 14]
    )


def test_a_checkpoint_may_be_in_several_files(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    shards = [layer(at=f"model.layers.{n}") for n in (0, 1)]
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for name, tensors in zip(names, shards, strict=True):
        save(folder / name, tensors)
    weight_map = {tensor: name for name, tensors in zip(names, shards, strict=True) for tensor in tensors}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    done = relayout_checkpoint(index, tmp_path / "new", config=HELIUM, to="half")
    assert len(done.relaid) == 12
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted([*names, index.name])
    assert (tmp_path / "new" / index.name).read_bytes() == index.read_bytes()
    for name in names:
        relayout_checkpoint(folder / name, tmp_path / name, config=HELIUM, to="half")
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_memory_stays_below_twice_the_largest_tensor(tmp_path):
    rows, columns = 4 * 8, 2**16
    tensors = layer() | {
        "model.layers.0.self_attn.q_proj.weight": ("BF16", [rows, columns], b"\1\2" * (rows * columns)),
        "model.embed_tokens.weight": ("BF16", [rows, columns], b"\3\4" * (rows * columns)),
    }
    source = save(tmp_path / "in", tensors)
    config = {key: value for key, value in HELIUM.items() if key != "hidden_size"}
    relayout_checkpoint(source, tmp_path / "warm", config=config, to="half")  # imports
    tracemalloc.start()
    try:
        relayout_checkpoint(source, tmp_path / "out", config=config, to="half")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    largest = 2 * rows * columns
    assert largest == 4 * PIECE
    assert peak < largest


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("self_attn.q_proj.weight", (48, 3), "must have shape (32, 12) by the config, got (48, 3)."),
        ("self_attn.q_proj.qweight", (32, 3), "is quantized (F32); convert the checkpoint before quantizing it."),
        ("self_attn.W_pack.weight", (96, 3), "may hold queries or keys, but their order is unknown"),
    ],
)
def test_tensors_that_cannot_be_re_laid_are_named_and_nothing_is_written(name, shape, message, tmp_path):
    full = f"model.layers.1.{name}"
    source = save(tmp_path / "in", layer() | {full: noise("F32", *shape)})
    with pytest.raises(ValueError, match=re.escape(f"`{full}` {message}")):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("changes", "words", "names"),
    [
        ({}, {"to": "half", "layout": "half"}, ("to", "'half'")),
        ({}, {"to": "interleaved", "layout": "interleaved_to_half"}, ("to", "'interleaved'")),
        ({}, {"to": "neox"}, ("to", "'neox'")),
        ({}, {"to": "half", "layout": "gptj"}, ("layout", "'gptj'")),
        ({"attention_k_eq_v": True}, {"to": "half"}, ("attention_k_eq_v", "`o_proj`")),
        ({"num_attention_heads": [4, 8]}, {"to": "half"}, ("num_attention_heads", "[4, 8]")),
        ({"model_type": "deepseek_v2", "qk_rope_head_dim": 4}, {"to": "half"}, ("qk_nope_head_dim", "None")),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(changes, words, names, tmp_path):
    source = save(tmp_path / "in", layer())
    with rejects(ValueError, *names):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM | changes, **words)
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("model", "to", "names"),
    [
        ("llama", "half", ("to", "'half'", "`model_type`", "'llama'", "`--from interleaved`")),
        ("qwen2", "half", ("to", "'half'", "`model_type`", "'qwen2'", "`--from interleaved`")),
        ("helium", "interleaved", ("to", "'interleaved'", "`model_type`", "'helium'", "`--from half`")),
        ("helium", "interleaved_to_half", ("to", "'interleaved_to_half'", "`model_type`", "'helium'", "`--from half`")),
        ("deepseek_v3", "interleaved", ("to", "'interleaved'", "`model_type`", "'deepseek_v3'", "`--from half`")),
        ("unheard_of", "half", ("layout", "`model_type`", "'unheard_of'", "`--from interleaved`", "`--from half`")),
        (None, "half", ("layout", "a config without a known `model_type`", "`--from interleaved`", "`--from half`")),
    ],
)
def test_no_layout_is_guessed(model, to, names, tmp_path):
    source = save(tmp_path / "in", layer())
    with rejects(ValueError, *names):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM | {"model_type": model}, to=to)
    assert list(tmp_path.iterdir()) == [source]


def test_a_given_layout_overrides_that_of_the_model_type(tmp_path):
    source = save(tmp_path / "in", layer())
    relayout_checkpoint(source, tmp_path / "given", config=LLAMA, to="half", layout="interleaved")
    relayout_checkpoint(source, tmp_path / "known", config=HELIUM, to="half")
    relayout_checkpoint(source, tmp_path / "back", config=LLAMA, to="interleaved")
    assert (tmp_path / "given").read_bytes() == (tmp_path / "known").read_bytes() != (tmp_path / "back").read_bytes()


def test_names_of_another_release_do_not_have_the_layout_of_transformers(tmp_path):
    tensors = {
        f"layers.0.attention.{name}.weight": noise("F32", rows, HIDDEN) for name, rows in (("wq", 32), ("wk", 16))
    }
    source = save(tmp_path / "in", tensors)
    with rejects(ValueError, "layout", "`wk`", "`wq`", "`--from interleaved`", "`--from half`"):
        relayout_checkpoint(source, tmp_path / "out", config=LLAMA, to="interleaved")
    relayout_checkpoint(source, tmp_path / "out", config=LLAMA, to="half", layout="interleaved")
    params = {"dim": HIDDEN, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8, "rope_theta": 10000.0}
    relayout_checkpoint(source, tmp_path / "known", config=params, to="half")
    assert (tmp_path / "known").read_bytes() == (tmp_path / "out").read_bytes() != source.read_bytes()
    with rejects(ValueError, "layout", "`--from interleaved`", "`--from half`"):
        relayout_checkpoint(save(tmp_path / "hf", layer()), tmp_path / "none", config=params, to="half")


def test_a_gguf_file_tells_sizes_and_not_whose_layout_the_weights_have(tmp_path):
    sizes = {"embedding_length": HIDDEN, "attention.head_count": 4, "attention.head_count_kv": 2}
    metadata = {f"llama.{name}": value for name, value in {**sizes, "attention.key_length": 8}.items()}
    config = write_gguf(tmp_path / "model.gguf", {"general.architecture": "llama", **metadata})
    source = save(tmp_path / "in", layer())
    for name, given in (("gguf", config), ("json", LLAMA)):
        relayout_checkpoint(source, tmp_path / name, config=given, to="interleaved", layout="half")
    assert load(tmp_path / "gguf") == load(tmp_path / "json") != load(source)
    with rejects(ValueError, "layout", "for a config without a known `model_type`", "`--from half`"):
        relayout_checkpoint(source, tmp_path / "none", config=config, to="interleaved")


@pytest.mark.parametrize("lacking", ["q", "k"])
def test_a_whole_checkpoint_has_queries_and_keys(lacking, tmp_path):
    tensors = layer() | layer(at="model.layers.1")
    del tensors[f"model.layers.1.self_attn.{lacking}_proj.weight"]
    source = save(tmp_path / "in", tensors)
    with rejects(ValueError, "source", "`model.layers.1.self_attn`"):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert list(tmp_path.iterdir()) == [source]
    source = save(tmp_path / "model-00001-of-00001.safetensors", tensors)
    with rejects(ValueError, "source", "`model.layers.1.self_attn`"):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    source = save(tmp_path / "model-00001-of-00010.safetensors", tensors)
    assert len(relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half").relaid) == 11


def test_a_file_without_queries_and_keys_is_refused(tmp_path):
    source = save(tmp_path / "in", {"model.norm.weight": noise("F32", 3)})
    with rejects(ValueError, "source", str(source)):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("link", ["same", "hard", "soft", "dangling", "other"])
def test_no_file_is_written_over(link, tmp_path):
    source, target = save(tmp_path / "in", layer()), tmp_path / "out"
    if link == "same":
        target = tmp_path / "." / "in"
    elif link == "hard":
        target.hardlink_to(source)
    elif link == "soft":
        target.symlink_to(source)
    elif link == "dangling":
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.write_text("mine")
    before, listed = source.read_bytes(), sorted(tmp_path.iterdir())
    with rejects(FileExistsError, "target", str(target)):
        relayout_checkpoint(source, target, config=HELIUM, to="half")
    assert source.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == listed
    with pytest.raises(FileNotFoundError, match="`target` must be in a folder that exists"):
        relayout_checkpoint(source, tmp_path / "missing" / "out", config=HELIUM, to="half")


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_was_begun_is_removed_if_it_fails(failure, tmp_path, monkeypatch):
    def fail(*_):
        raise failure

    source = save(tmp_path / "in", layer())
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(failure)):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert list(tmp_path.iterdir()) == [source]


@pytest.fixture
def usual_signals():
    """Restore the signal handlers of Python, even if the shell or the test runner ignores signals."""
    usual = {"SIGTERM": signal.SIG_DFL, "SIGHUP": signal.SIG_DFL, "SIGINT": signal.default_int_handler}
    before = {name: signal.signal(getattr(signal, name), handler) for name, handler in usual.items()}
    yield
    for name, handler in before.items():
        signal.signal(getattr(signal, name), handler)


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(
    ("name", "error"), [("SIGTERM", SystemExit), ("SIGHUP", SystemExit), ("SIGINT", KeyboardInterrupt)]
)
def test_what_was_begun_is_removed_if_it_is_stopped(name, error, tmp_path, monkeypatch):
    number = getattr(signal, name)

    def stop_twice(folder):
        os.kill(os.getpid(), number)  # as people do who press Ctrl-C again
        cleanup(folder)

    cleanup = TemporaryDirectory.cleanup
    monkeypatch.setattr(TemporaryDirectory, "cleanup", stop_twice)
    monkeypatch.setattr(os, "fsync", lambda _: os.kill(os.getpid(), number))
    source, before = save(tmp_path / "in", layer()), signal.getsignal(number)
    with pytest.raises(error) as raised:
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert error is KeyboardInterrupt or raised.value.code == 128 + number
    assert list(tmp_path.iterdir()) == [source]
    assert signal.getsignal(number) == before


def test_a_signal_that_is_ignored_stays_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: os.kill(os.getpid(), signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        relayout_checkpoint(save(tmp_path / "in", layer()), tmp_path / "out", config=HELIUM, to="half")
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_it_works_in_another_thread(tmp_path):
    source = save(tmp_path / "in", layer())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(relayout_checkpoint, source, tmp_path / "out", config=HELIUM, to="half").result()
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(30, "Read-only file system")])
def test_a_folder_that_cannot_be_written_to_is_named_as_target(error, tmp_path, monkeypatch):
    def refuse(path, *_):
        raise type(error)(*error.args, path)

    source, target = save(tmp_path / "in", layer()), tmp_path / "out"
    monkeypatch.setattr(os, "mkdir", refuse)
    with rejects(type(error), "target", str(target), error.strerror) as raised:
        relayout_checkpoint(source, target, config=HELIUM, to="half")
    assert ".posenc-" not in str(raised.value)


def test_a_file_that_came_in_the_meantime_is_kept(tmp_path, monkeypatch):
    source, target = save(tmp_path / "in", layer()), tmp_path / "out"
    monkeypatch.setattr(os, "fsync", lambda _: target.write_text("mine"))
    with rejects(FileExistsError, "target"):
        relayout_checkpoint(source, target, config=HELIUM, to="half")
    assert target.read_text() == "mine"


def test_a_file_that_shrinks_meanwhile_is_an_error(tmp_path, monkeypatch):
    source = save(tmp_path / "in", layer())
    whole = source.stat().st_size
    monkeypatch.setattr("posenc_backends.cli.relayout.checkpoint._progress", lambda total: shortened(source, whole - 1))
    with pytest.raises(OSError, match="became shorter while it was read"):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert list(tmp_path.iterdir()) == [source]


@contextmanager
def shortened(path, size):
    os.truncate(path, size)
    yield lambda count: None


def test_without_rich_the_error_names_the_extra(tmp_path, monkeypatch):
    source = save(tmp_path / "in", layer())
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with rejects(ImportError, "rich", f'`pip install "{requirement("report")}"`'):
        relayout_checkpoint(source, tmp_path / "out", config=HELIUM, to="half")
    assert list(tmp_path.iterdir()) == [source]
