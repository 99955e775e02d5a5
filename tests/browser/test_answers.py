"""What the explorer answers to each choice, asked as a browser asks it; `test_explorer.py` clicks a few of them."""

import json

import pytest
from werkzeug.test import Client

from posenc_backends.cli.explorer import language
from posenc_backends.cli.explorer.app import make_app
from posenc_backends.cli.explorer.catalogue import KINDS, SCALINGS
from posenc_backends.cli.explorer.controls import Number
from posenc_backends.cli.explorer.links import controls_of, texts_of
from posenc_core.encodings.notation import parse

SWEPT = [
    "?encoding=Rotary&head_dim=64&rotary_dim=32&scaling=Llama3&scaling.original_max_position_embeddings=256&length=64",
    "?encoding=AxialRotary&side=6&cell=3",
    "?encoding=Sinusoidal&dim=16&length=64&with.encoding=Alibi&with.num_heads=4",
]
ONE_TABLE = {"layout", "placement", "precision", "direction", "with.sides", "slopes"}  # which numbers hardly depend on
FEW_SIZES = ("encoding", "scaling", "arrangement", "series")  # do not fit all values of the other controls
VIEWS = ("length", "side", "pair", "head", "cell", "position")


class Page:
    """A page without a browser: the parts of its panel, as answers have put them there."""

    def __init__(self, app, query, path="/"):
        self.client, self.path, self.regions = Client(app.server), path, {}
        keys = [key for key in app.callback_map if "fields.children" in key]
        self.restored, self.renewed = sorted(keys, key=lambda key: "@" in key)
        self.chosen = None
        self.take(self.ask(self.restored, [{"id": "url", "property": "search", "value": query}], "url.search"))
        self.drawn = self.draw("url.search")

    def ask(self, key, inputs, changed, state=()):
        outputs = [
            dict(zip(("id", "property"), each.rsplit(".", 1), strict=True)) for each in key.strip(".").split("...")
        ]
        outputs = outputs if key.startswith("..") else outputs[0]
        body = {"output": key, "outputs": outputs, "inputs": inputs, "changedPropIds": [changed], "state": [*state]}
        answer = self.client.post(f"{self.path}_dash-update-component", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json["response"]

    def take(self, answer):
        self.regions |= {region: each["children"] for region, each in answer.items() if "children" in each}

    def parts(self):
        """Yield the properties of each part of a control that has a value, but for sliders."""
        waiting = [*self.regions.values()]
        while waiting:
            each = waiting.pop()
            if isinstance(each, list):
                waiting += each
            elif isinstance(each, dict):
                properties = each.get("props", {})
                waiting.append(properties.get("children"))
                identity = properties.get("id")
                if isinstance(identity, dict) and identity["part"] in ("words", "number", "text"):
                    yield properties

    def names(self):
        return {part["id"]["name"] for part in self.parts()}

    def value(self, name):
        (value,) = (part.get("value") for part in self.parts() if part["id"]["name"] == name)
        return value

    def choose(self, name, value):
        (part,) = (part for part in self.parts() if part["id"]["name"] == name)
        part["value"] = value
        changed = f"{json.dumps(part['id'], separators=(',', ':'))}.value"
        state = [{"id": "chosen", "property": "data", "value": self.chosen}]
        self.take(self.ask(self.renewed, self.inputs(), changed, state))
        before, self.drawn = self.drawn, self.draw(changed)
        return before, self.drawn

    def inputs(self):
        each = [{"id": part["id"], "property": "value", "value": part.get("value")} for part in self.parts()]
        return [[one for one in each if one["id"]["part"] == group] for group in ("words", "number", "text")]

    def draw(self, changed):
        drawn = self.ask("drawn.data", self.inputs(), changed)["drawn"]["data"]
        self.chosen = drawn["chosen"]
        return drawn


@pytest.fixture(scope="module")
def app():
    return make_app()


def another(control, value):
    """Another value of a control: the next step of its slider, or the first other word."""
    if isinstance(control, Number):
        slider = control.to_slider(value) + (control.step or 0.02)
        return control.from_slider(slider)
    return next(word for word in control.words if word != value)


def check(name, value, before, after):
    """Check that encoding, pictures, sentences and address have changed with a control, without an error."""
    assert after["message"] == ""
    assert texts_of(after["chosen"])[name] == str(value)
    assert after["chosen"] != before["chosen"]
    if not name.startswith("with.") and name not in VIEWS:
        assert after["code"] != before["code"], name
    if name not in ONE_TABLE:
        assert after["figures"] != before["figures"], name
        assert after["words"] != before["words"], name


@pytest.mark.parametrize("query", SWEPT, ids=["Rotary", "AxialRotary", "two"])
def test_pictures_numbers_and_address_follow_every_control(app, query):
    page = Page(app, query)
    controls = {control.name: control for control in controls_of(texts_of(query))}
    assert page.names() == controls.keys() - {"position"}
    for name, control in controls.items():
        if name == "position" or hasattr(control, "counts") or name.removeprefix("with.") in FEW_SIZES:
            continue
        value = another(control, page.value(name))
        check(name, value, *page.choose(name, value))


def test_every_encoding_and_every_scaling_is_drawn(app):
    page = Page(app, "?encoding=Integer&dim=12&length=48")
    kinds = [kind for kind in reversed(KINDS) if kind != "Integer"]
    for name, values in (("encoding", [*kinds, "Rotary"]), ("scaling", [*SCALINGS, "none"])):
        for value in values:
            check(name, value, *page.choose(name, value))
            assert page.names() == {each.name for each in controls_of(texts_of(page.chosen)) if each.name != "position"}
            assert type(parse(page.drawn["code"])).__name__ == (value if name == "encoding" else "Rotary")


class Recorded(dict):
    """A dictionary that knows what it was asked for."""

    def __init__(self, *pairs):
        super().__init__(*pairs)
        self.asked = set()

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)


def test_all_that_it_says_of_encodings_is_in_its_chinese_dictionary_and_nothing_else_is(app, monkeypatch):
    chinese = Recorded(language.CHINESE)
    monkeypatch.setattr(language, "CHINESE", chinese)
    Client(app.server).get("/zh/_dash-layout")
    page = Page(app, "?encoding=Alibi&pair=1&pair=2&length=1000", "/zh/")
    clicked = [{"id": "play", "property": "n_clicks", "value": 1}]
    page.ask("..tick.disabled...play.children..", clicked, "play.n_clicks")
    queries = [f"?encoding={kind}" for kind in KINDS] + [f"?encoding=Rotary&scaling={scaling}" for scaling in SCALINGS]
    for query in (*queries, "?encoding=Rotary&head_dim=512", "?encoding=Rotary&scaling=Proportional&pair=31"):
        page = Page(app, query, "/zh/")
        assert page.drawn["message"] == ""
    assert chinese.asked - chinese.keys() == set()
    assert chinese.keys() - chinese.asked == set()
