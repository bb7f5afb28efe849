"""`perfatlas fleet import` and `fleet fit`: from cluster logs to a fleet for simulation."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from perfatlas.commands.flags import (
    SWITCH,
    WITHOUT_NEGATIVE_FLAG,
    Count,
    File,
    PageFlags,
    PageScript,
    Seconds,
    changed_flags,
    default,
)
from perfatlas.commands.output import envelope, print_json, require, write_page_files
from perfatlas.declarations import example_of
from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import (
    InvalidSpecError,
    UsageError,
    counted,
    printable,
    repr_for_error,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.reliability.telemetry.fleets import FleetFit
    from perfatlas.reliability.telemetry.formats import ImportOptions
    from perfatlas.reliability.telemetry.history import History
    from perfatlas.report.pages import Page

    Format = str
else:
    from perfatlas.reliability.telemetry.formats import format_names

    Format = Literal[format_names()]  # the modules of the formats are listed

LOG: Final = ("format", "zone", "year", "node")  # flags that tell how a log is read
_SHOWN: Final = ("json", "verbose")  # how the answer is shown


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ImportFlags:
    """Log format and its options.

    Args:
        output: File for the history; its extension selects the format.
        zone: Time zone of times without one, such as UTC or Europe/Berlin.
        year: Year of the first line of a log whose times have none.
        boot: Boot time of the machine, for times relative to it: ISO 8601 with a zone.
        node: Host of a log whose lines name none.
        coalesce_s: Seconds within which repeats of an Xid on a GPU count as one event.
        json: Print one JSON object.
    """

    format: Format | None = None
    output: File | None = None
    zone: str | None = None
    year: Count = None
    boot: str | None = None
    node: str | None = None
    coalesce_s: Annotated[float | None, default("5")] = None
    json: Annotated[bool, SWITCH] = False


def import_(files: list[File], /, *, flags: ImportFlags | None = None) -> int:
    """Import logs; return the exit code.

    Args:
        files: Logs of one format, in chronological order.
        flags: Format and options.
    """
    from perfatlas.reliability.telemetry.formats import import_logs
    from perfatlas.reliability.telemetry.history import write_history

    flags = flags or ImportFlags()
    set_fields = changed_flags(flags)
    require(set_fields, ("format", "output"), example=example_of("fleet import"))
    check_writable(str(flags.output))
    history = import_logs(str(flags.format), files, _options(flags)).history
    write_history(str(flags.output), history)
    for file in history.files:
        if not file.total:
            sys.stderr.write(
                printable(f"perfatlas: warning: {file.path} contains no {file.unit}\n")
            )
    results = _imported(history) | {"output": str(flags.output)}
    if flags.json:
        set_fields = {name: value for name, value in set_fields.items() if name != "json"}
        told = {name: str(value) for name, value in set_fields.items()}
        print_json(envelope("fleet import", results=results, scenario=told))
        return 0
    _print_imported(history, results)
    return 0


def _options(flags: ImportFlags) -> ImportOptions:
    from perfatlas.reliability.telemetry.formats import COALESCE_S, ImportOptions
    from perfatlas.reliability.telemetry.reading import LogClock, epoch_seconds

    boot_s = None if flags.boot is None else epoch_seconds(flags.boot, flags.zone)
    return ImportOptions(
        clock=LogClock(zone=flags.zone, year=flags.year, boot_s=boot_s, node=flags.node or ""),
        coalesce_s=COALESCE_S if flags.coalesce_s is None else flags.coalesce_s,
    )


def _imported(history: History) -> dict[str, Any]:
    return {
        "events": history.size,
        "runs": history.occupancy.size if history.occupancy else None,
        "kinds": dict(Counter(history.kind.text())),
        "files": [asdict(file) for file in history.files],
    }


def _print_imported(history: History, results: Mapping[str, Any]) -> None:
    from perfatlas.reliability.telemetry.reading import reasons
    from perfatlas.report.text import open_terminal, print_facts
    from perfatlas.verbs.fleet.blocks import kind_text

    console = open_terminal(sys.stdout)
    kinds = ", ".join(kind_text(kind, count) for kind, count in results["kinds"].items())
    console.print(counted(history.size, "event") + (f": {kinds}" if kinds else ""))
    if results["runs"] is not None:
        console.print(f"{counted(results['runs'], 'run')} of jobs, for the exposure of nodes")
    for file in history.files:
        console.print(f"{file.path}: {file.size}", soft_wrap=True)
        counts = {"merged": file.merged, "ignored": file.ignored, "repaired": file.repaired}
        told: dict[str, Any] = {"parsed": f"{file.parsed:,}"}
        print_facts(console, told | {name: reasons(of, file.first) for name, of in counts.items()})
    console.print(f"history written to {results['output']}", soft_wrap=True)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FitFlags:
    """Facts that the logs do not contain.

    Args:
        nodes: Number of observed nodes, including those without failures.
        gpus_per_node: GPUs of a node.
        start: Start of the observation, ISO 8601 with a zone.
        end: End of the observation.
        units: Number of units of a component, such as nic=16384; repeatable.
        kinds: Kinds of events that count as failures: failure, unclear, ...; repeatable.
        service_start: Table of component, node, device and start: when units entered service.
        repaired: Whether a repair renews the age of a unit for its cause, or keeps it.
        open_is_down: Count an event without a recovery as still down at the end.
        cascade_s: Seconds after the first failure of a device in which others are its effects.
        match_s: Seconds within which records of several logs about one node are one failure.
        output: File for the fleet; its evidence is written beside it.
        json: Print one JSON object.
        verbose: Print all causes, nodes, laws and assumptions.
    """

    nodes: Count = None
    gpus_per_node: Annotated[Count, default("8")] = None
    start: str | None = None
    end: str | None = None
    units: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None
    kinds: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None
    service_start: File | None = None
    repaired: Annotated[Literal["as_new", "as_old"] | None, default("as_new")] = None
    open_is_down: Annotated[bool | None, SWITCH] = None
    cascade_s: Annotated[Seconds, default("60")] = None
    match_s: Annotated[Seconds, default("600")] = None
    output: File | None = None
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False


def fit(files: list[File], /, *, flags: FitFlags | None = None) -> int:
    """Fit a fleet; return the exit code.

    Args:
        files: Histories from `fleet import`.
        flags: Further facts about the cluster.
    """
    from perfatlas.reliability.telemetry.fleets import write_fleet
    from perfatlas.reliability.telemetry.formats import import_logs

    flags = flags or FitFlags()
    history = import_logs("table", files).history
    example = example_of("fleet fit")
    if history.size:
        from perfatlas.reliability.telemetry.history import utc

        first, last = utc(float(history.start_s_E[0])), utc(float(history.start_s_E[-1]))
        example += f"; its events are from {first} to {last}, the observation may be longer"
    require(changed_flags(flags), ("nodes", "start", "end", "output"), example=example)
    fitted = _fitted(history, flags)
    beside = write_fleet(str(flags.output), fitted)
    results = _results(fitted) | {"nodes": flags.nodes}
    results |= {"output": str(flags.output), "evidence": str(beside)}
    told = {name: value for name, value in changed_flags(flags).items() if name not in _SHOWN}
    scenario = {name: str(value) for name, value in told.items()}
    answer = envelope("fleet fit", results=results, scenario=scenario)
    if flags.json:
        print_json(answer)
        return 0
    from perfatlas.report.pages import print_page
    from perfatlas.report.text import open_terminal, reproduce_line
    from perfatlas.verbs.fleet.blocks import fitted_page

    if len(files) == 1:  # one log has no other to agree with
        answer["results"]["log_agreement"] = None
    line = " ".join(
        [reproduce_line("fleet fit", told), *(shlex.quote(str(path)) for path in files)]
    )
    page = fitted_page(answer, reproduce=line)
    print_page(open_terminal(sys.stdout), page, verbose=flags.verbose)
    return 0


def _counts_of(texts: Sequence[str]) -> dict[str, int]:
    """Return the number of units of each component.

    Args:
        texts: Texts such as nic=16384.
    """
    found = {}
    for text in texts:
        name, _, count = text.partition("=")
        if not name or not count.isdigit():
            raise InvalidSpecError(
                f"units = {repr_for_error(text)}: expected a component and a count, such as"
                " nic=16384"
            )
        found[name] = int(count)
    return found


def _fitted(history: History, flags: FitFlags) -> FleetFit:
    from perfatlas.reliability.telemetry.fleets import FleetOptions, fit_fleet
    from perfatlas.reliability.telemetry.history import observation_windows, with_service_starts
    from perfatlas.reliability.telemetry.reading import epoch_seconds

    nodes = flags.nodes or 0
    watches = observation_windows(
        history,
        nodes=nodes,
        gpus_per_node=8 if flags.gpus_per_node is None else flags.gpus_per_node,
        window_s=(epoch_seconds(flags.start, None), epoch_seconds(flags.end, None)),
        units=_counts_of(flags.units or []),
    )
    if flags.service_start is not None:
        watches = with_service_starts(watches, str(flags.service_start))
    plain = FleetOptions()
    options = FleetOptions(
        kinds=tuple(flags.kinds) if flags.kinds else plain.kinds,
        repair=flags.repaired or plain.repair,
        open_is_down=bool(flags.open_is_down),
        cascade_s=plain.cascade_s if flags.cascade_s is None else flags.cascade_s,
        match_s=plain.match_s if flags.match_s is None else flags.match_s,
    )
    return fit_fleet(history, watches, nodes, options)


def _results(fitted: FleetFit) -> dict[str, Any]:
    from perfatlas.reliability.telemetry.fleets import evidence_document, fleet_document

    evidence, fleet = evidence_document(fitted), fleet_document(fitted)
    laws = {cause["name"]: cause["lifetime"]["law"] for cause in fleet["cause"]}
    rows = [
        {**row, "law": laws.get(row["name"], "merged with others of its component")}
        for row in evidence["cause"]
    ]
    kinds = Counter(fitted.history.kind.text())
    left_out = {kind: n for kind, n in kinds.items() if kind not in fitted.options.kinds}
    return {
        "nodes": fitted.nodes,
        "utilization": evidence["utilization"],
        "availability": evidence["availability"],
        "log_agreement": evidence["log_agreement"],
        "effects": fitted.cascades,
        "left_out": left_out,
        "causes": rows,
    }


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Format of a log, and output of the page.

    Args:
        format: Format of a log of a cluster; a fleet and a history need none.
        zone: Time zone of times without one, such as UTC or Europe/Berlin.
        year: Year of the first line of a log whose times have none.
        node: Host of a log whose lines name none.
        output: The HTML page.
        html_script: Source of plotly.js: inline (0.7 MB, works offline), cdn or the embedding page.
        figure: Write the charts of the page as an image: PNG, SVG or PDF.
        figure_chart: Write only the chart of this title, or part of a title, to --figure.
        json: Print the contents as one JSON object.
    """

    format: Format | None = None
    zone: str | None = None
    year: Count = None
    node: str | None = None
    output: Annotated[File | None, Parameter(alias="-o")] = None
    html_script: PageScript = None
    figure: File | None = None
    figure_chart: str | None = None
    json: Annotated[bool, SWITCH] = False


