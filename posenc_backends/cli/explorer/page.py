"""The layout of the page: controls on one side, cards with pictures on the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dash import dcc, html

from posenc_core import __version__

from .controls import INNER, POSITION, VIEWS, Control, Number, Words, kind_control
from .figures import PICTURES

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
            html.Header([html.H1("posenc explorer"), html.P("A positional encoding and its properties.")]),
            html.Form([html.Div(id=region) for region in REGIONS], id="panel", **{"aria-label": "Controls"}),
            html.Section(
                [
                    html.P(id="link-message", role="alert", className="message"),
                    html.P(id="message", role="alert", className="message"),
                    html.P(
                        [html.Code(id="code"), html.A("Link to this view", id="link", href="")], className="summary"
                    ),
                    html.Div([_card(name) for name in PICTURES], className="cards"),
                ],
                id="pictures",
            ),
            html.Footer(f"posenc {__version__}. Every number is computed by posenc_core, on this machine."),
        ]
    )


def region_of(name: str) -> str:
    """Return the region of the panel that a control belongs to."""
    if name in VIEWS:
        return "views"
    return "scaling-fields" if name.startswith(INNER) else "kind" if name == kind_control().name else "fields"


def shown(controls: Iterable[Control], values: Mapping[str, Any]) -> list[Any]:
    """Return the content of a region: the main controls, then the others, folded."""
    controls = list(controls)
    plain = [_row(control, values[control.name]) for control in controls if control.name not in FINE]
    fine = [_row(control, values[control.name]) for control in controls if control.name in FINE]
    return [*plain, html.Details([html.Summary("advanced"), *fine])] if fine else plain


def _row(control: Control, value: Any) -> Any:
    title = control.name.removeprefix(INNER)
    if isinstance(control, Words):
        chips = dcc.RadioItems(
            list(control.words), value, id=part_of(control.name, "words"), className="chips", inline=True
        )
        return html.Fieldset([html.Legend(title), chips])
    if not isinstance(control, Number):
        raise TypeError(f"`control` must be Words or Number, got {control!r}.")
    parts = {part: part_of(control.name, part) for part in ("number", "slider")}
    number = dcc.Input(
        id=parts["number"], type="number", value=value, min=control.lowest, max=control.highest, debounce=0.4,
        placeholder="none" if control.optional else "",
    )  # fmt: skip
    slider = dcc.Input(
        id=parts["slider"], type="range", value=control.to_slider(value), min=control.to_slider(control.lowest),
        max=control.to_slider(control.highest), step=control.step or 0.02,
    )  # fmt: skip
    scale = "" if control.step else ", as a power of ten"
    labels = (
        html.Label(title, htmlFor=dom_id(parts["number"])),
        html.Label(f"{title}, slider{scale}", htmlFor=dom_id(parts["slider"]), className="unseen"),
    )
    return html.Div([labels[0], number, labels[1], slider], className="number")


def part_of(name: str, part: str) -> dict[str, str]:
    """Return the Dash id of the words, the number or the slider of a control."""
    return {"name": name, "part": part}


def dom_id(dash_id: Mapping[str, str]) -> str:
    """Return the id of the element in the browser."""
    return json.dumps(dash_id, sort_keys=True, separators=(",", ":"))


def _card(name: str) -> Any:
    title, _ = PICTURES[name]
    graph = dcc.Graph(id={"figure": name}, config=GRAPH_CONFIG, responsive=True)
    parts = [
        html.H2(title),
        html.Div(graph, role="img", className="plot", **{"aria-labelledby": dom_id({"words": name})}),
        html.P("", id={"words": name}, className="words"),
    ]
    if name == "rotation":
        parts.append(_player())
    return html.Article(parts, id={"card": name}, hidden=True, className=f"card {name}")


def _player() -> html.Div:
    position = dcc.Input(id=POSITION.name, type="range", min=0, max=POSITION.highest, step=1, value=POSITION.default)
    return html.Div(
        [
            html.Button("Play", id="play", type="button"),
            html.Label("position", htmlFor=POSITION.name),
            position,
        ],
        className="player",
    )


REGIONS = ("kind", "fields", "scaling-fields", "views")
