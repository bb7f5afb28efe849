"""Queries of `collective`: parsing and validation."""

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


# groups in reverse order: Python collects annotations from the last base on
class CollectiveInputs(InputFields, CollectiveKernels, TierChoice, CollectiveShape, SystemChoice):
    """A collective between GPUs of one system."""


def read_collective(fields: Mapping[str, Any]) -> CollectiveInputs:
    """Return the collective of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
    """
    inputs = CollectiveInputs.read(fields)
    refuse_unused(vars(inputs), fields_of(type(inputs)))
    if inputs.gpus % (inputs.nodes or 1):
        raise InvalidSpecError(f"nodes = {inputs.nodes} must divide gpus = {inputs.gpus}")
    if inputs.nodes is not None:
        spread(resolve_system(inputs.system), inputs.gpus, inputs.nodes)
    return inputs


def spread(system: System, gpus: int, nodes: int | None) -> System:
    """Return a system whose scale-up domain is reduced to the GPUs per node.

    Args:
        system: The system.
        gpus: Participating GPUs, a multiple of `nodes`.
        nodes: Number of nodes, None for the minimum.

    Raises:
        InvalidSpecError: There are more GPUs per node than a scale-up domain holds.
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
