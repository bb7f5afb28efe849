"""Rendering of a page as HTML, with escaped texts, a style sheet and the chart script."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING

from perfatlas.report.charts import figure_json, plotly_script
from perfatlas.report.text import typeset

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from perfatlas.report.charts import Script
    from perfatlas.report.pages.page import Chart, Page


def page_html(page: Page, *, script: Script = "inline") -> str:
    """Return a page as HTML; equal pages give equal text.

    Args:
        page: The content; all texts are escaped.
        script: Source of plotly.js: inline (embedded, 0.7 MB, no network access), cdn (0.1 MB,
            needs network access), none (provided by the embedding page).

    Example:
        >>> from perfatlas.report.pages import Page, page_html
        >>> page = Page(command="estimate", title="<b>", reproduce="perfatlas estimate")
        >>> "<h1>&lt;b&gt;</h1>" in page_html(page)
        True
    """
    environment = _environment()
    plotly = plotly_script(script) if page.charts() else None
    draw = _source("draw.js")
    scripts = [f"'{_digest(draw)}'"]
    if plotly is not None:
        scripts.append(plotly.url or f"'{plotly.digest}'")
    versions = dict(page.versions) | ({"plotly.js": plotly.version} if plotly else {})
    return environment.get_template("page.html").render(
        page=page,
        plotly=plotly,
        versions=versions,
        style=_source("page.css"),
        draw=draw,
        scripts=" ".join(scripts),
    )


@cache
def _environment() -> Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perfatlas.report.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"typeset": typeset, "figure": _figure_json}
    return environment


@cache
def _source(name: str) -> Markup:
    """Return one of the package's style sheets or scripts, without escaping."""
    from importlib import resources

    from markupsafe import Markup

    folder = resources.files("perfatlas.report.pages") / "templates"
    return Markup((folder / name).read_text("utf-8"))  # noqa: S704 - a file of this package


def _digest(text: str) -> str:
    """Return a hash in the form of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _figure_json(chart: Chart) -> Markup:
    from markupsafe import Markup

    return Markup(figure_json(chart.figure))  # noqa: S704 - it has no <, > or /
