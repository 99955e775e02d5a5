"""Plans for a longer context: factors of published configs, what changes, and lines that are read back."""

import json
import math
import re
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from posenc_backends.cli.main import main
from posenc_core import Linear, NTKAlpha, Rotary, YaRN, rotate
from posenc_core.analysis import plan_extension
from posenc_core.analysis.engines import ENGINES, FLAGS, PROGRAMS, WRITERS
from posenc_core.analysis.extension import DRAWS, SEED
from posenc_core.formats import to_gguf
from posenc_core.huggingface import load_rope

from ..errors import rejects
from .load_cases import load_cases

QWEN3 = {
    "model_type": "qwen3", "head_dim": 128, "rope_theta": 1e6, "rope_scaling": None, "max_position_embeddings": 40960,
}  # fmt: skip
PLAIN = {"model_type": "llama", "head_dim": 64, "rope_parameters": {"rope_theta": 1e4}, "max_position_embeddings": 4096}
LLAMA31, DEEPSEEK, PHI, GEMMA3, QWEN2_VL, COHERE2, FOPE = load_cases("explained").values()
HUNYUAN = PLAIN | {"model_type": "hunyuan_v1_dense", "rope_parameters": {
    "rope_type": "dynamic", "alpha": 1000.0, "rope_theta": 1e4, "factor": 1.0,
}}  # fmt: skip
ROPE_KEYS = ("rope_theta", "rope_scaling", "rope_parameters")
TENSORS = {("llama.cpp", "Llama3"), ("llama.cpp", "LongRoPE")}
DYNAMIC = {("llama.cpp", "DynamicNTK"), ("MLX", "DynamicNTK"), ("Megatron-LM", "DynamicNTK")}
DYNAMIC |= {("TensorRT-LLM", "DynamicNTK")}
NESTED = {(engine, name) for engine in ("SGLang", "TensorRT-LLM") for name in ("as it is", "Linear", "NTK")}
CASES = {  # config, arguments, and the engines that cannot express an extension
    "qwen3": (QWEN3, {"to": 131072, "trained_length": 32768}, TENSORS | DYNAMIC | {("Megatron-LM", "Llama3")}),
    "llama 3.1": (LLAMA31, {"to": 2**20}, TENSORS | {("llama.cpp", "as it is")}),
    "deepseek": (DEEPSEEK, {"to": 2**20}, {("llama.cpp", "YaRN"), ("llama.cpp", "as it is")}),
    "phi": (PHI, {"to": 2**20}, {(engine, "as it is") for engine in ("llama.cpp", "Megatron-LM")}),
    "gemma 3": (GEMMA3, {"to": 2**18}, NESTED),
    "qwen2-vl": (
        QWEN2_VL | {"max_position_embeddings": 32768},
        {"to": 131072, "trained_length": 32768},
        TENSORS | DYNAMIC | {("Megatron-LM", "Llama3"), ("Megatron-LM", "YaRN")},
    ),
    "plain": (PLAIN, {"to": 10000}, TENSORS | DYNAMIC | {("Megatron-LM", "Llama3"), ("Megatron-LM", "Linear")}),
    "hunyuan": (
        HUNYUAN,
        {"to": 8192},
        {(e, n) for e in ("llama.cpp", "MLX", "Megatron-LM", "TensorRT-LLM") for n in ("as it is", "NTKAlpha")},
    ),
}


