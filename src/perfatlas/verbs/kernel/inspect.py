"""`perfatlas kernel inspect`: resources, instructions and occupancy of kernels, without a GPU."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import MANY, SWITCH, Count, File, changed_flags
from perfatlas.commands.output import envelope, notice_if_slow, print_json
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from perfatlas.lab.kernels import LabKernel
    from perfatlas.lab.static import Inspection

COMMAND: Final = "kernel inspect"
OPTIONS: Final = ("num_warps", "num_stages")  # of Triton


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class InspectFlags:
    """What a kernel is compiled for and compared with, and how the answer is written.

    Args:
        target: Target to compile for, such as sm_90 or gfx942; repeat it to compare targets. A
            kernel of perfatlas is compiled for all of its targets by default.
        function: The only kernel to inspect; a part of its name is enough.
        num_warps: Warps per block of a Triton kernel, instead of those its file states.
        num_stages: Pipeline stages of a Triton kernel, instead of those its file states.
        threads: Threads per block, for the occupancy of files that do not state them.
        shared_memory_bytes: Dynamic shared memory per block [bytes], for the occupancy.
        against: Another file whose kernels are shown beside these.
        reproducer: Folder to write source, PTX, cubin, commands and versions into.
        verbose: Print all kernels and all instructions.
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
        return {
            name: str(value) if isinstance(value, File) else value
            for name, value in changed_flags(self).items()
            if name not in ("verbose", "json")
        }


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
    from perfatlas.verbs.kernel.inspect_text import print_inspection

    flags = flags or InspectFlags()
    files = [file] if flags.against is None else [file, flags.against]
    _check_flags(flags, files)
    if file.suffix == ".py":
        sys.stderr.write(printable(f"perfatlas: running {file} to compile its kernels\n"))
    given = flags.given()
    command = reproduce_line(f"{COMMAND} {file}", given)
    with notice_if_slow("compiling and disassembling"):
        found = [_inspected(one, flags) for one in files]
    rows = [row for one in found for row in one.rows]
    warnings = [note for one in found for note in one.notes] + _warnings(rows)
    written = []
    if flags.reproducer is not None:
        source = own.path if (own := _own_kernel(file)) else file
        written = write_reproducer(flags.reproducer, source, found[0].compiled, command=command)
    if flags.json:
        results = {**rows[0], "kernels": rows, "reproducer": [str(one) for one in written]}
        scenario = {"file": str(file), **given}
        answer = envelope(COMMAND, results=results, scenario=scenario, warnings=warnings)
        for one in (made for inspection in found for made in inspection.compiled.values()):
            answer["evidence"]["data_versions"] |= one.versions
        print_json(answer)
        return 0
    console = open_terminal(sys.stdout)
    print_inspection(console, rows, warnings, verbose=flags.verbose)
    for path in written:
        print_plain(console, f"written: {path}")
    print_plain(console, f"reproduce: {command}", style="dim", wrap=False)
    return 0


def _check_flags(flags: InspectFlags, files: list[File]) -> None:
    """Refuse flags out of their bounds, and those of Triton for other files.

    Raises:
        InvalidSpecError: Names the flag, and its bounds or its files.
    """
    from perfatlas.lab.static import MOST_THREADS, TRITON

    bounds = {
        "threads": (1, MOST_THREADS),
        "shared_memory_bytes": (0, None),
        "num_warps": (1, None),
        "num_stages": (1, None),
    }
    for name, (least, most) in bounds.items():
        value, flag = getattr(flags, name), f"--{name.replace('_', '-')}"
        if value is None:
            continue
        if value < least or (most is not None and value > most):
            upper = "or more" if most is None else f"to {most:,}"
            raise InvalidSpecError(f"{flag} {value} is out of bounds; set {least} {upper}")
        if name in OPTIONS and not any(one.suffix in TRITON or _own_kernel(one) for one in files):
            raise InvalidSpecError(
                f"{flag} applies only to Triton sources ({', '.join(TRITON)}), and"
                f" {printable(files[0].name)} is none; leave it out"
            )


def _own_kernel(file: File) -> LabKernel | None:
    """Return the kernel of perfatlas of that name; None for files.

    Raises:
        InvalidSpecError: A plain name is neither a file nor a kernel.
    """
    from perfatlas.lab.kernels import lab_kernel

    is_name = file.suffix == "" and len(file.parts) == 1 and not file.exists()
    return lab_kernel(file.name) if is_name else None


def _inspected(file: File, flags: InspectFlags) -> Inspection:
    from perfatlas.lab.kernels import inspect_kernel
    from perfatlas.lab.static import Compilation, inspect as inspect_file

    asked = Compilation(
        targets=tuple(dict.fromkeys(flags.target or ())),
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
