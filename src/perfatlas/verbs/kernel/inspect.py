"""`perfatlas kernel inspect`: resources, instructions and occupancy of kernels, without a GPU."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import MANY, SWITCH, Count, File
from perfatlas.commands.output import envelope, print_json

if TYPE_CHECKING:
    from perfatlas.lab.static import Inspection

COMMAND: Final = "kernel inspect"
TEXT_FLAGS: Final = ("function", "against", "reproducer")
COUNT_FLAGS: Final = ("num_warps", "num_stages", "threads", "shared_memory_bytes")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InspectFlags:
    """What a kernel is compiled for and compared with, and how the answer is written.

    Args:
        target: Target to compile for, such as sm_90 or gfx942; repeat it to compare targets.
        function: The only kernel to inspect; a part of its name is enough.
        num_warps: Warps per block of a Triton kernel, instead of those its file states.
        num_stages: Pipeline stages of a Triton kernel, instead of those its file states.
        threads: Threads per block, for the occupancy of files that do not state them.
        shared_memory_bytes: Dynamic shared memory per block [bytes], for the occupancy.
        against: Another file whose kernels are shown beside these.
        reproducer: Folder to write source, PTX, cubin, commands and versions into.
        verbose: Print the instruction mix of every kernel.
        json: Print one JSON object.
    """

    target: Annotated[list[str] | None, MANY] = None
    function: str | None = None
    num_warps: Count | None = None
    num_stages: Count | None = None
    threads: Count | None = None
    shared_memory_bytes: Count | None = None
    against: File | None = None
    reproducer: File | None = None
    verbose: Annotated[bool, SWITCH] = False
    json: Annotated[bool, SWITCH] = False

    def given(self) -> dict[str, Any]:
        """Return the flags that are set, without those of the output."""
        found: dict[str, Any] = {"target": list(self.target)} if self.target else {}
        for name in TEXT_FLAGS:
            if (value := getattr(self, name)) is not None:
                found[name] = str(value)
        for name in COUNT_FLAGS:
            if (value := getattr(self, name)) is not None:
                found[name] = value
        return found


def inspect(file: File, /, *, flags: InspectFlags | None = None) -> int:
    """Inspect the kernels of a file; return the exit code.

    Args:
        file: Cubin, fat binary, PTX, AMD assembly, CUDA C++ (.cu), Triton or Gluon (.py, .ttir).
            A .py file is run to compile its kernels.
        flags: Targets, launch and output.
    """
    from perfatlas.lab.static import write_reproducer

    flags = flags or InspectFlags()
    found = _inspected(file, flags)
    other = None if flags.against is None else _inspected(flags.against, flags)
    rows = [*found.rows, *(other.rows if other else ())]
    warnings = [*found.notes, *(other.notes if other else ()), *_warnings(rows)]
    command = _command(file, flags)
    written = []
    if flags.reproducer is not None:
        written = write_reproducer(flags.reproducer, file, found.compiled, command=command)
    if flags.json:
        results = {**rows[0], "kernels": rows, "reproducer": [str(one) for one in written]}
        scenario = {"file": str(file)} | flags.given()
        print_json(envelope(COMMAND, results=results, scenario=scenario, warnings=warnings))
        return 0
    _print(rows, warnings, command, verbose=flags.verbose)
    for path in written:
        sys.stderr.write(f"perfatlas: {path} written\n")
    return 0


def _inspected(file: File, flags: InspectFlags) -> Inspection:
    from perfatlas.lab.static import Compilation, inspect as inspect_file

    options = {name: getattr(flags, name) for name in ("num_warps", "num_stages")}
    asked = Compilation(
        targets=tuple(dict.fromkeys(flags.target or ())),
        function=flags.function,
        options={name: value for name, value in options.items() if value is not None},
        threads=flags.threads,
        shared_memory_bytes=flags.shared_memory_bytes,
    )
    return inspect_file(file, asked)


def _warnings(rows: list[dict[str, Any]]) -> list[str]:
    """Return the warnings of all kernels, each with its kernel where there are several."""
    if len(rows) == 1:
        return list(rows[0]["warnings"])
    return [f"{row['function']}, {row['target']}: {one}" for row in rows for one in row["warnings"]]


def _command(file: File, flags: InspectFlags) -> str:
    words = ["perfatlas", *COMMAND.split(), str(file)]
    for name, value in flags.given().items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", str(one)]
    return shlex.join(words)


def _print(rows: list[dict[str, Any]], warnings: list[str], command: str, *, verbose: bool) -> None:
    from perfatlas.report.text import open_terminal, print_plain
    from perfatlas.verbs.kernel.inspect_text import print_inspection

    console = open_terminal(sys.stdout)
    print_inspection(console, rows, warnings, verbose=verbose)
    print_plain(console, f"reproduce: {command}", style="dim", wrap=False)
