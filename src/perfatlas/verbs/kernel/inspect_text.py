"""Text output of `kernel inspect`: facts of kernels side by side, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text import format_share, print_labelled, print_line, print_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    Row = Mapping[str, Any]

MAX_COLUMNS: Final = 4  # kernels side by side
MAX_MIX: Final = 8  # instructions of a brief answer
MAX_WAIT: Final = 8  # instructions of a loop that only waits
MAX_NAME: Final = 32  # characters
UNKNOWN: Final = "not known"


def print_inspection(
    console: Console, rows: Sequence[Row], warnings: Sequence[str], *, verbose: bool = False
) -> None:
    """Write the kernels of a file.

    Args:
        rows: Kernels, as of `--json`.
        verbose: Whether to print all kernels and instructions.
    """
    shown = rows if verbose else rows[:MAX_COLUMNS]
    for at in range(0, len(shown), MAX_COLUMNS):
        _print_columns(console, shown[at : at + MAX_COLUMNS], verbose=verbose)
    if more := len(rows) - len(shown):
        print_line(console, f"{counted(more, 'more kernel')}: --verbose, or --function NAME")
    for text in warnings:
        print_line(console, f"warning: {text}", style="yellow")


def _print_columns(console: Console, rows: Sequence[Row], *, verbose: bool) -> None:
    facts = [_facts(row, verbose=verbose) for row in rows]
    if len(rows) == 1:
        print_line(console, f"{rows[0]['function']} for {rows[0]['target']}", style="bold")
        print_labelled(console, list(facts[0].items()))
        return
    with_file = len({row["file"] for row in rows}) > 1
    titles = {str(at): _title(row, with_file=with_file) for at, row in enumerate(rows)}
    table = [
        {"": label} | {str(at): one[label] for at, one in enumerate(facts)} for label in facts[0]
    ]
    print_rows(console, table, columns={"": ""} | titles)


def _title(row: Row, *, with_file: bool) -> str:
    name = row["function"]
    short = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."
    return f"{short} {row['target']}" + (f" {row['file']}" if with_file else "")


def _facts(row: Row, *, verbose: bool) -> dict[str, str]:
    agprs, everything, mma = row["accumulation_registers"], row["instructions"], row["mma"]
    static = ", static" if row["shared_memory_is_static"] and row["shared_memory_bytes"] else ""
    loop = _mix(row["main_loop"], verbose=verbose) or ("none" if everything else UNKNOWN)
    brief = UNKNOWN if everything is None else _count(everything["count"])
    return {
        "registers": _count(row["registers"]) + (f" ({agprs} AGPRs)" if agprs else ""),
        "spills": _count(row["spills_bytes"], "byte"),
        "shared memory": _count(row["shared_memory_bytes"], "byte") + static,
        "tensor memory": _count(row["tensor_memory_columns"], "column"),
        "threads": _count(row["threads"]),
        "MMA": UNKNOWN if mma is None else _listed(mma) or "none",
        "TMA copies": _count(row["tma"]),
        "warp specialization": _count(row["setmaxnreg"], "setmaxnreg instruction"),
        "occupancy": _occupancy(row),
        "main loop": loop,
        "loops": _loops(row["loops"], verbose=verbose),
        "instructions": _mix(everything, verbose=True) if verbose and everything else brief,
    }


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _count(value: int | None, thing: str = "") -> str:
    if not value:
        return UNKNOWN if value is None else "none"
    return counted(value, thing) if thing else f"{value:,}"


def _occupancy(row: Row) -> str:
    found = row["occupancy"]
    if row["launch_problem"]:
        return "none: does not launch"
    if found is None:
        return UNKNOWN if row["threads"] or row["registers"] is None else "set --threads"
    most = "at most " if found["upper_limit"] else ""
    return (
        f"{most}{format_share(found['share'])}: {counted(found['blocks_per_sm'], 'block')},"
        f" {found['warps_per_sm']} of {found['max_warps_per_sm']} warps,"
        f" limited by {', '.join(found['limited_by'])}"
    )


def _loops(found: Sequence[Row] | None, *, verbose: bool) -> str:
    if found is None or not verbose:
        return _count(None if found is None else len(found))
    shown = [one for one in found if one["count"] > MAX_WAIT]
    waits = [f"{len(found) - len(shown)} of up to {MAX_WAIT} instructions"]
    return "\n".join([*(_mix(one, verbose=False) for one in shown), *waits])


def _mix(found: Row | None, *, verbose: bool) -> str:
    if found is None:
        return ""
    mix = found["mix"]
    shown = mix if verbose else dict(list(mix.items())[:MAX_MIX])
    rest = f", {len(mix) - len(shown)} other kinds" if len(mix) > len(shown) else ""
    return f"{found['count']:,}: {_listed(shown)}{rest}"
