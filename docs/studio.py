"""Renew the picture of the studio in the README: `python docs/studio.py`.

It asks `perfatlas web` to explain an estimate, in the Chromium of the system.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT: Final = Path(__file__).parents[1]
IMAGE: Final = ROOT / "docs" / "images" / "studio.png"
WIDTH: Final = 1400  # pixels
HEIGHT: Final = 1180  # pixels; sliders are below the fields
MAX_BYTES: Final = 200_000
COLOURS: Final = 64  # of the picture
ASKED: Final = {
    "model": "meta-llama/Llama-3.1-70B-Instruct",
    "system": "b200_sxm",
    "format": "fp8",
    "gpus": "4",
    "tp": "4",
    "batch": "64",
    "isl": "2048",
    "osl": "512",
    "explain": "true",
}


def photograph(address: str) -> None:
    """Write the picture of an answer with its first charts."""
    with sync_playwright() as program:
        browser = program.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
            args=["--no-sandbox"],
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"{address}/estimate?{urlencode(ASKED)}")
        page.locator("#answer .js-plotly-plot .xtitle").nth(1).wait_for()
        picture = Image.open(io.BytesIO(page.screenshot()))
        picture.convert("RGB").quantize(COLOURS).save(IMAGE, optimize=True)
        browser.close()


def main() -> int:
    """Start a server, take the picture, and refuse one that is too large."""
    command = [sys.executable, "-m", "perfatlas", "web", "--port=0", "--workers=1"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_DATA_HOME": folder}  # no question of the user is shown
        with subprocess.Popen(  # noqa: S603 - our own program
            command, stderr=subprocess.PIPE, text=True, env=environment
        ) as server:
            try:
                assert server.stderr is not None  # noqa: S101 - it is a pipe
                photograph(server.stderr.readline().split()[1].rstrip(";"))
            finally:
                server.terminate()
    size = IMAGE.stat().st_size
    sys.stdout.write(f"{IMAGE.relative_to(ROOT)}: {size:,} bytes\n")
    return int(size > MAX_BYTES)


if __name__ == "__main__":
    sys.exit(main())
