"""Instructions of a cubin from the text of nvdisasm."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.lab.static.kernel import Line
from perfatlas.lab.static.program import Dialect, with_program
from perfatlas.lab.static.tools import run_tool
from perfatlas.lab.static.work import sass_work
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.lab.static.kernel import Kernel

SECTION: Final = re.compile(r"^\s*\.section\s+\.text\.([^\s,\"]+)")
LABEL: Final = re.compile(r"^(\.L_x_\d+):")
LINE: Final = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[T\d]+)\s+)?([A-Z][\w.]*)(.*)$")
TMA: Final = ("UTMALDG", "UTMASTG", "UTMAREDG")
CONDITIONAL: Final = ("BRA.U", "BRA.DIV", "BRA.CONV")  # with the condition among the operands
ALLOCATION: Final = "UTCATOMSWS.FIND_AND_SET"
COLUMNS_OF_ALLOCATION: Final = 32  # PTX ISA, tcgen05.alloc: columns come in groups of 32
FIRST_REGISTER: Final = re.compile(r"^\s*(UR\d+)\b(?:, (0x[0-9a-f]+))?")
LAST_REGISTER: Final = re.compile(r"(UR\d+)\s*;?\s*$")
SASS: Final = Dialect(
    label=re.compile(r"\.L_x_\d+"),
    mma=re.compile(r"^(?:UTC[A-Z]MMA|[A-Z]G?MMA)\b"),
    ends=("EXIT", "RET", "BRA", "BRX", "JMP", "JMX", "KILL"),
    local_loads="LDL",
    local_stores="STL",
    stem=lambda name: name.partition(".")[0],
    work=sass_work,
    padding="NOP",
)


def disassemble(tool: Path, cubin: bytes) -> str:
    """Return the assembly of a cubin."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        code, text, messages = run_tool([tool, "-c", path])
    if code:
        notes = messages.strip().splitlines() or ["no message"]
        raise InvalidSpecError(f"nvdisasm cannot read the cubin: {printable(notes[-1])}")
    return text


def functions_of(text: str) -> Mapping[str, Sequence[Line]]:
    """Return the instructions of every function of an assembly.

    Args:
        text: Output of `nvdisasm -c`.
    """
    bodies: dict[str, list[Line]] = {}
    lines: list[Line] = []
    labels: list[str] = []
    for row in text.splitlines():
        if match := SECTION.match(row):
            lines, labels = bodies.setdefault(match[1], []), []
        elif match := LABEL.match(row):
            labels.append(match[1])
        elif match := LINE.match(row):
            free = match[2] in (None, "PT", "UPT") and not match[3].startswith(CONDITIONAL)
            lines.append(Line(not free, match[3], match[4], tuple(labels)))
            labels = []
    return bodies


def with_instructions(kernel: Kernel, lines: Sequence[Line]) -> Kernel:
    """Return a kernel with what its instructions show."""
    stems = [SASS.stem(line.operation) for line in lines]
    columns = kernel.tensor_memory_columns
    return replace(
        with_program(kernel, lines, SASS),
        tma=sum(map(stems.count, TMA)),
        setmaxnreg=stems.count("USETMAXREG"),
        tensor_memory_columns=_allocated_columns(lines) if columns is None else columns,
    )


def _allocated_columns(lines: Sequence[Line]) -> int | None:
    """Return the columns of the largest allocation of tensor memory; None if it is computed."""
    values: dict[str, int] = {}
    sizes: list[int | None] = []
    for line in lines:
        if line.operation.startswith(ALLOCATION):
            register = LAST_REGISTER.search(line.operands)
            sizes.append(values.get(register[1]) if register else None)
        elif match := FIRST_REGISTER.match(line.operands):
            values.pop(match[1], None)
            if line.operation == "UMOV" and match[2]:
                values[match[1]] = int(match[2], 16)
    stated = [size for size in sizes if size is not None]
    return None if sizes and not stated else max(stated, default=0) * COLUMNS_OF_ALLOCATION
