"""The Dash app: its callbacks compute all numbers in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dash import ALL, MATCH, ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from posenc_core.analysis.curves import plain_rope

from .controls import HEAD, PAIR, POSITION, Control, number_of
from .figures import PICTURES, rotation
from .guard import explain_errors
from .links import View, controls_of, query_of, read, texts_of, view_of
from .page import REGIONS, layout, part_of, region_of, shown

DRAWN = [name for name in PICTURES if name != "rotation"]  # the rotation follows its own slider
CONTROLS = [Input(part_of(ALL, part), "value") for part in ("words", "number")]


def make_app() -> Dash:
    """Return the explorer; its attribute `server` is a WSGI application."""
    app = Dash("posenc_backends.cli.explorer", title="posenc explorer", update_title="")
    explain_errors(app.server)
    app.config.suppress_callback_exceptions = True  # each encoding has its own controls
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    app.layout = layout
    _connect_controls(app)
    _connect_player(app)
    return app


def _connect_controls(app: Dash) -> None:
    regions = [Output(region, "children") for region in REGIONS]
    app.callback(*regions, Output("link-message", "children"), Output(POSITION.name, "value"), Input("url", "search"))(
        _restore
    )
    later_regions = [Output(region, "children", allow_duplicate=True) for region in REGIONS[1:]]
    app.callback(*later_regions, *CONTROLS, prevent_initial_call=True)(_update_controls)
    ids = [part_of(MATCH, "number"), part_of(MATCH, "slider")]
    outputs, inputs = [Output(part, "value") for part in ids], [Input(part, "value") for part in ids]
    app.callback(*outputs, *inputs, prevent_initial_call=True)(_synchronize)
    app.callback(Output("drawn", "data"), *CONTROLS)(_draw)
    values = [State(part_of(ALL, part), "value") for part in ("words", "number")]
    app.clientside_callback(
        ClientsideFunction("explorer", "show"), *_shown(), Input("drawn", "data"), *values, prevent_initial_call=True
    )


def _connect_player(app: Dash) -> None:
    chosen, position = Input("chosen", "data"), Input(POSITION.name, "value")
    rotation_outputs = Output({"figure": "rotation"}, "figure"), Output({"words": "rotation"}, "children")
    app.callback(*rotation_outputs, chosen, position, prevent_initial_call=True)(_draw_rotation)
    clicked = Input("play", "n_clicks")
    app.callback(Output("tick", "disabled"), Output("play", "children"), clicked, prevent_initial_call=True)(
        _play_or_pause
    )
    moved = Output(POSITION.name, "value", allow_duplicate=True)
    shown_words = State({"words": "rotation"}, "children")
    slider = State(POSITION.name, "value"), State(POSITION.name, "max")
    app.clientside_callback(
        ClientsideFunction("explorer", "step"),
        moved,
        Input("tick", "n_intervals"),
        *slider,
        shown_words,
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "share"), Output("link", "href"), chosen, position, Input("tick", "disabled")
    )


def _shown() -> list[Any]:
    """Return the outputs of `explorer.show`, in its order."""
    return [
        Output("message", "children"),
        Output("code", "children"),
        Output("chosen", "data"),
        Output("link-message", "children", allow_duplicate=True),
        Output(POSITION.name, "max"),
        Output(part_of(ALL, "slider"), "max"),
        *(Output({"card": name}, "hidden") for name in PICTURES),
        *(Output({"figure": name}, "figure") for name in DRAWN),
        *(Output({"words": name}, "children") for name in DRAWN),
    ]


def _restore(search: str | None) -> tuple[Any, ...]:
    """Return the controls with the values of a link."""
    texts = texts_of(search or "")
    values, wrong = read(texts)
    message = f"Part of the link is invalid. {' '.join(wrong)}" if wrong else ""
    return *_panel(texts, REGIONS), message, values.get(POSITION.name, POSITION.default)


def _update_controls(*_: Any) -> list[Any]:
    """Return the controls of another encoding or scaling; other regions of the panel with the same controls stay.

    Those of the answer are on the page for sure, whatever an earlier answer, to a click just before, puts there.
    """
    texts = _texts()
    wanted = {control.name: control for control in _on_panel(texts)}
    clicked = frozenset(json.loads(part["prop_id"].rpartition(".")[0])["name"] for part in ctx.triggered)
    renewed = {frozenset({"encoding"}): REGIONS[1:], frozenset({"scaling"}): ("scaling-fields",)}.get(clicked, ())
    unchanged = [
        region not in renewed and _names_in(region, texts) == _names_in(region, wanted) for region in REGIONS[1:]
    ]
    parts = _panel({name: texts[name] for name in texts if name in wanted and wanted[name].carried}, REGIONS[1:])
    return [no_update if same else part for same, part in zip(unchanged, parts, strict=True)]


def _synchronize(value: Any, slider: Any) -> tuple[Any, Any]:
    """Return the values of a number and its slider after one of them changed."""
    control = number_of(ctx.triggered_id["name"])
    if ctx.triggered_id["part"] == "slider":
        return control.from_slider(float(slider)), no_update
    return no_update, control.to_slider(value)


def _draw(*_: Any) -> dict[str, Any]:
    """Draw all pictures except the rotation, or return what is wrong with the chosen values; None changes nothing.

    The values are returned as well: an answer that comes late, after others were chosen, is not shown.
    """
    texts = _texts()
    if texts.keys() != {control.name for control in _on_panel(texts)}:
        raise PreventUpdate  # the controls of the encoding are not there yet
    unchanged = dict.fromkeys(("chosen", "last_position")) | {
        "values": {part["id"]["name"]: part.get("value") for group in ctx.inputs_list for part in group},
        "link_message": "" if len(ctx.triggered) == 1 else None,
        "ends": {},
        "figures": [None] * len(DRAWN),
        "words": [None] * len(DRAWN),
    }
    values, wrong = read(texts)
    try:
        if wrong:
            raise ValueError(" ".join(wrong))
        view = view_of(values)
        pictures = {name: draw(view) for name, (_, draw) in PICTURES.items()}
    except (TypeError, ValueError) as error:
        return unchanged | {"message": str(error), "code": "", "hidden": [True] * len(PICTURES)}
    return unchanged | {
        "message": "",
        "code": repr(view.encoding),
        "chosen": query_of({name: value for name, value in values.items() if name != POSITION.name}),
        "last_position": view.length - 1,
        "ends": _ends(view),
        "hidden": [picture is None for picture in pictures.values()],
        "figures": [getattr(pictures[name], "figure", None) for name in DRAWN],
        "words": [getattr(pictures[name], "words", "") for name in DRAWN],
    }


def _draw_rotation(chosen: str | None, position: Any) -> tuple[Any, str]:
    """Draw the pair at a position."""
    if not chosen:
        raise PreventUpdate
    values, _ = read(texts_of(chosen))
    picture = rotation(view_of(values | {POSITION.name: int(position or 0)}))
    if picture is None:
        raise PreventUpdate
    return picture.figure, picture.words


def _play_or_pause(clicks: int) -> tuple[bool, str]:
    """Start the animation at odd clicks and stop it at even ones."""
    return clicks % 2 == 0, "Pause" if clicks % 2 else "Play"


def _texts() -> dict[str, str]:
    """Return the values of the controls on the page as text, as in a link."""
    parts = [part for group in ctx.inputs_list for part in group]
    return {part["id"]["name"]: "" if part.get("value") is None else str(part["value"]) for part in parts}


def _panel(texts: dict[str, str], wanted: Iterable[str]) -> list[Any]:
    """Return the content of these regions of the panel."""
    controls, (values, _) = _on_panel(texts), read(texts)
    return [shown([control for control in controls if region_of(control.name) == region], values) for region in wanted]


def _on_panel(texts: dict[str, str]) -> list[Control]:
    """Return all controls except the position, which is below its picture."""
    return [control for control in controls_of(texts) if control.name != POSITION.name]


def _names_in(region: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if region_of(name) == region}


def _ends(view: View) -> dict[str, Any]:
    """Return the new maximum of each slider whose maximum depends on the encoding."""
    rotary = plain_rope(view.encoding)
    ends = {HEAD.name: getattr(view.encoding, "num_heads", 1) - 1}
    if rotary is not None:
        ends[PAIR.name] = len(rotary.frequencies()) - 1
    return ends
