"""The server of the explorer, for one user on one machine."""

from __future__ import annotations

import errno
import math
import socket
import warnings
import webbrowser
from contextlib import suppress

from werkzeug.serving import WSGIRequestHandler, make_server

from posenc_core._array_api.checks import check_integer, shown

from .app import make_app
from .guard import guarded, is_for_this_machine


class _QuietHandler(WSGIRequestHandler):
    """A request handler that logs no successful requests."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def serve(*, host: str, port: int, browser: bool, query: str = "") -> None:
    """Serve until interrupted, with the arguments and errors of `explore`; `query` is the view that is opened."""
    with _open_socket(host, port) as listening:
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/{query}"
        application = guarded(make_app().server, host)
        server = make_server(
            host, port, application, threaded=True, request_handler=_QuietHandler, fd=listening.fileno()
        )
        if not is_for_this_machine(listening.getsockname()[0]):
            warnings.warn(
                f"The explorer answers every machine that reaches {host}, without a password; leave out `--host` to "
                "serve this one alone.",
                stacklevel=2,
            )
        print(f"The explorer is at {address} until Ctrl+C.", flush=True)  # noqa: T201
        if browser:
            webbrowser.open(address)
        try:
            with suppress(KeyboardInterrupt):  # Ctrl+C is how it ends
                server.serve_forever()
        finally:
            server.server_close()


def _open_socket(host: str, port: int) -> socket.socket:
    if not str(host or "").strip():  # which would be all interfaces
        raise ValueError(f"`host` must be an address, such as 127.0.0.1, got {shown(host)}.")
    if check_integer("port", port, minimum=-math.inf, maximum=math.inf) not in range(2**16):
        raise ValueError(f"`port` must be from 0 to 65535, got {port}.")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        option = "port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "host"
        raise OSError(
            f"The explorer cannot listen on `{host}` port {port}: {error.strerror}; try another `--{option}`."
        ) from error
