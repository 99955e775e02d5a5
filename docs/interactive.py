"""Figures with sliders, which `docs/_static/interactive.js` draws: their words in two languages, and their controls."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from docutils.nodes import Node, raw
from sphinx.util.docutils import SphinxDirective


class Words(NamedTuple):
    """The words of a figure: names in braces are numbers that the script fills in."""

    title: str
    says: str
    labels: tuple[str, ...]  # of the sliders, in their order


class Slider(NamedTuple):
    """A slider: its name, lowest and highest value, step, and the value at first."""

    name: str
    least: int
    most: int
    step: int
    value: int


SLIDERS = {
    "clock": (Slider("m", 0, 60, 1, 7), Slider("n", 0, 60, 1, 3), Slider("pair", 0, 31, 1, 6)),
    "product": (Slider("t", 0, 1000, 1, 12), Slider("delta", 0, 100, 1, 5), Slider("dim", 2, 128, 2, 32)),
    "wavelengths": (
        Slider("base", 20, 80, 1, 40),  # tenths of its power of ten
        Slider("length", 8, 20, 1, 12),  # powers of two
        Slider("dim", 16, 256, 2, 64),
    ),
    "decoding": (Slider("prompt", 1, 6, 1, 4), Slider("step", 0, 6, 1, 2)),
}
ENGLISH = {
    "clock": Words(
        "A query and a key, rotated: one pair of a head of 64 channels, base 10,000",
        "ω = {omega} radians per position. The query turns by {m} × ω = {query}, the key by {n} × ω = {key}. "
        "Between them is {offset} × ω = {between}; its cosine, the score of the pair, is {cosine}.",
        ("position of the query, m", "position of the key, n", "pair"),
    ),
    "product": Words(
        "The dot product of two rows of a sinusoidal table, base 10,000",
        "p({t}) · p({other}) = {product}; a row with itself gives {most}. Move t: the product depends on δ alone.",
        ("position, t", "offset, δ", "columns"),
    ),
    "wavelengths": Words(
        "Wavelengths of the pairs of a head, and the context length",
        "Base {base}: wavelengths from {shortest} to {longest} positions. "
        "Within {length} positions, {whole} of {pairs} pairs make a full turn; the others see a part of their circle.",
        ("base", "context length", "channels of the head"),
    ),
    "decoding": Words(
        "Decoding with a KV cache: keys and values above, below them a row of weights for each query",
        "Call {call}, start={start}. New tokens: {count}, whose queries, keys and values are computed (orange); "
        "{cached} keys and values come from the cache (teal). The query at position {query} sees {seen} keys; the "
        "weight of its own is {weight}. After this call, {computed} keys have been computed; without a cache, {again} "
        "would have been.",
        ("tokens of the prompt", "tokens written after it"),
    ),
}
CHINESE = {
    "clock": Words(
        "旋转后的查询和键：64 维注意力头中的一对通道，底数 10,000",
        "ω = {omega} 弧度/位置。查询转过 {m} × ω = {query}，键转过 {n} × ω = {key}。"
        "两者的夹角是 {offset} × ω = {between}，其余弦（这一对的评分）为 {cosine}。",
        ("查询的位置 m", "键的位置 n", "通道对"),
    ),
    "product": Words(
        "正弦位置编码表中两行的点积，底数 10,000",
        "p({t}) · p({other}) = {product}；一行与自身的点积为 {most}。移动 t：点积只取决于 δ。",
        ("位置 t", "偏移 δ", "列数"),
    ),
    "wavelengths": Words(
        "注意力头中各通道对的波长与上下文长度",
        "底数 {base}：波长从 {shortest} 到 {longest} 个位置。"
        "在 {length} 个位置以内，{pairs} 对中有 {whole} 对转满一圈；其余各对只经过圆周的一部分。",
        ("底数", "上下文长度", "头的维数"),
    ),
    "decoding": Words(
        "带 KV 缓存的解码：上方是键和值，下方每行是一个查询的权重",
        "第 {call} 次调用，start={start}：计算 {count} 个新词元的查询、键和值（橙色），"
        "{cached} 个键和值取自缓存（蓝绿色）。"
        "位置 {query} 的查询看到 {seen} 个键；它自己那个键的权重为 {weight}。"
        "到这次调用为止共计算了 {computed} 个键；若没有缓存，则要计算 {again} 个。",
        ("提示的词元数", "之后写出的词元数"),
    ),
}
WITHOUT = {False: "This figure has sliders, which need JavaScript.", True: "此图带有滑块，需要启用 JavaScript。"}


class Interactive(SphinxDirective):
    """A figure with sliders, named in `SLIDERS`."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Return its frame as HTML; without scripts it says that it needs them."""
        (name,) = self.arguments
        if name not in SLIDERS:
            raise self.error(f"There is no interactive figure {name!r}; there are {', '.join(SLIDERS)}.")
        in_chinese = self.env.app.tags.has("translated")
        words = (CHINESE if in_chinese else ENGLISH)[name]
        controls = "".join(_control(name, *each) for each in zip(SLIDERS[name], words.labels, strict=True))
        title = f"interactive-{name}"
        return [
            raw(
                "",
                f'<div class="interactive" data-figure="{name}" data-says="{escape(words.says)}" role="group" '
                f'aria-labelledby="{title}"><p id="{title}"><strong>{escape(words.title)}</strong></p>'
                f'<svg viewBox="0 0 600 240" aria-hidden="true"></svg><div class="controls">{controls}</div>'
                f'<p class="says" aria-live="polite"></p><noscript><p>{WITHOUT[in_chinese]}</p></noscript></div>',
                format="html",
            )
        ]


def _control(figure: str, slider: Slider, label: str) -> str:
    name, least, most, step, value = slider
    return (
        f'<label for="{figure}-{name}"><span>{escape(label)}: <output for="{figure}-{name}"></output></span>'
        f'<input type="range" id="{figure}-{name}" name="{name}" min="{least}" max="{most}" step="{step}" '
        f'value="{value}"></label>'
    )
