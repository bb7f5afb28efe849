"""`perfatlas sweep`: a study answered at all its points, with progress and early results."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from cyclopts import Parameter

from perfatlas.commands.flags import OUTPUT, SWITCH, Count, File, PageFlags, default
from perfatlas.commands.output import print_json, write_page_files
from perfatlas.files import check_writable, table_format
from perfatlas.quantities import UsageError, counted, printable
from perfatlas.report.text import print_line, print_plain, print_study_summary, reproduce_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from perfatlas.studies.sweeps import Tally
    from perfatlas.verbs.sweep.answer import Sweep


TOLD_EVERY_S: Final = 0.5  # on a terminal
LOGGED_EVERY_S: Final = 10.0  # in a file
BAR: Final = 24  # characters


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class SweepFlags:
    """How a study is run, and its output.

    Args:
        output: Also write all rows to one file (CSV, Parquet or JSON Lines).
        resume: Continue an interrupted run of this study.
        jobs: Number of processes, or of workers of a Dask cluster on this machine.
        executor: Where blocks of points are computed: processes of this machine, or Dask workers.
        scheduler: Address of a running Dask scheduler, such as tcp://10.0.0.1:8786.
        page: HTML page with the objective by what varies.
        json: Print one JSON object in SI units instead of text.
        verbose: List all best rows, and all reasons of refused rows.
    """

    output: File | None = None
    resume: Annotated[bool, SWITCH] = False
    jobs: Annotated[Count, default("one per processor")] = None
    executor: Literal["processes", "dask"] = "processes"
    scheduler: Annotated[str | None, default("a cluster on this machine")] = None
    page: PageFlags = field(default_factory=PageFlags)
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False


def sweep(study: File, /, *, flags: SweepFlags | None = None) -> int:
    """Run a study; return the exit code.

    Args:
        study: Study file (TOML), or a name of `perfatlas catalog studies`.
        flags: How it is run, and its output.
    """
    from perfatlas.verbs.sweep.answer import sweep as answer_study

    flags = flags or SweepFlags()
    if flags.jobs is not None and flags.jobs < 1:
        raise UsageError(f"--jobs {flags.jobs}: expected 1 or more")
    if flags.output is not None:
        table_format(flags.output)
        check_writable(flags.output)
    flags.page.check()
    for path in flags.page.files().values():
        check_writable(path)
    with _Progress() as progress:
        found = answer_study(
            study,
            resume=flags.resume,
            jobs=flags.jobs or 0,
            executor=flags.executor,
            scheduler=flags.scheduler or "",
            watch=progress.look,
        )
    if flags.output is not None:
        from perfatlas.studies import export_run

        export_run(found.run, flags.output)
    sys.stderr.write(printable(f"perfatlas: {_closing(found)}\n"))
    _show(found, study, flags)
    if flags.page.files():
        from perfatlas.verbs.sweep.blocks import sweep_page

        sys.stdout.flush()  # print the answer even if the files cannot be written
        line = shlex.join(["perfatlas", "sweep", str(study)])
        write_page_files(
            flags.page, sweep_page(found.to_dict(), found.run.pictured(), reproduce=line)
        )
    return 0


def _closing(found: Sweep) -> str:
    """Return what was computed, how fast, and the run that has it."""
    results, run = found.results, found.run.id
    rate = results["points_per_s"]
    speed = f" in {results['elapsed_s']:.1f} s, {rate:,.0f}/s" if rate else ", answered before"
    return f"{counted(results['points'], 'point')}{speed}; `perfatlas runs show {run}` shows them"


def _show(found: Sweep, study: File, flags: SweepFlags) -> None:
    answer = found.to_dict()
    if flags.json:
        answer["results"]["output"] = None if flags.output is None else str(flags.output)
        print_json(answer)
        return
    from perfatlas.report.text import open_terminal

    fields: dict[str, Any] = {"output": flags.output}
    console = open_terminal(sys.stdout)
    print_sweep(console, answer, study=str(study), output=fields["output"], verbose=flags.verbose)


class _Progress:
    """Progress on stderr with the best row so far: a line on a terminal, some lines in a file."""

    def __init__(self) -> None:
        self._started = self._told = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        """Start the clock."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def look(self, tally: Tally) -> None:
        """Show the counts so far."""
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if now - self._told < (TOLD_EVERY_S if terminal else LOGGED_EVERY_S) or tally.share >= 1.0:
            return
        self._told = now
        text = f"{tally.share:4.0%} of {counted(tally.described['points'], 'point')}"
        if best := tally.best():
            from perfatlas.report.text import row_text

            text += f"; best so far: {row_text(best[0], tally.objective)}"
        if terminal:
            from shutil import get_terminal_size

            self._shown = True
            bar = "#" * round(BAR * tally.share)
            line = f"[{bar:.<{BAR}}] {text}"[: get_terminal_size().columns - 1]
            sys.stderr.write(f"\r\033[K{printable(line)}")
        else:
            sys.stderr.write(printable(f"perfatlas: {text.strip()}\n"))
        sys.stderr.flush()


def print_sweep(
    console: Console,
    answer: Mapping[str, Any],
    *,
    study: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """Write the summary of a sweep.

    Args:
        output: The file with all rows, if one was written.
        verbose: Whether to list all best rows and reasons.
    """
    results = answer["results"]
    print_study_summary(console, results, answer["scenario"]["study"]["verb"], verbose=verbose)
    for text in answer["warnings"]:
        print_line(console, text)
    if output is not None:
        print_line(console, f"rows: {output}")
    line = reproduce_line("sweep", {"output": None if output is None else str(output)})
    words = line.split(" ", 2)
    words.insert(2, shlex.quote(study))
    print_plain(console, f"reproduce: {' '.join(words)}", style="dim", wrap=False)
