"""The server of the application."""

from __future__ import annotations

import socket
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError, MissingDependencyError

if TYPE_CHECKING:
    from perfatlas.web.workers import Settings


def serve(settings: Settings) -> None:
    """Serve pages and the API until interrupted.

    Args:
        settings: Address and limits.

    Raises:
        InvalidSpecError: The address cannot be listened on.
        MissingDependencyError: FastAPI or uvicorn is not installed.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise MissingDependencyError(
            "perfatlas web needs FastAPI and uvicorn: pip install '.[web]' in the clone"
        )
    import uvicorn

    from perfatlas.web.application import web_application
    from perfatlas.web.connections import TimedConnection, most_connections

    listening = _listen(settings)
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    port = listening.getsockname()[1]
    sys.stderr.write(f"perfatlas: http://{shown}:{port}; Ctrl-C ends it\n")
    config = uvicorn.Config(
        web_application(settings),
        http=TimedConnection,
        limit_concurrency=most_connections(),
        backlog=most_connections(),
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _listen(settings: Settings) -> socket.socket:
    """Return the socket that the server listens on."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return socket.create_server((settings.host, settings.port), family=family)
    except (OSError, OverflowError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise InvalidSpecError(
            f"cannot listen on host {settings.host!r}, port {settings.port}: {reason}; choose"
            " another --host or --port"
        ) from problem
