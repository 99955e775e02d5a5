"""The guard of the server: it answers requests of its own pages, and refuses all others in one line."""

from __future__ import annotations

import gzip
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

MOST = 2**20  # bytes of a request; those of the pages have some thousands


def guarded(application: Callable[..., Any], host: str) -> Callable[..., Any]:
    """Return the WSGI application, which refuses requests that another site makes a browser send.

    A page of another site can have its own name resolved to this machine (DNS rebinding), and can post to addresses of
    this one. The first has that name as `Host`, the second another `Origin` than `Host`. Addresses that are numbers
    cannot be resolved to another address, so they are accepted.

    Args:
        application: the WSGI application.
        host: the address that the server listens on.
    """
    names = {host.lower(), "localhost", socket.gethostname().lower()}

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked, origin = environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")
        if not _is_right(asked, names):
            return _refusal(start_response, "403 Forbidden", "`Host` must be the address of the explorer.")
        if origin is not None and urlsplit(origin).netloc != asked:
            return _refusal(start_response, "403 Forbidden", "`Origin` must be the explorer itself.")
        return application(environ, start_response)

    return answer


def explain_errors(server: Flask) -> None:
    """Have a Flask server answer requests that its callbacks cannot read with status 400 and one line."""
    server.config["MAX_CONTENT_LENGTH"] = MOST

    def explain(error: Exception) -> Any:
        if isinstance(error, HTTPException):
            return error
        line = " ".join(f"The explorer cannot read this request: {type(error).__name__}: {error}".split())[:300]
        print(f"posenc: {line}", file=sys.stderr)  # noqa: T201
        return line + "\n", 400, {"Content-Type": "text/plain; charset=utf-8"}

    server.register_error_handler(Exception, explain)


def compress(server: Flask) -> None:
    """Have a Flask server send texts compressed: Plotly's script has 4.8 MB, and 1.5 MB compressed."""

    def compress_text(response: Response) -> Response:
        if "gzip" in request.accept_encodings and response.mimetype.endswith(("javascript", "json", "css")):
            response.direct_passthrough = False
            response.set_data(gzip.compress(response.get_data(), 5))
            response.content_encoding = "gzip"
            response.vary.add("Accept-Encoding")
        return response

    server.after_request(compress_text)


def is_for_this_machine(address: str) -> bool:
    """Return whether only this machine reaches the address, which is a number."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _is_right(asked: str, names: set[str]) -> bool:
    try:
        name = urlsplit(f"//{asked}").hostname or ""
        return name in names or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _refusal(start_response: Callable[..., Any], status: str, line: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [line.encode() + b"\n"]
