"""Connections of clients: how many there are, and how long a request may take to arrive."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from perfatlas.web.asking import REQUEST_LIMIT_S

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

MAX_CONNECTIONS: Final = 256  # that are answered
SHARE_OF_FILES: Final = 8  # one in so many open files may be such a connection


def most_connections() -> int:
    """Return how many connections are answered.

    As many more are told to come later, and as many again wait to be accepted; the open files that
    are left are for worker processes.
    """
    return max(
        1, min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE_OF_FILES)
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
        if len(self.connections) > 2 * (self.limit_concurrency or MAX_CONNECTIONS):
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