def report(subject: str, /, *, flags: ReportFlags | None = None) -> int:
    """Write a report; return the exit code.

    Args:
        subject: A fleet (llama3, rsc1 or a TOML file), a history (a table of fleet import), or a
            log with --format.
        flags: Output of the page.
    """
    from perfatlas.reliability.fleet.model import shipped_fleets
    from perfatlas.report.pages import page_html

    flags = flags or ReportFlags()
    if not flags.json and flags.figure is None:
        require(changed_flags(flags), ("output",), example=example_of("fleet report"))
    image = PageFlags(figure=flags.figure, figure_chart=flags.figure_chart)
    image.check()
    for path in filter(None, (flags.output, flags.figure)):
        check_writable(path)
    is_fleet = subject in shipped_fleets() or Path(subject).suffix == ".toml"
    if is_fleet and flags.format:
        raise UsageError(f"--format {flags.format}: '{subject}' is a fleet, not a log")
    facts = _fleet(subject) if is_fleet else _history(subject, flags)
    read = {name: value for name in LOG if (value := getattr(flags, name)) is not None}
    answer = envelope("fleet report", results=facts, scenario={"subject": subject, **read})
    if flags.output is not None or flags.figure is not None:
        page = _page(answer, flags)
        if flags.output is not None:
            write_atomic(flags.output, page_html(page, script=flags.html_script or "inline"))
            sys.stderr.write(printable(f"perfatlas: --output written to {flags.output}\n"))
        write_page_files(image, page)
    if flags.json:
        print_json(answer)
    return 0


def _fleet(subject: str) -> dict[str, Any]:
    from perfatlas.reliability.fleet.model import fleet_facts, read_evidence, resolve_fleet

    return {
        "fleet": fleet_facts(resolve_fleet(subject)),
        "evidence": read_evidence(subject),
    }


def _history(subject: str, flags: ReportFlags) -> dict[str, Any]:
    """Return the facts of a history, or of a log of a format."""
    from perfatlas.reliability.telemetry.formats import import_logs
    from perfatlas.reliability.telemetry.history import history_facts, read_history

    if flags.format is None:
        return {"history": history_facts(read_history(subject))}
    options = _options(ImportFlags(zone=flags.zone, year=flags.year, node=flags.node))
    history = import_logs(flags.format, [subject], options).history
    return {"history": history_facts(history)}


def _page(answer: Mapping[str, Any], flags: ReportFlags) -> Page:
    from perfatlas.verbs.fleet.blocks import report_page

    asked = {**answer["scenario"], "output": flags.output}
    subject = asked.pop("subject")
    words = [f"--{name}={value}" for name, value in asked.items() if value is not None]
    line = shlex.join(["perfatlas", "fleet", "report", subject, *words])
    return report_page(answer, reproduce=line)
