"""The app: what happens when something is chosen. All numbers are computed here, in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dash import ALL, MATCH, ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from posenc_core.analysis.curves import plain_rope

from .controls import HEAD, PAIR, POSITION, Control, number_of
from .figures import PICTURES, rotation
from .links import View, controls_of, query_of, read, texts_of, view_of
from .page import REGIONS, layout, part_of, region_of, shown

DRAWN = [name for name in PICTURES if name != "rotation"]  # which follows its own slider
CONTROLS = [Input(part_of(ALL, part), "value") for part in ("words", "number")]


def make_app() -> Dash:
    """The explorer, a WSGI application by its attribute `server`."""
    app = Dash("posenc_backends.cli.explorer", title="posenc explorer", update_title="")
    app.config.suppress_callback_exceptions = True  # controls come and go with the encoding
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    app.layout = layout
    _listen_to_controls(app)
    _listen_to_the_player(app)
    return app


def _listen_to_controls(app: Dash) -> None:
    every = [Output(region, "children") for region in REGIONS]
    app.callback(*every, Output("link-said", "children"), Output(POSITION.name, "value"), Input("url", "search"))(
        _restored
    )
    again = [Output(region, "children", allow_duplicate=True) for region in REGIONS[1:]]
    app.callback(*again, *CONTROLS, prevent_initial_call=True)(_refitted)
    both = [part_of(MATCH, "number"), part_of(MATCH, "slider")]
    outputs, inputs = [Output(each, "value") for each in both], [Input(each, "value") for each in both]
    app.callback(*outputs, *inputs, prevent_initial_call=True)(_together)
    app.callback(_drawings(), *CONTROLS, prevent_initial_call="initial_duplicate")(_drawn)


def _listen_to_the_player(app: Dash) -> None:
    chosen, position = Input("chosen", "data"), Input(POSITION.name, "value")
    turned = Output({"figure": "rotation"}, "figure"), Output({"words": "rotation"}, "children")
    app.callback(*turned, chosen, position, prevent_initial_call=True)(_turned)
    clicked = Input("play", "n_clicks")
    app.callback(Output("tick", "disabled"), Output("play", "children"), clicked, prevent_initial_call=True)(_played)
    moved, told = Output(POSITION.name, "value", allow_duplicate=True), State({"words": "rotation"}, "children")
    where = State(POSITION.name, "value"), State(POSITION.name, "max")
    app.clientside_callback(
        ClientsideFunction("explorer", "step"),
        moved,
        Input("tick", "n_intervals"),
        *where,
        told,
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "share"), Output("link", "href"), chosen, position, Input("tick", "disabled")
    )


def _drawings() -> dict[str, Any]:
    """What changes when something is chosen, by the names that `_drawn` answers with."""
    return {
        "said": Output("said", "children"),
        "code": Output("code", "children"),
        "chosen": Output("chosen", "data"),
        "link_said": Output("link-said", "children", allow_duplicate=True),
        "last_position": Output(POSITION.name, "max"),
        "ends": Output(part_of(ALL, "slider"), "max"),
        "hidden": [Output({"card": name}, "hidden") for name in PICTURES],
        "figures": [Output({"figure": name}, "figure") for name in DRAWN],
        "words": [Output({"words": name}, "children") for name in DRAWN],
    }


def _restored(search: str | None) -> tuple[Any, ...]:
    """The controls, as a link says."""
    texts = texts_of(search or "")
    values, wrong = read(texts)
    said = f"Not all of the link can be followed. {' '.join(wrong)}" if wrong else ""
    return *_panel(texts, REGIONS), said, values.get(POSITION.name, POSITION.default)


def _refitted(*_: Any) -> list[Any]:
    """The controls that go with another encoding or scaling; parts of the panel that stay are left alone."""
    texts = _texts()
    wanted = {control.name: control for control in _on_panel(texts)}
    stays = [_names_in(region, texts) == _names_in(region, wanted) for region in REGIONS[1:]]
    parts = _panel({name: texts[name] for name in texts if name in wanted and wanted[name].carried}, REGIONS[1:])
    return [no_update if stay else part for stay, part in zip(stays, parts, strict=True)]


def _together(value: Any, place: Any) -> tuple[Any, Any]:
    """A number and its slider say the same."""
    control = number_of(ctx.triggered_id["name"])
    if ctx.triggered_id["part"] == "slider":
        return control.at(float(place)), no_update
    return no_update, control.place(value)


def _drawn(*_: Any) -> dict[str, Any]:
    """All pictures but that of the pair that turns, or what is wrong with what is chosen."""
    texts = _texts()
    if texts.keys() != {control.name for control in _on_panel(texts)}:
        raise PreventUpdate  # until the controls are those of the encoding
    left = _left() | {"link_said": "" if len(ctx.triggered) == 1 else no_update}
    values, wrong = read(texts)
    try:
        if wrong:
            raise ValueError(" ".join(wrong))
        view = view_of(values)
        pictures = {name: draw(view) for name, (_, draw) in PICTURES.items()}
    except (TypeError, ValueError) as error:
        return left | {"said": str(error), "code": "", "hidden": [True] * len(PICTURES)}
    return left | {
        "said": "",
        "code": repr(view.encoding),
        "chosen": query_of({name: value for name, value in values.items() if name != POSITION.name}),
        "last_position": view.length - 1,
        "ends": _ends(view),
        "hidden": [picture is None for picture in pictures.values()],
        "figures": [getattr(pictures[name], "figure", no_update) for name in DRAWN],
        "words": [getattr(pictures[name], "words", "") for name in DRAWN],
    }


def _left() -> dict[str, Any]:
    """Everything as it was."""
    lists = {"ends": len(_sliders()), "figures": len(DRAWN), "words": len(DRAWN)}
    return dict.fromkeys(_drawings(), no_update) | {name: [no_update] * count for name, count in lists.items()}


def _turned(chosen: str | None, position: Any) -> tuple[Any, str]:
    """The pair at a position."""
    if not chosen:
        raise PreventUpdate
    values, _ = read(texts_of(chosen))
    picture = rotation(view_of(values | {POSITION.name: int(position or 0)}))
    if picture is None:
        raise PreventUpdate
    return picture.figure, picture.words


def _played(clicks: int) -> tuple[bool, str]:
    """The animation runs after every other click."""
    return clicks % 2 == 0, "Pause" if clicks % 2 else "Play"


def _texts() -> dict[str, str]:
    """What the controls on the page say, as a link would."""
    parts = [part for group in ctx.inputs_list for part in group]
    return {part["id"]["name"]: "" if part.get("value") is None else str(part["value"]) for part in parts}


def _panel(texts: dict[str, str], wanted: Iterable[str]) -> list[Any]:
    """Parts of the panel."""
    controls, (values, _) = _on_panel(texts), read(texts)
    return [shown([control for control in controls if region_of(control.name) == region], values) for region in wanted]


def _on_panel(texts: dict[str, str]) -> list[Control]:
    """All controls but that of the position, which stands below its picture."""
    return [control for control in controls_of(texts) if control.name != POSITION.name]


def _names_in(region: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if region_of(name) == region}


def _ends(view: View) -> list[Any]:
    """Where the sliders on the page end that depend on the encoding."""
    rotary = plain_rope(view.encoding)
    ends = {HEAD.name: getattr(view.encoding, "num_heads", 1) - 1}
    if rotary is not None:
        ends[PAIR.name] = len(rotary.frequencies()) - 1
    return [ends.get(slider["id"]["name"], no_update) for slider in _sliders()]


def _sliders() -> list[Any]:
    """The sliders on the page."""
    return ctx.outputs_grouping["ends"]
