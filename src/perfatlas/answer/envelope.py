"""The answer of a computing verb, with the same envelope in CLI, Python and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

from perfatlas.declarations import page_of, rows_of
from perfatlas.quantities import InvalidSpecError, MissingDependencyError, did_you_mean
from perfatlas.version import __version__

FRAMES: Final = ("polars", "pandas")  # in order of preference


SCHEMA: Final = "perfatlas/2"
BOTTLENECK: Final = "bottleneck: "  # start of a warning that leads the answer


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
            table: "breakdown", or a list of rows in `results`, such as "frontier" or
                "fleet.causes"; `columns` by default.
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
    tables = _tables(answer["results"]) | {"breakdown": answer["breakdown"]}
    if table not in tables:
        raise InvalidSpecError(
            f"table = {table!r}: the answer has no such table{did_you_mean(table, tables)};"
            f" it has {', '.join(tables)}"
        )
    return _row_columns(tables[table])


def _tables(results: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the lists of rows in results, by name; those of an object by dotted names."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, value in results.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": rows for inner, rows in _tables(value).items()}
        elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
            found[name] = value
    return found


def _row_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _table(command: str, results: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return results as columns: the rows that the command declares, or single values as one row.

    Results without single values, as those of a catalog, are their first list of rows.
    """
    declared = rows_of(command)
    single = dict(flat_results(results))
    tables = _tables(results)
    if tables and (declared or not single):
        return _row_columns(tables[declared if declared in tables else next(iter(tables))])
    return {name: [value] for name, value in single.items()}


class CommandAnswer(Displayed, dict[str, Any]):
    """The answer of a command as the dict that --json prints; its keys are attributes too."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of any key
        """Return a part of the envelope."""
        if name not in self:
            raise AttributeError(f"an answer has no attribute {name!r}; it has {', '.join(self)}")
        return self[name]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The results as columns of a table."""
        return _table(self["command"], self["results"])

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as plain data."""
        return dict(self)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Evidence for the numbers of an answer."""

    tier: str  # Pricing tier; "physics+bound" if some operators have no physics model
    calibrations: tuple[Mapping[str, Any], ...] = ()
    # Versions and hashes that reproduce the answer, by name
    data_versions: Mapping[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()  # Assumptions, as sentences
    sources: tuple[str, ...] = ()  # References of the specs
    support: str = ""  # What supports the time, one of `engines.SUPPORT`; "" where none is known


@dataclass(frozen=True, kw_only=True)
class Answer(Displayed):
    """The answer to one scenario."""

    command: str
    scenario: Mapping[str, Any]  # The input with everything resolved; it reproduces the answer
    results: Mapping[str, Any]  # Results by name [SI, unit in the name]
    # Rows of name, phase, count, time_s, share, bound, bound_time_s, tier, calibration, stream
    breakdown: Sequence[Mapping[str, Any]]
    evidence: Evidence
    # Warnings to read before relying on it; that kernels of another vendor's GPUs price it is added
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Add what the evidence warns of."""
        rows = self.evidence.calibrations
        note = other_vendors_note(row.get("foreign_device", "") for row in rows)
        if note and note not in self.warnings:
            object.__setattr__(self, "warnings", (*self.warnings, note))

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The results as columns of a table, ready for a DataFrame.

        The table has one row of numbers: nested keys are joined, as in `ttft_s_p99`; lists and time
        series are omitted. That of `compare` has a row per scenario.
        """
        return _table(self.command, _plain(self.results))

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as plain data, ready for JSON; numbers are finite or null.

        An infinite field of the scenario is the text "inf", which asks the same again.
        """
        envelope = {
            "schema": SCHEMA,
            "version": __version__,
            "command": self.command,
            "scenario": {
                name: "inf" if value == math.inf else value for name, value in self.scenario.items()
            },
            "results": self.results,
            "breakdown": list(self.breakdown),
            "evidence": {
                "tier": self.evidence.tier,
                "support": self.evidence.support or None,
                "calibrations": list(self.evidence.calibrations),
                "data_versions": dict(self.evidence.data_versions),
                "assumptions": list(self.evidence.assumptions),
                "sources": list(self.evidence.sources),
            },
            "warnings": list(self.warnings),
        }
        plain: dict[str, Any] = _plain(envelope)
        return plain


@dataclass(frozen=True, kw_only=True)
class AnsweredRun(Displayed):
    """An answer together with the run that produced it; it has the attributes of the answer."""

    answer: Answer

    @property
    def command(self) -> str:
        """The verb."""
        return self.answer.command

    @property
    def scenario(self) -> Mapping[str, Any]:
        """The input with everything resolved; it reproduces the answer."""
        return self.answer.scenario

    @property
    def results(self) -> Mapping[str, Any]:
        """Results by name [SI, unit in the name]."""
        return self.answer.results

    @property
    def breakdown(self) -> Sequence[Mapping[str, Any]]:
        """Rows of the time breakdown."""
        return self.answer.breakdown

    @property
    def evidence(self) -> Evidence:
        """Evidence for the numbers."""
        return self.answer.evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before relying on it."""
        return self.answer.warnings

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The results as columns of a table, ready for a DataFrame."""
        return self.answer.columns

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as plain data, ready for JSON; numbers are finite or null."""
        return self.answer.to_dict()


def other_vendors_note(devices: Iterable[str]) -> str:
    """Return that kernels of another vendor's GPUs price an answer, "" where none do.

    Args:
        devices: Devices of another vendor that its calibrations were measured on, "" for none.
    """
    donors = dict.fromkeys(filter(None, devices))
    if not donors:
        return ""
    return (
        f"kernels of another vendor's GPUs ({', '.join(donors)}): the interval is that of both"
        " vendors"
    )


def flat_results(results: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield results as table cells; distributions yield one per statistic, as in ttft_s_p99.

    Lists and time series are omitted.

    Example:
        >>> from perfatlas.answer.envelope import flat_results
        >>> dict(flat_results({"steps": 3, "ttft_s": {"mean": 0.1, "p99": 0.2}, "classes": []}))
        {'steps': 3, 'ttft_s_mean': 0.1, 'ttft_s_p99': 0.2}
    """
    for name, value in results.items():
        if isinstance(value, Mapping):
            if any(isinstance(inner, list) for inner in value.values()):
                continue
            yield from ((f"{name}_{inner}", cell) for inner, cell in flat_results(value))
        elif not isinstance(value, list):
            yield name, value


def _plain(value: Any) -> Any:  # noqa: ANN401 - walks JSON-like data of any shape
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
