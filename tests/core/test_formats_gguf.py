"""GGUF: what a file says, in all its spellings; what llama.cpp's code says; damaged and hostile files."""

import random
import struct
import tracemalloc
import warnings

import numpy as np
import pytest

from posenc_core import Rotary
from posenc_core.analysis.explain import explain
from posenc_core.formats import gguf_architectures as facts
from posenc_core.huggingface import layer_types, load_rope
from posenc_core.scaling import Llama3, LongRoPE, YaRN

from ..errors import is_one_sentence, rejects
from .gguf_writer import gguf_bytes
from .load_cases import load_cases

CASES = load_cases("gguf")
L0 = {"original_max_position_embeddings": 4096}
LLAMA3 = Llama3(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
FREQS, SHORT, LONG = "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"
HEAD = {"attention.key_length": 64}
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 4096}


def metadata(architecture, **keys):
    """Return metadata; the keys are those after the name of the architecture, or tensors."""
    named = {key if key.endswith(".weight") else f"{architecture}.{key}": value for key, value in keys.items()}
    return {"general.architecture": architecture} | named


def load(architecture, keys=(), *, layer_type=None, **head):
    return load_rope(metadata(architecture, **(HEAD | head | dict(keys))), layer_type=layer_type)


def divisors(scaling, head_dim=64, base=10000):
    plain = Rotary(head_dim=head_dim, layout="half", base=base)
    scaled = Rotary(head_dim=head_dim, layout="half", base=base, scaling=scaling)
    return [float(np.float32(d)) for d in plain.frequencies() / scaled.frequencies()]


def half(**fields):
    return Rotary(**{"head_dim": 64, "layout": "half"} | fields)


def adjacent(**fields):
    return Rotary(**{"head_dim": 64, "layout": "interleaved"} | fields)


SHORTS, LONGS = [1.0 + i / 32 for i in range(32)], [1.0 + i for i in range(32)]
ANSWERS = CASES["answers"]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_is_what_llama_cpp_rotates(name):
    architecture, keys, expected = ANSWERS[name]
    assert load(architecture, keys) == expected


@pytest.mark.parametrize("name", ANSWERS)
def test_a_file_has_the_same_answer(name, tmp_path):
    architecture, keys, expected = ANSWERS[name]
    whole = {key: value for key, value in metadata(architecture, **HEAD | keys).items() if value is not None}
    tensors = {key: value for key, value in whole.items() if key.endswith(".weight")}
    file = tmp_path / "model.bin"  # recognized by its first bytes, not by its name
    file.write_bytes(gguf_bytes({key: whole[key] for key in whole.keys() - tensors.keys()}, tensors))
    read = load_rope(file)
    if isinstance(getattr(expected, "scaling", None), LongRoPE) and expected.scaling.attention_factor is None:
        assert read.scaling.factor == expected.scaling.factor
    assert read == expected


BY_LAYER = CASES["by_layer"]


@pytest.mark.parametrize("name", BY_LAYER)
def test_layers_with_a_sliding_window_have_their_own(name):
    architecture, keys, full, sliding = BY_LAYER[name]
    assert layer_types(metadata(architecture, **HEAD | keys)) == ("full_attention", "sliding_attention")
    assert load(architecture, keys, layer_type="full_attention") == full
    assert load(architecture, keys, layer_type="sliding_attention") == sliding


@pytest.mark.parametrize("rotating", range(1, 48))
def test_every_share_of_rotating_pairs_is_found(rotating):
    rotary = load("gemma4", {"attention.key_length": 96, FREQS: [1.0] * rotating + [1e30] * (48 - rotating)})
    assert rotary.pairs == rotating


def test_the_softmax_scale_of_latent_attention_is_multiplied():
    (layers,) = explain(metadata(*ANSWERS["YaRN of DeepSeek"][:1], **HEAD | ANSWERS["YaRN of DeepSeek"][1]))
    assert layers.softmax_factor == pytest.approx((0.1 * 0.707 * np.log(4) + 1) ** 2, rel=1e-12)
    (layers,) = explain("--multi-latent-attention --rotary-scaling-factor 40 --mscale-all-dim 1.0")
    assert layers.softmax_factor == pytest.approx((0.1 * np.log(40) + 1) ** 2, rel=1e-12)


