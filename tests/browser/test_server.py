"""The server of the explorer answers its own pages, and tells others why not in one line."""

import json
import socket
from urllib.parse import urlparse

import pytest
from werkzeug.test import Client

from posenc_backends.cli.explorer import explore, server
from posenc_backends.cli.explorer.app import make_app
from posenc_backends.cli.explorer.guard import guarded
from posenc_backends.cli.explorer.links import read, texts_of, views_in
from posenc_backends.cli.main import main
from posenc_core.encodings.notation import parse

JSON = {"Content-Type": "application/json"}
RESTORE = {
    "output": "..view.children...coding.children..",
    "outputs": [],
    "inputs": [{"id": "url", "property": "search", "value": ""}],
    "changedPropIds": ["url.search"],
}


@pytest.fixture(scope="module")
def client():
    return Client(guarded(make_app().server, "127.0.0.1"))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8050", 200),
        ("localhost:8050", 200),
        ("LOCALHOST", 200),
        ("[::1]:8050", 200),
        ("192.168.0.7:8050", 200),
        ("evil.example", 403),
        ("evil.example:8050", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
        ("[::1", 403),
        ("a@127.0.0.1@evil.example", 403),
    ],
)
def test_the_host_is_the_address_of_the_explorer(client, host, status):
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == status
    assert status == 200 or answer.text == "`Host` must be the address of the explorer.\n"


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://127.0.0.1:8050", 200), ("http://evil.example", 403), ("null", 403), ("http://127.0.0.1:1", 403)],
)
def test_other_sites_cannot_ask(client, origin, status):
    answer = client.get("/_dash-dependencies", headers={"Host": "127.0.0.1:8050", "Origin": origin})
    assert answer.status_code == status
    assert status == 200 or answer.text == "`Origin` must be the explorer itself.\n"


def callbacks(client):
    """The outputs of the callbacks that run in Python."""
    return [each["output"] for each in client.get("/_dash-dependencies").json if not each["clientside_function"]]


BODIES = [
    b"", b"{", b"null", b"[]", b"3", b'"a"', b"{}", b'{"output": 3}', b'{"output": "nothing.children"}', b"\xff\xfe",
    b"[" * 100_000, json.dumps(RESTORE | {"inputs": 3}).encode(), json.dumps(RESTORE | {"inputs": [3]}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:40]))
def test_bodies_of_no_request_are_refused_in_one_line(client, body, capfd):
    answer = client.post("/_dash-update-component", data=body, headers=JSON)
    assert 400 <= answer.status_code < 500
    assert "Traceback" not in capfd.readouterr().err
    if answer.status_code == 400 and answer.mimetype == "text/plain":
        assert len(answer.text) <= 301
        assert answer.text.count("\n") == 1


@pytest.mark.parametrize(
    "value",
    [
        3,
        None,
        [],
        {},
        True,
        "?encoding=" + "a" * 10_000,
        "?with.encoding=T5Bias&with.encoding=Rotary",
        "?scaling=LongRoPE&scaling.long_factor=" + "1," * 5_000,
        "?dim=nan&length=1e999",
        "?=&&=",
    ],
)
def test_values_that_no_page_sends_are_refused_in_one_line(client, value, capfd):
    for output in callbacks(client):
        for body in (
            RESTORE | {"output": output, "inputs": [{"id": "url", "property": "search", "value": value}]},
            RESTORE | {"output": output, "inputs": [[{"id": {"name": value, "part": "words"}, "value": value}]] * 2},
            RESTORE | {"output": output, "inputs": [[{"id": {"name": "window", "part": "text"}, "value": value}]] * 3},
            RESTORE
            | {
                "output": output,
                "inputs": [{"id": "read-config", "property": "n_clicks", "value": 1}],
                "state": [{"id": "config", "property": "value", "value": value}],
                "changedPropIds": ["read-config.n_clicks"],
            },
        ):
            answer = client.post("/_dash-update-component", json=body)
            assert answer.status_code < 500, answer.text
    assert "Traceback" not in capfd.readouterr().err


def test_large_bodies_are_refused(client):
    assert client.post("/_dash-update-component", data=b" " * 2**21, headers=JSON).status_code == 413


@pytest.mark.parametrize("host", ["", " ", None])
def test_an_empty_host_is_refused(host):
    with pytest.raises(ValueError, match="`host` must be an address"):
        explore(host=host, port=0, browser=False)


@pytest.mark.parametrize(("host", "option"), [("127.0.0.1", "port"), ("192.0.2.1", "host")])
def test_the_option_that_keeps_it_from_listening_is_named(host, option):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on `{host}` port {port}: .*; try another `--{option}`\.$"):
            explore(host=host, port=port, browser=False)


class Interrupted:
    """A server that is stopped at once."""

    def serve_forever(self):
        raise KeyboardInterrupt

    def server_close(self):
        pass


@pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_other_machines_are_told_of(host, warns, monkeypatch, recwarn):
    opened = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(opened.__class__, "getsockname", lambda self: (host, 8050))
    monkeypatch.setattr(server, "_open_socket", lambda *_: opened)
    monkeypatch.setattr(server, "make_server", lambda *_, **__: Interrupted())
    explore(host=host, port=0, browser=False)
    assert any("without a password" in str(warning.message) for warning in recwarn) == warns


@pytest.mark.parametrize(
    ("encodings", "query"),
    [
        ([], ""),
        (["Alibi(num_heads=6)"], "?encoding=Alibi&num_heads=6"),
        (["Alibi(num_heads=6)", "Sinusoidal(dim=32)"], "with.encoding=Sinusoidal&with.dim=32"),
    ],
)
def test_the_command_prints_the_address_of_its_encodings(encodings, query, monkeypatch, capsys):
    monkeypatch.setattr(server, "make_server", lambda *_, **__: Interrupted())
    assert main(["explore", *encodings, "--port", "0", "--no-browser"]) == 0
    address = capsys.readouterr().out.split()[4]
    assert query in address
    values, wrong = read(texts_of(urlparse(address).query))
    assert wrong == ()
    if encodings:
        assert [view.encoding for view in views_in(values)] == [parse(text) for text in encodings]
