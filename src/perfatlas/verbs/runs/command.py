"""`perfatlas runs`: the runs that `sweep` keeps in the user's data folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.commands.flags import SWITCH, File, PageFlags
from perfatlas.commands.output import envelope, print_json, run_page, write_page_files
from perfatlas.files import check_writable, table_format
from perfatlas.quantities import InvalidSpecError, UsageError, counted, printable
from perfatlas.report.text import print_facts, print_labelled, print_line
from perfatlas.studies import RunFolder, drop_run, export_run, find_run, indexed_runs, runs_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


LISTED: Final = ("id", "state", "command", "points", "created")


def list_runs(*, json: Annotated[bool, SWITCH] = False) -> int:
    """List all runs; return the exit code.

    Args:
        json: Print one JSON object.
    """
    rows = indexed_runs()
    if json:
        print_json(envelope("runs list", results={"folder": str(runs_folder()), "runs": rows}))
        return 0
    if not rows:
        sys.stdout.write(printable(f"no runs in {runs_folder()}\n"))
        return 0
    from perfatlas.report.text import open_terminal, print_line, print_rows

    console = open_terminal(sys.stdout)
    print_rows(console, rows, columns={name: name for name in LISTED})
    for row in rows:
        if row["error"]:
            print_line(console, row["error"])
    return 0


def show(
    run: str,
    /,
    *,
    page: PageFlags | None = None,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
) -> int:
    """Show a run; return the exit code.

    Args:
        run: Its name, its id, or the beginning of its id.
        page: HTML page with the objective by what varies.
        json: Print one JSON object.
        verbose: Show all best rows, reasons of refused rows, versions and hashes.
    """
    pages = page or PageFlags()
    pages.check()
    folder = find_run(run)
    described = folder.describe()
    summary = folder.summary()
    if pages.files():
        write_page_files(pages, run_page(folder))
    kept = sum(folder.block_path(number).exists() for number in range(described["blocks"]))
    results = {
        "run": folder.id,
        "folder": str(folder.path),
        "state": _state(folder, summary),
        "created": described["created"],
        "blocks_kept": kept,
        "versions": described["versions"],
        "data_hashes": described["data_hashes"],
        "files": described["files"],
        "summary": summary,
    }
    if json:
        scenario = {"study": described["study"]}
        print_json(envelope("runs show", results=results, scenario=scenario))
        return 0
    from perfatlas.report.text import open_terminal

    print_run(open_terminal(sys.stdout), described, results, verbose=verbose)
    return 0


def _state(run: RunFolder, summary: Mapping[str, Any] | None) -> str:
    if summary is not None:
        return "complete"
    return "running" if run.is_running() else "interrupted"


def export(run: str, /, *, output: File, json: Annotated[bool, SWITCH] = False) -> int:
    """Export a run; return the exit code.

    Args:
        run: Its name, its id, or the beginning of its id.
        output: The file; its extension selects the format.
        json: Print one JSON object.
    """
    table_format(output)
    check_writable(output)
    folder = find_run(run)
    export_run(folder, output)
    rows = (folder.summary() or {}).get("rows", 0)
    if json:
        results = {"run": folder.id, "rows": rows, "output": str(output)}
        print_json(envelope("runs export", results=results, scenario={"run": run}))
        return 0
    sys.stdout.write(printable(f"{counted(rows, 'row')} written to {output}\n"))
    return 0


def rm(
    *runs: str,
    interrupted: Annotated[bool, SWITCH] = False,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """Delete runs; return the exit code.

    Args:
        *runs: Their ids, or the beginning of each.
        json: Print one JSON object.
    """
    chosen = [find_run(name) for name in runs]
    if interrupted:
        chosen += [find_run(row["id"]) for row in indexed_runs() if row["state"] == "interrupted"]
    if not runs and not interrupted:
        raise UsageError("missing RUN; for example: perfatlas runs rm study-0123456789")
    for run in dict.fromkeys(chosen):
        try:
            run.remove()
        except OSError as problem:
            raise InvalidSpecError(
                f"cannot delete run folder '{run.path}': {problem.strerror or problem}"
            ) from problem
        drop_run(run)
    names = [run.id for run in dict.fromkeys(chosen)]
    if json:
        print_json(envelope("runs rm", results={"deleted": names}, scenario={"runs": list(runs)}))
        return 0
    sys.stdout.write(printable(f"deleted {', '.join(names) or 'nothing'}\n"))
    return 0


def print_run(
    console: Console, described: Mapping[str, Any], results: Mapping[str, Any], *, verbose: bool
) -> None:
    """Write the description of a run, and its summary.

    Args:
        results: The results of `runs show`.
        verbose: Whether to show versions, hashes, all best rows and reasons.
    """
    from perfatlas.report.text import print_study_summary

    facts = {
        "run": results["run"],
        "state": results["state"],
        "created": results["created"],
        "folder": results["folder"],
        "perfatlas": described["versions"]["perfatlas"],
        "code": described["data_hashes"]["code"][:19],
    }
    if verbose:
        facts |= {**described["versions"], **described["data_hashes"], **described["files"]}
    print_facts(console, facts)
    print_line(console, "study", style="bold")
    print_labelled(console, list(_study_facts(described["study"]).items()))
    if results["summary"] is None:
        blocks = counted(described["blocks"], "block")
        print_line(console, f"{results['blocks_kept']:,} of {blocks} finished")
        return
    print_study_summary(console, results["summary"], described["command"], verbose=verbose)


def _study_facts(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the values of a study by their dotted names; a range or list is one text."""
    facts: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict) and "from" not in value:
            facts |= _study_facts(value, f"{prefix}{key}.")
        elif isinstance(value, dict):
            facts[prefix + key] = ", ".join(f"{name} {one}" for name, one in value.items())
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, item in enumerate(value, 1):
                facts |= _study_facts(item, f"{prefix}{key}.{number}.")
        else:
            items = value if isinstance(value, list) else [value]
            facts[prefix + key] = ", ".join(str(one) for one in items)
    return facts
