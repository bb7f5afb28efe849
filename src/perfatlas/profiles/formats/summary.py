"""Summaries by kernel, with any text around them: the calls and the total time of each kernel.

Source: `nsys stats` (cuda_gpu_kern_sum as CSV and text), torch/autograd/profiler_util.py of PyTorch
    (`key_averages().table()`), and the statistics that rocprof and rocprofv3 write.
"""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.profiles import events
from perfatlas.profiles.formats.lines import MAX_LINE, text_lines
from perfatlas.profiles.formats.ncu import UNITS_S
from perfatlas.quantities import InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT_NAME: Final = "summary"
MAX_CHARACTERS: Final = 1 << 22
MAX_TIME_S: Final = 1e9
SHARE_TOLERANCE: Final = 1.0  # of the sum of the shares of a table [%]
ROUNDED: Final = 0.05  # of the share of a row [%]
_NUMBER: Final = re.compile(r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,18})(\.\d{1,18})? ?([a-zµ%]{0,7})")
_OTHER: Final = {"Source", "Style", "Range", "Category", "Operation"}  # columns of other reports
_HOST: Final = re.compile(r"_*hip[A-Z]\w*|hsa_\w+|[A-Z]+(?:_[A-Z]+)+")  # rows of calls and domains


class Summary(NamedTuple):
    """The tables of one tool."""

    format: str
    sign: tuple[str, ...]  # What the headers of all its tables have
    # Calls; total time, in ns unless column or cell have a unit; share of the total of all rows [%]
    columns: tuple[str, str, str]
    command: str  # What writes the summary of kernels
    timeline: str  # What writes the timeline


_SUMMARIES: Final = (
    Summary(
        "nsys_stats",
        ("(%)", "Total Time"),
        ("Instances", r"Total Time(?: \(\w+\))?", r"Time ?\(%\)"),
        "nsys stats --report cuda_gpu_kern_sum --format csv report.nsys-rep",
        "nsys export --type sqlite report.nsys-rep",
    ),
    Summary(
        "torch_table",
        ("Self CPU", "# of Calls"),
        ("# of Calls", r"Self (?!CPU)\w+", r"Self (?!CPU)\w+ %"),
        "prof.key_averages().table(row_limit=-1), with ProfilerActivity.CUDA among the activities",
        'prof.export_chrome_trace("trace.json.gz")',
    ),
    Summary(
        "rocprof_stats",
        ("TotalDurationNs",),
        ("Calls", "TotalDurationNs", "Percentage"),
        "rocprofv3 --kernel-trace --stats --output-format csv, as its kernel_stats.csv",
        "rocprofv3 --kernel-trace --output-format csv",
    ),
)


class Row(NamedTuple):
    """One row."""

    name: str
    calls: int
    time_s: float
    share: float  # Of the total of all rows [%]
    is_operator: bool  # Whether the host spent time in it, as it launched the kernels


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    return any(_summary(line) for line in head.splitlines())


def read(path: str | Path) -> events.Profile:
    """Return the kernels of a summary; those of PyTorch are its operators where these have more.

    PyTorch states the time of a kernel in the row of the kernel and in that of its operator.
    """
    listed, tables, unreadable, summary = _rows(path)
    operators = [row for row in listed if row.is_operator]
    named = {row.name for row in operators}  # annotations have a row of the device too
    kernels = [row for row in listed if row.name not in named]
    most = max(kernels, operators, key=lambda some: sum(row.time_s for row in some))
    rows = [row for row in most if row.time_s > 0.0]
    share = sum(row.share for row in rows) / max(tables, 1)
    tolerance = SHARE_TOLERANCE + ROUNDED * len(rows)
    if not rows or share > 100.0 + tolerance:
        why = f"with rows of {share:.0f}% of its time" if rows else "without times of kernels"
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} is a summary {why}; write it with {summary.command},"
            f" or the timeline with {summary.timeline}"
        )
    notes = [f"{counted(unreadable, 'row')} that could not be read"] if unreadable else []
    if share < 100.0 - tolerance:
        notes.append(f"the rows have {share:.0f}% of the time of the table; others are missing")
    if tables > 1:
        notes.append(f"{tables:,} tables, whose times and calls are added")
    notes.append(
        "a summary has no timeline: gaps, overlap, idle time and single executions are unknown;"
        f" record the timeline with {summary.timeline}"
    )
    is_copy = [row.name.startswith(("Memcpy", "Memset")) for row in rows]
    calls, times_s = [events.OperatorCall(row.name) for row in rows], [row.time_s for row in rows]
    profile = events.profile_of_cases(path, summary.format, calls, times_s, notes)
    activities = replace(
        profile.activities,
        kind_N=np.where(is_copy, events.COPY, events.KERNEL),
        count_N=np.array([row.calls for row in rows], np.int64),
    )
    return replace(profile, activities=activities)


def _summary(line: str) -> Summary | None:
    """Return whose header a line is."""
    return next((one for one in _SUMMARIES if all(words in line for words in one.sign)), None)


def _rows(path: str | Path) -> tuple[list[Row], int, int, Summary]:
    """Return the rows of kernels, the number of tables, of unreadable rows, and whose they are."""
    rows, tables, unreadable, summary = list[Row](), 0, 0, _SUMMARIES[0]
    header, columns, is_csv = list[str](), list[str](), False
    csv.field_size_limit(MAX_LINE)
    for line in text_lines(path, MAX_CHARACTERS):
        begun = _summary(line)
        if begun is None and not (columns and line.strip("- ")):
            columns = columns if line.strip() else []
            continue
        is_csv = is_csv if begun is None else "," in line
        try:
            cells = next(csv.reader([line])) if is_csv else re.split(r"\s{2,}", line.strip())
            if begun is not None:
                summary, header, columns = begun, cells, _columns(cells, begun)
                tables += bool(columns)
            elif len(cells) > 1:
                row = _row(dict(zip(header, cells, strict=True)), columns)
                rows += [] if _HOST.fullmatch(row.name) else [row]
        except (ValueError, csv.Error):
            unreadable += 1
    return rows, tables, unreadable, summary


def _columns(header: list[str], summary: Summary) -> list[str]:
    """Return the columns of calls, total time and share; none of a table that is not of kernels."""
    found = [
        next((name for name in header if re.fullmatch(column, name)), "")
        for column in summary.columns
    ]
    return found if all(found) and "Name" in header and not _OTHER & set(header) else []


def _row(cells: Mapping[str, str], columns: list[str]) -> Row:
    """Return a row; raise ValueError where it cannot be read, as with commas as decimal points."""
    texts = *(cells[name] for name in columns), cells.get("Self CPU", "0")
    found = [match for text in texts if (match := _NUMBER.fullmatch(text.strip()))]
    if len(found) < len(texts):
        raise ValueError
    calls, time, share, host = (float(f"{one[1].replace(',', '')}{one[2] or ''}") for one in found)
    named = columns[1].partition("(")[2].rstrip(")")
    time_s = time * UNITS_S.get(found[1][3] or named or "ns", -1.0)
    if not (cells["Name"] and calls >= 1.0 and calls.is_integer() and 0.0 <= time_s < MAX_TIME_S):
        raise ValueError
    return Row(cells["Name"], int(calls), time_s, share, host > 0.0)
