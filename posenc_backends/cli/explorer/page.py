"""The layout of the page: controls on one side, cards with pictures on the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dash import dcc, html

from posenc_core import __version__

from .catalogue import FIRST, GROUPS, group_of
from .controls import INNER, NONE, POSITION, VIEWS, WITH, Control, Number, Numbers, Words
from .figures import PICTURES
from .language import CHINESE_PATH, in_chinese, translate
from .links import text_of
from .models import LONGEST, presets

# Controls that change the pictures little or not at all are folded away.
FINE = {
    "layout", "placement", "direction", "precision", "rotary_dim", "center", "shift", "scale", "scaling.mscale",
    "scaling.mscale_all_dim", "scaling.attention_factor", "scaling.truncate",
}  # fmt: skip
GRAPH_CONFIG = {"displayModeBar": False}
TICK = 150  # milliseconds between two positions of the animation


def layout() -> html.Main:
    """Return the page before anything is chosen."""
    return html.Main(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="chosen"),
            dcc.Store(id="drawn"),
            dcc.Interval(id="tick", interval=TICK, disabled=True),
            html.Header(
                [
                    html.H1(translate("posenc explorer")),
                    html.P(translate("Positional encodings and their properties.")),
                    _other_language(),
                ]
            ),
            html.Div([html.Form(_regions(), **{"aria-label": translate("Controls")}), _models()], id="panel"),
            html.Section(
                [
                    html.P(id="link-message", role="alert", className="message"),
                    html.P(id="message", role="alert", className="message"),
                    html.Div(
                        [
                            html.Div([html.Code(id="code"), html.Code(id="code-with")]),
                            html.A(translate("Link to this view"), id="link", href=""),
                        ],
                        className="summary",
                    ),
                    html.P(translate("Computing …"), id="busy", role="status"),
                    html.P(id="note", className="words"),
                    html.Div([_card(name) for name in PICTURES], className="cards"),
                ],
                id="pictures",
                **{"aria-busy": "true"},
            ),
            html.Footer(
                translate(
                    "posenc {version}. Every number is computed by posenc_core, on this machine.", version=__version__
                )
            ),
        ]
    )


def _other_language() -> html.A:
    """Return the link to the same view in the other language."""
    if in_chinese():
        return html.A("English", id="language", href="/", lang="en", hrefLang="en")
    return html.A("中文", id="language", href=CHINESE_PATH, lang="zh-CN", hrefLang="zh-CN")


def _regions() -> list[Any]:
    """Return the empty regions of the panel; those of the second encoding are folded."""
    parts = {region: html.Div(id=region) for region in REGIONS}
    beside = [parts.pop(region) for region in REGIONS if region.startswith("with-")]
    views = parts.pop("views")
    return [*parts.values(), html.Details([html.Summary(translate("compare")), *beside], id="compare"), views]


def region_of(name: str) -> str:
    """Return the region of the panel that a control belongs to."""
    if name in VIEWS:
        return "views"
    plain = name.removeprefix(WITH)
    region = "scaling-fields" if plain.startswith(INNER) else "kind" if plain == "encoding" else "fields"
    return ("with-" if name.startswith(WITH) else "") + region


def shown(controls: Iterable[Control], values: Mapping[str, Any]) -> list[Any]:
    """Return the content of a region: the main controls, then the others, folded."""
    controls = list(controls)
    plain = [_row(control, values[control.name]) for control in controls if control.name.removeprefix(WITH) not in FINE]
    fine = [_row(control, values[control.name]) for control in controls if control.name.removeprefix(WITH) in FINE]
    return [*plain, html.Details([html.Summary(translate("advanced")), *fine])] if fine else plain


def _row(control: Control, value: Any) -> Any:
    title = control.name.removeprefix(WITH).removeprefix(INNER)
    line = html.Small(translate(control.help), className="help")
    if isinstance(control, Words):
        chips = dcc.RadioItems(
            _options(control), value, id=part_of(control.name, "words"), className="chips", inline=True
        )
        if title != "encoding":
            return html.Fieldset([html.Legend(title), line, chips])
        what = translate("encoding" if title == control.name else "compare with")
        chosen = html.Strong(translate(NONE) if value == NONE else value, id=part_of(control.name, "chosen"))
        choice = html.Fieldset([html.Legend(what, className="unseen"), line, chips])
        return html.Details([html.Summary([what, " ", chosen]), choice], className="kinds", open=value == NONE)
    if isinstance(control, Numbers):
        part = part_of(control.name, "text")
        box = dcc.Input(
            id=part, type="text", value="" if value is None else text_of(value), debounce=0.4, maxLength=8000,
            placeholder=translate("usual"), autoComplete="off",
        )  # fmt: skip
        return html.Div([html.Label(title, htmlFor=dom_id(part)), box, line], className="number list")
    if not isinstance(control, Number):
        raise TypeError(f"`control` must be Words or Number, got {control!r}.")
    parts = {part: part_of(control.name, part) for part in ("number", "slider")}
    number = dcc.Input(
        id=parts["number"], type="number", value=value, min=control.lowest, max=control.highest, debounce=0.4,
        placeholder=translate("none") if control.optional else "",
    )  # fmt: skip
    slider = dcc.Input(
        id=parts["slider"], type="range", value=control.to_slider(value), min=control.to_slider(control.lowest),
        max=control.to_slider(control.highest), step=control.step or 0.02,
    )  # fmt: skip
    scale = "{name}, slider" if control.step else "{name}, slider, as a power of ten"
    labels = (
        html.Label(title, htmlFor=dom_id(parts["number"])),
        html.Label(translate(scale, name=title), htmlFor=dom_id(parts["slider"]), className="unseen"),
    )
    return html.Div([labels[0], number, labels[1], slider, line], className="number")


def _options(control: Words) -> list[Any]:
    """Return the words of a choice; the encodings below the names of their groups, which cannot be chosen."""
    if control.name.removeprefix(WITH) != "encoding":
        return list(control.words)
    options: list[Any] = [{"label": translate(NONE), "value": NONE}] if NONE in control.words else []
    for group in GROUPS:
        options.append({"label": translate(group), "value": group, "disabled": True})
        options += [name for name, encoding in FIRST.items() if group_of(encoding) == group]
    return options


def _models() -> html.Details:
    """Return the list of well-known models, and the field for a config."""
    rows = [html.Li([html.Strong(model), *found_links(found)], className="model") for model, found in presets().items()]
    paste = dcc.Textarea(
        id="config", maxLength=LONGEST + 1, rows=5, persistence=True, persistence_type="session",
        placeholder='{"model_type": "llama", "head_dim": 128, …}', spellCheck="false",
    )  # fmt: skip
    return html.Details(
        [
            html.Summary(translate("models and config.json")),
            html.Ul(rows, className="models"),
            html.Label(translate("config.json of a model"), htmlFor="config"),
            html.Small(translate("paste it whole; it is read here, and nothing is downloaded"), className="help"),
            paste,
            html.Button(translate("Read the config"), id="read-config", type="button"),
            html.Div(id="found", role="status"),
        ],
        id="models",
    )


def found_links(found: Iterable[tuple[str, str]]) -> list[Any]:
    """Return a link that shows each encoding, and one that compares it with the encoding that is shown."""
    return [
        html.Span(
            [
                html.A(name, href=link),
                html.A(
                    translate("compare"),
                    href=link,
                    className="compare",
                    **{"aria-label": translate("compare {name}", name=name)},
                ),
            ],
            className="found",
        )
        for name, link in found
    ]


def part_of(name: str, part: str) -> dict[str, str]:
    """Return the Dash id of the words, the number or the slider of a control."""
    return {"name": name, "part": part}


def dom_id(dash_id: Mapping[str, Any]) -> str:
    """Return the id of the element in the browser."""
    return json.dumps(dash_id, sort_keys=True, separators=(",", ":"))


def _card(name: str) -> Any:
    title, _ = PICTURES[name]
    halves = [html.Div(_half(name, side), id={"half": name, "side": side}, hidden=True) for side in range(2)]
    parts = [html.H2(translate(title)), html.Div(halves, className="halves")]
    if name == "rotation":
        parts.append(_player())
    return html.Article(parts, id={"card": name}, hidden=True, className=f"card {name}")


def _half(name: str, side: int) -> list[Any]:
    """Return the figure and the words of one of two encodings."""
    graph = dcc.Graph(id={"figure": name, "side": side}, config=GRAPH_CONFIG, responsive=True)
    words = {"words": name, "side": side}
    return [
        html.Div(graph, role="img", className="plot", **{"aria-labelledby": dom_id(words)}),
        html.P("", id=words, className="words"),
    ]


def _player() -> html.Div:
    position = dcc.Input(id=POSITION.name, type="range", min=0, max=POSITION.highest, step=1, value=POSITION.default)
    label = html.Label(translate("position"), htmlFor=POSITION.name)
    return html.Div(
        [html.Button(translate("Play"), id="play", type="button"), label, position],
        className="player",
    )


REGIONS = ("kind", "fields", "scaling-fields", "with-kind", "with-fields", "with-scaling-fields", "views")
