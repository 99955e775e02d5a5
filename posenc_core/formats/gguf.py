"""GGUF: the RoPE of llama.cpp's files, as the dict of a Hugging Face config.

The answer is the rotation of the weights in the file: converters reorder the queries and keys of some models.

Source: llama.cpp of October 2026, its loader, its contexts and `ggml_rope_ext`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._array_api.checks import shown
from ..encodings import Rotary
from ..scaling import Llama3
from . import gguf_architectures as facts
from .values import Reader, choice, find_share, flag, integer, layer_count, number, numbers, quote, refuse, warn

FREQS, SHORT, LONG = "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"
ARCHITECTURE, ORIGINAL = "general.architecture", "original_max_position_embeddings"
STILL = 1e20  # divisors above it, 1e30 in Gemma 4, keep a pair from rotating
SCALINGS = (
    "type", "factor", "alpha", "attn_factor", "original_context_length", "finetuned", "yarn_ext_factor",
    "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_log_multiplier",
)  # fmt: skip
USED = {f"rope.scaling.{name}" for name in SCALINGS} | {
    "rope.dimension_count", "rope.dimension_count_swa", "rope.dimension_sections", "rope.freq_base",
    "rope.freq_base_swa", "rope.scale_linear", "attention.rope_pattern",  # the last one selects the layers with RoPE
}  # fmt: skip
SIZES = {  # which `posenc relayout` needs
    "embedding_length": "hidden_size", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
}  # fmt: skip
LLAMA3 = ((1.0, 4.0), (1.0, 1.0))  # the low and high frequency factors of published models
MSCALES = {"mscale": 1, "mscale_all_dim": 0}
BY_HAND, ATTENTION = "make the encoding with its `frequencies`", "it multiplies cos and sin, as `AttentionFactor` does"
ROUNDING = 1e-6  # of divisors that were computed in float32


def from_gguf(metadata: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the config that the metadata of a GGUF file describe, its tensors among them.

    Raises:
        TypeError, ValueError: if a key is missing, of the wrong type, out of range or not supported.
    """
    architecture = metadata[ARCHITECTURE]
    if not isinstance(architecture, str):
        raise TypeError(f"`{ARCHITECTURE}` must be a string, got {shown(architecture)}.")
    if architecture in facts.REFUSED:
        raise ValueError(f"`{ARCHITECTURE}` {shown(architecture)} is not supported: {facts.REFUSED[architecture]}.")
    names = {key: key.removeprefix(f"{architecture}.") for key in metadata if isinstance(key, str)}
    kept = {name: metadata[key] for key, name in names.items() if name != key}
    for name, value in kept.items():
        if "rope" in name and name not in USED and value is not None:
            raise ValueError(f"{quote(name)} is unknown, got {shown(value)}: leave it out if it changes no angle.")
    kept |= {key: metadata[key] for key in (FREQS, SHORT, LONG) if metadata.get(key) is not None}
    model = _Model(architecture, Reader(kept))
    config = model.config()
    if config.get("use_rope") is not False:
        model.metadata.warn_of_unread(
            USED - {"rope.scaling.finetuned"},  # which `FLAGGED` read
            {"rope.scaling.original_context_length": kept.get("context_length")},
            f"llama.cpp does not read it for {shown(architecture)} with its other keys",
        )
    sizes = {name: kept[key] for key, name in SIZES.items() if isinstance(kept.get(key), int)}
    return sizes | config | {"own_keys": (ARCHITECTURE, *model.metadata.read_keys({}))}


