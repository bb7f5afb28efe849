"""End of every answer: confidence, warnings, and the command that reproduces it."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import BOTTLENECK
from perfatlas.quantities import counted
from perfatlas.report.text.breakdown import WIDE_COLUMNS, break_name
from perfatlas.report.text.quantities import MISSING, format_interval, format_share, format_value
from perfatlas.report.text.rows import cells_of, print_labelled
from perfatlas.report.text.terminal import print_line, print_plain, typeset
from perfatlas.vocabulary.metrics import LOW_ENDING, METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    Calibrations = Sequence[Mapping[str, Any]]

METHODS: Final = {
    "exact": "closed form, exact",
    "simulate": "simulated",
    "erlang_b": "closed form, exact",
    "birth_death": "closed form, exact",
    "simpler_fleet": "closed form of a simpler fleet",
    "binomial": "closed form, exact",
    "order_statistics": "closed form for normal noise",
}
ROOFLINE: Final = "roofline"
TIERS: Final = {
    "bound": ROOFLINE,
    "physics": "analytical model",
    "measured": "measured tables",
    "pairs": "noise of formats",
}
MEANINGS: Final = {
    "measured": "analytical model corrected by measured rows",
    "bound": "a lower limit on time, without an interval",
    "physics": "an estimate with assumed losses, without an upper end",  # without a calibration
    "pairs": "fitted to published pairs; the 90% interval covers other model families",
}
WITH_LOSSES: Final = "roofline times and the losses of the engine, not validated"
KERNELS: Final = "measured kernels"
FITTED_TO: Final = {"schedule": "published steps"}  # by the operator of a calibration
MIXED: Final = "operators without measured kernels are at their roofline"
# what the interval covers, by the command or its first word
COVERED: Final = {
    "estimate": "the 90% interval covers errors of step times, not random arrivals",
    "simulate": "the 90% interval covers step times and, at a request rate, random traffic",
    "kernel": "the 90% interval covers such kernels on other machines, with cold caches",
    **{
        f"kernel op {operator}": (
            "the 90% interval covers such kernels on other machines, with activations in L2 where"
            " they fit"
        )
        for operator in ("norm", "softmax", "embedding", "elementwise")
    },
    "collective": "the 90% interval covers other machines, without other traffic",
}
CLIENTS_COVERED: Final = (
    "the 90% interval covers errors of step times; clients are spread evenly, those of a benchmark"
    " start together: --requests-per-client 10"
)
JOBS_COVERED: Final = "the 90% interval covers other machines, with no traffic but that of the jobs"
KERNELS_COVERED: Final = "the 90% interval covers kernel times, not engine scheduling and load"
STEPS_COVERED: Final = "the 90% interval has the errors of whole steps, not of single operators"
MAX_DEVICES: Final = 2  # by name
NARROW_COLUMNS: Final = 60
NUMBERS_WIDTH: Final = 28  # of the rows and errors, with their gaps and the indentation


def evidence_headline(evidence: Mapping[str, Any]) -> str:
    """Return one line: method, tier, and the rows that its calibrations are fitted to.

    Example:
        >>> from perfatlas.report.text import evidence_headline
        >>> evidence_headline({"tier": "bound", "calibrations": []})
        'roofline (bound), no calibration: a lower limit on time, without an interval'
    """
    support = f"{evidence['support']}: " if evidence.get("support") else ""
    calibrations: Calibrations = evidence.get("calibrations") or []
    if not calibrations:
        meaning = MEANINGS.get(str(evidence.get("tier"))) if evidence.get("tier") != "pairs" else ""
        return f"{support}{_tier(evidence)}, no calibration" + (f": {meaning}" if meaning else "")
    rows = sum(int(c.get("rows") or 0) for c in calibrations)
    fitted = f"{counted(len(calibrations), 'calibration')} on {rows:,} rows"
    return f"{support}{_tier(evidence)}, {fitted}"


def _tier(evidence: Mapping[str, Any]) -> str:
    """Return the description of the tier, with its name in brackets."""
    tier = str(evidence.get("tier") or MISSING)
    return f"{' and '.join(TIERS.get(name, name) for name in tier.split('+'))} ({tier})"


def confidence_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return up to three lines: tier and meaning, calibrations, coverage of the interval.

    Example:
        >>> from perfatlas.report.text.closing import confidence_lines
        >>> used = [{"id": "h200_sxm/gemm/vllm/bf16", "rows": 35742, "median_error": 0.065}]
        >>> evidence = {"tier": "physics", "support": "measured here", "calibrations": used}
        >>> answer = {"command": "kernel gemm", "results": {"time_s_low": 1e-5},
        ...           "evidence": evidence}
        >>> for line in confidence_lines(answer):
        ...     print(line)
        measured here: analytical model (physics) fitted to measured kernels
        1 calibration on 35,742 rows of h200_sxm, median error 6.5%
        the 90% interval covers such kernels on other machines, with cold caches
    """
    evidence = answer["evidence"]
    tiers = str(evidence.get("tier") or "").split("+")
    calibrations: Calibrations = evidence.get("calibrations") or []
    ids = [str(calibration.get("id") or "").split("/") for calibration in calibrations] or [[]]
    fitted_to = list(dict.fromkeys(FITTED_TO.get("".join(parts[1:2]), KERNELS) for parts in ids))
    fitted = {"physics": f"fitted to {' and '.join(fitted_to)}"} if calibrations else {}
    meanings = MEANINGS | fitted
    results = answer.get("results") or {}
    if (results.get("step_time_s_low") or math.inf) < (results.get("step_time_s") or 0.0):
        meanings["bound"] = WITH_LOSSES  # only the lower end of a training step is a limit
    meaning = meanings.get(tiers[0], "") if len(tiers) == 1 else MIXED
    joint = " " if meaning and meaning in fitted.values() else ": "
    lines = [f"{_tier(evidence)}{joint}{meaning}" if meaning else _tier(evidence)]
    if evidence.get("support"):
        lines[0] = f"{evidence['support']}: {lines[0]}"
    if not calibrations:
        return lines
    rows = sum(int(c.get("rows") or 0) for c in calibrations)
    devices = _devices(calibrations)
    largest = max(calibrations, key=lambda c: int(c.get("rows") or 0))
    which = "median error of the largest" if len(calibrations) > 1 else "median error"
    where = ", ".join(devices) if len(devices) <= MAX_DEVICES else f"{len(devices)} devices"
    lines.append(
        f"{counted(len(calibrations), 'calibration')} on {rows:,} rows of {where},"
        f" {which} {_error(largest.get('median_error'))}"
    )
    covered = _covered(answer) if KERNELS in fitted_to else STEPS_COVERED
    if covered and _has_interval(answer.get("results") or {}):
        lines.append(covered)
        lines += _tabulated(answer) if KERNELS in fitted_to else []
    return lines


