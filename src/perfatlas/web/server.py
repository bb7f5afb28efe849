"""The server of the application."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from perfatlas.quantities import MissingDependencyError

if TYPE_CHECKING:
    from perfatlas.web.workers import Settings


def serve(settings: Settings) -> None:
    """Serve pages and the API until interrupted.

    Args:
        settings: Address and limits.

    Raises:
        MissingDependencyError: FastAPI or uvicorn is not installed.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise MissingDependencyError(
            "perfatlas web needs FastAPI and uvicorn: pip install 'perfatlas[web]'"
        )
    import uvicorn

    from perfatlas.web.application import application

    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    sys.stderr.write(f"perfatlas: http://{shown}:{settings.port}; Ctrl-C ends it\n")
    uvicorn.run(
        application(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
