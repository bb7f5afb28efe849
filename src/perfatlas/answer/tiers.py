"""Requirements of pricing tiers, and the tier of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.files import shipped_table
from perfatlas.measurements import tables
from perfatlas.measurements.calibrations import (
    SUBSTITUTE_FAMILIES,
    find_calibration,
    find_schedule,
)
from perfatlas.pricing import TIERS
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import System
    from perfatlas.operators import IntArray

DEEPEP: Final = "data/collectives/deepep.toml"
MEASURED_STANDING: Final = (
    "tier measured: the physics model times its error on the nearest measured shapes, each under"
    " its measurement protocol"
)
ASSUMED_LOSSES: Final = (
    "{device} has no measured kernels: its times contain assumed losses and are estimates whose"
    " upper end is unknown; tier bound has the lower limit"
)


def require_tier(system: System, tier: str, family: str, silicon_version: str | None) -> None:
    """Refuse a tier without data for a system.

    Args:
        family: Kernel family of the engine, "" for any.
        silicon_version: Requested version of the tables, None for any.

    Raises:
        InvalidSpecError: A table version with another tier than measured.
        UnsupportedError: The device has no measured kernels, or not in that version.
        MissingDependencyError: The measured tables are not installed.
    """
    if tier == "physics":
        require_kernels(system)
    if tier == "measured":
        require_tables(system, family, silicon_version)
    elif silicon_version is not None:
        raise InvalidSpecError(
            f"silicon_version = {repr_for_error(silicon_version)} applies only to tier measured;"
            " this"
            f" scenario uses tier {tier}; set tier = measured, or leave silicon_version out"
        )


def require_engine(system: System, engine: EngineProfile) -> None:
    """Refuse an engine that does not run on a device.

    Raises:
        UnsupportedError: Devices of this kind run another engine, or the engine or its exchange of
            tokens runs on those of other vendors.
    """
    device = system.device
    require_vendor(system, engine, "engine")
    vendors = shipped_table(DEEPEP)["runs_on"]["vendors"]
    if engine.expert_exchange.startswith("deepep") and device.vendor not in vendors:
        raise UnsupportedError(
            f"expert_exchange = {engine.expert_exchange}: the kernels of DeepEP run on devices of"
            f" {', '.join(vendors)}, and {device.name} is of {device.vendor}; set expert_exchange ="
            " all_to_all, or leave it out"
        )


def require_vendor(system: System, engine: EngineProfile, field: str) -> None:
    """Refuse an engine, or its kernels, that does not run on a device.

    Args:
        field: The field that names the engine.

    Raises:
        UnsupportedError: The engine runs on devices of other vendors or kinds.
    """
    from perfatlas.engines import engines_on, runs_on  # profiles of all engines; training has none

    device = system.device
    if runs_on(engine, device):
        return
    *some, last = engines_on(device, engine.runs)
    named = " or ".join(filter(None, (", ".join(some), last)))
    foreign = engine.runs_on is not None and device.vendor not in engine.runs_on.vendors
    kind = f"a device of {device.vendor}" if foreign else f"a device of kind {device.kind}"
    raise UnsupportedError(
        f"{engine.name} does not run on {device.name}, {kind}; set {field} = {named}"
    )


def require_kernels(system: System) -> None:
    """Refuse tier physics on a device without measured kernels."""
    device = system.device
    if find_calibration(device, "gemm", "", "bf16") is None and find_schedule(device) is None:
        raise UnsupportedError(
            f"tier 'physics' needs measured kernels, but {system.device.name} has none;"
            " use tier bound or auto"
        )


def require_tables(system: System, family: str, silicon_version: str | None) -> None:
    """Refuse tier measured without tables, or without the requested version."""
    tables.silicon_root()
    device = system.device.name
    if device not in tables.silicon_systems():
        raise UnsupportedError(
            f"tier 'measured' needs measured tables, but {device} has none; systems with tables:"
            f" {', '.join(tables.silicon_systems())}; use tier auto or bound"
        )
    families = (family,) if family else SUBSTITUTE_FAMILIES
    versions = {
        version
        for operator in tables.TABLES
        for text in families
        for version in tables.table_versions(device, operator, text)
    }
    if silicon_version is not None and silicon_version not in versions:
        raise UnsupportedError(
            f"silicon_version = {repr_for_error(silicon_version)}: {device} has no tables of"
            f" {' or '.join(families)} in that version"
            f"{did_you_mean(silicon_version, versions) or ';'} versions:"
            f" {', '.join(sorted(versions))}"
        )


def tier_name(*, calibrated: bool, measured: bool) -> str:
    """Return the tier of one priced operator."""
    if not calibrated:
        return "bound"
    return "measured" if measured else "physics"


def tier_names(codes_C: IntArray) -> list[str]:
    """Return the combined names of tiers (C).

    Args:
        codes_C: Sums of their codes, as `StepCost.tier_codes` returns them (C,).
    """
    names = [
        joined_tiers(name for name, tier in TIERS.items() if code & tier)
        for code in range(sum(TIERS.values()) + 1)
    ]
    return [names[code] for code in codes_C.tolist()]


def joined_tiers(tiers: Iterable[str]) -> str:
    """Return the combined name of several tiers, such as physics+measured; bound for none."""
    used = set(tiers)
    return "+".join(tier for tier in TIERS if tier in used) or "bound"


def limit_note(tier: str) -> str:
    """Return that times of a tier are lower limits, "" for a prediction.

    Example:
        >>> from perfatlas.answer import limit_note
        >>> limit_note("bound"), limit_note("physics+bound"), limit_note("measured")
        ('lower limit', 'partly a lower limit', '')
    """
    if tier == "bound":
        return "lower limit"
    return "partly a lower limit" if "bound" in tier.split("+") else ""


def comparison_note(tier: str, base: str) -> str:
    """Return what an answer of one tier compared with one of another compares.

    Returns:
        "" for two predictions, or two answers that are limits alike.

    Example:
        >>> from perfatlas.answer import comparison_note
        >>> comparison_note("bound", "physics"), comparison_note("physics", "measured")
        ('a lower limit on time beside a prediction', '')
    """
    words = {"": "a prediction", "lower limit": "a lower limit on time"}
    name, other = limit_note(tier), limit_note(base)
    if name == other:
        return ""
    return f"{words.get(name, f'{name} on time')} beside {words.get(other, f'{other} on time')}"