def _tabulated(answer: Mapping[str, Any]) -> list[str]:
    """Return the interval on the machine that was measured, if it is another one."""
    results, system = answer["results"], (answer.get("scenario") or {}).get("system")
    low_s, high_s = results.get("tabulated_low_s"), results.get("tabulated_high_s")
    if low_s is None or high_s is None or high_s == results["time_s_high"]:
        return []
    devices = _devices(answer["evidence"]["calibrations"])
    where = "the measured machine" if devices == [system] else ", ".join(devices)
    return [f"as tabulated, on {where}: {format_interval('time_s', low_s, high_s)}"]


def _devices(calibrations: Calibrations) -> list[str]:
    """Return the devices that calibrations were measured on."""
    return list(
        dict.fromkeys(
            str(calibration.get("id") or MISSING).partition("/")[0] for calibration in calibrations
        )
    )


def _covered(answer: Mapping[str, Any]) -> str | None:
    """Return what the interval covers, None if the command has none."""
    command = str(answer.get("command") or "").partition(" ")[0]
    asked = answer.get("scenario") or {}
    engine = str(asked.get("engine") or "").partition("@")[0]
    if command == "estimate" and engine.lower() == "ideal":
        return KERNELS_COVERED
    together = asked.get("mode") != "aggregated" or asked.get("requests_per_client")
    if command == "estimate" and not together and (asked.get("concurrency") or 1) > 1:
        return CLIENTS_COVERED
    if command == "collective" and asked.get("concurrent_jobs", 1) > 1:
        return JOBS_COVERED
    return COVERED.get(str(answer.get("command")), COVERED.get(command))


def _has_interval(results: Mapping[str, Any]) -> bool:
    """Return whether any result, or the first of its rows, has the low end of an interval."""
    points = results.get("frontier") or [results]
    return any(name.endswith(LOW_ENDING) and value is not None for name, value in points[0].items())


