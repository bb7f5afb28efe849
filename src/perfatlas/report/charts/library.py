"""How a page gets plotly.js, the library that draws its charts."""

from __future__ import annotations

import base64
import gzip
import hashlib
from typing import Final, Literal, NamedTuple, get_args

Script = Literal["inline", "cdn", "none"]
SCRIPTS: Final[tuple[Script, ...]] = get_args(Script)
CDN: Final = "https://cdn.plot.ly"
LEVEL: Final = 6  # 9 saves 0.2 % for a third more time


class PlotlyScript(NamedTuple):
    """What a page needs to have plotly.js.

    Args:
        version: Of plotly.js.
        digest: sha256-..., as a content security policy and an integrity attribute name it.
        packed: Its text, gzip in base64, where the page carries it; else "".
        url: Where it is loaded from, else "".
    """

    version: str
    digest: str
    packed: str = ""
    url: str = ""


def plotly_script(script: Script) -> PlotlyScript:
    """Return plotly.js for a page.

    Compressed it is 2.0 MB in a page instead of 4.8 MB; browsers since May 2023 unpack it.

    Args:
        script: inline carries it, cdn links to it, none leaves it to whoever embeds the page.

    Example:
        >>> from perfatlas.report.charts import plotly_script
        >>> plotly_script("cdn").url.startswith("https://cdn.plot.ly/plotly-")
        True
    """
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    version, source = get_plotlyjs_version(), get_plotlyjs().encode()
    digest = f"sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode()}"
    match script:
        case "inline":
            packed = base64.b64encode(gzip.compress(source, compresslevel=LEVEL, mtime=0)).decode()
            return PlotlyScript(version, digest, packed=packed)
        case "cdn":
            return PlotlyScript(version, digest, url=f"{CDN}/plotly-{version}.min.js")
        case "none":
            return PlotlyScript(version, digest)
