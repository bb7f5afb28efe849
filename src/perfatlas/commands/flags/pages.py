"""The HTML page of an answer, as flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Group, Parameter

from perfatlas.commands.flags.output import File, default
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from perfatlas.report.charts import Script

_OUTPUT: Final = Group("Output", sort_key=7)
PageScript = Annotated[Literal["inline", "cdn", "none"] | None, default("inline")]


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True, kw_only=True)
class PageFlags:
    """Where a page goes, and where it gets the library that draws its charts.

    Args:
        html: Write an HTML page with charts.
        html_script: Where the page gets plotly.js: inline (2 MB in the page, which opens without a
            network), cdn (a link to cdn.plot.ly) or none (the page that embeds it has it).
    """

    html: File | None = None
    html_script: PageScript = None

    @property
    def script(self) -> Script:
        """Where the page gets plotly.js.

        Raises:
            UsageError: It is told, and there is no page.
        """
        if self.html_script is not None and self.html is None:
            raise UsageError(
                f"--html-script {self.html_script} has no effect without --html; give --html FILE,"
                " or leave --html-script out"
            )
        return self.html_script or "inline"
