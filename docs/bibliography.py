"""Write the bibliography: the papers, and where each is cited, as found in sources and pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CITED = re.compile(r"(?:arXiv:|arxiv\.org/(?:abs|pdf)/)(\d{4}\.\d{4,5})")
UNIT = re.compile(r"^(?:class|def) ([A-Za-z]\w*)", re.MULTILINE)
PAPERS: dict[str, tuple[str, int, str]] = {  # by number on arXiv: authors, year, title
    "1211.3711": ("Graves", 2012, "Sequence Transduction with Recurrent Neural Networks"),
    "1409.3215": ("Sutskever, Vinyals, Le", 2014, "Sequence to Sequence Learning with Neural Networks"),
    "1607.06450": ("Ba, Kiros, Hinton", 2016, "Layer Normalization"),
    "1706.03762": ("Vaswani et al.", 2017, "Attention Is All You Need"),
    "1803.02155": ("Shaw, Uszkoreit, Vaswani", 2018, "Self-Attention with Relative Position Representations"),
    "1805.02867": ("Milakov, Gimelshein", 2018, "Online Normalizer Calculation for Softmax"),
    "1901.02860": ("Dai et al.", 2019, "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context"),
    "1910.10683": ("Raffel et al.", 2019, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer"),
    "1911.04474": ("Yan et al.", 2019, "TENER: Adapting Transformer Encoder for Named Entity Recognition"),
    "2003.08934": ("Mildenhall et al.", 2020, "NeRF: Representing Scenes as Neural Radiance Fields for View Synthesis"),
    "2006.10739": ("Tancik et al.", 2020, "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains"),
    "2006.11239": ("Ho, Jain, Abbeel", 2020, "Denoising Diffusion Probabilistic Models"),
    "2103.03404": ("Dong, Cordonnier, Loukas", 2021, "Attention Is Not All You Need: Pure Attention Loses Rank Doubly Exponentially with Depth"),
    "2103.14030": ("Liu et al.", 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows"),
    "2104.09864": ("Su et al.", 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding"),
    "2106.08254": ("Bao et al.", 2021, "BEiT: BERT Pre-Training of Image Transformers"),
    "2108.12409": ("Press, Smith, Lewis", 2021, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation"),
    "2111.06377": ("He et al.", 2021, "Masked Autoencoders Are Scalable Vision Learners"),
    "2112.05682": ("Rabe, Staats", 2021, "Self-attention Does Not Need O(n²) Memory"),
    "2203.16634": ("Haviv et al.", 2022, "Transformer Language Models without Positional Encodings Still Learn Positional Information"),
    "2205.09921": ("Chi et al.", 2022, "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation"),
    "2205.14135": ("Dao et al.", 2022, "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness"),
    "2212.10554": ("Sun et al.", 2022, "A Length-Extrapolatable Transformer"),
    "2305.13245": ("Ainslie et al.", 2023, "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints"),
    "2306.15595": ("Chen et al.", 2023, "Extending Context Window of Large Language Models via Positional Interpolation"),
    "2309.00071": ("Peng et al.", 2023, "YaRN: Efficient Context Window Extension of Large Language Models"),
    "2309.14509": ("Jacobs et al.", 2023, "DeepSpeed Ulysses: System Optimizations for Enabling Training of Extreme Long Sequence Transformer Models"),
    "2310.04418": ("Li et al.", 2023, "Functional Interpolation for Relative Positions Improves Long Context Transformers"),
    "2402.13753": ("Ding et al.", 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens"),
    "2403.13298": ("Heo et al.", 2024, "Rotary Position Embedding for Vision Transformer"),
    "2405.18719": ("Golovneva et al.", 2024, "Contextual Position Encoding: Learning to Count What's Important"),
    "2407.21783": ("Grattafiori et al.", 2024, "The Llama 3 Herd of Models"),
    "2408.06072": ("Yang et al.", 2024, "CogVideoX: Text-to-Video Diffusion Models with An Expert Transformer"),
    "2409.12191": ("Wang et al.", 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at Any Resolution"),
    "2502.13923": ("Bai et al.", 2025, "Qwen2.5-VL Technical Report"),
    "2508.10104": ("Siméoni et al.", 2025, "DINOv3"),
}  # fmt: skip


def bibliography() -> str:
    """Return the table as Markdown: each paper, and what cites it."""
    places = citations()
    lines = ["| arXiv | year | paper | cited by |", "|---|---|---|---|"]
    for number, (authors, year, title) in PAPERS.items():
        cited = ", ".join(dict.fromkeys(places.get(number, ())))
        lines.append(f"| [{number}](https://arxiv.org/abs/{number}) | {year} | {authors}: *{title}* | {cited} |")
    return "\n".join(lines) + "\n"


def citations() -> dict[str, list[str]]:
    """Return the numbers cited in the code and on the pages, each with the classes, functions and pages that do."""
    found: dict[str, list[str]] = {}
    for path in _files():
        text = path.read_text(encoding="utf-8")
        for match in CITED.finditer(text):
            found.setdefault(match[1], []).append(_place(path, text[: match.start()]))
    return found


def _files() -> Iterator[Path]:
    for folder in ("posenc_core", "posenc_backends", "tests", "benchmarks"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    for folder in ("tutorial", "howto", "explanation", "reference"):
        yield from sorted((ROOT / "docs" / folder).glob("*.md"))


def _place(path: Path, before: str) -> str:
    """Return the class or function, module or page that a citation stands in."""
    if path.suffix == ".md":
        title = next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# "))
        return f"[{title[2:].partition(':')[0]}](/{path.relative_to(ROOT / 'docs').as_posix()})"
    units = UNIT.findall(before)
    if path.is_relative_to(ROOT / "tests"):
        return "a test"
    return f"`{units[-1]}`" if units else f"`{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}`"
