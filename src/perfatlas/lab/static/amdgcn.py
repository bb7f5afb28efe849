"""Kernels of AMD GPUs, from the assembly that LLVM writes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.lab.static.kernel import Kernel, Line
from perfatlas.lab.static.program import Dialect, with_program
from perfatlas.lab.static.work import amd_work
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TARGET: Final = re.compile(r'\.amdgcn_target\s+"[^"]*-(gfx\w+)')
START: Final = re.compile(r"^([\w$][\w$.]*):")
LABEL: Final = re.compile(r"^(\.LBB\w+):")
OPERATION: Final = re.compile(r"^\s+((?:[vs]|ds|buffer|global|flat|scratch)_\w+)([^;]*)")
METADATA: Final = re.compile(r"^amdhsa\.kernels:\n((?: .*\n|\n)*)", re.MULTILINE)
FACT: Final = re.compile(r"^(?:  - |    )\.(\w+):[ \t]*(\S*)[ \t]*$", re.MULTILINE)
VGPR_BYTES: Final = 4  # of one lane
ENCODING: Final = re.compile(r"_(?:e32|e64|sdwa|dpp)$")
AMDGCN: Final = Dialect(
    label=re.compile(r"\.LBB\w+"),
    mma=re.compile(r"^v_(?:mfma|smfmac|wmma)_"),
    ends=("s_branch", "s_endpgm", "s_setpc_b64"),
    local_loads="scratch_load",
    local_stores="scratch_store",
    stem=lambda name: ENCODING.sub("", name),
    work=amd_work,
)


def amdgcn_kernels(text: str, where: str) -> list[Kernel]:
    """Return the kernels of an assembly."""
    target, metadata = TARGET.search(text), METADATA.search(text)
    rows = re.split(r"^  - ", metadata[1], flags=re.MULTILINE)[1:] if metadata else []
    kernels = [dict(FACT.findall(f"    {row}")) for row in rows]
    if target is None or not any("name" in facts for facts in kernels):
        raise InvalidSpecError(
            f"{printable(where)} has no .amdgcn_target or no metadata of kernels: give the assembly"
            " that the compiler writes (.amdgcn, or `clang -S`)"
        )
    bodies = _bodies(text)
    return [
        with_program(_kernel(facts, target[1]), bodies.get(facts["name"], []), AMDGCN)
        for facts in kernels
        if "name" in facts
    ]


def _bodies(text: str) -> Mapping[str, Sequence[Line]]:
    """Return the instructions of every kernel."""
    bodies: dict[str, list[Line]] = {}
    lines: list[Line] = []
    labels: list[str] = []
    for row in text.splitlines():
        if match := START.match(row):
            lines, labels = bodies.setdefault(match[1], []), []
        elif match := LABEL.match(row):
            labels.append(match[1])
        elif match := OPERATION.match(row):
            line = Line(conditional=False, operation=match[1], operands=match[2], labels=(*labels,))
            lines.append(line)
            labels = []
    return bodies


def _kernel(facts: Mapping[str, str], target: str) -> Kernel:
    def number(name: str) -> int | None:
        return int(facts[name]) if facts.get(name, "").isdigit() else None

    spilled = number("vgpr_spill_count")
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
        tma=0,
        setmaxnreg=0,
    )
