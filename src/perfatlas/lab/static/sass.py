"""Instructions of a cubin from the text of nvdisasm, for each kernel and its loops."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.lab.static.kernel import Instructions
from perfatlas.lab.static.loops import natural_loops
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.lab.static.kernel import Kernel

SECONDS: Final = 120  # for one cubin; a large one takes seconds
SECTION: Final = re.compile(r"^\s*\.section\s+\.text\.([^\s,\"]+)")
LABEL: Final = re.compile(r"^(\.L_x_\d+):")
LINE: Final = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[T\d]+)\s+)?([A-Z][\w.]*)(.*)$")
TARGET: Final = re.compile(r"\.L_x_\d+")
MMA: Final = re.compile(r"^(?:UTC[A-Z]MMA|[A-Z]G?MMA)\b")
TMA: Final = ("UTMALDG", "UTMASTG", "UTMAREDG")
ENDS: Final = ("EXIT", "RET", "BRA", "BRX", "JMP", "JMX", "KILL")
ALLOCATION: Final = "UTCATOMSWS.FIND_AND_SET"
COLUMNS_OF_ALLOCATION: Final = 32  # PTX ISA, tcgen05.alloc: columns come in groups of 32
IMMEDIATE: Final = re.compile(r"^\s*(UR\d+), (0x[0-9a-f]+)")
LAST_REGISTER: Final = re.compile(r"(UR\d+)\s*;?\s*$")


class Line(NamedTuple):
    """An instruction: whether it has a predicate, its operation, operands and labels before it."""

    predicated: bool
    operation: str
    operands: str
    labels: tuple[str, ...]


def disassemble(tool: Path, cubin: bytes) -> str:
    """Return the assembly of a cubin.

    Args:
        tool: nvdisasm.
        cubin: The cubin.

    Raises:
        InvalidSpecError: The tool refuses it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(  # noqa: S603 - the tool is the user's, the file is data to it
                [str(tool), "-c", str(path)],
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as problem:
            raise InvalidSpecError(
                f"nvdisasm did not finish within {SECONDS} s; choose one kernel with --function, or"
                " extract it with cuobjdump"
            ) from problem
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InvalidSpecError(
            f"nvdisasm cannot read the cubin: {printable(said[-1] if said else 'no message')}"
        )
    return done.stdout.decode("utf-8", "replace")


def functions_of(text: str) -> Mapping[str, Sequence[Line]]:
    """Return the instructions of every function of an assembly.

    Args:
        text: Output of `nvdisasm -c`.
    """
    found: dict[str, list[Line]] = {}
    lines: list[Line] = []
    labels: list[str] = []
    for row in text.splitlines():
        if match := SECTION.match(row):
            lines, labels = found.setdefault(match[1], []), []
        elif match := LABEL.match(row):
            labels.append(match[1])
        elif match := LINE.match(row):
            always = match[2] in (None, "PT", "UPT")
            lines.append(Line(not always, match[3], match[4], tuple(labels)))
            labels = []
    return found


def with_instructions(kernel: Kernel, lines: Sequence[Line]) -> Kernel:
    """Return a kernel with what its instructions show.

    Args:
        kernel: The kernel.
        lines: Its instructions.
    """
    everything = count_instructions(lines)
    loops = natural_loops(*flow_of(lines))
    return replace(
        kernel,
        instructions=everything,
        main_loop=_main_loop(lines, loops),
        loops=len(loops),
        tma=sum(everything.mix.get(name, 0) for name in TMA),
        setmaxnreg=everything.mix.get("USETMAXREG", 0),
        tensor_memory_columns=(
            kernel.tensor_memory_columns
            if kernel.tensor_memory_columns is not None
            else allocated_columns(lines)
        ),
    )


def _main_loop(lines: Sequence[Line], loops: Sequence[set[int]]) -> Instructions | None:
    """Return the innermost loop with the most matrix instructions, or else the longest loop."""
    matrix = {at for at, line in enumerate(lines) if MMA.match(line.operation)}
    with_mma = [loop for loop in loops if loop & matrix]
    inner = [one for one in with_mma if not any(other < one for other in with_mma)]
    chosen = max(inner or loops, key=lambda one: (len(one & matrix), len(one)), default=None)
    return chosen and count_instructions([lines[at] for at in sorted(chosen)])


def count_instructions(lines: Iterable[Line]) -> Instructions:
    """Return the number of each instruction; padding is left out.

    Args:
        lines: Instructions.
    """
    names = [line.operation for line in lines if line.operation != "NOP"]
    mix = Counter(name.partition(".")[0] for name in names)
    return Instructions(
        count=len(names),
        mix=dict(mix.most_common()),
        mma=dict(Counter(name for name in names if MMA.match(name)).most_common()),
        local_loads=mix["LDL"],
        local_stores=mix["STL"],
    )


def flow_of(lines: Sequence[Line]) -> tuple[int, list[list[int]]]:
    """Return the number of instructions and, for each, those that may follow it.

    Args:
        lines: Instructions of a function.
    """
    place = {label: at for at, line in enumerate(lines) for label in line.labels}
    following = []
    for at, line in enumerate(lines):
        after = [place[label] for label in TARGET.findall(line.operands) if label in place]
        name = line.operation.partition(".")[0]
        # BRA.U and BRA.DIV have their condition among the operands
        conditional = line.predicated or line.operation.startswith(("BRA.U", "BRA.DIV", "BRA.CONV"))
        if at + 1 < len(lines) and (name not in ENDS or conditional):
            after.append(at + 1)
        following.append(after)
    return len(lines), following


def allocated_columns(lines: Sequence[Line]) -> int | None:
    """Return the columns of the largest allocation of tensor memory; None if it is computed.

    Args:
        lines: Instructions of a kernel.
    """
    known: dict[str, int] = {}
    sizes: list[int | None] = []
    for line in lines:
        if line.operation.startswith(ALLOCATION):
            register = LAST_REGISTER.search(line.operands)
            sizes.append(known.get(register[1]) if register else None)
        elif line.operation == "UMOV" and (match := IMMEDIATE.match(line.operands)):
            known[match[1]] = int(match[2], 16)
        elif match := re.match(r"^\s*(UR\d+)\b", line.operands):
            known.pop(match[1], None)
    stated = [size for size in sizes if size is not None]
    if sizes and not stated:
        return None
    return max(stated, default=0) * COLUMNS_OF_ALLOCATION