def test_layers_that_differ_in_nothing_have_no_types():
    same = {"attention.sliding_window": 512, "rope.freq_base": 1e4}
    assert layer_types(metadata("gemma2", **HEAD | same)) == ()
    assert load("gemma2", same) == half()


@pytest.mark.parametrize("architecture", sorted(facts.KINDS))
def test_every_architecture_is_answered(architecture):
    kind = facts.KINDS[architecture]
    sections = {"rope.dimension_sections": [8, 12, 12, 0]} if kind == "mrope" else {}
    sections = {"rope.dimension_sections": [11, 11, 10, 0]} if kind == "imrope" else sections
    rotary = load(architecture, sections)
    assert (rotary is None) == (kind == "none")
    if rotary is not None:
        assert rotary.layout == ("interleaved" if kind == "norm" else "half")
        assert rotary.num_axes == (3 if kind in ("mrope", "imrope") else 1)


def test_every_set_of_architectures_names_known_ones():
    sets = (
        facts.BY_SECTIONS, facts.WHOLE, facts.SLIDING_SCALED, facts.SLIDING_10000, facts.SLIDING_UNSCALED,
        facts.ONLY_SLIDING, facts.FLAGGED, facts.BETAS, facts.LOGS.keys(), facts.DIVISORS, facts.TWO_LISTS,
    )  # fmt: skip
    assert set().union(*sets) <= facts.KINDS.keys()
    assert not facts.REFUSED.keys() & facts.KINDS.keys()


def test_keys_that_llama_cpp_does_not_read_are_warned_of():
    with pytest.warns(UserWarning, match="yarn_beta_fast"):
        assert load("qwen2", {**YARN, "rope.scaling.yarn_beta_fast": 8.0}).scaling.beta_fast == 8
    with pytest.warns(UserWarning, match="yarn_log_multiplier"):
        assert load("qwen2", {**YARN, "rope.scaling.yarn_log_multiplier": 1.0}).scaling == YaRN(factor=4, **L0)
    with pytest.warns(UserWarning, match="llama_4_scaling_beta"):
        load("mistral3", {**YARN, "attention.temperature_scale": 0.1})


