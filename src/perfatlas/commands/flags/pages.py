"""Flags of the page of an answer, and of its charts as an image file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from perfatlas.commands.flags.chart_titles import may_be_title
from perfatlas.commands.flags.output import OUTPUT, RARE, File, default
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.report.charts import Script

PageScript = Annotated[Literal["inline", "cdn", "none"] | None, default("inline")]


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class PageFlags:
    """HTML page with its chart library, and its charts as an image.

    Args:
        html: Write an HTML page with charts.
        html_script: Source of plotly.js: inline (0.7 MB, works offline), cdn or the embedding page.
        figure: Write the charts of the page as an image, by extension PNG, SVG or PDF; needs
            matplotlib (pip install '.[plot]').
        figure_chart: Write only the chart of this title, or part of a title, to --figure.
    """

    html: File | None = None
    html_script: Annotated[PageScript, RARE] = None
    figure: File | None = None
    figure_chart: Annotated[str | None, RARE] = None

    @property
    def script(self) -> Script:
        """Source of plotly.js."""
        return self.html_script or "inline"

    def files(self) -> dict[str, File]:
        """Return the output files, by flag."""
        named = {"--html": self.html, "--figure": self.figure}
        return {flag: path for flag, path in named.items() if path is not None}

    def _check_chart(self, titles: Sequence[str]) -> None:
        """Refuse the name of a chart that a page does not have."""
        wanted = self.figure_chart
        if wanted is not None and not any(may_be_title(wanted, title) for title in titles):
            raise UsageError(
                f"--figure-chart '{wanted}': no chart has this title; the charts are:"
                f" {'; '.join(titles)}"
            )

    def check(self, titles: Sequence[str] = ()) -> None:
        """Refuse what could not be written, before anything is computed.

        Args:
            titles: Titles of all charts that the page may have; none if they follow from the answer
                alone.

        Raises:
            UsageError: An option of a file that is not written, an image of unknown format, one
                file for both, or a chart that the page does not have.
            MissingDependencyError: There is no matplotlib for an image.
        """
        if self.html_script is not None and self.html is None:
            raise UsageError(
                f"--html-script {self.html_script} has no effect without --html; give --html FILE,"
                " or leave --html-script out"
            )
        if self.figure_chart is not None and self.figure is None:
            raise UsageError(
                f"--figure-chart {self.figure_chart} has no effect without --figure; give --figure"
                " FILE, or leave --figure-chart out"
            )
        if titles:
            self._check_chart(titles)
        if self.html is not None and self.html == self.figure:
            raise UsageError(
                f"--html and --figure are both {self.html}, and the image would replace the page:"
                " set --figure to another file"
            )
        if self.figure is not None:
            from perfatlas.report.charts import figure_format, require_matplotlib

            figure_format(self.figure)
            require_matplotlib()
