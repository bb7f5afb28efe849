"""The containment tree of components: parents, lifetimes and blast radius."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError, counted, did_you_mean
from perfatlas.reliability.fleet.model.model import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import System
    from perfatlas.reliability.fleet.laws import Law

MOST_PARTS: Final = 1e9
KINDS = (
    "gpu",
    "hbm",
    "nic",
    "host",
    "nvlink",
    "nvswitch_tray",
    "rack",
    "leaf",
    "spine",
    "pdu",
    "cooling_loop",
    "storage",
    "scheduler",
    "software",
)


@dataclass(frozen=True, kw_only=True)
class Component:
    """A kind of component.

    Args:
        kind: One of `KINDS`.
        within: Kind of its parent; "" for components shared by the whole job.
        count: Number per parent.
        lifetime: Distribution of its lifetime; None where it does not fail by itself.
        takes_down: Kind that fails with it; by default itself, or the unit that contains it.
        cause: Further fields of the failures it causes: detection, repair, restart, lemons, ages.
    """

    kind: str
    within: str = ""
    count: float = 1.0
    lifetime: Law | None = None
    takes_down: str = ""
    cause: Mapping[str, Any] | None = None


def counts_in(system: System) -> dict[tuple[str, str], int]:
    """Return the number of a kind per parent, by (kind, parent), from the hardware data.

    Example:
        >>> from perfatlas.reliability.fleet.model.components import counts_in
        >>> from perfatlas.hardware import resolve_system
        >>> counts_in(resolve_system("h100_sxm"))
        {('gpu', 'host'): 8, ('nic', 'host'): 8, ('nvlink', 'gpu'): 18, ('host', 'leaf'): 32}
        >>> counts_in(resolve_system("gb200"))["host", "rack"]
        18
    """
    node, scale_up, domains = system.node, system.device.scale_up, failure_domains(system)
    found = {("gpu", "host"): node.devices, ("nic", "host"): node.nics}
    if scale_up.kind == "nvlink":
        found["nvlink", "gpu"] = scale_up.links
        if domains.nodes_per_domain is not None:  # a rack with one NVLink domain
            found["host", "rack"] = domains.nodes_per_domain
    if domains.nodes_per_leaf is not None:
        found["host", "leaf"] = domains.nodes_per_leaf
    return found


def causes_of(components: Sequence[Component], *, unit: str) -> tuple[Cause, ...]:
    """Return the causes of a tree, by the units they take down.

    A component inside a unit takes down that unit; one that contains units takes down all of them;
    one next to units (a switch tray in a rack) takes down `takes_down`; one shared by the job stops
    it and takes down no unit.

    Args:
        unit: Kind that a job is allocated in.

    Raises:
        InvalidSpecError: An unknown kind, a duplicate kind, a cycle, or a `takes_down` that is no
            ancestor.

    Example:
        >>> from perfatlas.reliability.fleet.model.components import Component, causes_of
        >>> from perfatlas.reliability.fleet.laws import Exponential
        >>> year = Exponential(mean_s=365.25 * 86400)
        >>> tree = (Component(kind="pdu"), Component(kind="rack", within="pdu", count=4),
        ...     Component(kind="host", within="rack", count=8),
        ...     Component(kind="gpu", within="host", count=8, lifetime=year),
        ...     Component(kind="leaf", within="rack", count=2, lifetime=year, takes_down="rack"))
        >>> [(c.name, c.per_unit, c.units) for c in causes_of(tree, unit="host")]
        [('gpu', 8.0, 1), ('leaf', 0.25, 8)]
    """
    tree = _tree(components)
    if unit not in tree:
        raise InvalidSpecError(f"unit = {unit!r} is not a component of the tree")
    return tuple(
        _cause(component, tree, unit) for component in components if component.lifetime is not None
    )


def _tree(components: Sequence[Component]) -> dict[str, Component]:
    tree: dict[str, Component] = {}
    for component in components:
        if component.kind not in KINDS:
            raise InvalidSpecError(
                f"component {component.kind!r} is not one of {', '.join(KINDS)}"
                f"{did_you_mean(component.kind, KINDS)}"
            )
        if component.kind in tree:
            raise InvalidSpecError(f"component {component.kind!r} is defined twice")
        if not 0.0 < component.count <= MOST_PARTS:
            raise InvalidSpecError(
                f"{component.kind}: count = {component.count:g}: expected above zero, at most"
                f" {MOST_PARTS:g}"
            )
        tree[component.kind] = component
    for component in components:
        _ancestors(component.kind, tree)
    return tree


def _ancestors(kind: str, tree: Mapping[str, Component]) -> list[str]:
    """Return a kind and its ancestors, innermost first."""
    chain = [kind]
    while tree[chain[-1]].within:
        holder = tree[chain[-1]].within
        if holder not in tree:
            raise InvalidSpecError(
                f"{chain[-1]} is within {holder!r}, which is not a component of the tree"
            )
        if holder in chain:
            raise InvalidSpecError(f"{' in '.join([*chain, holder])} is a cycle")
        chain.append(holder)
    return chain


def _number_in(kind: str, holder: str, tree: Mapping[str, Component]) -> float:
    """Return the number of a kind per ancestor."""
    number = 1.0
    while kind != holder:
        number *= tree[kind].count
        kind = tree[kind].within
    return number


def _blast(component: Component, tree: Mapping[str, Component], unit: str) -> int:
    down = component.takes_down or component.kind
    chain = _ancestors(component.kind, tree)
    if down not in chain:
        raise InvalidSpecError(
            f"{component.kind} cannot take down {down!r}, which does not contain it: expected one"
            f" of {', '.join(chain)}"
        )
    if down in _ancestors(unit, tree):
        return round(_number_in(unit, down, tree))
    return 1 if unit in _ancestors(down, tree) else 0


def _cause(component: Component, tree: Mapping[str, Component], unit: str) -> Cause:
    units = _blast(component, tree, unit)
    fields: dict[str, Any] = {"name": component.kind, "lifetime": component.lifetime}
    chain = _ancestors(component.kind, tree)
    common = next((kind for kind in chain if kind in _ancestors(unit, tree)), "")
    if not common:
        number, kind = 1.0, component.kind
        while tree[kind].within:
            number *= tree[kind].count
            kind = tree[kind].within
        fields["shared"] = number * tree[kind].count
    else:
        parts = _number_in(component.kind, common, tree)
        fields["per_unit"] = parts / _number_in(unit, common, tree)
    fields["takes"] = "unit" if units else "nothing"
    fields["units"] = max(units, 1)
    if units > 1:
        fields["loses"] = "domain"
    if not units:
        fields["loses"] = "process"
    return Cause(**(fields | dict(component.cause or {})))


LEAF: Final = "fabric.leaf_nodes"


@dataclass(frozen=True, kw_only=True)
class FailureDomains:
    """GPUs of a system that fail, or are cut off, together.

    Args:
        gpus_per_domain: GPUs of a scale-up domain.
        nodes_per_leaf: Nodes below a leaf switch; None if the hardware data do not have it.
        domain_kind: Interconnect of the domain: nvlink, nvlink_mesh, pcie, infinity_fabric, ici or
            upi.
    """

    system: str
    gpus_per_node: int
    gpus_per_domain: int
    nodes_per_leaf: int | None
    domain_kind: str

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
    known = LEAF in system.overridden or system.sources[LEAF].kind != "assumed"
    return FailureDomains(
        system=system.name,
        gpus_per_node=system.node.devices,
        gpus_per_domain=system.device.scale_up.domain_size,
        nodes_per_leaf=system.fabric.leaf_nodes if known else None,
        domain_kind=system.device.scale_up.kind,
    )
