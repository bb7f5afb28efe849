"""Fitted parameters of the devices of a query, as columns, with their errors.

Shape legend: U unique shapes, S distinct systems, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from perfatlas.collectives.codes import EXCHANGES, REDUCTIONS
from perfatlas.collectives.physics import CustomParameters, LibraryParameters
from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system, system_names
from perfatlas.measurements import calibrations
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.hardware import Device, System
    from perfatlas.operators import FloatArray, IntArray

LIBRARY_FAMILY: Final = "nccl"
CUSTOM_OPERATOR: Final = "custom_all_reduce"
FABRIC_OPERATOR: Final = "fabric_exchange"
FABRIC_FAMILY: Final = "deepep"
FABRIC_REFERENCE: Final = "h100_sxm"
# Measured device per link type, for devices whose kernel relative has links of another type.
LINK_STAND_INS: Final = {"pcie": "rtx_pro_6000_server", "ualink": "gb200"}
# Measured device for expert exchanges, by size of the domain (NVL72).
DOMAIN_STAND_INS: Final = {72: "gb200"}
# Integers take another path than 16-bit floats; switches do not reduce them.
INTEGER_FORMATS: Final = ("int8",)
RING_FORMAT: Final = "int8"
TAILS: Final = ("q05", "q95")
Parameters = TypeVar("Parameters", bound=tuple[Any, ...])
Ranked = TypeVar("Ranked", LibraryParameters, CustomParameters)


@dataclass(frozen=True, kw_only=True)
class Cells(Generic[Parameters]):
    """The calibration of each system for one collective."""

    matches: tuple[
        calibrations.CalibrationMatch, ...
    ]  # Calibrations found, one per system that has one
    match_S: IntArray  # Position in `matches`, -1 without a calibration (S,)
    parameters_S: Parameters  # Fitted values, as columns; 1 where there is no calibration (S,)
    tails_S2: FloatArray  # q05 and q95 of ln(measured/predicted) (S, 2)
    notes: tuple[str, ...]  # Substitutions


def cell_operator(op: str) -> str:
    """Return the measured operation that prices an operation.

    Dispatch, combine and point-to-point sends are pairwise exchanges, priced as all_to_all of the
    same bytes.
    """
    return "all_to_all" if op in (*EXCHANGES, "send_recv") else op


def cell_format(op: str, format_name: str) -> str:
    """Return the format key of a measured operation; only reductions depend on the format."""
    if op not in REDUCTIONS:
        return "any"
    return "int8" if format_name in INTEGER_FORMATS else "bf16"


def gather_cells(
    systems: Sequence[System], operator: str, family: str, format_name: str, kind: type[Parameters]
) -> Cells[Parameters]:
    """Return the calibrations of the devices of some systems, with parameters of a kind."""
    matches = [_find(system.device, operator, family, format_name) for system in systems]
    return _noted(_columns(matches, kind), systems, operator, [])


def cells_by_ranks(
    gather: Callable[[Sequence[System]], Cells[Ranked]],
    systems: Sequence[System],
    index_U: IntArray,
    ranks_U: FloatArray,
) -> tuple[Cells[Ranked], IntArray]:
    """Return the calibrations of some systems, and the one that prices each shape (U,).

    Groups of more ranks than were measured on a device use the device with equal links that was
    measured on most ranks, and the answer notes it. `gather` returns the calibrations of systems,
    `index_U` holds the system of each shape, `ranks_U` the ranks of its group.
    """
    cells = gather(systems)
    more_U = (cells.match_S[index_U] >= 0) & (ranks_U > cells.parameters_S.ranks_measured[index_U])
    lent: dict[int, System] = {}
    for index in sorted(set(index_U[more_U].tolist())):
        match, device = cells.matches[cells.match_S[index]], systems[index].device
        if match.other_vendor:  # whose links are of another type
            continue
        cell = match.calibration
        key = (cell.operator, cell.family, cell.format)
        lender = _measured_on_most_ranks(cell.device, key, calibrations.hidden_devices())
        if lender != cell.device:
            name = f"{device.name} on more ranks"
            renamed = replace(device, name=name, calibration_relative=lender)
            lent[index] = replace(systems[index], device=renamed)
    if not lent:
        return cells, index_U
    used_S = np.arange(len(systems))
    used_S[list(lent)] = len(systems) + np.arange(len(lent))
    return gather([*systems, *lent.values()]), np.where(more_U, used_S[index_U], index_U)


@cache
def _measured_on_most_ranks(device: str, key: tuple[str, str, str], hidden: frozenset[str]) -> str:
    """Return the device with the links of a measured one whose cell has the most ranks."""
    links, most = replace(resolve_system(device).device.scale_up, domain_size=1), {device: 0.0}
    for name in (device, *(name for name in system_names() if calibrations.has_shipped(name))):
        cell = None if name in hidden else calibrations.shipped_cell(name, *key)
        if cell and replace(resolve_system(name).device.scale_up, domain_size=1) == links:
            most[name] = cell.parameters["ranks_measured"]
    return max(most, key=most.__getitem__)


def all_reduce_cells(systems: Sequence[System], format_name: str) -> Cells[LibraryParameters]:
    """Return the calibrations of the library's all-reduce.

    Parameters fitted with in-network reduction do not apply to rings. Systems without it use those
    of integers, which switches do not reduce, and the answer notes it.
    """
    matches: list[calibrations.CalibrationMatch | None] = []
    rings: list[str] = []
    for system in systems:
        match = _find(system.device, "all_reduce", LIBRARY_FAMILY, format_name)
        in_switch = match is not None and match.calibration.parameters["efficiency_in_network"] > 0
        if in_switch and not system.device.scale_up.in_network_reduction:
            match = _find(system.device, "all_reduce", LIBRARY_FAMILY, RING_FORMAT)
            rings.append(system.name)
        matches.append(match)
    note = f"rings on {', '.join(rings)} use parameters fitted on integers, which no switch reduces"
    cells = _columns(matches, LibraryParameters)
    return _noted(cells, systems, "all_reduce", [note] if rings else [])


def _noted(
    cells: Cells[Parameters], systems: Sequence[System], operator: str, notes: Sequence[str]
) -> Cells[Parameters]:
    """Return the cells with notes, including one on systems without measurements."""
    missing = [
        system.name for system, match in zip(systems, cells.match_S, strict=True) if match < 0
    ]
    note = (
        f"{operator} was not measured on {', '.join(missing)}; it is priced in tier bound,"
        " without latency"
    )
    return replace(cells, notes=(*cells.notes, *notes, *([note] if missing else [])))


def _find(
    device: Device, operator: str, family: str, format_name: str
) -> calibrations.CalibrationMatch | None:
    """Return the calibration of a device, or of one with links of the same type."""
    kind = device.scale_up.link_type
    if _other_links(device):
        renamed = replace(device, name=f"{device.name} over {kind}", calibration_relative="")
        return calibrations.find_calibration(renamed, operator, family, format_name)
    match = calibrations.find_calibration(device, operator, family, format_name)
    if match is None or match.calibration.device == device.name:
        return match
    if resolve_system(match.calibration.device).device.scale_up.link_type == kind:
        return match
    relative = LINK_STAND_INS.get(kind, device.calibration_relative if match.other_vendor else "")
    return calibrations.find_calibration(
        replace(device, calibration_relative=relative), operator, family, format_name
    )


def _other_links(device: Device) -> bool:
    """Return whether the user gave a device of the catalog links of another type."""
    changed = "device.scale_up.kind" in device.overridden
    is_catalogued = changed and device.name in system_names()
    return (
        is_catalogued and resolve_system(device.name).device.scale_up.kind != device.scale_up.kind
    )


def exchange_cells(systems: Sequence[System], op: str, family: str) -> Cells[LibraryParameters]:
    """Return the calibrations of an engine's expert exchange.

    Devices without one use that of the device measured for their domain size, otherwise the
    library's all_to_all of the same bytes, and the answer notes it. `family` is "" for the library.
    """
    matches: list[calibrations.CalibrationMatch | None] = []
    plain: list[str] = []
    for system in systems:
        match = _find(system.device, op, family, "any") if family else None
        if match is None and family:
            measured = DOMAIN_STAND_INS.get(system.device.scale_up.domain_size, "")
            stand_in = replace(system.device, calibration_relative=measured)
            match = calibrations.find_calibration(stand_in, op, family, "any")
        if match is None:
            match = _find(system.device, "all_to_all", LIBRARY_FAMILY, "any")
            plain += [system.name] if match is not None else []
        matches.append(match)
    cells = _columns(matches, LibraryParameters)
    note = f"{op} on {', '.join(plain)} is priced as a library all_to_all of the same bytes"
    return _noted(cells, systems, op, [note] if plain else [])


def fabric_cells(systems: Sequence[System], kind: type[Parameters]) -> Cells[Parameters]:
    """Return the calibrations of the fabric level of some systems.

    NIC efficiency and hop cost are properties of the network and its software. Devices without
    measured inter-node exchanges use those of `FABRIC_REFERENCE`, and the answer notes it.
    """
    operator, family = FABRIC_OPERATOR, FABRIC_FAMILY
    reference = f"{FABRIC_REFERENCE}/{operator}/{family}/any"
    shipped = calibrations.shipped_cell(FABRIC_REFERENCE, operator, family, "any")
    if shipped is None:
        raise UnsupportedError(
            f"the calibration {reference!r}, which prices inter-node collectives, is missing;"
            f" create it with `perfatlas calibrate {FABRIC_REFERENCE} --operator {operator}`"
        )
    matches: list[calibrations.CalibrationMatch | None] = []
    for system in systems:
        match = calibrations.find_calibration(system.device, operator, family, "any")
        if match is None or not match.own_kernels:
            note = (
                f"inter-node communication of {system.name} uses the NICs and software measured as"
                f" {reference}"
            )
            tails = (shipped.residual_quantiles, shipped.transfer_quantiles)
            match = calibrations.CalibrationMatch(
                calibration=shipped, own=False, quantiles=_envelope(tails), notes=(note,)
            )
            match = calibrations.with_overheads(match, system.device)
        matches.append(match)
    return _columns(matches, kind)


def _columns(
    cells: Sequence[calibrations.CalibrationMatch | None], kind: type[Parameters]
) -> Cells[Parameters]:
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined] # of named tuples
    matches: list[calibrations.CalibrationMatch] = []
    match_S = np.full(len(cells), -1, np.int64)
    parameters_SP = np.ones((len(cells), len(names)))
    tails_S2 = np.zeros((len(cells), 2))
    notes: dict[str, None] = {}
    for index, match in enumerate(cells):
        if match is None:
            continue
        match_S[index] = len(matches)
        matches.append(match)
        parameters_SP[index] = [match.calibration.parameters[name] for name in names]
        tails_S2[index] = [match.quantiles[tail] for tail in TAILS]
        notes |= dict.fromkeys(match.notes)
    return Cells(
        matches=tuple(matches),
        match_S=match_S,
        parameters_S=kind(*parameters_SP.T),
        tails_S2=tails_S2,
        notes=tuple(notes),
    )


def _envelope(quantiles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the envelope of q05 and q95 over several quantile sets."""
    measured = [quantile for quantile in quantiles if quantile]
    return {"q05": min(row["q05"] for row in measured), "q95": max(row["q95"] for row in measured)}


