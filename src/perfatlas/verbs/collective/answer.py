"""`collective`: the price of one communication of a group of devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import (
    MEASURED_STANDING,
    Answer,
    require_tier,
    single_evidence,
    single_row,
    tells_unused_changes,
    tier_name,
)
from perfatlas.collectives import (
    LIBRARY_FAMILY,
    OPS,
    CollectiveShapes,
    Implementation,
    bus_bandwidth,
    price_collectives,
)
from perfatlas.engines import all_reduce_groups
from perfatlas.operators import BOUND_NAMES
from perfatlas.quantities import InvalidSpecError, shown
from perfatlas.verbs.kernel import OperatorReader

if TYPE_CHECKING:
    from perfatlas.hardware import System
    from perfatlas.pricing import PricedOperators

LARGEST_BUFFER: Final = 10**15  # bytes; a larger one is a typing error
NOT_NEAR: Final = "no measured rows of this size and ranks inside one domain are near: physics"
FIELDS: Final = (
    "system",
    "op",
    "bytes",
    "format",
    "gpus",
    "nodes",
    "kernel_family",
    "tier",
    "silicon_version",
)


@tells_unused_changes
def collective(**fields: Any) -> Answer:  # noqa: ANN401 - checked below, name by name
    """Return the time of one collective.

    Args:
        **fields: system, op, bytes (as nccl-tests counts them), gpus, nodes (default: as few
            scale-up domains as hold the gpus), kernel_family (whose kernels run: an engine's, or
            the library's, nccl; by default the fastest all-reduce of all and otherwise the
            library's), format (of the elements; integers are not reduced in the switch), tier,
            silicon_version (of the tables of tier measured).

    Raises:
        InvalidSpecError: A field is missing, unknown or contradicts another.
        UnsupportedError: No data for the tier.

    Example:
        >>> from perfatlas.verbs.collective import collective
        >>> answer = collective(system="h200_sxm", op="all_reduce", bytes=2**20, gpus=8)
        >>> answer.results["time_s"] > answer.results["bound_time_s"]
        True
    """
    reader = OperatorReader("collective", fields)
    reader.allow(FIELDS)
    op = reader.choice("op", OPS, "all_reduce")
    size, gpus = reader.size("bytes", largest=LARGEST_BUFFER), reader.size("gpus")
    system = _spread(reader.system(), int(gpus[0]), reader)
    tier = reader.tier()
    implementation = _implementation(reader)
    require_tier(system, tier, implementation.family, implementation.silicon_version or None)
    found = price_collectives(
        CollectiveShapes(
            op=op,
            bytes=size,
            ranks=gpus,
            stride=np.ones(1),
            format_name=reader.number_format("format").name,
        ),
        systems=(system,),
        system_index_U=np.zeros(1, np.int64),
        tier=tier,
        implementation=implementation,
    )
    priced = found.prices
    time_s = float(priced.time_s_CO[0, 0])
    results = {
        "time_s": time_s,
        "time_s_low": float(priced.low_s_CO[0, 0]),
        # a bound is a lower limit: it has no upper end
        "time_s_high": None if priced.match_CO[0, 0] < 0 else float(priced.high_s_CO[0, 0]),
        "bus_bandwidth_bytes_per_s": float(
            bus_bandwidth(op, size, gpus, priced.time_s_CO[:, 0])[0]
        ),
        "algorithm": str(found.algorithm_U[0]),
        "bound": BOUND_NAMES[priced.code_CO[0, 0]],
        "bound_time_s": float(priced.bound_s_CO[0, 0]),
        "tier": tier_name(
            calibrated=bool(priced.match_CO[0, 0] >= 0), measured=bool(priced.measured_CO[0, 0])
        ),
    }
    return _answer(reader, op, system, priced, results)


def _implementation(reader: OperatorReader) -> Implementation:
    """Return whose collectives run.

    Raises:
        InvalidSpecError: No engine has that name, or a version is asked of the library's tables.
    """
    version = reader.text("silicon_version")
    if reader.text("kernel_family") == LIBRARY_FAMILY:
        if version:
            raise InvalidSpecError(
                f"silicon_version = {shown(version)} names the tables of an engine, and"
                f" {LIBRARY_FAMILY} is the library; leave one of the two out"
            )
        return Implementation()
    engine = reader.kernel_engine()
    return Implementation(
        family=engine.kernel_family,
        custom_groups=all_reduce_groups(engine),
        silicon_version=version,
    )


def _spread(system: System, gpus: int, reader: OperatorReader) -> System:
    """Return the system with its scale-up domain cut to what `nodes` leaves of it."""
    if "nodes" not in reader.given:
        return system
    nodes = int(reader.size("nodes")[0])
    if gpus % nodes:
        raise InvalidSpecError(f"nodes = {nodes} must divide gpus = {gpus}")
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


def _answer(
    reader: OperatorReader,
    op: str,
    system: System,
    priced: PricedOperators,
    results: dict[str, Any],
) -> Answer:
    match = priced.matches[priced.match_CO[0, 0]] if priced.match_CO[0, 0] >= 0 else None
    said = list(priced.notes)
    if reader.tier() == "measured":
        said.append(MEASURED_STANDING)
        if results["tier"] == "physics" and match is not None and match.table[0]:
            said.append(NOT_NEAR)
    return Answer(
        command="collective",
        scenario=reader.given,
        results=results,
        breakdown=[single_row(op, "", results, match, "communication")],
        evidence=single_evidence(system, match, said, results["tier"]),
    )
