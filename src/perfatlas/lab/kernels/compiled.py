"""Kernels of the registry, compiled for targets and compared with their budgets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfatlas.lab.static import Compilation, Inspection, inspect, plain_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.kernels.registry import Config, LabKernel


def inspect_kernel(kernel: LabKernel, asked: Compilation) -> Inspection:
    """Return the facts of a kernel on targets, by default on all that it has a tile for.

    Args:
        kernel: A row of the registry.
        asked: Targets, options and launch.

    Raises:
        InvalidSpecError: It has no tile for a target.
        MissingDependencyError: Triton is not installed.
    """
    targets = tuple(map(plain_target, asked.targets)) or tuple(kernel.configs)
    declared = {target: {kernel.function: kernel.declared(target)} for target in targets}
    found = inspect(
        kernel.path,
        replace(asked, targets=targets, function=kernel.function, declared=declared),
    )
    if asked.options:
        return found
    for row in found.rows:
        row["warnings"] += over_budget(row, kernel.configs[row["target"]])
    return found


def over_budget(facts: Mapping[str, Any], config: Config) -> list[str]:
    """Return what a kernel needs beyond its budget.

    Args:
        facts: Registers and spilled bytes of a kernel, as of `kernel inspect`.
        config: Its budget.

    Example:
        >>> from perfatlas.lab.kernels import over_budget
        >>> from perfatlas.lab.kernels.registry import Config
        >>> facts = {"registers": 130, "spills_bytes": 0}
        >>> over_budget(facts, Config(tile=(128, 128, 64), registers=128))
        ['130 registers, and the budget of the registry is 128']
    """
    limits = {
        "registers": (facts["registers"], config.registers),
        "bytes spilled": (facts["spills_bytes"], config.spilled_bytes),
    }
    return [
        f"{value} {name}, and the budget of the registry is {most}"
        for name, (value, most) in limits.items()
        if value is not None and value > most
    ]
