"""`perfatlas profile`: a profile of GPUs by class and operator, beside the prediction."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, File, PageFlags, WrittenFile
from perfatlas.commands.output import envelope, print_json, write_page_files
from perfatlas.files import check_writable, table_format, write_atomic, write_table
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

FIELDS: Final = ("system", "capture", "against", "rules", "on", "to")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ProfileFlags:
    """What a profile is read and compared with, and how it is written.

    Args:
        system: System of the device, for profiles that do not name one of the catalog.
        capture: Trace of the capture of graphs, for the operators of their kernels.
        against: Profile to compare with: which classes and operators changed.
        rules: TOML file with rules of your own for the classes of kernels.
        on: Another system, such as gb300 or 'gb300{device.memory.bandwidth=10TB/s}', to re-time on.
        to: File for a row per shape, for calibrate --measurements (CSV, Parquet or JSON Lines).
        trace: Write a Chrome trace with measured and predicted durations (JSON, for
            ui.perfetto.dev).
        page: Its page and charts.
        verbose: Print all operators and changes.
        json: Print one JSON object.
    """

    system: str | None = None
    capture: File | None = None
    against: File | None = None
    rules: File | None = None
    on: str | None = None
    to: WrittenFile | None = None
    trace: WrittenFile | None = None
    page: PageFlags = field(default_factory=PageFlags)
    verbose: Annotated[bool, SWITCH] = False
    json: Annotated[bool, SWITCH] = False


def profile(files: list[File], /, *, flags: ProfileFlags | None = None) -> int:
    """Explain a profile; return the exit code.

    Args:
        files: Profile of a run, or one file for each of its ranks; the contents tell the format.
        flags: Comparison and output.
    """
    from perfatlas.profiles import (
        activity_spans,
        compared,
        explain,
        import_profile,
        measured_rows,
        on_system,
        read_rules,
        with_capture,
    )
    from perfatlas.report.traces import profile_trace_text

    flags = flags or ProfileFlags()
    flags.page.check()
    if flags.to is not None:
        table_format(str(flags.to))
    for path in flags.page.files().values():
        check_writable(path)
    rules = read_rules(flags.rules)
    profiles = [import_profile(file) for file in files]
    if flags.capture is not None:
        capture = import_profile(flags.capture)
        profiles = [with_capture(one, capture) for one in profiles]
    results = explain(profiles, rules, flags.system)
    if flags.against is not None:
        changes = compared(results, explain([import_profile(flags.against)], rules))
        results |= {"against": changes}
    if flags.on is not None:
        results |= {"on": on_system(profiles, rules, results, flags.on)}
    if flags.to is not None:
        rows = measured_rows(profiles, rules, flags.system)
        write_table(flags.to, rows)
        text = f"{counted(len(rows['time_s']), 'row')} written to {flags.to}"
        sys.stderr.write(f"perfatlas: {text}\n")
    if flags.trace is not None:
        write_atomic(flags.trace, profile_trace_text(activity_spans(profiles, rules, results)))
        text = f"trace written to {flags.trace}; open it in ui.perfetto.dev"
        sys.stderr.write(f"perfatlas: {text}\n")
    _show(results, files, flags)
    return 0


def _show(results: dict[str, Any], files: Sequence[File], flags: ProfileFlags) -> None:
    """Print the results, and write their page."""
    from perfatlas.verbs.profile.blocks import profile_page

    scenario = {"files": [str(file) for file in files]} | {
        name: str(value) for name in FIELDS if (value := getattr(flags, name)) is not None
    }
    answer = envelope("profile", results=results, scenario=scenario)
    page = profile_page(answer, reproduce=_reproduced(files, flags))
    if flags.json:
        print_json(answer)
    else:
        from perfatlas.report.pages import print_page
        from perfatlas.report.text import open_terminal

        print_page(open_terminal(sys.stdout), page, verbose=flags.verbose)
    if flags.page.files():
        write_page_files(flags.page, page)


def _reproduced(files: Sequence[File], flags: ProfileFlags) -> str:
    """Return the command line of the results."""
    words = ["perfatlas", "profile", *map(str, files)]
    for name in FIELDS:
        if (value := getattr(flags, name)) is not None:
            words += [f"--{name}", str(value)]
    return shlex.join(words)
