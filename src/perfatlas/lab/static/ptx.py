"""What the text of PTX shows; registers and spills are known only after ptxas."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from perfatlas.lab.static.kernel import Instructions, Kernel
from perfatlas.quantities import InvalidSpecError, printable

ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)")
TARGET: Final = re.compile(r"^\.target\s+sm_(\d+)", re.MULTILINE)
THREADS: Final = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
LINE: Final = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)[ \t;]", re.MULTILINE)
SHARED: Final = re.compile(r"^\s*\.shared\s+(?:\.align\s+\d+\s+)?\.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;")
COLUMNS: Final = re.compile(r"tcgen05\.alloc\.[\w.:]+\s+\[[^\]]*\]\s*,\s*(\d+)")
MMA: Final = re.compile(r"^(?:wgmma\.mma_async|tcgen05\.mma|mma\.sync|wmma\.mma)\b")
TMA: Final = ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
MODIFIERS: Final = re.compile(r"\.(?:sync|aligned|row|col|cta_group::\d|satfinite)\b")


def ptx_kernels(text: str, where: str) -> list[Kernel]:
    """Return the kernels of a PTX text.

    Args:
        text: The text.
        where: Its name, for messages.

    Raises:
        InvalidSpecError: It has no target or no entry.
    """
    target = TARGET.search(text)
    starts = list(ENTRY.finditer(text))
    if target is None or not starts:
        missing = ".target" if target is None else ".entry"
        raise InvalidSpecError(f"{printable(where)} has no {missing}: it is not PTX of a kernel")
    ends = [*(one.start() for one in starts[1:]), len(text)]
    return [
        _kernel(start[1], f"sm_{target[1]}", text[start.start() : end])
        for start, end in zip(starts, ends, strict=True)
    ]


def _kernel(name: str, target: str, text: str) -> Kernel:
    head, _, body = text.partition("{")
    threads = THREADS.search(head)
    sizes = [int(size) for size in threads.groups() if size] if threads else []
    names = LINE.findall(body)
    mma = Counter(MODIFIERS.sub("", one) for one in names if MMA.match(one))
    shared = sum(
        int(match[1]) // 8 * int(match[2] or 1)
        for match in map(SHARED.match, body.splitlines())
        if match
    )
    product = 1
    for size in sizes:
        product *= size
    return Kernel(
        function=name,
        target=target,
        threads=product if sizes else None,
        shared_memory_bytes=shared,
        tensor_memory_columns=ptx_columns(body),
        instructions=Instructions(
            count=len(names),
            mix=dict(Counter(one.partition(".")[0] for one in names).most_common()),
            mma=dict(mma.most_common()),
        ),
        tma=sum(one.startswith(TMA) for one in names),
        setmaxnreg=sum(one.startswith("setmaxnreg") for one in names),
    )


def ptx_columns(text: str) -> int | None:
    """Return the columns of tensor memory that PTX allocates; None if it computes them.

    Args:
        text: PTX of a kernel.
    """
    stated = [int(size) for size in COLUMNS.findall(text)]
    return None if not stated and "tcgen05.alloc" in text else sum(stated)
