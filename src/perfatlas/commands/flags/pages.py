"""Flags of the HTML page of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from perfatlas.commands.flags.output import OUTPUT, File, default
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from perfatlas.report.charts import Script

PageScript = Annotated[Literal["inline", "cdn", "none"] | None, default("inline")]


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class PageFlags:
    """HTML page and its chart library.

    Args:
        html: Write an HTML page with charts.
        html_script: Source of plotly.js: inline (2 MB, works offline), cdn or the embedding page.
    """

    html: File | None = None
    html_script: PageScript = None

    @property
    def script(self) -> Script:
        """Source of plotly.js.

        Raises:
            UsageError: It is set without a page.
        """
        if self.html_script is not None and self.html is None:
            raise UsageError(
                f"--html-script {self.html_script} has no effect without --html; give --html FILE,"
                " or leave --html-script out"
            )
        return self.html_script or "inline"