def widened(tails_U2: FloatArray, other_U2: FloatArray) -> FloatArray:
    """Return the envelope of the log quantiles, q05 and q95, of two sources of error (U, 2)."""
    (low_U, high_U), (other_low_U, other_high_U) = tails_U2.T, other_U2.T
    return np.column_stack((np.minimum(low_U, other_low_U), np.maximum(high_U, other_high_U)))


@cache
def seen_nic_share() -> float:
    """Return the rate of NICs per GPU of the machines whose exchanges were fitted [bytes/s]."""
    return nic_share(resolve_system(FABRIC_REFERENCE))


def nic_share(system: System) -> float:
    """Return the rate of a node's NICs per GPU, per direction [bytes/s]."""
    node = system.node
    return node.nics * node.nic_bandwidth / node.devices


@cache
def unseen_fabric_tails() -> FloatArray:
    """Return q05 and q95 of ln(measured/predicted) of collectives over fabrics of no fit (2,).

    They hold 90% of the runs of every published machine, most of which have NICs as fast as those
    of the fits, over other fabrics. If machines are exchangeable, those of a
    further one are beyond an end with a probability of 1 / (machines + 1).

    Source:
        `data/collectives/unseen_fabrics.toml`; distribution-free tolerance limits, Wilks, Ann.
        Math. Stat. 12 (1941).
    """
    rows = shipped_table("data/collectives/unseen_fabrics.toml")["machine"]
    return np.array([min(row["q05"] for row in rows), max(row["q95"] for row in rows)])


@cache
def one_doubling(op: str) -> FloatArray:
    """Return q05 and q95 of ln(measured/predicted) at twice the measured ranks (2,).

    Source:
        Fits on 2 and 4 ranks scored on 8, all devices with a switched domain; written by
        `validation.transfers.rank_extrapolation.write_rank_extrapolation`.
    """
    rows = shipped_table("data/collectives/rank_extrapolation.toml")["extrapolation"]
    row = next(row for row in rows if row["op"] == cell_operator(op))
    return np.array([float(row["q05"]), float(row["q95"])])


def adds_measured(cells: Cells[Parameters]) -> FloatArray:
    """Return 1 where the switch of the measured device reduces, else 0 (S,)."""
    adds = [
        float(resolve_system(match.calibration.device).device.scale_up.in_network_reduction)
        for match in cells.matches
    ]
    return np.array([*adds, 0.0])[cells.match_S]
