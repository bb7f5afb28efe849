"""The report of a run: printed, as one JSON object, or as a page of the documentation."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import perfatlas

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from timing import Row

HEAD: Final = """\
# {title}

Every figure on this page was written by

    {command}

Medians of one run, everything pinned to one core. *wall* is elapsed time, on a possibly
shared machine; *cpu* is the processor time of the same work, as on an idle
core. Goals apply to wall time. Peers that are not installed are noted in their rows:

    python -m venv peers
    peers/bin/pip install {peers}

Measured with {machine}.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Page:
    """Text of a page around its rows."""

    script: str  # Script that writes it, in this folder
    title: str
    peers: str  # Packages to install separately
    reading: str  # Description of the comparison, as Markdown


def add_report_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every report has.

    Args:
        parser: Parser of the script.
    """
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--page", type=Path, help="also write the report as Markdown")


def report(
    rows: Iterable[Row], asked: argparse.Namespace, about: Page, core: int | None
) -> list[Row]:
    """Print each row as soon as it is measured, or all as JSON; write the page if requested.

    Args:
        rows: The report; iterating measures.
        asked: With the flags of `add_report_flags`.
        about: Text of the page.
        core: Pinned core.

    Returns:
        The rows.
    """
    machine = _machine(core)
    measured = list(rows if asked.json else _printed(machine, rows))
    if asked.page is not None:
        asked.page.write_text(_page(about, machine, measured), encoding="utf-8")
    if asked.json:
        json.dump({**machine, "rows": [dataclasses.asdict(row) for row in measured]}, sys.stdout)
        sys.stdout.write("\n")
    return measured


def _command(script: str) -> str:
    """Return the command line without local paths."""
    words = [_portable(word) for word in sys.argv[1:]]
    return " ".join([f"python benchmarks/{script}", *words])


def _portable(word: str) -> str:
    return Path(word).name if word.startswith(("/", "..")) else word


def _machine(core: int | None) -> dict[str, Any]:
    """Return the description of the machine."""
    load = os.getloadavg() if hasattr(os, "getloadavg") else (float("nan"),)
    return {
        "perfatlas": perfatlas.__version__,
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "pinned_to_core": core,
        "load_average": round(load[0], 2),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _printed(machine: dict[str, Any], rows: Iterable[Row]) -> Iterator[Row]:
    """Print rows as they are measured, and yield them."""
    print("  ".join(f"{name} {value}" for name, value in machine.items()))
    print("wall: elapsed time, on a possibly shared machine; cpu: processor time of the same work")
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            print(f"\n{section}")
            print(f"  {'':62}{'wall':>12}{'cpu':>12} {'unit':5}{'goal':12}{'':5}runs")
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        print(
            f"  {row.name:62}{number(row.value):>12}{number(row.cpu_value):>12} {row.unit:5}"
            f"{row.goal:12}{verdict:7}{row.runs or '':>3}"
        )
        if row.note:
            print(f"      {row.note}")
        sys.stdout.flush()  # for those who read a log
        yield row


def _page(about: Page, machine: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return the report as Markdown."""
    text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in machine.items())
    command = _command(about.script)
    head = HEAD.format(title=about.title, command=command, peers=about.peers, machine=text)
    parts = [head]
    for section in dict.fromkeys(row.section for row in rows):
        parts.append(f"\n## {section[0].upper()}{section[1:]}\n")
        parts.append("| what | wall | cpu | goal | runs | how |\n|---|---|---|---|---|---|")
        parts += [_line(row) for row in rows if row.section == section]
    return "\n".join(parts) + "\n" + about.reading


def _line(row: Row) -> str:
    verdict = {None: "", True: ", met", False: ", **missed**"}[row.met]
    cells = [
        row.name,
        number(row.value, row.unit),
        number(row.cpu_value, row.unit),
        f"{row.goal}{verdict}",
        str(row.runs or ""),
        row.note,
    ]
    return f"| {' | '.join(cells)} |"


def number(value: float | None, unit: str = "") -> str:
    """Return a figure with its unit, a dash for none."""
    if value is None:
        return "-"
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".strip()
