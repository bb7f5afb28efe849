"""Kernels of AMD GPUs, from the assembly that LLVM writes."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from perfatlas.lab.static.kernel import Instructions, Kernel
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGET: Final = re.compile(r'\.amdgcn_target\s+"[^"]*-(gfx\w+)')
LABEL: Final = re.compile(r"^([\w$][\w$.]*):")
OPERATION: Final = re.compile(r"^\s+((?:[vs]|ds|buffer|global|flat|scratch)_\w+)")
FIRST_FACT: Final = re.compile(r"^  - \.")
FACT: Final = re.compile(r"^(?:  - |    )\.(\w+):\s*(\S*)\s*$")
VGPR_BYTES: Final = 4  # of one lane


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


def _bodies(text: str) -> Mapping[str, list[str]]:
    """Return the operations of every kernel."""
    found: dict[str, list[str]] = {}
    operations: list[str] = []
    for row in text.splitlines():
        if match := LABEL.match(row):
            operations = found.setdefault(match[1], [])
        elif match := OPERATION.match(row):
            operations.append(match[1])
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


def _kernel(facts: Mapping[str, str], target: str, operations: list[str]) -> Kernel:
    def number(name: str) -> int | None:
        return int(facts[name]) if facts.get(name, "").isdigit() else None

    spilled = number("vgpr_spill_count")
    mma = Counter(one for one in operations if one.startswith(("v_mfma", "v_wmma", "v_smfmac")))
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
        instructions=Instructions(
            count=len(operations),
            mix=dict(Counter(operations).most_common()),
            mma=dict(mma.most_common()),
            local_loads=sum("scratch_load" in one for one in operations),
            local_stores=sum("scratch_store" in one for one in operations),
        ),
    )
