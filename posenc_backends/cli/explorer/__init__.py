"""The command `posenc explore`: encodings and their pictures in the browser."""

from __future__ import annotations

import argparse

from posenc_core._requirement import requirement
from posenc_core.encodings import Encoding
from posenc_core.encodings.notation import parse

from ..parser import Help

__all__ = ["HELP", "add_arguments", "explore", "run"]


HELP = Help(
    "explore",
    help="explore encodings in the browser",
    description="Explore encodings on a web page that this machine serves.",
    examples=("posenc explore", "posenc explore \"Rotary(head_dim=64, layout='half')\" --port 0"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address of the server (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=8050, metavar="N", help="port, 0 for a free one (default: 8050)")
    parser.add_argument(
        "encodings",
        nargs="*",
        metavar="ENCODING",
        help="one encoding to show, or two to compare, such as \"Rotary(head_dim=64, layout='half')\"",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")


def run(options: argparse.Namespace) -> int:
    """Serve the explorer; return the exit status 0."""
    encodings = [parse(text) for text in options.encodings]
    explore(*encodings, host=options.host, port=options.port, browser=not options.no_browser)
    return 0


def explore(*encodings: Encoding, host: str = "127.0.0.1", port: int = 8050, browser: bool = True) -> None:
    """Serve the explorer until it is interrupted.

    Args:
        encodings: the one to show first, or two to compare; `Rotary` by default.
        host: the address to listen on; by default this machine alone reaches it. A warning says so of others.
        port: the port to listen on; 0 takes a free one.
        browser: whether to open it in a browser.
    Raises:
        ImportError: if Dash or Plotly is not installed.
        ValueError: if `host` is empty, which would be all interfaces, the port out of range, there are more than two
            encodings, or the explorer does not offer one of them.
        OSError: if the port is taken.
    """
    try:
        from .links import link_to_all
        from .server import serve
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("dash", "flask", "plotly", "werkzeug"):
            raise
        install = requirement("explore")
        raise ImportError(f'The explorer needs `dash` and `plotly`; run `pip install "{install}"`.') from error
    serve(host=host, port=port, browser=browser, query=link_to_all(encodings) if encodings else "")
