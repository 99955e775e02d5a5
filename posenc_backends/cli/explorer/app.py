"""The Dash app: its callbacks compute all numbers in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dash import ALL, MATCH, ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update
from dash.exceptions import PreventUpdate
from flask import Flask

from posenc_core.encodings import PositionScoring

from .catalogue import KINDS
from .controls import CELL, HEAD, NONE, PAIR, POSITION, WITH, Control, fields_of, number_of
from .figures import PICTURES, Picture, draw_all, rotation
from .guard import compress, explain_errors
from .language import CHINESE_PATH, join_sentences, translate
from .links import MOST_SENTENCES, SIDES, controls_of, query_of, read, repeated_in, texts_of, views_in
from .models import read_config
from .page import REGIONS, found_links, layout, part_of, region_of, shown
from .style import share_axes
from .view import View

# The figures in their order, one for each of two encodings; the rotation follows its own slider.
DRAWN = [(name, side) for name in PICTURES if name != "rotation" for side in range(len(SIDES))]
PARTS = ("words", "number", "text")
CONTROLS = [Input(part_of(ALL, part), "value") for part in PARTS]
LATER = [region for region in REGIONS if region != "kind"]
NOTE = "Learned parameters are drawn from the distribution that a layer starts from, with seed 0."
KIND_REGIONS = {
    "encoding": ("fields", "scaling-fields", "views"),
    "scaling": ("scaling-fields",),
    WITH + "encoding": ("with-fields", "with-scaling-fields", "views"),
    WITH + "scaling": ("with-scaling-fields",),
}


def make_app() -> Dash:
    """Return the explorer, in Chinese below `/zh/`; its attribute `server` is a WSGI application."""
    server = Flask("posenc_backends.cli.explorer")
    explain_errors(server)
    compress(server)
    _make_app(server, CHINESE_PATH, "zh-CN")
    return _make_app(server, "/", "en")


def _make_app(server: Flask, path: str, language: str) -> Dash:
    app = Dash(
        "posenc_backends.cli.explorer",
        server=server,
        url_base_pathname=path,
        title="posenc explorer",
        update_title="",
    )
    app.config.suppress_callback_exceptions = True  # each encoding has its own controls
    app.index_string = app.index_string.replace("<html>", f'<html lang="{language}">')
    app.layout = layout
    _connect_controls(app)
    _connect_player(app)
    pasted = Input("read-config", "n_clicks"), State("config", "value")
    app.callback(Output("found", "children"), *pasted, prevent_initial_call=True)(_read_config)
    return app


def _connect_controls(app: Dash) -> None:
    regions = [Output(region, "children") for region in REGIONS]
    others = Output("link-message", "children"), Output(POSITION.name, "value"), Output("compare", "open")
    app.callback(*regions, *others, Input("url", "search"))(_restore)
    later_regions = [Output(region, "children", allow_duplicate=True) for region in LATER]
    before = State("chosen", "data")
    app.callback(*later_regions, *CONTROLS, before, prevent_initial_call=True)(_update_controls)
    ids = [part_of(MATCH, "number"), part_of(MATCH, "slider")]
    outputs, inputs = [Output(part, "value") for part in ids], [Input(part, "value") for part in ids]
    app.callback(*outputs, *inputs, prevent_initial_call=True)(_synchronize)
    app.callback(Output("drawn", "data"), *CONTROLS)(_draw)
    busy = Output("pictures", "aria-busy", allow_duplicate=True)
    app.clientside_callback(ClientsideFunction("explorer", "wait"), busy, *CONTROLS, prevent_initial_call=True)
    words, chosen = Input(part_of(MATCH, "words"), "value"), Output(part_of(MATCH, "chosen"), "children")
    app.clientside_callback(ClientsideFunction("explorer", "name"), chosen, words, prevent_initial_call=True)
    values = [State(part_of(ALL, part), "value") for part in PARTS]
    app.clientside_callback(
        ClientsideFunction("explorer", "show"), *_shown(), Input("drawn", "data"), *values, prevent_initial_call=True
    )


def _connect_player(app: Dash) -> None:
    chosen, position = Input("chosen", "data"), Input(POSITION.name, "value")
    rotation_outputs = [
        Output({what: "rotation", "side": side}, attribute)
        for what, attribute in (("figure", "figure"), ("words", "children"))
        for side in range(len(SIDES))
    ]
    app.callback(*rotation_outputs, chosen, position, prevent_initial_call=True)(_draw_rotation)
    clicked = Input("play", "n_clicks")
    app.callback(Output("tick", "disabled"), Output("play", "children"), clicked, prevent_initial_call=True)(
        _play_or_pause
    )
    moved = Output(POSITION.name, "value", allow_duplicate=True)
    shown_words = [State({"words": "rotation", "side": side}, "children") for side in range(len(SIDES))]
    slider = State(POSITION.name, "value"), State(POSITION.name, "max")
    app.clientside_callback(
        ClientsideFunction("explorer", "step"),
        moved,
        Input("tick", "n_intervals"),
        *slider,
        *shown_words,
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "share"),
        Output("link", "href"),
        Output("language", "href"),
        chosen,
        position,
        Input("tick", "disabled"),
    )


def _shown() -> list[Any]:
    """Return the outputs of `explorer.show`, in its order."""
    return [
        Output("message", "children"),
        Output("code", "children"),
        Output("code-with", "children"),
        Output("note", "children"),
        Output("chosen", "data"),
        Output("link-message", "children", allow_duplicate=True),
        Output("pictures", "aria-busy"),
        Output(POSITION.name, "max"),
        Output(part_of(ALL, "slider"), "max"),
        *(Output({"card": name}, "hidden") for name in PICTURES),
        *(Output({"half": name, "side": side}, "hidden") for name in PICTURES for side in range(len(SIDES))),
        *(Output({"figure": name, "side": side}, "figure") for name, side in DRAWN),
        *(Output({"words": name, "side": side}, "children") for name, side in DRAWN),
    ]


def _restore(search: str | None) -> tuple[Any, ...]:
    """Return the controls with the values of a link."""
    texts = texts_of(search or "")
    values, wrong = read(texts)
    repeated = repeated_in(search or "")[:MOST_SENTENCES]
    twice = [translate("`{name}` is given twice; leave one of the two out.", name=name[:40]) for name in repeated]
    sentences = [*twice, *wrong]
    message = join_sentences(translate("Part of the link is invalid."), *sentences) if sentences else ""
    is_compared = values[WITH + "encoding"] != NONE
    return *_panel(texts, REGIONS), message, values.get(POSITION.name, POSITION.default), is_compared


def _update_controls(*given: Any) -> list[Any]:
    """Return the controls of another encoding or scaling; other regions of the panel with the same controls stay.

    Those of the answer are on the page for sure, whatever an earlier answer, to a click just before, puts there.
    """
    texts = _texts()
    wanted = {control.name: control for control in _on_panel(texts)}
    clicked = {json.loads(part["prop_id"].rpartition(".")[0])["name"] for part in ctx.triggered}
    renewed = KIND_REGIONS.get(clicked.pop(), ()) if len(clicked) == 1 else ()
    unchanged = [region not in renewed and _names_in(region, texts) == _names_in(region, wanted) for region in LATER]
    stay = _not_carried(given[-1])
    carried = {name: texts[name] for name in texts if name in wanted and wanted[name].carried and name not in stay}
    kept = {
        name: texts[name]
        for region, same in zip(LATER, unchanged, strict=True)
        if same
        for name in _names_in(region, texts)
    }
    parts = _panel(
        carried | kept | {name: texts[name] for name in ("encoding", WITH + "encoding") if name in texts}, LATER
    )
    return [no_update if same else part for same, part in zip(unchanged, parts, strict=True)]


def _not_carried(chosen: str | None) -> set[str]:
    """Return the names of values that are usual for the encodings drawn last alone, such as eight binary digits."""
    texts = texts_of(chosen or "")
    kinds = [(prefix, KINDS.get(texts.get(prefix + "encoding", ""))) for prefix in SIDES]
    return {field.name for prefix, cls in kinds if cls for field in fields_of(cls, prefix) if not field.carried}


def _read_config(_: int, text: str | None) -> list[Any]:
    """Return links to the encodings of a config, or one sentence that says what is wrong with it."""
    try:
        found, notes = read_config(str(text or ""))
    except (TypeError, ValueError) as error:
        return [html.P(str(error)[:300], role="alert", className="message")]
    return [*found_links(found), *(html.P(note, className="words") for note in notes)]


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
    unchanged: dict[str, Any] = dict.fromkeys(("chosen", "last_position")) | {
        "values": {part["id"]["name"]: part.get("value") for group in ctx.inputs_list for part in group},
        "link_message": "" if len(ctx.triggered) == 1 else None,
        "ends": {},
        "halves": [None] * len(PICTURES) * len(SIDES),
        "figures": [None] * len(DRAWN),
        "words": [None] * len(DRAWN),
    }
    values, wrong = read(texts)
    try:
        if wrong:
            raise ValueError(" ".join(wrong))
        views = views_in(values)
        pictures = [draw_all(view) for view in views]
    except (TypeError, ValueError) as error:
        return unchanged | {
            "message": str(error), "code": "", "code_with": "", "note": "", "hidden": [True] * len(PICTURES)
        }  # fmt: skip
    for name in PICTURES:
        _share(views, pictures, name)
    return unchanged | {
        "message": "",
        "code": repr(views[0].encoding),
        "code_with": repr(views[1].encoding) if len(views) > 1 else "",
        "note": translate(NOTE) if any(view.encoding.parameters() for view in views) else "",
        "chosen": query_of({name: value for name, value in values.items() if name != POSITION.name}),
        "last_position": max(view.length for view in views) - 1,
        "ends": _ends(views),
        "hidden": [not any(each[name] for each in pictures) for name in PICTURES],
        "halves": [_picture(pictures, name, side) is None for name in PICTURES for side in range(len(SIDES))],
        "figures": [getattr(_picture(pictures, *drawn), "figure", None) for drawn in DRAWN],
        "words": [getattr(_picture(pictures, *drawn), "words", "") for drawn in DRAWN],
    }


def _picture(pictures: list[dict[str, Picture | None]], name: str, side: int) -> Picture | None:
    return pictures[side][name] if side < len(pictures) else None


def _share(views: tuple[View, ...], pictures: list[dict[str, Picture | None]], name: str) -> None:
    """Give a picture of two encodings the same axes, unless one adds to the scores and the other does not."""
    drawn = [picture.figure for each in pictures if (picture := each[name]) is not None]
    if len(drawn) > 1 and len({isinstance(view.encoding, PositionScoring) for view in views}) == 1:
        share_axes(drawn)


def _draw_rotation(chosen: str | None, position: Any) -> list[Any]:
    """Draw the pair of each encoding at a position: two figures, then two descriptions."""
    if not chosen:
        raise PreventUpdate
    values, _ = read(texts_of(chosen))
    views = views_in(values | {POSITION.name: int(position or 0)})
    pictures = [{"rotation": rotation(view)} for view in views]
    if not any(each["rotation"] for each in pictures):
        raise PreventUpdate
    _share(views, pictures, "rotation")
    both = [_picture(pictures, "rotation", side) for side in range(len(SIDES))]
    return [picture.figure if picture else no_update for picture in both] + [
        picture.words if picture else "" for picture in both
    ]


def _play_or_pause(clicks: int) -> tuple[bool, str]:
    """Start the animation at odd clicks and stop it at even ones."""
    return clicks % 2 == 0, translate("Pause" if clicks % 2 else "Play")


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


def _ends(views: tuple[View, ...]) -> dict[str, Any]:
    """Return the new maximum of each slider whose maximum depends on the encodings."""
    rotaries = [view.rotary for view in views if view.rotary is not None]
    ends = {HEAD.name: max(getattr(view.encoding, "num_heads", None) or 1 for view in views) - 1}
    ends[CELL.name] = max(view.length for view in views) - 1
    if rotaries:
        ends[PAIR.name] = max(len(rotary.frequencies()) for rotary in rotaries) - 1
    return ends
