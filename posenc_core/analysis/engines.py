"""Engines: the lines that give a model another RoPE, for each program that runs or trains it, each read back."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..encodings import Rotary
from ..formats import to_gguf, to_megatron
from ..huggingface import layer_types, load_rope, to_config
from ..huggingface.config import BASES, LENGTHS, ROPES, TEXTS
from ..scaling import DynamicNTK, Linear

PROGRAMS = json.loads(Path(__file__).with_name("engines.json").read_text(encoding="utf-8"))
ENGINES = tuple(PROGRAMS)
LENGTH = LENGTHS[0]
FLAGS = {  # of llama.cpp, by the keys of a GGUF file; None for keys that are the file's alone
    "general.architecture": None,
    "qwen2.attention.key_length": None,
    "qwen2.rope.dimension_count": None,
    "qwen2.rope.freq_base": "--rope-freq-base",
    "qwen2.rope.scaling.type": "--rope-scaling",
    "qwen2.rope.scaling.factor": "--rope-scale",
    "qwen2.rope.scaling.original_context_length": "--yarn-orig-ctx",
}


@dataclass(frozen=True, kw_only=True)
class EngineLines:
    """The lines to write for one engine.

    Attributes:
        engine: one of `ENGINES`.
        place: where it belongs: `"command line"` or the name of a file.
        text: what to write; of a config.json, the keys that change. None if the engine cannot express it.
        remove: keys of the config that must go, as they contradict the new ones.
        reason: why the engine cannot express it.
        facts: what the engine does by default, each with the address that says so.
    """

    engine: str
    place: str
    text: str | None
    remove: tuple[str, ...] = ()
    reason: str | None = None
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Model:
    """A model with its new RoPE: the content of its config, empty if it has another format."""

    content: Mapping[str, Any]
    rotary: Rotary
    to: int
    layer_type: str | None

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the nested configs that lead to the one of the text model."""
        found: list[str] = []
        part: Any = self.content
        while name := next((name for name in TEXTS if isinstance(part.get(name), Mapping)), None):
            found.append(name)
            part = part[name]
        return tuple(found)

    def text(self) -> dict[str, Any]:
        """Return the config of the text model."""
        part = dict(self.content)
        for name in self.path:
            part = {"model_type": part.get("model_type"), **part[name]}
        return part

    def keys(self, version: int) -> dict[str, Any]:
        """Return the keys that transformers of a version reads; raise if they mean another encoding."""
        keys = to_config(self.rotary, transformers=version)  # type: ignore[arg-type]
        if not isinstance(self.rotary.scaling, DynamicNTK):  # which reads the original length there
            keys[LENGTH] = self.rotary.max_len or self.to
        if version == 5 and (types := layer_types(self.content) if self.content else ()):
            by_type = {name: load_rope(self.content, layer_type=name) for name in types} | {
                self.layer_type: self.rotary
            }
            keys["rope_parameters"] = {
                name: to_config(rotary, transformers=5)["rope_parameters"] for name, rotary in by_type.items() if rotary
            }
        if self.content:
            del keys["head_dim"]
        return self.checked(keys)

    def override(self) -> dict[str, Any]:
        """Return the keys for programs on transformers 4 or 5, with the base beside and inside of `rope_scaling`."""
        parameters = to_config(self.rotary, transformers=5)["rope_parameters"]
        return self.checked(self.keys(4) | {"rope_scaling": parameters})

    def checked(self, keys: dict[str, Any]) -> dict[str, Any]:
        """Return keys of a config; raise unless it has the frequencies of the encoding with them."""
        read = load_rope(self.kept() | keys, layer_type=self.layer_type)
        if read.plain_rope() != replace(self.rotary.plain_rope(), layout=read.layout):
            raise ValueError("the keys of its config cannot express it")
        return keys

    def kept(self) -> dict[str, Any]:
        """Return the config of the text model without the keys that others replace."""
        return {key: value for key, value in self.text().items() if key not in (*ROPES, *BASES)}

    def removed(self, keys: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the keys of the RoPE that the config has and the new ones have not."""
        return tuple(name for name in (*ROPES, *BASES) if self.text().get(name) is not None and name not in keys)

    def nested(self, keys: Mapping[str, Any]) -> dict[str, Any]:
        """Return keys as they stand in the whole config."""
        for name in reversed(self.path):
            keys = {name: keys}
        return dict(keys)


def write_lines(
    content: Mapping[str, Any], rotary: Rotary, *, to: int, layer_type: str | None = None
) -> tuple[EngineLines, ...]:
    """Return what to write for each engine.

    Args:
        content: the config of the model; empty if it has another format.
        rotary: the encoding that the model shall have.
        to: the longest length.
        layer_type: the layers that have it, if not all have.
    """
    model = _Model(content, rotary, to, layer_type)
    return tuple(_lines(name, facts, model) for name, facts in PROGRAMS.items())


def _lines(engine: str, facts: Mapping[str, Any], model: _Model) -> EngineLines:
    scaling = model.rotary.scaling
    name = type(scaling).__name__ if scaling is not None else "NTK"
    said = tuple((text, source) for kinds, text, source in facts["facts"] if not kinds or name in kinds.split())
    reason = facts.get("cannot", {}).get(name)
    for one in facts.get("unread", ()):
        default = getattr(type(scaling), one, None)
        if getattr(scaling, one, None) != default:
            reason = f"it does not read `{one}`"
    written: tuple[str | None, tuple[str, ...]] = (None, ())
    if reason is None:
        try:
            written = WRITERS[engine](model)
        except ValueError as error:
            reason = str(error)
    return EngineLines(
        engine=engine, place=facts["place"], text=written[0], remove=written[1], reason=reason, facts=said
    )


Written = tuple[str, tuple[str, ...]]


def _config(version: int) -> Callable[[_Model], Written]:
    """Return a function that writes the keys of config.json for a version of transformers."""

    def write(model: _Model) -> Written:
        keys = model.keys(version)
        return _json(model.nested(keys)), model.removed(keys)

    return write


def _json(keys: Mapping[str, Any]) -> str:
    """Return keys as the text of a file, each list in one line."""
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), json.dumps(keys, indent=2))


def _mlx(model: _Model) -> Written:
    keys = model.override()
    if model.layer_type is None:
        keys = model.checked(model.keys(5) | keys)  # as some models of mlx-lm read `rope_parameters`
    return _json(model.nested(keys)), model.removed(keys)


def _vllm(model: _Model) -> Written:
    keys = model.keys(5)
    if isinstance(model.rotary.scaling, Linear):
        del keys[LENGTH]  # vLLM multiplies that of the config by the factor
    override = shlex.quote(json.dumps(model.nested(keys)))
    return f"vllm serve MODEL --hf-overrides {override} --max-model-len {model.to}", ()


def _flat(model: _Model) -> dict[str, Any]:
    """Return the keys of an override; raise for nested configs, as it is not known how programs merge them."""
    if model.path:
        raise ValueError(f"its overrides may replace all of `{model.path[0]}`: write the keys into config.json")
    return model.override()


def _sglang(model: _Model) -> Written:
    keys = _flat(model)
    if isinstance(model.rotary.scaling, Linear):
        del keys[LENGTH]  # SGLang multiplies that of the config by the factor
    arguments = f"--json-model-override-args {shlex.quote(json.dumps(keys))} --context-length {model.to}"
    return f"python -m sglang.launch_server --model-path MODEL {arguments}", ()


def _llama_cpp(model: _Model) -> Written:
    """Write flags, which mean the same for each architecture and layout."""
    rotary = model.rotary.plain_rope()
    keys = to_gguf(replace(rotary, layout="half", rotary_dim=None), architecture="qwen2")
    if unknown := next((key for key in keys if key not in FLAGS), None):
        raise ValueError(f"no flag has `{unknown}`: convert the changed config.json again")
    flags = (word for key, value in keys.items() if (flag := FLAGS[key]) for word in (flag, _number(value)))
    return " ".join(("llama-server -m MODEL.gguf -c", str(model.to), *flags)), ()


def _number(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _megatron(model: _Model) -> Written:
    lengths = f"--seq-length {model.to} --max-position-embeddings {model.to}"
    return f"{shlex.join(to_megatron(model.rotary))} {lengths}", ()


def _tensorrt(model: _Model) -> Written:
    keys = json.dumps(_flat(model))
    command = f"trtllm-serve MODEL --max_seq_len {model.to} --extra_llm_api_options extra.yaml"
    return f"model_kwargs: {keys}\n# {command}", ()


WRITERS: dict[str, Callable[[_Model], Written]] = {
    "transformers 4": _config(4),
    "transformers 5": _config(5),
    "vLLM": _vllm,
    "SGLang": _sglang,
    "llama.cpp": _llama_cpp,
    "MLX": _mlx,
    "Megatron-LM": _megatron,
    "TensorRT-LLM": _tensorrt,
}
