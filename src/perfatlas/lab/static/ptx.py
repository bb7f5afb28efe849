"""What the text of PTX shows; registers and spills are known only after ptxas."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from perfatlas.lab.static.kernel import Kernel, Line
from perfatlas.lab.static.program import Dialect, with_program
from perfatlas.lab.static.work import ptx_work
from perfatlas.quantities import InvalidSpecError, printable

ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)")
TARGET: Final = re.compile(r"^\.target\s+sm_(\d+)", re.MULTILINE)
THREADS: Final = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
LABEL: Final = re.compile(r"^\s*(\$\w+):")
LINE: Final = re.compile(r"^\s*(@!?%\w+\s+)?([a-z][\w.:]*)([ \t;].*)$")
SHARED: Final = re.compile(
    r"^[ \t]*\.shared\s+(?:\.align\s+\d+\s+)?\.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;", re.MULTILINE
)
COLUMNS: Final = re.compile(r"tcgen05\.alloc\.[\w.:]+\s+\[[^\]\n]*\]\s*,\s*(\d+)")
TMA: Final = ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
MODIFIERS: Final = re.compile(r"\.(?:sync|aligned|row|col|cta_group::\d|satfinite)\b")
JUMP_TABLE: Final = re.compile(r"\.branchtargets([^;.]*);")
PTX: Final = Dialect(
    label=re.compile(r"\$\w+"),
    mma=re.compile(r"^(?:wgmma\.mma_async|tcgen05\.mma|mma\.sync|wmma\.mma)\b"),
    ends=("ret", "bra", "brx", "exit", "trap"),
    local_loads="ld.local",
    local_stores="st.local",
    stem=lambda name: name.partition(".")[0],
    work=ptx_work,
    mma_name=lambda name: MODIFIERS.sub("", name),
)


def ptx_kernels(text: str, where: str) -> list[Kernel]:
    """Return the kernels of a PTX text."""
    target = TARGET.search(text)
    starts = list(ENTRY.finditer(text))
    if target is None or not starts:
        missing = ".target" if target is None else ".entry"
        raise InvalidSpecError(f"{printable(where)} has no {missing}: it is not PTX of a kernel")
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return [
        _kernel(start[1], f"sm_{target[1]}", text[start.start() : end])
        for start, end in zip(starts, ends, strict=True)
    ]


def _kernel(name: str, target: str, text: str) -> Kernel:
    head, _, body = text.partition("{")
    threads = THREADS.search(head)
    lines = _lines(body)
    names = [line.operation for line in lines]
    shared = (int(bits) // 8 * int(count or 1) for bits, count in SHARED.findall(body))
    return replace(
        with_program(Kernel(function=name, target=target), lines, PTX),
        threads=math.prod(int(size) for size in threads.groups() if size) if threads else None,
        shared_memory_bytes=sum(shared),
        tensor_memory_columns=ptx_columns(body),
        tma=sum(word.startswith(TMA) for word in names),
        setmaxnreg=sum(word.startswith("setmaxnreg") for word in names),
    )


def _lines(body: str) -> list[Line]:
    tables = " ".join(JUMP_TABLE.findall(body))
    lines: list[Line] = []
    labels: list[str] = []
    for row in body.splitlines():
        if match := LABEL.match(row):
            labels.append(match[1])
        elif match := LINE.match(row):
            operands = match[3] + tables if match[2].startswith("brx") else match[3]
            lines.append(Line(bool(match[1]), match[2], operands, tuple(labels)))
            labels = []
    return lines


def ptx_columns(text: str) -> int | None:
    """Return the columns of tensor memory that PTX allocates; None if it computes them."""
    stated = [int(size) for size in COLUMNS.findall(text)]
    return None if not stated and "tcgen05.alloc" in text else sum(stated)
