"""Inclusion of plotly.js in a page.

Its build for Cartesian charts comes with perfatlas (MIT License, Plotly, Inc.; beside the file).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from functools import cache
from importlib import resources
from typing import Final, Literal, NamedTuple

Script = Literal["inline", "cdn", "none"]
CDN: Final = "https://cdn.plot.ly"
FILE: Final = "data/plotly/plotly-cartesian.min.js.gz"
_VERSION: Final = re.compile(r"plotly\.js \(cartesian - minified\) v([\d.]+)")


class PlotlyScript(NamedTuple):
    """How a page loads plotly.js."""

    version: str
    digest: str  # sha256-..., for the content security policy and the integrity attribute
    packed: str = ""  # The script, gzip in base64, if embedded in the page; else ""
    url: str = ""  # URL of the script, else ""


@cache
def plotly_script(script: Script) -> PlotlyScript:
    """Return plotly.js for a page.

    Compressed, it takes 0.7 MB instead of 1.5 MB; browsers support this since May 2023.

    Args:
        script: inline embeds it, cdn links to it, none leaves it to the embedding page.

    Example:
        >>> from perfatlas.report.charts import plotly_script
        >>> plotly_script("cdn").url.startswith("https://cdn.plot.ly/plotly-")
        True
    """
    packed = resources.files("perfatlas").joinpath(FILE).read_bytes()
    source = gzip.decompress(packed)
    digest = f"sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode()}"
    version = _VERSION.findall(source[:1000].decode())[0]
    match script:
        case "inline":
            return PlotlyScript(version, digest, packed=base64.b64encode(packed).decode())
        case "cdn":
            return PlotlyScript(version, digest, url=f"{CDN}/plotly-cartesian-{version}.min.js")
        case "none":
            return PlotlyScript(version, digest)
