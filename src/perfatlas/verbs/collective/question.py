"""What `collective` is asked, read and checked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import InputFields, refuse_unused
from perfatlas.vocabulary.fields import (
    CollectiveKernels,
    CollectiveShape,
    SystemChoice,
    TierChoice,
    fields_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from perfatlas.hardware import System


# the groups from the last to the first: Python collects annotations from the last base on
class CollectiveQuestion(InputFields, CollectiveKernels, TierChoice, CollectiveShape, SystemChoice):
    """One collective between GPUs of one system."""


def read_collective(fields: Mapping[str, Any]) -> CollectiveQuestion:
    """Return the collective of named fields.

    Args:
        fields: As given; None is not given.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
    """
    asked = CollectiveQuestion.read(fields)
    refuse_unused(vars(asked), fields_of(type(asked)))
    if asked.gpus % (asked.nodes or 1):
        raise InvalidSpecError(f"nodes = {asked.nodes} must divide gpus = {asked.gpus}")
    if asked.nodes is not None:
        spread(resolve_system(asked.system), asked.gpus, asked.nodes)
    return asked


def spread(system: System, gpus: int, nodes: int | None) -> System:
    """Return a system with its scale-up domain cut to what a number of nodes leaves of it.

    Args:
        system: As named.
        gpus: GPUs that take part, a multiple of `nodes`.
        nodes: Nodes they are spread over, None for as few as hold them.

    Raises:
        InvalidSpecError: More GPUs of a node than a scale-up domain holds.
    """
    if nodes is None:
        return system
    inside, scale_up = gpus // nodes, system.device.scale_up
    if inside > scale_up.domain_size:
        raise InvalidSpecError(
            f"{gpus} gpus on {nodes} nodes are {inside} per node; a scale-up domain of"
            f" {system.name} holds {scale_up.domain_size}; use nodes ="
            f" {-(-gpus // scale_up.domain_size)} or more"
        )
    if nodes == 1:
        return system
    node = system.node
    nics = max(round(node.nics * inside / node.devices), 1)
    return replace(
        system,
        device=replace(system.device, scale_up=replace(scale_up, domain_size=inside)),
        node=replace(node, devices=inside, nics=nics),
    )
