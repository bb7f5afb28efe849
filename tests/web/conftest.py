from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextlib.contextmanager
def served(data: Path | None = None) -> Iterator[str]:
    """Start a server with one process for searches, and one for others; yield its address.

    Args:
        data: Where it keeps saved questions; by default where perfatlas does.
    """
    command = [sys.executable, "-m", "perfatlas", "web", "--port=0", "--workers=1"]
    folder = {"PERFATLAS_HOME": str(data)} if data else {}
    environment = {**os.environ, **folder}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            yield server.stderr.readline().split()[1].rstrip(";")
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as program:
        found = program.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()