class _Model:
    """An architecture and its metadata, by the rest of their keys."""

    def __init__(self, architecture: str, metadata: Reader) -> None:
        self.name, self.metadata = architecture, metadata
        self.kind = facts.KINDS.get(architecture)

    def config(self) -> dict[str, Any]:
        """Return the config."""
        if not self.rotates():
            return {"use_rope": False}
        interleaved = self.kind == "norm" and not self.sections()
        layout: dict[str, Any] = {"rotary_emb_interleaved": interleaved, "layout_from": ARCHITECTURE}
        if self.kind is None:
            layout = {"model_type": f"gguf:{self.name}"}
        elif self.name in facts.SQUARED:  # and so is the softmax scale
            layout["model_type"] = "deepseek_v3"
        if self.name in facts.SPARSE:
            layout["model_type"] = facts.SPARSE[self.name]
        full, sliding = self.full_layers(), self.sliding_layers()
        heads = {"head_dim": full.pop("head_dim")} | self.layers()
        heads |= self.indexer(heads.get("num_hidden_layers", 0))
        if sliding is None:
            return layout | heads | self.lengths() | {"rope_parameters": full}
        if (width := sliding.pop("head_dim")) != heads["head_dim"]:
            heads |= {"swa_head_dim": width}
        layers = {"full_attention": None if self.name in facts.ONLY_SLIDING else full, "sliding_attention": sliding}
        heads |= self.types(heads.get("num_hidden_layers"))
        return layout | heads | self.lengths() | {"rope_parameters": layers}

    def layers(self) -> dict[str, Any]:
        """Return the number of layers, and 0 for each of them without RoPE, which llama.cpp's code knows.

        Layers that predict more tokens are counted with the others in the file.
        """
        count, drafts = (layer_count(self.metadata, key) for key in ("block_count", "nextn_predict_layers"))
        if count is None:
            return {}
        found: dict[str, Any] = {} if drafts is None else {"num_nextn_predict_layers": drafts}
        count = max(count - (drafts or 0), 1)
        rotated = [1] * count
        if self.name in facts.NO_ROPE:
            rotated = [int(index % 4 != facts.NO_ROPE[self.name]) for index in range(count)]
        elif self.name in facts.INTERVALS:
            step = integer(self.metadata, "full_attention_interval", 4)
            rotated = [int((index + 1) % step == 0) for index in range(count)]
        heads = self.metadata.get("attention.head_count_kv")
        if isinstance(heads, list | tuple) and len(heads) >= count:  # 0 in layers that do not attend
            rotated = [int(one and other != 0) for one, other in zip(rotated, heads, strict=False)]
        return found | {"num_hidden_layers": count} | ({} if all(rotated) else {"no_rope_layers": rotated})

    def types(self, count: int | None) -> dict[str, list[str]]:
        """Return the types of layers, of which some have a sliding window; nothing if it is not known which."""
        key = "attention.sliding_window_pattern"
        given = self.metadata.get(key)
        if isinstance(given, list | tuple):
            sliding = [bool(one) for one in given]
        else:
            step, first = integer(self.metadata, key, facts.PERIODS.get(self.name)), self.name in facts.FULL_FIRST
            sliding = [index % step != (0 if first else step - 1) for index in range(count or 0)] if step else []
        types = ["sliding_attention" if one else "full_attention" for one in sliding]
        return {"layer_types": types} if count and len(types) >= count else {}

    def indexer(self, count: int) -> dict[str, Any]:
        """Return the keys of the indexers of sparse attention, which layers may share."""
        if self.name not in facts.SPARSE:
            return {}
        full = self.metadata.get("attention.indexer.types")
        if not isinstance(full, list | tuple):
            is_shared = self.name == "glm-dsa" and integer(self.metadata, "context_length", 0) >= facts.SHARED_FROM
            full = [not is_shared or index < 2 or index % 4 == 2 for index in range(count)]
        types = {"indexer_types": ["full" if one else "shared" for one in full]} if full else {}
        return {"index_head_dim": integer(self.metadata, "attention.indexer.key_length", 128)} | types

    def rotates(self) -> bool:
        """Return whether the model has RoPE."""
        if self.kind == "none" or (self.name == "baichuan" and integer(self.metadata, "block_count") == 40):
            return False  # Baichuan 13B has ALiBi
        return self.name not in facts.FLAGGED or flag(self.metadata, "rope.scaling.finetuned", default=True)

    def lengths(self) -> dict[str, int]:
        """Return the longest length, where it does not follow from a scaling."""
        if self.scaling_type() in ("yarn", "longrope"):
            return {}
        length = integer(self.metadata, "context_length")
        return {} if length is None else {"max_position_embeddings": length}

    def scaling_type(self) -> str:
        return choice(self.metadata, "rope.scaling.type", ("none", "linear", "yarn", "longrope"), "linear")

    def widths(self, suffix: str = "") -> dict[str, int]:
        """Return the width of a head and the number of its rotated channels."""
        head = integer(self.metadata, f"attention.key_length{suffix}", self.head() if suffix == "" else None)
        width = integer(self.metadata, f"rope.dimension_count{suffix}")
        if suffix:
            full = self.widths()
            head, width = head or full["head_dim"], width or full.get("rotary_dim", full["head_dim"])
        if self.metadata.get("attention.kv_lora_rank") is not None:  # the rotated channels are a tensor of their own
            head = width or head
        if head is None:
            raise ValueError(
                "`attention.key_length` is missing: add it, or `embedding_length` and `attention.head_count`."
            )
        if width is not None and width > head:
            raise ValueError(f"`rope.dimension_count{suffix}` must be at most the width of a head {head}, got {width}.")
        if width not in (None, head) and self.name in facts.WHOLE:
            raise ValueError(f"`rope.dimension_count` must be the width {head} of a head of {self.name}, got {width}.")
        return {"head_dim": head} if width in (None, head) else {"head_dim": head, "rotary_dim": width}

    def head(self) -> int | None:
        """Return the width of a head that follows from the size of the embedding."""
        if self.metadata.get("attention.key_length") is not None:
            return None
        size, count = integer(self.metadata, "embedding_length"), self.metadata.get("attention.head_count")
        if isinstance(count, list | tuple):  # one for each layer
            counts = numbers(self.metadata, "attention.head_count", minimum=0) or []
            count = next(iter(counts)) if len(set(counts)) == 1 else None
        count = integer({"attention.head_count": count}, "attention.head_count")
        if size is None or count is None:
            return None
        if size % count:
            raise ValueError(f"`embedding_length` {size} is not a multiple of `attention.head_count` {count}.")
        return size // count

    def sections(self) -> list[int]:
        """Return the pairs of each of the three axes; none if there is one axis."""
        if self.kind not in ("mrope", "imrope") and self.name not in facts.BY_SECTIONS and self.kind is not None:
            return []
        if self.metadata.get("rope.dimension_sections") is None and self.kind not in ("mrope", "imrope"):
            return []
        sections = numbers(self.metadata, "rope.dimension_sections", minimum=0)
        if sections is None:
            raise ValueError(f"`rope.dimension_sections` is missing: {self.name} has three axes.")
        if len(sections) not in (3, 4) or any(section != int(section) for section in sections) or any(sections[3:]):
            raise ValueError(f"`rope.dimension_sections` must be three integers, and 0, got {shown(sections)}.")
        if self.kind is None and any(sections):
            raise ValueError(
                f"`rope.dimension_sections` must be left out for the unknown architecture {shown(self.name)}."
            )
        has_axes = self.kind in ("mrope", "imrope") or all(sections[:2])
        return [int(section) for section in sections[:3]] if has_axes else []

    def full_layers(self) -> dict[str, Any]:
        """Return the parameters of layers with full attention, and their width of a head."""
        widths = self.widths()
        base = number(self.metadata, "rope.freq_base", 10000, above=1)
        scaling = self.scaling(widths.get("rotary_dim", widths["head_dim"]), base)
        axes: dict[str, Any] = {"mrope_section": sections} if (sections := self.sections()) else {}
        if self.kind == "imrope":
            axes["mrope_interleaved"] = True
        return widths | {"rope_theta": base} | axes | scaling | self.temperature()

    def sliding_layers(self) -> dict[str, Any] | None:
        """Return those of layers with a sliding window; None if they are the same, or there are none."""
        known = facts.SLIDING_SCALED | facts.SLIDING_UNSCALED | facts.SLIDING_10000
        if self.name not in known or not integer(self.metadata, "attention.sliding_window", 0, minimum=0):
            refuse(self.metadata, {"rope.freq_base_swa": self.metadata.get("rope.freq_base")}, "is read for no layer")
            return None
        full, widths = self.full_layers(), self.widths("_swa")
        default = 10000 if self.name in facts.SLIDING_10000 else full["rope_theta"]
        sliding = widths | {
            "rope_type": "default",
            "rope_theta": number(self.metadata, "rope.freq_base_swa", default, above=1),
        }
        if self.name in facts.SLIDING_SCALED:
            sliding |= {
                key: value for key, value in full.items() if key not in ("head_dim", "rotary_dim", "rope_theta")
            }
        return None if sliding == full and self.name not in facts.ONLY_SLIDING else sliding

    def temperature(self) -> dict[str, Any]:
        """Return the scale of queries, which is not a rotation."""
        scale = number(self.metadata, "attention.temperature_scale")
        return {"llama_4_scaling_beta": scale} if scale else {}

    def scaling(self, width: int, base: float) -> dict[str, Any]:
        """Return the parameters of the scaling."""
        kind = self.scaling_type()
        factors = (number(self.metadata, key, minimum=0) for key in ("rope.scaling.factor", "rope.scale_linear"))
        factor = next((given for given in factors if given is not None), 1) or 1  # 0 stands for 1
        factor = 1 if kind == "none" else factor
        if alpha := number(self.metadata, "rope.scaling.alpha", minimum=0):
            return self.alpha(alpha, factor)
        if any(key in self.metadata for key in (FREQS, SHORT, LONG)) or kind == "longrope":
            return self.read_divisors(kind, factor, width, base)
        if kind == "yarn":
            return self.yarn(factor)
        refuse(
            self.metadata,
            {"rope.scaling.attn_factor": 1},
            f"belongs to yarn and longrope, not to {shown(kind)}",
            ATTENTION,
        )
        refuse(self.metadata, {"rope.scaling.yarn_ext_factor": 0}, f"belongs to yarn, not to {shown(kind)}", BY_HAND)
        refuse(self.metadata, {"rope.scaling.yarn_attn_factor": 1}, f"belongs to yarn, not to {shown(kind)}", ATTENTION)
        return {"rope_type": "default"} if factor == 1 else {"rope_type": "linear", "factor": factor}

    def alpha(self, alpha: float, factor: float) -> dict[str, Any]:
        if self.name != "hunyuan_vl" or factor != 1:
            raise ValueError(
                f"`rope.scaling.alpha` is read for hunyuan_vl alone, and without a factor, got {shown(alpha)}."
            )
        return {"rope_type": "dynamic", "alpha": alpha}

    def original(self) -> int:
        keys = ("rope.scaling.original_context_length", "context_length")
        length = next((size for key in keys if (size := integer(self.metadata, key, minimum=2)) is not None), None)
        if length is None:
            raise ValueError("`rope.scaling.original_context_length` is missing, and so is `context_length`.")
        return length

    def yarn(self, factor: float) -> dict[str, Any]:
        """Return the parameters of YaRN; its attention factor is computed, then multiplied by `attn_factor`."""
        refuse(self.metadata, {"rope.scaling.yarn_ext_factor": 1}, "must be 1, as in the paper", BY_HAND)
        refuse(
            self.metadata,
            {"rope.scaling.yarn_attn_factor": 1},
            "has another meaning in each program that reads it",
            BY_HAND,
        )
        parameters = {"rope_type": "yarn", "factor": factor, ORIGINAL: self.original()}
        for key, default in (("beta_fast", 32), ("beta_slow", 1)):
            value = number(self.metadata, f"rope.scaling.yarn_{key}", default, above=0)
            if value != default:
                parameters[key] = value
                if self.name not in facts.BETAS:
                    warn(f"`rope.scaling.yarn_{key}` is used: llama.cpp does not read it for {shown(self.name)}.")
        multiplier, mscales = number(self.metadata, "rope.scaling.attn_factor", 1, above=0), self.mscales()
        if multiplier == 1:
            return parameters | mscales
        growth = [0.1 * mscales.get(name, default) * math.log(factor) + 1 for name, default in MSCALES.items()]
        attention = multiplier * growth[0] / growth[1]
        return parameters | {"attention_factor": 1.0 if math.isclose(attention, 1, rel_tol=ROUNDING) else attention}

    def mscales(self) -> dict[str, float]:
        """Return the two numbers that the attention factor follows from, if it is not the usual one."""
        multiplier = number(self.metadata, "rope.scaling.yarn_log_multiplier", 0, minimum=0)
        if not multiplier:
            return {}
        if self.name not in facts.LOGS:
            warn(f"`rope.scaling.yarn_log_multiplier` is not used, as llama.cpp does not read it for {self.name}.")
            return {}
        both = round(multiplier / facts.LOGS[self.name], 7)
        return {"mscale": both if self.name == "deepseek2" else 1, "mscale_all_dim": both}

    def read_divisors(self, kind: str, factor: float, width: int, base: float) -> dict[str, Any]:
        """Return the parameters of frequencies that tensors divide."""
        if factor != 1 or kind == "yarn":
            raise ValueError(
                f"`rope.scaling.type` {shown(kind)} with the factor {shown(factor)} is not supported beside divisors."
            )
        attention, pairs = number(self.metadata, "rope.scaling.attn_factor", 1.0, above=0), width // 2
        if self.metadata.get(FREQS) is None:
            names = {"short_factor": SHORT, "long_factor": LONG}
            found = {key: numbers(self.metadata, name, length=pairs, above=0) for key, name in names.items()}
            for key, name in names.items():
                if found[key] is None:
                    raise ValueError(f"`{name}` is missing: `rope.scaling.type` {shown(kind)} needs it.")
            length = self.original()
            return {"rope_type": "longrope", **found, ORIGINAL: length} | self.growth(attention, length)
        size = None if self.name == "step35" else pairs  # its tensor is as long as the widest layer needs
        divisors = (numbers(self.metadata, FREQS, length=size, above=0) or [])[:pairs]
        if attention == 1 and (known := self.recognize_scaling(divisors, width, base)) is not None:
            return known
        lists = {"short_factor": divisors, "long_factor": divisors}
        return {"rope_type": "longrope", **lists, ORIGINAL: self.original(), "attention_factor": attention}

    def growth(self, attention: float, original: int) -> dict[str, float]:
        """Return the factor of the length if the attention factor follows from it, else the attention factor."""
        factor = integer(self.metadata, "context_length", original) / original
        usual = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 < original else 1.0
        if factor >= 1 and math.isclose(attention, usual, rel_tol=ROUNDING):
            return {"factor": factor}
        return {"attention_factor": attention}

    def recognize_scaling(self, divisors: list[float], width: int, base: float) -> dict[str, Any] | None:
        """Return the parameters of the published scaling that has these divisors, if there is one."""
        largest, usual = max(divisors), 8192
        originals = {usual, integer(self.metadata, "rope.scaling.original_context_length", usual, minimum=2)}
        if largest <= 1:
            return {"rope_type": "default"} if min(divisors) == 1 else None
        still = [divisor > STILL for divisor in divisors]
        if still == sorted(still) and all(one == 1 or one > STILL for one in divisors) and not all(still):
            return {"rope_type": "proportional", "partial_rotary_factor": find_share(2 * still.count(False), width)}
        for original in originals:
            for low, high in LLAMA3:
                names = {"factor": largest, "low_freq_factor": low, "high_freq_factor": high, ORIGINAL: original}
                if np.allclose(find_divisors(Llama3(**names), width, base), divisors, rtol=ROUNDING, atol=0):
                    return {"rope_type": "llama3", **names}
        return None


def find_divisors(scaling: Any, width: int, base: float) -> Any:
    """Return what a scaling divides each of the frequencies by."""
    plain = Rotary(head_dim=width, layout="half", base=base)
    scaled = Rotary(head_dim=width, layout="half", base=base, scaling=scaling)
    return plain.frequencies() / scaled.frequencies()
