"""An answer in Python and notebooks: text, a part of its page, plots, data frames."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

from perfatlas.declarations import page_of
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

FRAMES: Final = ("polars", "pandas")  # in order of preference


class ShownPage(Protocol):
    """What an answer uses of its page."""

    def text(self) -> str:
        """Return the question and the key numbers as text."""

    def part(self) -> str:
        """Return the question, the key numbers and the main chart as HTML."""

    def plot(self, kind: str | None) -> Any:  # noqa: ANN401 - a figure of matplotlib
        """Return the charts, or the one of a title, as a figure of matplotlib."""


class Displayed:
    """Text, HTML, plots and frames of an answer; its charts are those of its page."""

    if TYPE_CHECKING:

        @property
        def command(self) -> str:
            """The verb."""

        @property
        def columns(self) -> dict[str, list[Any]]:
            """The results as columns of a table."""

        def to_dict(self) -> dict[str, Any]:
            """Return the envelope as plain data."""

    def _page(self) -> ShownPage:
        """Return the page of the answer, with what it has beside its envelope."""
        page: ShownPage = page_of(self.command)(self.to_dict(), reproduce="", **self._beside())
        return page

    def _beside(self) -> dict[str, Any]:
        """Return the arguments of the page beside the envelope."""
        return {}

    def __str__(self) -> str:
        """Return the question and the key numbers with their intervals."""
        return self._page().text()

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the question, the key numbers, the main chart."""
        return self._page().part()

    def plot(self, kind: str | None = None) -> Any:  # noqa: ANN401 - a figure of matplotlib
        """Return the charts of the answer's page as a figure of matplotlib.

        Args:
            kind: Title of a chart, or a part of it; all charts by default.
        """
        return self._page().plot(kind)

    def to_frame(self, table: str = "") -> Any:  # noqa: ANN401 - of polars or pandas
        """Return a table of the answer as a data frame of polars or pandas, whichever is installed.

        Args:
            table: "breakdown", or a list of rows in `results`, such as "frontier"; `columns` by
                default.
        """
        columns = self.columns
        if table:
            columns = _columns(self.to_dict(), table)
        for library in FRAMES:
            if find_spec(library) is not None:
                return import_module(library).DataFrame(columns)
        raise MissingDependencyError(
            "data frames need polars or pandas: pip install polars (or pandas); `columns` has the"
            " same numbers without them"
        )


def _columns(answer: Mapping[str, Any], table: str) -> dict[str, list[Any]]:
    """Return the columns of the breakdown of an answer, or of results that are a list of rows."""
    lists = {"breakdown": answer["breakdown"], **answer["results"]}
    tables = {name: rows for name, rows in lists.items() if isinstance(rows, list)}
    known = [name for name, rows in tables.items() if all(isinstance(row, dict) for row in rows)]
    if table not in known:
        raise InvalidSpecError(
            f"table = {table!r}: the answer has no such table{did_you_mean(table, known)}; it has"
            f" {', '.join(known)}"
        )
    names = dict.fromkeys(name for row in tables[table] for name in row)
    return {name: [row.get(name) for row in tables[table]] for name in names}
