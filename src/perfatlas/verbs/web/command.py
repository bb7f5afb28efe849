"""`perfatlas web`: forms, answers and a REST API in a browser."""

from __future__ import annotations

from perfatlas.commands.flags import Count, Seconds


def web(
    *,
    host: str = "127.0.0.1",
    port: Count = None,
    workers: Count = None,
    time_limit_s: Seconds = None,
) -> int:
    """Serve until interrupted; return the exit code.

    Args:
        host: Address to listen on; the default is reached from this machine only.
        port: Port to listen on, 8000 by default.
        workers: Questions answered at the same time; as many as CPU cores by default.
        time_limit_s: Time limit of a search, 600 s by default.
    """
    from perfatlas.web import Settings, serve

    given = {"port": port, "workers": workers, "limit_s": time_limit_s}
    serve(
        Settings(host=host, **{name: value for name, value in given.items() if value is not None})
    )
    return 0
