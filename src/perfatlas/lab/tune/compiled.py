"""Designs compiled where Triton is installed: what they really need, and which of them spill."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from perfatlas.lab.static import TritonRequest, compile_triton, disassembled
from perfatlas.lab.tune.designs import CompiledDesign
from perfatlas.lab.tune.kernels import Question, compiled_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.lab.tune.chip import Chip


def can_compile() -> bool:
    """Return whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def compile_designs(
    question: Question, designs: Sequence[Mapping[str, int]], chip: Chip
) -> tuple[list[CompiledDesign], Mapping[str, str]]:
    """Return what Triton makes of designs, in one process, and the versions of the compiler.

    Args:
        question: The kernel.
        designs: Its designs.
        chip: Where.

    Raises:
        MissingDependencyError: Triton is not installed.
    """
    requests = []
    for design in designs:
        kernel = compiled_kernel(question, design, chip.target)
        requests.append(
            TritonRequest(
                path=kernel.path,
                target=chip.target,
                function=kernel.function,
                declared={kernel.function: kernel.declared(chip.target)},
                may_fail=True,
            )
        )
    found = compile_triton(requests)
    with ThreadPoolExecutor() as pool:  # of processes of nvdisasm
        disassemblies = list(pool.map(lambda one: disassembled(one, []), found))
    made = []
    for one, kernels in zip(found, disassemblies, strict=True):
        if one.problem or not one.kernels:
            made.append(CompiledDesign(problem=one.problem or "nothing was compiled"))
            continue
        kernel_facts = kernels[0]
        made.append(
            CompiledDesign(
                registers=kernel_facts.registers,
                spilled_bytes=kernel_facts.spills_bytes or 0,
                shared_bytes=kernel_facts.shared_memory_bytes,
                kernel=kernel_facts,
            )
        )
    return made, found[0].versions if found else {}
