from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Return the address of a server with one process for searches, and one for others."""
    command = [sys.executable, "-m", "perfatlas", "web", "--port=0", "--workers=1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            yield server.stderr.readline().split()[1].rstrip(";")
        finally:
            server.terminate()
