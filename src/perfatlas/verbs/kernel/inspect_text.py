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
MAX_NAME: Final = 32  # characters
UNKNOWN: Final = "not known"


def print_inspection(
    console: Console, rows: Sequence[Row], warnings: Sequence[str], *, verbose: bool = False
) -> None:
    """Write the kernels of a file.

    Args:
        console: Console from `open_terminal`.
        rows: Kernels, as of `--json`.
        warnings: Warnings of the answer.
        verbose: Whether to print all kernels and instructions.
    """
    shown = rows if verbose else rows[:MAX_COLUMNS]
    for at in range(0, len(shown), MAX_COLUMNS):
        _print_columns(console, shown[at : at + MAX_COLUMNS], verbose=verbose)
    if len(rows) > len(shown):
        print_line(
            console,
            f"{counted(len(rows) - len(shown), 'more kernel')}: --verbose, or --function NAME",
        )
    for text in warnings:
        print_line(console, f"warning: {text}", style="yellow")


def _print_columns(console: Console, rows: Sequence[Row], *, verbose: bool) -> None:
    facts = [_facts(row, verbose=verbose) for row in rows]
    if len(rows) == 1:
        print_line(console, f"{rows[0]['function']} for {rows[0]['target']}", style="bold")
        print_labelled(console, list(facts[0].items()))
        return
    files = {row["file"] for row in rows}
    names = [_title(row, with_file=len(files) > 1) for row in rows]
    table = [
        {"": label, **{f"{at}": fact[label] for at, fact in enumerate(facts)}} for label in facts[0]
    ]
    columns = {"": "", **{f"{at}": name for at, name in enumerate(names)}}
    print_rows(console, table, columns=columns)


def _title(row: Row, *, with_file: bool) -> str:
    name = row["function"]
    short = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 3]}..."
    return f"{short} {row['target']}" + (f" {row['file']}" if with_file else "")


def _facts(row: Row, *, verbose: bool) -> dict[str, str]:
    shared = _count(row["shared_memory_bytes"], "byte")
    if row["shared_memory_is_static"] and row["shared_memory_bytes"] is not None:
        shared += ", static"
    return {
        "registers": _registers(row),
        "spills": _count(row["spills_bytes"], "byte"),
        "shared memory": shared,
        "tensor memory": _count(row["tensor_memory_columns"], "column"),
        "threads": _count(row["threads"]),
        "MMA": _mma(row["mma"]),
        "TMA copies": _count(row["tma"]),
        "warp specialization": _specialization(row),
        "occupancy": _occupancy(row),
        "main loop": _loop(row, verbose=verbose),
        "instructions": _instructions(row["instructions"], verbose=verbose),
    }


def _registers(row: Row) -> str:
    parts = row["accumulation_registers"]
    return _count(row["registers"]) + (f" ({parts} AGPRs)" if parts else "")


def _count(value: int | None, thing: str = "") -> str:
    if value is None:
        return UNKNOWN
    return counted(value, thing) if thing and value else f"{value:,}" if value else "none"


def _mma(mma: Mapping[str, int] | None) -> str:
    if mma is None:
        return UNKNOWN
    return ", ".join(f"{count} {name}" for name, count in mma.items()) or "none"


def _specialization(row: Row) -> str:
    if row["warp_specialized"] is None:
        return UNKNOWN
    return f"{row['setmaxnreg']} setmaxnreg" if row["warp_specialized"] else "none"


def _occupancy(row: Row) -> str:
    found = row["occupancy"]
    if found is None:
        return UNKNOWN if row["threads"] else "not known: set --threads"
    most = "at most " if found["upper_limit"] else ""
    return (
        f"{most}{format_share(found['share'])}: {counted(found['blocks_per_sm'], 'block')},"
        f" {found['warps_per_sm']} of {found['max_warps_per_sm']} warps,"
        f" limited by {' and '.join(found['limited_by'])}"
    )


def _loop(row: Row, *, verbose: bool) -> str:
    if row["loops"] is None:
        return UNKNOWN
    return _mix(row["main_loop"], verbose=verbose) or "none"


def _instructions(found: Row | None, *, verbose: bool) -> str:
    if found is None:
        return UNKNOWN
    return _mix(found, verbose=True) if verbose else f"{found['count']:,}"


def _mix(found: Row | None, *, verbose: bool) -> str:
    if found is None:
        return ""
    mix = list(found["mix"].items())
    shown = mix if verbose else mix[:MAX_MIX]
    rest = f", {len(mix) - len(shown)} other kinds" if len(mix) > len(shown) else ""
    return f"{found['count']:,}: {', '.join(f'{count} {name}' for name, count in shown)}{rest}"
