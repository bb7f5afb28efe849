"""Kernels of AMD GPUs, from the assembly that LLVM writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.lab.static.kernel import Kernel
from perfatlas.lab.static.program import Dialect, Line, counted_instructions, loops_of
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TARGET: Final = re.compile(r'\.amdgcn_target\s+"[^"]*-(gfx\w+)')
START: Final = re.compile(r"^([\w$][\w$.]*):")
LABEL: Final = re.compile(r"^(\.LBB\w+):")
OPERATION: Final = re.compile(r"^\s+((?:[vs]|ds|buffer|global|flat|scratch)_\w+)([^;]*)")
FIRST_FACT: Final = re.compile(r"^  - \.")
FACT: Final = re.compile(r"^(?:  - |    )\.(\w+):\s*(\S*)\s*$")
VGPR_BYTES: Final = 4  # of one lane
ENCODING: Final = re.compile(r"_(?:e32|e64|sdwa|dpp)$")
AMDGCN: Final = Dialect(
    label=re.compile(r"\.LBB\w+"),
    mma=re.compile(r"^v_(?:mfma|smfmac|wmma)_"),
    ends=("s_branch", "s_endpgm", "s_setpc_b64"),
    local_loads="scratch_load",
    local_stores="scratch_store",
    stem=lambda name: ENCODING.sub("", name),
)


def amdgcn_kernels(text: str, where: str) -> list[Kernel]:
    """Return the kernels of an assembly.

    Args:
        text: The assembly, with its metadata.
        where: Its name, for messages.

    Raises:
        InvalidSpecError: It has no target or no metadata of kernels.
    """
    target = TARGET.search(text)
    bodies, metadata = _bodies(text), _metadata(text)
    if target is None or not metadata:
        raise InvalidSpecError(
            f"{printable(where)} has no .amdgcn_target or no metadata of kernels: give the assembly"
            " that the compiler writes (.amdgcn, or `clang -S`)"
        )
    return [_kernel(facts, target[1], bodies.get(facts["name"], [])) for facts in metadata]


def _bodies(text: str) -> Mapping[str, Sequence[Line]]:
    """Return the instructions of every kernel."""
    found: dict[str, list[Line]] = {}
    lines: list[Line] = []
    labels: list[str] = []
    for row in text.splitlines():
        if match := START.match(row):
            lines, labels = found.setdefault(match[1], []), []
        elif match := LABEL.match(row):
            labels.append(match[1])
        elif match := OPERATION.match(row):
            lines.append(
                Line(conditional=False, operation=match[1], operands=match[2], labels=tuple(labels))
            )
            labels = []
    return found


def _metadata(text: str) -> list[dict[str, str]]:
    """Return the facts of every kernel in `amdhsa.kernels`; arguments are deeper."""
    rows: list[dict[str, str]] = []
    _, _, part = text.partition("amdhsa.kernels:")
    for row in part.splitlines():
        if FIRST_FACT.match(row):
            rows.append({})
        if match := FACT.match(row):
            if rows:
                rows[-1][match[1]] = match[2].strip("'\"")
        elif row and not row.startswith(" "):
            break
    return [facts for facts in rows if "name" in facts]


def _kernel(facts: Mapping[str, str], target: str, lines: Sequence[Line]) -> Kernel:
    def number(name: str) -> int | None:
        return int(facts[name]) if facts.get(name, "").isdigit() else None

    spilled = number("vgpr_spill_count")
    loops, main_loop = loops_of(lines, AMDGCN)
    return Kernel(
        function=facts["name"],
        target=target,
        registers=number("vgpr_count"),
        accumulation_registers=number("agpr_count"),
        stack_bytes=number("private_segment_fixed_size"),
        spills_bytes=None if spilled is None else spilled * VGPR_BYTES,
        shared_memory_bytes=number("group_segment_fixed_size"),
        threads=number("max_flat_workgroup_size"),
        parameter_bytes=number("kernarg_segment_size"),
        tensor_memory_columns=0,
        instructions=counted_instructions(lines, AMDGCN),
        main_loop=main_loop,
        loops=loops,
        tma=0,
        setmaxnreg=0,
    )
