"""`perfatlas web`: forms, answers and a REST API in a browser."""

from __future__ import annotations

from typing import Annotated, Any

from perfatlas.commands.flags import Count, Seconds, default

Port = Annotated[Count, default("8000")]
Workers = Annotated[Count, default("the CPU cores")]
Limit = Annotated[Seconds, default("600 s")]


def web(
    *,
    host: str = "127.0.0.1",
    port: Port = None,
    workers: Workers = None,
    time_limit_s: Limit = None,
) -> int:
    """Serve until interrupted; return the exit code.

    Args:
        host: Address to listen on; the default is reached from this machine only.
        port: Port to listen on.
        workers: Questions that are answered at the same time.
        time_limit_s: Time limit of a search.
    """
    from perfatlas.web import Settings, serve

    given = {"port": port, "workers": workers, "limit_s": time_limit_s}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    serve(Settings(host=host, **chosen))
    return 0
