"""The explorer: an encoding and its pictures in the browser; `posenc explore` starts it."""

from __future__ import annotations

__all__ = ["explore"]


def explore(*, host: str = "127.0.0.1", port: int = 8050, browser: bool = True) -> int:
    """Serve the explorer until it is interrupted.

    Args:
        host: the address to listen at.
        port: the port to listen at; 0 takes one that is free.
        browser: whether to open it in a browser.
    Returns:
        The exit status, 0.
    Raises:
        ImportError: if what it is made with is not installed.
        OSError: if the port is taken.
    """
    try:
        from .server import serve
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("dash", "plotly", "werkzeug"):
            raise
        raise ImportError('The explorer needs `dash` and `plotly`; run `pip install "posenc[explore]"`.') from error
    return serve(host=host, port=port, browser=browser)
