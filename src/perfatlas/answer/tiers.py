"""What a tier asks of a system, and which tier answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.measurements.calibrations import LENDERS, find_calibration
from perfatlas.measurements.tables import TABLES, silicon_root, silicon_systems, table_versions
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfatlas.hardware import System

MIXED: Final = ("physics", "measured", "bound")  # in this order where several tiers answer
MEASURED_STANDING: Final = (
    "tier measured: the physics of a cold step times what physics misses on the nearest measured"
    " shapes, each under the protocol it was measured with"
)


def require_tier(system: System, tier: str, family: str, silicon_version: str | None) -> None:
    """Refuse a tier that a system has no data for.

    Args:
        system: Where it runs.
        tier: Tier asked for.
        family: Kernel family of the engine, "" for any.
        silicon_version: Version of the tables asked for, None where the choice is free.

    Raises:
        InvalidSpecError: A table version outside tier measured.
        UnsupportedError: No kernels of the device were measured, or not in that version.
        MissingDependencyError: Tier measured without the measured tables.
    """
    if tier == "physics":
        require_kernels(system)
    if tier == "measured":
        require_tables(system, family, silicon_version)
    elif silicon_version is not None:
        raise InvalidSpecError(
            f"silicon_version = {shown(silicon_version)} names the tables of tier measured, and"
            f" the tier is {tier}; use tier measured or leave the version out"
        )


def require_kernels(system: System) -> None:
    """Refuse tier physics on a device whose kernels nobody measured.

    Raises:
        UnsupportedError: Neither the device nor a relative has calibrations.
    """
    if find_calibration(system.device, "gemm", "", "bf16") is None:
        raise UnsupportedError(
            f"tier 'physics' needs measured kernels and {system.device.name} has none;"
            " use tier bound or auto"
        )


def require_tables(system: System, family: str, silicon_version: str | None) -> None:
    """Refuse tier measured where there are no tables, or none of a version.

    Raises:
        UnsupportedError: The device, or the version for the engine, has no tables.
        MissingDependencyError: The measured tables are not installed.
    """
    silicon_root()
    device = system.device.name
    if device not in silicon_systems():
        raise UnsupportedError(
            f"tier 'measured' needs measured tables and {device} has none; systems with tables:"
            f" {', '.join(silicon_systems())}; use tier auto or bound"
        )
    families = (family,) if family else LENDERS
    known = {
        version
        for operator in TABLES
        for one in families
        for version in table_versions(device, operator, one)
    }
    if silicon_version is not None and silicon_version not in known:
        raise UnsupportedError(
            f"silicon_version = {shown(silicon_version)}: no tables of"
            f" {' or '.join(families)} in that version on {device}"
            f"{did_you_mean(silicon_version, known) or ';'} versions: {', '.join(sorted(known))}"
        )


def tier_name(*, calibrated: bool, measured: bool) -> str:
    """Return the tier of one priced operator."""
    if not calibrated:
        return "bound"
    return "measured" if measured else "physics"


def joined_tiers(tiers: Iterable[str]) -> str:
    """Return the tiers of an answer in one word, such as physics+measured; bound for none."""
    found = set(tiers)
    return "+".join(tier for tier in MIXED if tier in found) or "bound"
