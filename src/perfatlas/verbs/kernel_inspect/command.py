"""`perfatlas kernel inspect`: resources, instructions and occupancy of kernels, without a GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from perfatlas.commands.flags import File  # noqa: TC001 - read when the command is built
from perfatlas.commands.output import answer_function, envelope, notice_if_slow, print_json
from perfatlas.quantities import InvalidSpecError, counted, format_quantity, printable
from perfatlas.report.text import (
    format_share,
    print_labelled,
    print_line,
    print_rows,
    typeset,
)
from perfatlas.verbs.kernel_inspect import timing
from perfatlas.verbs.kernel_inspect.flags import InspectFlags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from perfatlas.lab.kernels import LabKernel
    from perfatlas.lab.static import Inspection

    Row = Mapping[str, Any]


COMMAND: Final = "kernel inspect"
OPTIONS: Final = ("num_warps", "num_stages")  # of Triton


def inspect(file: File, /, *, flags: InspectFlags | None = None) -> int:
    """Inspect the kernels of a file, or one of perfatlas; return the exit code.

    Args:
        file: Cubin, fat binary, PTX, AMD assembly, CUDA C++ (.cu), Triton or Gluon (.py, .ttir).
            A .py file is run to compile its kernels. A name, such as gemm, is one of the kernels
            of perfatlas.
        flags: Targets, launch and output.

    Raises:
        InvalidSpecError: A flag is out of its bounds or does not apply to the file, or the file
            cannot be inspected.
    """
    from perfatlas.lab.static import write_reproducer
    from perfatlas.report.text import open_terminal, print_plain, reproduce_line

    flags = flags or InspectFlags()
    files = [file] if flags.against is None else [file, flags.against]
    _check_flags(flags, files)
    ask = timing.asked(flags, own=_own_kernel(file) is not None) if flags.time else None
    if file.suffix == ".py":
        sys.stderr.write(printable(f"perfatlas: running {file} to compile its kernels\n"))
    given = flags.given()
    command = reproduce_line(f"{COMMAND} {file}", given)
    with notice_if_slow("compiling and disassembling"):
        found = [_inspected(one, flags) for one in files]
        if ask is not None:
            timing.add_times(found, ask, _own_kernel(file))
    rows = [row for inspection in found for row in inspection.rows]
    warnings = [note for inspection in found for note in inspection.notes] + _warnings(rows)
    written = []
    if flags.reproducer is not None:
        source = own.path if (own := _own_kernel(file)) else file
        notes = timing.notes(rows) if ask else []
        written = write_reproducer(
            flags.reproducer, source, found[0].compiled, command=command, notes=notes
        )
    if flags.json:
        results = {**rows[0], "kernels": rows, "reproducer": [str(one) for one in written]}
        scenario = {"file": str(file), **given}
        answer = envelope(COMMAND, results=results, scenario=scenario, warnings=warnings)
        for compiled in (made for inspection in found for made in inspection.compiled.values()):
            answer["evidence"]["data_versions"] |= compiled.versions
        print_json(answer)
        return 0
    console = open_terminal(sys.stdout)
    print_inspection(console, rows, warnings, verbose=flags.verbose)
    for path in written:
        print_plain(console, f"written: {path}")
    print_plain(console, f"reproduce: {command}", style="dim", wrap=False)
    return 0


kernel_inspect = answer_function(inspect, COMMAND)


def _check_flags(flags: InspectFlags, files: list[File]) -> None:
    """Refuse flags out of their bounds, and those of Triton for other files."""
    from perfatlas.lab.static import MAX_THREADS, TRITON

    bounds = {
        "threads": (1, MAX_THREADS),
        "shared_memory_bytes": (0, None),
        "num_warps": (1, None),
        "num_stages": (1, None),
        "grid": (1, None),
        "bytes": (0, None),
        "flop": (0, None),
    }
    timed = ("system", "grid", "trips", "shape", "bytes", "flop")
    if not flags.time and (unused := [name for name in timed if getattr(flags, name) is not None]):
        raise InvalidSpecError(f"--{unused[0]} applies only to --time; add --time, or leave it out")
    for name, (least, most) in bounds.items():
        value, flag = getattr(flags, name), f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if value < least or (most is not None and value > most):
            upper = "or more" if most is None else f"to {most:,}"
            raise InvalidSpecError(f"{flag} {value} is out of bounds; set {least} {upper}")
        if name in OPTIONS and not any(
            file.suffix in TRITON or _own_kernel(file) for file in files
        ):
            raise InvalidSpecError(
                f"{flag} applies only to Triton sources ({', '.join(TRITON)}), and"
                f" {printable(files[0].name)} is none; leave it out"
            )


def _own_kernel(file: File) -> LabKernel | None:
    """Return the kernel of perfatlas of that name; None for files."""
    from perfatlas.lab.kernels import lab_kernel

    is_name = file.suffix == "" and len(file.parts) == 1 and not file.exists()
    return lab_kernel(file.name) if is_name else None


def _inspected(file: File, flags: InspectFlags) -> Inspection:
    from perfatlas.lab.kernels import inspect_kernel
    from perfatlas.lab.static import SOURCES, Compilation, inspect as inspect_file

    targets = flags.target or []
    if flags.system and not targets and (file.suffix in SOURCES or _own_kernel(file)):
        targets = [timing.target_of_system(flags.system)]
    asked = Compilation(
        targets=tuple(dict.fromkeys(targets)),
        function=flags.function,
        options={name: value for name in OPTIONS if (value := getattr(flags, name)) is not None},
        threads=flags.threads,
        shared_memory_bytes=flags.shared_memory_bytes,
    )
    own = _own_kernel(file)
    return inspect_kernel(own, asked) if own else inspect_file(file, asked)


def _warnings(rows: list[dict[str, Any]]) -> list[str]:
    """Return the warnings of all kernels, each with its kernel where there are several."""
    if len(rows) == 1:
        return list(rows[0]["warnings"])
    return [f"{row['function']}, {row['target']}: {one}" for row in rows for one in row["warnings"]]


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
        {"": label} | {str(at): fact.get(label, "") for at, fact in enumerate(facts)}
        for label in dict.fromkeys(label for fact in facts for label in fact)
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
        **({"measured": _measured(row["measured"])} if "measured" in row else {}),
        "main loop": loop,
        "loops": _loops(row["loops"], verbose=verbose),
        "instructions": _mix(everything, verbose=True) if verbose and everything else brief,
        **(timing.time_facts(row) if "time_s" in row else {}),
    }


def _measured(records: Sequence[Row]) -> str:
    """Return the time of each case on a GPU, and the share of the speed of a library."""
    texts = []
    for one in records:
        share = ""
        if "library" in one:
            share = f", {one['library_s'] / one['time_s']:.2f} of {one['library']}"
        texts.append(typeset(f"{one['case']}: {format_quantity(one['time_s'], 's')}{share}"))
    earlier = "not measured; an earlier source: " * any(one.get("earlier") for one in records)
    return earlier + "; ".join(texts) or "not measured"


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
    shown = [row for row in found if row["count"] > MAX_WAIT]
    waits = [f"{len(found) - len(shown)} of up to {MAX_WAIT} instructions"]
    return "\n".join([*(_mix(row, verbose=False) for row in shown), *waits])


def _mix(found: Row | None, *, verbose: bool) -> str:
    if found is None:
        return ""
    mix = found["mix"]
    shown = mix if verbose else dict(list(mix.items())[:MAX_MIX])
    rest = f", {len(mix) - len(shown)} other kinds" if len(mix) > len(shown) else ""
    return f"{found['count']:,}: {_listed(shown)}{rest}"