def calibration_table(calibrations: Calibrations, *, width: int) -> Table:
    """Return a table of calibrations with rows and errors."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("  calibration", overflow="fold", header_style="dim")
    for name in ("rows", "median error" if width >= NARROW_COLUMNS else "median", "p90"):
        table.add_column(name, justify="right", no_wrap=True, header_style="dim")
    for cells in cells_of(calibrations, CALIBRATION_COLUMNS):
        name, *numbers = cells.values()
        table.add_row(break_name(name, max(width - NUMBERS_WIDTH, 16)), *numbers)
    return table


def _error(error: float | None) -> str:
    return MISSING if error is None else format_share(error)


CALIBRATION_COLUMNS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "calibration": lambda row: str(row.get("id", MISSING)),
    "rows": lambda row: f"{int(row.get('rows') or 0):,}",
    "median error": lambda row: _error(row.get("median_error")),
    "p90 error": lambda row: _error(row.get("p90_error")),
}


def evidence_lines(evidence: Mapping[str, Any], *, width: int) -> list[tuple[str, str]]:
    """Return (label, text) lines for protocols, assumptions, sources and data versions.

    Args:
        width: Maximum width; measurement protocols are shown if they fit.
    """
    measured = [c.get("protocol") for c in evidence.get("calibrations") or []]
    lines = [("measured", str(p)) for p in dict.fromkeys(measured) if p and width >= WIDE_COLUMNS]
    lines += [("assumes", typeset(str(text))) for text in evidence.get("assumptions") or []]
    lines += [("source", str(text)) for text in evidence.get("sources") or []]
    versions = evidence.get("data_versions") or {}
    return lines + [("version", f"{name} {version}") for name, version in versions.items()]


def evidence_left_out(answer: Mapping[str, Any]) -> str:
    """Return one line on what only --verbose shows, "" for nothing.

    Example:
        >>> from perfatlas.report.text.closing import evidence_left_out
        >>> evidence_left_out({"evidence": {"assumptions": ["cold caches"], "sources": []}})
        '--verbose shows 1 assumption'
    """
    evidence = answer.get("evidence") or {}
    counts = [
        counted(len(evidence[f"{noun}s"]), noun)
        for noun in ("calibration", "assumption", "source")
        if evidence.get(f"{noun}s")
    ]
    priced = [row for row in answer.get("breakdown") or () if "phase" in row]
    operators = ["all operators"] if len(priced) > 1 else []
    return f"--verbose shows {', '.join([*operators, *counts])}" if counts else ""


INDENT: Final = 2
COST_NOTE: Final = "cost: "  # begins what names a price
MAX_LINES: Final = 6  # of warnings of a brief answer; the first are the gravest


def print_closing(
    console: Console,
    answer: Mapping[str, Any],
    *,
    reproduce: str,
    method: str = "",
    covered: str = "",
    verbose: bool = False,
) -> None:
    """Write confidence, warnings and the command of an answer.

    Args:
        method: Description of the method; derived from tier and calibrations by default.
        covered: What its intervals cover, if the method is set.

    Example:
        >>> import sys
        >>> from perfatlas.report.text import open_terminal, print_closing
        >>> answer = {"evidence": {"tier": "exact"}, "warnings": ["few replicas"]}
        >>> print_closing(open_terminal(sys.stdout), answer, reproduce="...", method="closed form")
        <BLANKLINE>
        confidence: closed form
        warning: few replicas
        reproduce: ...
    """
    if answer.get("evidence"):
        console.print()
        if verbose:
            evidence = answer["evidence"]
            print_line(
                console, f"confidence: {method or evidence_headline(evidence)}", style="bold"
            )
            if calibrations := evidence.get("calibrations"):
                print_plain(console, calibration_table(calibrations, width=console.width))
            versions = (
                [("version", f"perfatlas {answer['version']}")] if "version" in answer else []
            )
            print_labelled(console, [*evidence_lines(evidence, width=console.width), *versions])
            whole = METRICS["parts_usd_per_million_output_tokens"]
            parts = (answer.get("results") or {}).get(whole.name)
            if parts:
                shown = (
                    f"{label} {format_value(whole.name, parts[name])}"
                    for name, label in whole.parts.items()
                    if parts[name] or name == "gpu"
                )
                print_line(console, f"{whole.label} (per million): {', '.join(shown)}")
        else:
            lines = [method, typeset(covered)] if method else confidence_lines(answer)
            first, *rest = [line for line in lines if line]
            print_line(console, f"confidence: {first}", style="bold")
            for line in rest:
                for part in textwrap.wrap(line, console.width - INDENT):
                    print_line(console, f"{' ' * INDENT}{part}")
    _print_warnings(console, answer, verbose=verbose)
    if verbose:
        console.print()
    for price in () if verbose else _prices(answer):
        print_line(console, price, style="dim")
    if not verbose and (left_out := evidence_left_out(answer)):
        print_line(console, left_out, style="dim")
    # not wrapped, so that it can be copied
    print_plain(console, f"reproduce: {reproduce}", style="dim", wrap=False)


def _prices(answer: Mapping[str, Any]) -> list[str]:
    """Return what GPUs cost as one line, shorter for several systems; empty without a price."""
    notes = answer.get("evidence", {}).get("assumptions") or ()
    prices = [note.partition(";")[0] for note in notes if note.startswith(COST_NOTE)]
    if len(prices) > 1:
        each = (price.removeprefix(COST_NOTE).partition(" per GPU-hour")[0] for price in prices)
        prices = [f"cost per GPU-hour: {'; '.join(each)}"]
    return [typeset(price) for price in prices]


def _print_warnings(console: Console, answer: Mapping[str, Any], *, verbose: bool) -> None:
    texts = [str(warning) for warning in answer.get("warnings") or []]
    warnings = [typeset(text) for text in texts if not text.startswith(BOTTLENECK)]
    if warnings and verbose:
        console.print()
    lines = 0
    for number, warning in enumerate(warnings):
        text = f"warning: {warning}"
        lines += -(-len(text) // console.width)
        if number and lines > MAX_LINES and not verbose:
            remaining = len(warnings) - number
            print_line(console, f"warning: {remaining:,} more, shown by --verbose", style="yellow")
            break
        print_line(console, text, style="yellow")
