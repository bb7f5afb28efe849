"""The server of the application."""

from __future__ import annotations

import resource
import socket
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from perfatlas.quantities import InvalidSpecError, MissingDependencyError
from perfatlas.web.application import REQUEST_LIMIT_S

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

    from perfatlas.web.workers import Settings

MOST_CONNECTIONS: Final = 256  # that are answered


SHARE_OF_FILES: Final = 8  # one in so many open files may be such a connection


def most_connections() -> int:
    """Return how many connections are answered.

    As many more are told to come later, and as many again wait to be accepted; the open files that
    are left are for worker processes.
    """
    return max(
        1, min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE_OF_FILES)
    )


class TimedConnection(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time.

    uvicorn itself closes connections that are idle after a request; bodies are timed where they
    are read.
    """

    _deadline: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Wait for a request, or close a connection too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > 2 * (self.limit_concurrency or MOST_CONNECTIONS):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request until its head is complete."""
        self._wait()
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = None

    def _wait(self) -> None:
        if not self._deadline and not self._is_answering():
            self._deadline = self.loop.call_later(REQUEST_LIMIT_S, self.transport.close)


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
