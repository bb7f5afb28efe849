"""What the topology of a system gives a job: GPUs per node, and those of a scale-up domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.declarations import verb_fields
from perfatlas.quantities import counted
from perfatlas.reliability.fleet.model import failure_domains

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import FailureDomains, Fleet
    from perfatlas.scenario.interrupted_jobs.job_fields import Goodput


def topology_of(system: str) -> FailureDomains:
    """Return the failure domains of a system.

    Args:
        system: Its name or file.
    """
    from perfatlas.hardware import resolve_system

    return failure_domains(resolve_system(system))


def of_system(inputs: Goodput) -> dict[str, Any]:
    """Return the fields that the topology of a system decides, where they are not set.

    Args:
        inputs: The fields of a job without a fleet.
    """
    if inputs.system is None or "gpus_per_node" in inputs.model_fields_set:
        return {}
    return {"gpus_per_node": topology_of(inputs.system).gpus_per_node}


def topology_notes(inputs: Goodput) -> list[str]:
    """Return whose GPUs per node those of a job are, as sentences.

    Args:
        inputs: The fields of a job without a fleet.
    """
    if inputs.system is None:
        return []
    found, count = topology_of(inputs.system), inputs.gpus_per_node
    if "gpus_per_node" in inputs.model_fields_set and count != found.gpus_per_node:
        known = found.gpus_per_node
        return [f"gpus_per_node = {count} overrides the {known} of {inputs.system}"]
    told = f"{counted(found.gpus_per_node, 'GPU')} per node, as in {inputs.system}"
    if found.gpus_per_node == verb_fields("goodput")["gpus_per_node"].default:
        told += f": system = {inputs.system} has no effect, as it is the default"
    return [told]


def units_of_another_size(system: str, fleet: Fleet) -> str:
    """Return a remark where units of a fleet are neither nodes nor domains of a system, or "".

    Args:
        system: Name or file of the system.
    """
    found = topology_of(system)
    if fleet.gpus_per_unit in (found.gpus_per_node, found.gpus_per_domain):
        return ""
    return (
        f"a unit of the fleet has {counted(fleet.gpus_per_unit, 'GPU')}, but a node of {system} has"
        f" {found.gpus_per_node} and its scale-up domain {found.gpus_per_domain}"
    )
