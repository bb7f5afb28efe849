"""The tree of a system, node, scale-up domain and leaf switch, as failure domains of a fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import counted

if TYPE_CHECKING:
    from perfatlas.hardware import System

LEAF: Final = "fabric.leaf_nodes"


@dataclass(frozen=True, kw_only=True)
class FailureDomains:
    """GPUs of a system that fail, or are cut off, together."""

    system: str
    gpus_per_node: int
    gpus_per_domain: int  # GPUs of a scale-up domain
    # Nodes below a leaf switch; None if the hardware data do not have it
    nodes_per_leaf: int | None

    @property
    def nodes_per_domain(self) -> int | None:
        """Nodes of a scale-up domain; None where it is a node or a part of one."""
        nodes, rest = divmod(self.gpus_per_domain, self.gpus_per_node)
        return nodes if nodes > 1 and not rest else None

    def text(self) -> str:
        """Return the tree as text."""
        spans = self.nodes_per_domain
        domain = f"scale-up domains of {counted(self.gpus_per_domain, 'GPU')}" + (
            f" ({counted(spans, 'node')})" if spans else ""
        )
        leaf = (
            "leaf switches unknown"
            if self.nodes_per_leaf is None
            else f"{counted(self.nodes_per_leaf, 'node')} per leaf switch"
        )
        return (
            f"topology of {self.system}: {counted(self.gpus_per_node, 'GPU')} per node, {domain},"
            f" {leaf}"
        )


def failure_domains(system: System) -> FailureDomains:
    """Return the failure domains of a system.

    Source: the hardware files. A number of nodes per leaf switch that a file assumes, to price
        messages, is no knowledge of a switch and left out; one that the user sets is kept.

    Example:
        >>> from perfatlas.reliability.fleet.model import failure_domains
        >>> from perfatlas.hardware import resolve_system
        >>> failure_domains(resolve_system("gb200")).nodes_per_domain
        18
    """
    has_source = LEAF in system.overridden or system.sources[LEAF].kind != "assumed"
    return FailureDomains(
        system=system.name,
        gpus_per_node=system.node.devices,
        gpus_per_domain=system.device.scale_up.domain_size,
        nodes_per_leaf=system.fabric.leaf_nodes if has_source else None,
    )