@pytest.mark.parametrize(
    ("config", "options", "name", "factor"),
    [
        (QWEN3, {"to": 131072, "trained_length": 32768}, "YaRN", 4.0),  # as Qwen says
        (QWEN3, {"to": 40960}, "as it is", 1.0),
        (QWEN3, {"to": 10**6, "trained_length": 32768}, "YaRN", 30.75),
        (LLAMA31, {"to": 2**20}, "Llama3", 64.0),
        (LLAMA31, {"to": 131072}, "as it is", 1.0),
        (DEEPSEEK, {"to": 2 * 163840}, "YaRN", 80.0),
        (PHI, {"to": 131072}, "as it is", 1.0),
        (PHI, {"to": 2**20}, "as it is", 1.0),
        (QWEN3, {"to": 65536}, "YaRN", 1.6),
        (GEMMA3, {"to": 2**18}, "Linear", 16.0),
        (HUNYUAN, {"to": 8192}, "NTKAlpha", 2000.0),
        (PLAIN | {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, {"to": 8192},
         "as it is", 1.0),
    ],
)  # fmt: skip
def test_the_recommended_scaling_and_its_factor(config, options, name, factor):
    plan = plan_extension(config, **options)
    assert (plan.recommended, plan.extension().factor) == (name, factor)
    assert plan.extensions[0].rotary == plan.rotary
    assert plan.table_bytes == 8 * plan.rotary.pairs * options["to"]


def merged(config, keys):
    """Return a config with other keys, which may be nested."""
    return config | {
        name: merged(config[name], value) if isinstance(value, dict) and name == "text_config" else value
        for name, value in keys.items()
    }


def without(config, keys):
    """Return a config without keys, in the text config as well."""
    kept = {name: value for name, value in config.items() if name not in keys}
    return kept | ({"text_config": without(kept["text_config"], keys)} if "text_config" in kept else {})


def read_back(lines, config, rotary, to):
    """Return the config that an engine reads, and the longest length it derives from it."""
    if lines.place == "config.json":
        changed = merged(without(config, lines.remove), json.loads(lines.text))
        return changed, None
    words = shlex.split(lines.text, comments=lines.engine == "TensorRT-LLM")
    options = dict(pairwise(words))
    if lines.engine == "Megatron-LM":
        assert options["--max-position-embeddings"] == options["--seq-length"] == str(to)
        return words, None
    if lines.engine == "llama.cpp":
        assert options["-c"] == str(to)
        keys = {key: options[flag] for key, flag in FLAGS.items() if flag in options}
        numbers = {key: text if text.isalpha() else float(text) for key, text in keys.items()}
        original = "qwen2.rope.scaling.original_context_length"
        numbers |= {original: int(numbers[original])} if original in numbers else {}
        return to_gguf(Rotary(head_dim=rotary.rotary_channels, layout="half"), architecture="qwen2") | numbers, None
    if lines.engine == "TensorRT-LLM":
        keys = json.loads(lines.text.splitlines()[0].removeprefix("model_kwargs: "))
        assert f"--max_seq_len {to} " in lines.text
        return merged(without(config, ROPE_KEYS), keys), keys["max_position_embeddings"]
    flag, length = {
        "vLLM": ("--hf-overrides", "--max-model-len"),
        "SGLang": ("--json-model-override-args", "--context-length"),
    }[lines.engine]
    assert options[length] == str(to)
    return merged(without(config, ROPE_KEYS), json.loads(options[flag])), "derived"


def derived_length(config, engine):
    """Return the longest length that vLLM or SGLang derives from a config, as their code does."""
    text = config.get("text_config", config)
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    rope = rope.get("full_attention", rope)
    kind, factor, original = (rope.get(key) for key in ("rope_type", "factor", "original_max_position_embeddings"))
    length = text["max_position_embeddings"]
    if engine == "vLLM":
        return original * factor if kind == "yarn" else length * (factor if kind in ("linear", "dynamic") else 1)
    return length * (1 if original or kind == "llama3" else factor or 1)


@pytest.mark.filterwarnings("ignore:`model_type`:UserWarning")
@pytest.mark.parametrize("case", CASES)
def test_each_line_is_read_back_as_the_same_encoding(case):
    config, options, missing = CASES[case]
    plan, impossible = plan_extension(config, **options), set()
    for extension in plan.extensions:
        to = plan.trained_length if extension.name == "as it is" else options["to"]
        for lines in plan.lines(extension.name):
            if lines.text is None:
                assert lines.reason
                impossible.add((lines.engine, extension.name))
                continue
            changed, longest = read_back(lines, config, plan.rotary, to)
            layer_type = None if lines.engine in ("llama.cpp", "Megatron-LM") else plan.layer_type
            read = load_rope(changed, layer_type=layer_type)
            for length in {plan.trained_length, to}:
                np.testing.assert_allclose(read.frequencies(length), extension.rotary.frequencies(length), rtol=1e-7)
                factors = (one.at(length).attention_factor for one in (read, extension.rotary))
                assert math.isclose(*factors, rel_tol=1e-7)
            if longest == "derived":
                longest = derived_length(changed, lines.engine)
            assert longest is None or longest >= to, (lines.engine, extension.name)
    assert impossible == {one for one in missing if one[1] in [each.name for each in plan.extensions]}


def test_lines_for_another_format_are_whole_configs():
    """A GGUF file has no keys to keep: the width of the head stands beside the others."""
    config = to_gguf(Rotary(head_dim=64, layout="interleaved", base=1e6), architecture="llama")
    plan = plan_extension(config | {"llama.context_length": 4096}, to=16384)
    first, *_ = plan.lines()
    found = load_rope(json.loads(first.text))
    assert found == Rotary(
        head_dim=64, layout="half", base=1e6, scaling=YaRN(factor=4.0, original_max_position_embeddings=4096)
    )


def test_what_changes_is_what_rotated_vectors_show():
    plan, distances = plan_extension(PLAIN, to=16384), np.linspace(0, 1023, 512).astype(int)
    assert plan.extension("Linear").rotary.scaling == Linear(factor=4.0)
    tables = [one.cos_sin(distances, dtype=np.float64) for one in (plan.rotary, plan.extension("Linear").rotary)]

    def rotated(vector):
        return [rotate(np.tile(vector, (512, 1)), *table, layout="half") for table in tables]

    change, moved = plan.extension("Linear").changes[0], np.subtract(*rotated(np.repeat([1.0, 0.0], 32)))
    assert change.length == 1024
    assert change.rotation == pytest.approx(np.hypot(*np.split(moved, 2, axis=-1)).max(), rel=1e-9)
    a, b, c, d = np.random.RandomState(SEED).standard_normal((4, 32, DRAWS))
    queries, keys = (np.concatenate(parts).T for parts in ((a, b), (c, d)))
    logits = [np.subtract(*rotated(query)) @ key / 8 for query, key in zip(queries, keys, strict=True)]
    assert change.logit == pytest.approx(np.abs(logits).max(), rel=1e-9)
    assert plan.extension("YaRN").attention_factor == pytest.approx(0.1 * math.log(4) + 1)
    assert [one.rotation for one in plan.extension("DynamicNTK").changes] == [0, 0]


def test_unseen_pairs_are_those_that_turn_on_beyond_their_arc():
    plan = plan_extension(PLAIN, to=16384)
    unfinished = int(np.sum(plan.rotary.frequencies() * 4096 < math.tau))
    unseen = {one.name: one.unseen for one in plan.extensions}
    assert unseen == {
        "as it is": unfinished, "Linear": 0, "DynamicNTK": 0, "YaRN": 0, "Llama3": 0, "NTK": unfinished - 1
    }  # fmt: skip
    assert plan.extension("Linear").frequencies == "divided by 4: pairs 0–31"
    assert plan.extension("NTK").frequencies == (
        "kept: pair 0; divided by 1.05 to 3.83: pairs 1–30; divided by 4: pair 31"
    )


def test_a_server_chooses_the_smallest_factor_that_covers_a_request():
    plan = plan_extension(PLAIN, to=16384, per_request=(4, 1, 2))
    assert [(one.factor, one.longest, one.table_bytes) for one in plan.profiles] == [
        (1, 4096, 2**20), (2, 8192, 2**21), (4, 16384, 2**22)
    ]  # fmt: skip
    assert [plan.profile(length).factor for length in (1, 4096, 4097, 16384)] == [1, 1, 2, 4]
    assert plan.profile(10).rotary == plan.rotary
    assert plan.profile(8192).rotary.scaling == YaRN(factor=2, original_max_position_embeddings=4096)
    with rejects(ValueError, "length", 16385):
        plan.profile(16385)
    with rejects(ValueError, "per_request"):
        plan_extension(PLAIN, to=16384).profile(1)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (PLAIN | {"max_position_embeddings": None}, {"to": 10}, "`trained_length` must be given"),
        (PLAIN, {"to": 0}, "`to` must be"),
        (PLAIN, {"to": 9000, "trained_length": 1}, "`trained_length` must be"),
        (
            PLAIN,
            {"to": 16384, "per_request": (1, 2)},
            "`per_request` must reach `to` 16384 / `trained_length` 4096 = 4, got [1, 2]",
        ),
        (PLAIN, {"to": 4096, "per_request": (1, 2)}, "`per_request` must be left out"),
        (PLAIN, {"to": 16384, "per_request": (0.5, 4)}, "`per_request` must be"),
        (COHERE2 | {"max_position_embeddings": 8192}, {"to": 16384}, "none for full_attention"),
    ],
)
def test_errors(config, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        plan_extension(config, **options)
    with pytest.raises(TypeError, match="a frequency for each pair"):
        plan_extension(FOPE, to=4096)


def test_a_name_that_is_impossible_is_refused():
    plan = plan_extension(LLAMA31, to=2**20)
    assert {name for name, _ in plan.impossible} == {"Linear", "NTK", "DynamicNTK", "YaRN", "LongRoPE"}
    with rejects(ValueError, "name", "YaRN"):
        plan.extension("YaRN")
    assert plan_extension(HUNYUAN, to=8192).extension().rotary.scaling == NTKAlpha(alpha=2000.0)


def test_facts_have_an_address():
    assert set(WRITERS) == set(ENGINES)
    for facts in PROGRAMS.values():
        for _, text, source in facts["facts"]:
            assert text.endswith(".")
            assert source.startswith("https://github.com/")


def test_the_page_has_the_numbers_of_the_experiment():
    root = Path(__file__).parents[2]
    record = json.loads((root / "experiments" / "results" / "context_extension.json").read_text(encoding="utf-8"))
    page = (root / "docs" / "howto" / "longer_context.md").read_text(encoding="utf-8")
    for row in record["results"]:
        percent = [f"{100 * share:.0f}" for share in (*row["trained"], *row.get("tuned", ()))]
        assert re.search(rf"^{row['scaling']} +{' +'.join(percent)}$", page, re.MULTILINE), row["scaling"]


def test_the_command_prints_writes_and_draws(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "config.json").write_text(json.dumps(QWEN3), encoding="utf-8")
    arguments = ["extend", "config.json", "--to", "131072", "--trained-length", "32768", "--per-request", "1", "4"]
    assert main([*arguments, "--for", "vllm", "megatron-lm", "--json", "plan.json", "-o", "extend.png"]) == 0
    assert (tmp_path / "extend.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    for text in ("131,072 positions, trained on 32,768: 4 times", "YaRN             4       1.139       0", "64 MiB"):
        assert text in printed
    assert "SGLang" not in printed
    assert "vllm#53964" not in printed.replace("vllm/pull/53964", "")
    assert max(len(line) for line in printed.splitlines() if not line.startswith(("vllm", "--"))) <= 80
    written = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert written["recommended"] == "YaRN"
    assert [one["engine"] for one in written["lines"]] == ["vLLM", "Megatron-LM"]
    assert main([*arguments, "--scaling", "Llama3", "--for", "llama.cpp"]) == 0
    assert "not possible: its divisors are a tensor" in capsys.readouterr().out
    assert main([*arguments, "--scaling", "NoSuch"]) == 2