REFUSED = CASES["refused"] | {"a base of 5000 digits": ("qwen2", {"rope.freq_base": 10**5000}, "rope.freq_base")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_answered_is_named(name):
    architecture, keys, argument = REFUSED[name]
    with rejects((TypeError, ValueError), argument) as raised:
        load(architecture, keys)
    assert len(str(raised.value)) <= 300


@pytest.mark.parametrize("value", [None, 7, ["llama"], "x" * 10**6])
def test_the_name_of_the_architecture_is_a_text(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an unknown name
        try:
            load_rope({"general.architecture": value})
        except (TypeError, ValueError) as error:
            refusal = str(error)
    assert is_one_sentence(refusal)
    assert len(refusal) <= 300


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_unknown_architecture_has_the_layout_that_is_chosen():
    keys = metadata("unheard-of", **HEAD, **{"rope.freq_base": 1e6})
    assert load_rope(keys, layout="interleaved") == adjacent(base=1e6)
    with rejects(ValueError, "rope.dimension_sections"):
        load("unheard-of", {"rope.dimension_sections": [8, 12, 12, 0]})


KEYS = {
    "general.name": "a model", "general.architecture": "llama", "llama.attention.key_length": 64,
    "llama.rope.freq_base": 500000.0, "tokenizer.ggml.tokens": ["a", "bc", ""], "tokenizer.ggml.scores": [0.5, 1.0],
    "llama.attention.causal": True,
}  # fmt: skip
TENSORS = {"token_embd.weight": [0.0] * 5, FREQS: divisors(LLAMA3, base=500000), "output.weight": [1.0] * 3}
EXPECTED = adjacent(base=500000.0, scaling=LLAMA3)


@pytest.mark.parametrize("options", [
    {}, {"version": 2}, {"order": ">"}, {"version": 2, "order": ">"}, {"alignment": 64}, {"alignment": 1},
])  # fmt: skip
def test_versions_orders_and_alignments(options, tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf_bytes(KEYS, TENSORS, **options))
    assert load_rope(file) == EXPECTED
    assert load_rope(str(file)) == EXPECTED


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_divisors_in_half_precision_are_taken_as_they_are(dtype, tmp_path):
    file = tmp_path / "model.gguf"
    exact = [1.0, 1.5, 2.0, 4.0] * 8
    file.write_bytes(gguf_bytes({**KEYS, "llama.context_length": 4096}, {FREQS: exact}, dtype=dtype))
    assert load_rope(file).scaling.short_factor == tuple(exact)


def answer_or_sentence(file):
    """Return the encoding of a file, or None if it is refused in one short sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load_rope(file)
    except (TypeError, ValueError) as error:
        refusal = str(error)
    assert is_one_sentence(refusal), refusal
    assert len(refusal) <= 300, refusal
    return None


def test_files_that_end_early_are_refused_at_every_byte(tmp_path):
    whole, file = gguf_bytes(KEYS, TENSORS), tmp_path / "model.gguf"
    needed = whole.rindex(struct.pack("<f", TENSORS[FREQS][-1])) + 4  # what follows the divisors is not read
    for size in range(4, len(whole)):
        file.write_bytes(whole[:size])
        assert answer_or_sentence(file) == (None if size < needed else EXPECTED), size


def test_files_with_flipped_bits_are_answered_or_refused(tmp_path):
    whole, file, generator = gguf_bytes(KEYS, TENSORS), tmp_path / "model.gguf", random.Random(0)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(generator.choice([1, 1, 2, 8])):
            damaged[generator.randrange(4, len(whole))] ^= 1 << generator.randrange(8)
        file.write_bytes(damaged)
        refused += answer_or_sentence(file) is None
    assert 300 < refused < 1400


def head(num_tensors, num_keys, rest=b""):
    return b"GGUF" + struct.pack("<IQQ", 3, num_tensors, num_keys) + rest


def key(name, kind, rest):
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + rest


HUGE = 2**63
HOSTILE = {
    "no version": b"GGUF",
    "version 1": b"GGUF" + struct.pack("<I", 1),
    "version 4": b"GGUF" + struct.pack("<IQQ", 4, 0, 0),
    "tensors": head(HUGE, 0),
    "keys": head(0, HUGE),
    "many keys in a file of their size": head(0, 1000, b"\0" * 13000),
    "a name": head(0, 1, struct.pack("<Q", HUGE) + b"\0" * 64),
    "a text": head(0, 1, key("general.name", 8, struct.pack("<Q", HUGE))),
    "a text that is kept": head(0, 1, key("general.architecture", 8, struct.pack("<Q", HUGE))),
    "a list": head(0, 1, key("x", 9, struct.pack("<IQ", 4, HUGE))),
    "a list that is kept": head(0, 1, key("llama.rope.x", 9, struct.pack("<IQ", 4, HUGE))),
    "a list of texts": head(0, 1, key("x", 9, struct.pack("<IQ", 8, HUGE))),
    "a text in a list": head(0, 1, key("x", 9, struct.pack("<IQQ", 8, 2, HUGE))),
    "a list of lists": head(0, 1, key("x", 9, struct.pack("<IQ", 9, 1) + b"\0" * 64)),
    "an unknown type": head(0, 1, key("x", 99, b"\0" * 64)),
    "a name that is not text": head(0, 1, struct.pack("<Q", 2) + b"\xff\xfe" + b"\0" * 64),
    "an axis": head(1, 0, key(FREQS, 1, struct.pack("<QIQ", HUGE, 0, 0))),
    "four axes": head(1, 0, key(FREQS, 4, struct.pack("<QQQQIQ", HUGE, HUGE, HUGE, HUGE, 0, 0))),
    "axes": head(1, 0, key(FREQS, 2**32 - 1, b"\0" * 64)),
    "an offset": head(1, 0, key(FREQS, 1, struct.pack("<QIQ", 32, 0, HUGE))),
    "a quantized tensor": head(1, 0, key(FREQS, 1, struct.pack("<QIQ", 32, 12, 0)) + b"\0" * 256),
    "an alignment of 0": head(0, 1, key("general.alignment", 4, struct.pack("<I", 0))),
    "an alignment of 3": head(0, 1, key("general.alignment", 4, struct.pack("<I", 3))),
    "a key twice": head(0, 2, 2 * key("general.architecture", 8, struct.pack("<Q", 5) + b"llama")),
    "a tensor twice": head(2, 0, 2 * key(FREQS, 1, struct.pack("<QIQ", 1, 0, 0)) + b"\0" * 64),
    "no architecture": head(0, 0, b"\0" * 64),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_without_memory(name, tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        assert answer_or_sentence(file) is None
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1000, 0), "announces 1000 tensors in 88 bytes"),
        ((0, 1000), "announces 1000 keys in 88 bytes"),
        ((4, 0), "announces 4 tensors in 88 bytes"),  # of 24 bytes or more each
        ((0, 7), "announces 7 keys in 88 bytes"),  # of 13
    ],
)
def test_more_things_than_a_file_can_hold_are_counted_in_the_message(counts, words, tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(head(*counts, b"\0" * 64))
    with rejects(ValueError, "config", words):
        load_rope(file)


@pytest.mark.parametrize(
    ("num_keys", "words"), [(2**16, ("head_dim", "missing")), (2**16 + 1, ("config", "announces 65537 keys"))]
)
def test_a_file_has_at_most_65536_keys(num_keys, words, tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(head(0, num_keys, key("x", 0, b"1") * num_keys))
    with rejects(ValueError, *words):
        load_rope(file)


def test_a_large_file_of_another_kind_is_not_read(tmp_path):
    file = tmp_path / "config.json"
    with file.open("wb") as opened:
        opened.truncate(2**40)  # of zeros that no disk stores
    assert answer_or_sentence(file) is None


def by_the_formula(keys, base=10000.0, pairs=32):
    """Return what `ggml_rope_ext` multiplies a position by, and cos and sin, from the numbers that contexts give it."""
    scaling, index = {key.removeprefix("rope.scaling."): value for key, value in keys.items()}, np.arange(pairs)
    is_yarn = scaling.get("type") == "yarn"
    scale = 1 / scaling.get("factor", 1.0)
    plain = base ** (-index / pairs) / np.array(keys.get(FREQS, np.ones(pairs)))
    size, slow = scaling.get("attn_factor", 1.0), plain * scale
    if not is_yarn:
        return slow, size
    original, log = scaling["original_context_length"], scaling.get("yarn_log_multiplier", 0.0)
    turns = np.array([scaling.get("yarn_beta_fast", 32), scaling.get("yarn_beta_slow", 1)])
    start, end = pairs * np.log(original / (2 * np.pi * turns)) / np.log(base)
    start, end = max(0, np.floor(start)), min(2 * pairs - 1, np.ceil(end))
    kept = 1 - np.clip((index - start) / max(0.001, end - start), 0, 1)
    growth = 0.1 * np.log(1 / scale) + 1
    usual = growth / (0.1 * log * np.log(1 / scale) + 1) if log else growth
    return slow * (1 - kept) + plain * kept, size * usual  # ggml multiplies by what the context has divided by


@pytest.mark.parametrize(
    "keys",
    [
        {"rope.scaling.factor": 4.0},
        YARN,
        {**YARN, "rope.scaling.factor": 1.0},
        {**YARN, "rope.scaling.factor": 40.0, "rope.scaling.attn_factor": 0.5},
        {**YARN, "rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 4.0},
        {**YARN, "rope.scaling.yarn_beta_fast": 2.0, "rope.scaling.yarn_beta_slow": 2.0},
        {**YARN, "rope.scaling.yarn_log_multiplier": 1.0},
        {**YARN, "rope.scaling.yarn_log_multiplier": 0.5, "rope.scaling.attn_factor": 2.0},
        {FREQS: divisors(LLAMA3), "context_length": 4096},
        {FREQS: SHORTS, "context_length": 4096, "rope.scaling.attn_factor": 2.0},
    ],
    ids=range(10),
)
def test_the_numbers_are_those_of_ggml(keys):
    frequencies, size = by_the_formula(keys)
    rotary = load("mistral3", keys)
    np.testing.assert_allclose(rotary.frequencies(), frequencies, rtol=1e-6)
    assert rotary.attention_factor == pytest.approx(size, rel=1e-6)
