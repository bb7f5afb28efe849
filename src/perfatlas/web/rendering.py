"""Pages and parts of pages from templates."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from fastapi.responses import Response

from perfatlas.web.forms import path_of

if TYPE_CHECKING:
    from jinja2 import Environment

COMMANDS_IN_HEADER: Final = (
    *("estimate", "compare", "search", "simulate", "train", "goodput", "kernel gemm", "profile"),
    "sweep",
)


def html_page(template: str, status: int, **content: object) -> Response:
    """Return a page from a template."""
    return Response(rendered(template, **content), status, media_type="text/html")


def fragment(content: str, **headers: str) -> Response:
    """Return a part of a page, with headers of htmx by name."""
    named = {f"HX-{name.replace('_', '-').title()}": text for name, text in headers.items()}
    return Response(content, media_type="text/html", headers={**named, "Vary": "HX-Request"})


def rendered(template: str, **content: object) -> str:
    """Return the text of a template."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    import jinja2

    from perfatlas.report.text import typeset

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perfatlas.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    links = [(path_of(name), name.partition(" ")[0]) for name in COMMANDS_IN_HEADER]
    environment.globals["links"] = [
        *links, ("/runs", "runs"), ("/report", "report"), ("/catalog/systems", "catalog")
    ]  # fmt: skip
    environment.filters["typeset"] = typeset
    return environment
