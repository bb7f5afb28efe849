"""The calibration that prices an operator on a device: its own, a relative's or a donor's."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import exp
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from perfatlas.files import shipped_table
from perfatlas.formats import formats
from perfatlas.hardware import resolve_system, system_names
from perfatlas.measurements.calibrations import transfer
from perfatlas.measurements.calibrations.calibration import (
    KERNELS,
    SUBSTITUTE_FAMILIES,
    Calibration,
    has_shipped,
    shipped_cell,
    shipped_cells,
    user_cells,
    user_file,
)
from perfatlas.measurements.calibrations.releases import base_family, release_calibrations
from perfatlas.measurements.calibrations.user_folder import FIVE, NO_FILE, user_file_stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perfatlas.hardware import Device

EFFICIENCY: Final = "efficiency_compute"
FEED: Final = "feed_bytes_per_flop"
ROUNDED: Final = 0.03  # difference of ratios of datasheet peaks that is none


def with_tensor_rate(fitted: Calibration, device: Device) -> Calibration:
    """Return a calibration for the tensor cores of a device that borrows it.

    Devices of one architecture run the same kernel. Of its cycles, those of the tensor cores follow
    their rate per SM. The others stay as on the donor: the loads of operands, and what keeps tensor
    cores from their peak, such as issue, scaling and address arithmetic.

        1 / (efficiency x rate) = 1 / rate + other cycles per FLOP

    Args:
        fitted: The calibration, of this device or of a donor.

    Returns:
        The calibration itself if it is the device's own, or if both tensor cores have one rate.

    Source:
        NVIDIA whitepapers of Hopper and Ada: the SMs of an H20 and an H200, and of an RTX 4090 and
        an L40S, differ in the rate of their tensor cores, not in loads or issue per clock.

    Limits:
        Other cycles add to those of tensor cores and are not hidden behind slower ones.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.measurements.calibrations import find_shipped_calibration
        >>> found = {}
        >>> for name in ("h20", "h200_sxm"):
        ...     cell = find_shipped_calibration(
        ...         resolve_system(name).device, "gemm", "sglang", "bf16"
        ...     ).calibration
        ...     found[name] = cell.parameters["efficiency_compute"]
        >>> found["h20"] > found["h200_sxm"]  # a quarter of the tensor rate per SM
        True
    """
    ratio = _rate_ratio(device, fitted)
    if ratio == 1.0:
        return fitted
    old = fitted.parameters
    new = {}
    if 0.0 < old.get(EFFICIENCY, 0.0) < 1.0:
        new[EFFICIENCY] = 1.0 / (1.0 + (1.0 / old[EFFICIENCY] - 1.0) * ratio)
    if FEED in old:
        new[FEED] = old[FEED] / ratio
    return replace(fitted, parameters={**old, **new})


def _rate_ratio(device: Device, fitted: Calibration) -> float:
    """Return the rate of a format per SM and clock relative to that of a donor, 1 where none lends.

    Of an announced device, whose units are assumed, they are taken to load as they multiply.
    """
    lender = None if fitted.device == device.name else _catalog_device(fitted.device)
    if lender is None or lender.architecture != device.architecture:
        return 1.0
    if device.sources["device.year"].kind == "announced":
        return 1.0
    ratio = device.number("flop_per_clock_per_sm") / lender.number("flop_per_clock_per_sm")
    known = formats().get(fitted.format.partition("+")[0])
    peak = "bf16" if known is None else known.tensor_peak
    ours, theirs = (_over_bf16(some, peak) for some in (device, lender))
    return ratio if abs(ours / theirs - 1.0) < ROUNDED else ratio * ours / theirs


def _over_bf16(device: Device, peak: str) -> float:
    """Return a peak over that of 16 bits, 1 where the device has only one of them."""
    peaks = device.peak_flop_per_s
    usual = peaks.get("bf16", peaks.get("fp16", 0.0))
    return peaks[peak] / usual if peak in peaks and usual else 1.0


@cache
def _catalog_device(name: str) -> Device | None:
    return resolve_system(name).device if name in system_names() else None


PRICED: tuple[str, ...] = (
    *("gemm", "moe", "streaming", "prefill_attention", "decode_attention"),
    *("mla_prefill", "mla_decode", "scan_prefill", "scan_decode"),
)


@cache
def kernel_errors_apart(hidden: frozenset[str]) -> Mapping[int, float]:
    """Return the error of whole devices priced from each distance, over the operators of a step.

    Args:
        hidden: Devices left out.

    Example:
        >>> from perfatlas.measurements.calibrations import kernel_errors_apart
        >>> near, far = (kernel_errors_apart(frozenset())[step] for step in (0, 1))
        >>> near < far
        True
    """
    cells = [cell for operator in PRICED for cell in transfer.load_transfers(operator).values()]
    names = sorted({name for cell in cells for name in cell.devices} - hidden)
    silicon = {device.name: device for device in transfer.catalog_silicon(names, links=False)}
    return MappingProxyType(transfer.errors_apart(cells, silicon))


_HIDDEN: ContextVar[frozenset[str]] = ContextVar("_HIDDEN", default=frozenset())


def hidden_devices() -> frozenset[str]:
    """Return the devices whose calibrations are not used.

    Example:
        >>> from perfatlas.measurements.calibrations.matching import hidden_devices, without_devices
        >>> with without_devices(["b200_sxm"]):
        ...     sorted(hidden_devices())
        ['b200_sxm']
    """
    return _HIDDEN.get()


@contextmanager
def without_devices(names: Iterable[str]) -> Iterator[None]:
    """Price as if some devices had not been measured; their rows lend nothing."""
    token = _HIDDEN.set(frozenset(names))
    try:
        yield
    finally:
        _HIDDEN.reset(token)


ENGINE_TRANSFERS: Final = "data/engine_transfers.toml"
VENDOR_TRANSFERS: Final = "data/vendor_transfers.toml"
ANY_KERNEL: Final = ""
PRODUCTS: Final = ("gemm", "moe")  # what the transfer between vendors was measured on, and its kin


@cache
def engine_transfers(operator: str) -> Mapping[str, float]:
    """Return quantiles of ln(measured/predicted) for substituting another engine's kernels.

    Args:
        operator: Calibration operator; those measured for a single engine use pooled quantiles.

    Source: each measured cell priced with the kernels that would substitute for it;
        `validation.transfers.engine_transfer`.
    """
    rows = {row["operator"]: row for row in shipped_table(ENGINE_TRANSFERS)["engine_transfer"]}
    row = rows.get(operator, rows[ANY_KERNEL])
    return {name: row[name] for name in FIVE}


@cache
def vendor_transfer() -> Mapping[str, float]:
    """Return quantiles of ln(measured/predicted) with the kernel parameters of another vendor.

    Source: measured products of AMD GPUs priced with the parameters of NVIDIA GPUs;
        `validation.machines.write_amd`.
    """
    (row,) = shipped_table(VENDOR_TRANSFERS)["vendor_transfer"]
    return {name: row[name] for name in FIVE}


# Engines that call the kernels of a library on the GPUs it is written for. Source: docs.vllm.ai,
# AITER (VLLM_ROCM_USE_AITER, set by AMD's images), and SGLang, AMD GPUs (SGLANG_USE_AITER).
LIBRARIES: Final = {"aiter": ("vllm", "sglang")}


def envelope(quantiles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the envelope of several quantile sets, with the median of their medians."""
    names = quantiles[0].keys()
    pooled: dict[str, float] = {}
    for name in names:
        values = sorted(quantile[name] for quantile in quantiles)
        pooled[name] = values[len(values) // 2]
        if name in ("q05", "q25"):
            pooled[name] = values[0]
        elif name in ("q75", "q95"):
            pooled[name] = values[-1]
    return pooled


# Overridden device fields for which a calibration no longer describes the measured silicon.
KERNEL_FIELDS: Final = (
    "device.peak.",
    "device.sm_count",
    "device.dies",
    "device.exponentials_per_sm_clock",
    "device.clock.peak",
    "device.l2",
    "device.shared_memory",
    "device.memory.bandwidth",
    "device.overhead_ratio",
)
MAX_MATCHES: Final = 4096  # matches of devices, of which a study of changed hardware has many
LATENCY: Final = "device.scale_up.latency"
_RING: Final = ("overhead_rank_s", "overhead_bulk_rank_s")
_PAIRS: Final = {"overhead_s": 1.0, "overhead_bulk_s": 1.0}
# Hops of a fitted time that follow each other, by operator: of a further rank in a ring, or once.
SERIAL_HOPS: Final[Mapping[str, Mapping[str, float]]] = {
    "all_reduce": dict.fromkeys(_RING, 2.0),
    "all_gather": dict.fromkeys(_RING, 1.0),
    "reduce_scatter": dict.fromkeys(_RING, 1.0),
    "all_to_all": _PAIRS,
    "dispatch": _PAIRS,
    "combine": _PAIRS,
    "custom_all_reduce": {**_PAIRS, "overhead_two_shot_s": 1.0},
}
LINK_FIELDS: Final = ("device.scale_up.", "device.overhead_ratio", "node.", "fabric")


@dataclass(frozen=True, kw_only=True)
class CalibrationMatch:
    """The calibration that prices an operator on a device, with its expected errors."""

    calibration: Calibration  # The fitted cell
    own: bool  # Whether it was measured on this device with these kernels
    quantiles: Mapping[str, float]  # Expected {"q05", ..., "q95"} of ln(measured/predicted)
    # Substitutions and user calibrations; empty for the device's own shipped cell
    notes: tuple[str, ...] = ()
    # Version and data hash of the table that corrects it in tier measured; otherwise ""
    table: tuple[str, str] = ("", "")
    other_vendor: bool = False  # Whether the calibration is of another vendor's device
    # Whether these kernels were measured on the device before a user changed it, so that a change
    # of the hardware does not change which kernels run
    own_kernels: bool = False

    @property
    def foreign_device(self) -> str:
        """The device of another vendor that was measured, "" for one of the same vendor."""
        return self.calibration.device if self.other_vendor else ""

    @property
    def limits(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Minimum and maximum of each dimension of the fitted rows."""
        return self.calibration.least_shape, self.calibration.most_shape


def find_calibration(
    device: Device, operator: str, family: str, format_name: str
) -> CalibrationMatch | None:
    """Return the best calibration for an operator on a device, None if there is none.

    Order of preference: the device's own cell; the same device with another engine's kernels; its
    relative; a donor (`transfer.donor_of`), if this device has any calibration or a donor's vendor.
    Substitutions are noted and widen the quantiles. A user calibration replaces the shipped cell.

    Args:
        device: Device the operator runs on.
        operator: gemm, moe, prefill_attention, ... as in `Calibration`.
        family: Kernel family; "" selects the most accurate cell. With a release, as in
            "vllm@0.22", the kernels of that release where they were measured.
        format_name: Format, with "+<kv_format>_kv" where the cache differs.
    """
    return find_calibration_at(
        device, (operator, family, format_name), user_file_stamp(device.name)
    )


def find_shipped_calibration(
    device: Device, operator: str, family: str, format_name: str
) -> CalibrationMatch | None:
    """Return the result of `find_calibration`, which has the arguments, without those of a user."""
    return find_calibration_at(device, (operator, family, format_name), NO_FILE)


def find_calibration_at(
    device: Device, cell: tuple[str, str, str], stamp: tuple[str, int, int]
) -> CalibrationMatch | None:
    """Return the result of `find_calibration` for a known version of the user's file.

    Args:
        device: Device the operator runs on.
        cell: Operator, kernel family and format.
        stamp: `user_file_stamp` of the device's name; for many cells it is read once.
    """
    return _of_device(device, cell, stamp, hidden_devices())


@lru_cache(maxsize=MAX_MATCHES)
def _of_device(
    device: Device,
    cell: tuple[str, str, str],
    stamp: tuple[str, int, int],
    hidden: frozenset[str],
) -> CalibrationMatch | None:
    """Return the result of `find_calibration_at` with some devices hidden."""
    silicon = transfer.silicon_of(device, links=cell[0] not in KERNELS)
    changed = _changed(device, cell[0])
    relatives = tuple(name for name in relatives_of(device) if name not in hidden)
    operator, family, format_name = cell
    mine = user_cells(device.name, stamp).values()
    has_user_cell = any(
        (calibration.operator, calibration.format) == (operator, format_name)
        for calibration in mine
    )
    earlier = None if has_user_cell else _of_release(silicon, relatives, changed, cell, hidden)
    newest = (operator, base_family(family), format_name)
    match = earlier or _find(silicon, relatives, changed, newest, stamp, hidden)
    if match is None:
        return None
    match = replace(match, calibration=with_tensor_rate(match.calibration, device))
    return with_hops(with_overheads(match, device), device)


@cache
def _of_release(
    silicon: transfer.Silicon,
    relatives: tuple[str, ...],
    changed: tuple[str, ...],
    cell: tuple[str, str, str],
    hidden: frozenset[str],
) -> CalibrationMatch | None:
    """Return the kernels of an earlier release, of this device or one of its architecture.

    None where the release ran the same kernels, or where no device of the architecture has them.
    """
    operator, family, format_name = cell
    released = {
        release_calibration.device: release_calibration
        for release_calibration in release_calibrations(family).values()
        if (release_calibration.operator, release_calibration.format) == (operator, format_name)
        and release_calibration.device not in hidden
    }
    if silicon.name in released:
        fitted = released[silicon.name]
        match = CalibrationMatch(
            calibration=fitted,
            own=True,
            quantiles=dict(fitted.residual_quantiles),
            own_kernels=True,
        )
        return _what_if(match, changed) if changed else match
    names = sorted(released, key=lambda name: name not in relatives)
    for similar in transfer.catalog_silicon(names, links=False):
        if similar[1:] == silicon[1:]:  # vendor, architecture and kind
            note = (
                f"{silicon.name} has no measured {operator} kernels of {family}; those of"
                f" {similar.name} are used"
            )
            match = CalibrationMatch(calibration=released[similar.name], own=False, quantiles={})
            return as_substitute(match, note)
    return None


def with_overheads(match: CalibrationMatch, device: Device) -> CalibrationMatch:
    """Return a match with its fixed times scaled by the overhead ratio of a device.

    The ramp of a collective, overhead_ramp_s (wire time / reference time)^ramp_exponent, has a
    fixed time in its reference too, which scales with the others.
    """
    ratio = device.further.get("overhead_ratio", 1.0)
    if ratio == 1.0:
        return match
    fitted = match.calibration.parameters
    scaled = {name: value * ratio for name, value in fitted.items() if name.endswith("_s")}
    if "ramp_exponent" in fitted:
        scaled["overhead_ramp_s"] *= ratio ** -fitted["ramp_exponent"]
    calibration = replace(match.calibration, parameters={**fitted, **scaled})
    return replace(match, calibration=calibration)


def with_hops(match: CalibrationMatch, device: Device) -> CalibrationMatch:
    """Return a match of a collective with the hops of a device whose latency the user changed.

    Fitted times contain the hops of the measured device. The difference to them is added for each
    hop that follows another: a ring passes the other ranks twice to reduce for all and once to
    gather, pairs exchange at once, and two shots pass the switch twice.

    Source: algorithms of NCCL and of custom all-reduces, as in `collectives.physics`.
    """
    cell = match.calibration
    hops = SERIAL_HOPS.get(cell.operator, {})
    measured = _catalog_device(cell.device)
    if not hops or measured is None or LATENCY not in device.overridden:
        return match
    more_s = device.scale_up.latency_s - measured.scale_up.latency_s
    longer = {name: max(cell.parameters[name] + more_s * hops[name], 0.0) for name in hops}
    measured_us, more_us = measured.scale_up.latency_s * 1e6, more_s * 1e6
    note = (
        f"{LATENCY}: {cell.id} was measured with hops of {measured_us:.3g} µs; its fitted times"
        f" change by {more_us:+.3g} µs for each hop"
    )
    calibration = replace(cell, parameters={**cell.parameters, **longer})
    return replace(match, calibration=calibration, notes=(*match.notes, note))


def relatives_of(device: Device) -> tuple[str, ...]:
    """Return the device whose kernels a device runs, then the relative of that one, and so on."""
    relatives: list[str] = []
    name = device.calibration_relative
    while name and name not in (device.name, *relatives):
        relatives.append(name)
        relative = _catalog_device(name)
        name = "" if relative is None else relative.calibration_relative
    return tuple(relatives)


def _changed(device: Device, operator: str) -> tuple[str, ...]:
    """Return the overridden fields for which calibrations do not describe the silicon."""
    of_kind = KERNEL_FIELDS if operator in KERNELS else LINK_FIELDS
    return tuple(name for name in device.overridden if name.startswith(of_kind))


@cache
def _find(
    silicon: transfer.Silicon,
    relatives: tuple[str, ...],
    changed: tuple[str, ...],
    cell: tuple[str, str, str],
    stamp: tuple[str, int, int],
    hidden: frozenset[str],
) -> CalibrationMatch | None:
    operator, family, format_name = cell
    device_name = silicon.name
    mine = user_cells(device_name, stamp)
    seen = device_name not in hidden
    cells = _cells(device_name, operator, format_name, mine) if seen else ()
    if cells:
        match = _noted(_same_device(cells, family), mine)
        if match.calibration.id in mine:  # measured on the user's device, including its changes
            changed = tuple(name for name in changed if name not in user_file(stamp).changed)
        return _what_if(match, changed) if changed else match
    for relative in relatives:
        cells = _cells(relative, operator, format_name)
        if cells:
            note = f"{device_name} has no measured {operator} kernels; those of {relative} are used"
            match, lender = (
                as_substitute(_same_device(cells, family), note),
                _catalog_device(relative),
            )
            if lender is None or lender.vendor == silicon.vendor:
                return match
            quantiles = envelope([match.quantiles, vendor_transfer()])
            quantiles["q50"] = match.quantiles["q50"]
            return replace(match, quantiles=quantiles, other_vendor=True)
    calibrated = any(map(has_shipped, (device_name, *relatives))) or bool(mine)
    return _from_donor(silicon, cell, hidden, calibrated=calibrated)


def _cells(
    device_name: str,
    operator: str,
    format_name: str,
    mine: Mapping[str, Calibration] = MappingProxyType({}),
) -> tuple[Calibration, ...]:
    """Return the cells of all families: the user's first, then the most accurate first."""
    shipped = {cell.id: cell for cell in shipped_cells(device_name, operator, format_name)}
    cells = {**shipped, **mine}.values()
    matches = (c for c in cells if (c.operator, c.format) == (operator, format_name))
    return tuple(sorted(matches, key=lambda cell: (cell.id not in mine, cell.mape)))


def _noted(match: CalibrationMatch, mine: Mapping[str, Calibration]) -> CalibrationMatch:
    """Return a match with a note if its cell is a user calibration."""
    cell = match.calibration
    if cell.id not in mine:
        return match
    note = f"{cell.id} is a user calibration: {cell.data_version}, {cell.data_hash}"
    return replace(match, notes=(*match.notes, note))


def _same_device(cells: Sequence[Calibration], family: str) -> CalibrationMatch:
    for cell in cells:
        called = _called_kernels(cell, family)
        if family in ("", cell.family) or called is not None:
            return CalibrationMatch(
                calibration=cell,
                own=True,
                quantiles=dict(cell.residual_quantiles),
                own_kernels=True,
                notes=(called,) if called else (),
            )
    cell = min(cells, key=lambda cell: [*SUBSTITUTE_FAMILIES, cell.family].index(cell.family))
    note = f"{family} has no calibrated {cell.operator} {cell.format} kernels; {cell.id} is used"
    engine_change = engine_transfers(cell.operator)
    quantiles = envelope([*(other.residual_quantiles for other in cells), engine_change])
    return CalibrationMatch(calibration=cell, own=False, quantiles=quantiles, notes=(note,))


def _called_kernels(cell: Calibration, family: str) -> str | None:
    """Return the setting with which an engine runs the kernels of another's cell, None for none."""
    caller = base_family(family)
    if caller in LIBRARIES.get(cell.family, ()):
        return ""
    key = (cell.device, cell.operator, caller, cell.format, cell.family)
    setting = same_kernels().get(key)
    return setting and f"{caller} runs the kernels of {cell.id} with {setting}"


@cache
def same_kernels() -> Mapping[tuple[str, ...], str]:
    """Return settings by device, operator, engine, format and the engine whose kernels it runs."""
    names = ("device", "operator", "family", "format", "same_kernels")
    rows = shipped_table("data/calibrations/exclusions.toml")["exclusion"]
    return {tuple(row[n] for n in names): row["setting"] for row in rows if "setting" in row}


def _what_if(match: CalibrationMatch, changed: Sequence[str]) -> CalibrationMatch:
    """Return the match for silicon that differs from the measured one."""
    note = f"{', '.join(changed)} changed; kernel parameters are those of the original device"
    return replace(as_substitute(match, note), own_kernels=match.own_kernels)


def as_substitute(match: CalibrationMatch, note: str) -> CalibrationMatch:
    """Return a match used as a substitute, with a note, and quantiles no narrower than its own."""
    quantiles = [match.quantiles] if match.quantiles else []
    return CalibrationMatch(
        calibration=match.calibration,
        own=False,
        quantiles=envelope([*quantiles, _transfer(match.calibration)]),
        notes=(*match.notes, note),
        other_vendor=match.other_vendor,
    )


def _from_donor(
    silicon: transfer.Silicon,
    cell: tuple[str, str, str],
    hidden: frozenset[str],
    *,
    calibrated: bool,
) -> CalibrationMatch | None:
    """Return a match with the parameters of a donor, None if there is no donor."""
    operator, family, format_name = cell
    transfers = transfer.load_transfers(operator).items()
    measured = [
        key for key, cell in transfers if key[1] == format_name and not hidden.issuperset(cell[0])
    ]
    families = [family, *SUBSTITUTE_FAMILIES, *(name for name, _ in measured)]
    donor_family = next((name for name in families if (name, format_name) in measured), None)
    if donor_family is None:
        return None
    names, pairs = transfer.load_transfers(operator)[donor_family, format_name]
    names = tuple(name for name in names if name not in hidden)
    donors = tuple(
        device
        for device in transfer.catalog_silicon(names, links=operator not in KERNELS)
        if device.machine == silicon.machine and (calibrated or device.vendor == silicon.vendor)
    )
    donor = transfer.donor_of(silicon, donors, pairs)
    borrowed = shipped_cell(donor, operator, donor_family, format_name)
    if borrowed is None:
        return None
    errors = kernel_errors_apart(hidden) if operator in KERNELS else {}
    expected = transfer.expected_quantiles(silicon, donors, pairs, errors)
    quantiles = expected or _transfer(borrowed)
    note = (
        f"{silicon.name} has no measured {operator} {format_name} kernels; parameters of {donor}"
        f" are used, which best predict the most similar of {len(donors)} measured devices"
    )
    foreign = all(device.vendor != silicon.vendor for device in donors)
    if foreign:
        note += " of other vendors"
        vendor = vendor_transfer()
        if operator in PRODUCTS:
            slower = vendor["q50"]
            note += (
                f"; times are {exp(slower):.2f} times as long, as those of products measured here"
            )
            borrowed = _slowed(borrowed, exp(slower))
            vendor = {name: value - slower for name, value in vendor.items()}
        quantiles = envelope([quantiles, vendor]) | {"q50": quantiles["q50"]}
    return CalibrationMatch(
        calibration=borrowed, own=False, quantiles=quantiles, notes=(note,), other_vendor=foreign
    )


def _slowed(borrowed: Calibration, ratio: float) -> Calibration:
    """Return the parameters with which every part of a kernel takes a multiple of its time."""
    fitted = {
        name: value / ratio
        if name.startswith("efficiency") or name == FEED
        else value * ratio
        if name.endswith(("_s", "_cycles")) or name == "dispatch_passes"
        else value
        for name, value in borrowed.parameters.items()
    }
    return replace(borrowed, parameters=fitted)


def _transfer(cell: Calibration) -> dict[str, float]:
    """Return the quantiles for another device, at least as wide as on the measured one."""
    transfers = [cell.transfer_quantiles] if cell.transfer_quantiles else []
    if not transfers:
        # No other device has this format; use the transfers of the operator's other formats.
        same = shipped_cells(cell.device, cell.operator)
        transfers = [calibration.transfer_quantiles for calibration in same]
    return envelope([cell.residual_quantiles, *(row for row in transfers if row)])
