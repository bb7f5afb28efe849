"""Physical consistency checks of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.hardware.changes import number
from perfatlas.hardware.schema import FIELDS, FORMATS, unit_of
from perfatlas.hardware.spec import Spec, system_names
from perfatlas.quantities import InvalidSpecError, did_you_mean, format_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.files import Entry

IDENTITY_TOLERANCE: Final = 0.03
# (narrow, wide): the narrower format must not have the lower dense peak unless a reason is stated.
_PEAK_ORDER: Final = (("fp8", "bf16"), ("int8", "bf16"), ("fp4", "fp8"), ("fp4", "bf16"))
# (lower, upper): the first may not exceed the second.
_ORDER: Final = (
    ("device.clock.sustained", "device.clock.boost"),
    ("device.clock.peak", "device.clock.boost"),
    ("device.idle", "device.tdp"),
    ("device.l2", "device.memory.capacity"),
    ("device.shared_memory", "device.memory.capacity"),
    ("device.packages", "device.dies"),
)


def _text(entries: Mapping[str, Entry], path: str) -> str:
    unit = unit_of(path)
    return format_quantity(number(entries, path), unit) if unit else f"{number(entries, path):g}"


def _missing(spec: Spec) -> list[str]:
    paths = [path for path, field in FIELDS.items() if field.required and path not in spec.entries]
    if not any(f"device.peak.{name}" in spec.entries for name in ("bf16", "fp16")):
        paths.append("device.peak.bf16")
    return paths


def _check_order(spec: Spec) -> None:
    entries = spec.entries
    for lower, upper in _ORDER:
        if number(entries, lower) > number(entries, upper):
            raise InvalidSpecError(
                f"{spec.origin}: {lower} = {_text(entries, lower)} exceeds"
                f" {upper} = {_text(entries, upper)}"
            )
    if number(entries, "device.scale_up.domain_size") > 1:
        links = number(entries, "device.scale_up.links")
        if links < 1:
            raise InvalidSpecError(
                f"{spec.origin}: device.scale_up.links = {links:g}: a domain of several devices"
                " needs a link"
            )


def _check_peaks(spec: Spec) -> None:
    entries = spec.entries
    for narrow, wide in _PEAK_ORDER:
        low, high = f"device.peak.{narrow}", f"device.peak.{wide}"
        if low not in entries or high not in entries or entries[low].reason:
            continue
        if number(entries, low) < number(entries, high):
            raise InvalidSpecError(
                f"{spec.origin}: {low} = {_text(entries, low)} is below"
                f" {high} = {_text(entries, high)}; change both, or in a TOML give {low} a"
                " `reason`"
            )


def _check_identity(spec: Spec) -> None:
    entries = spec.entries
    peak = "device.peak.bf16" if "device.peak.bf16" in entries else "device.peak.fp16"
    width = "device.flop_per_clock_per_sm"
    if width not in entries:
        return
    parts = ("device.sm_count", "device.clock.peak", width)
    product = 1.0
    for part in parts:
        product *= number(entries, part)
    if abs(number(entries, peak) / product - 1.0) > IDENTITY_TOLERANCE:
        terms = " x ".join(f"{part} {_text(entries, part)}" for part in parts)
        raise InvalidSpecError(
            f"{spec.origin}: {peak} = {_text(entries, peak)} contradicts {terms}"
            f" = {format_quantity(product, 'FLOP/s')} by more than {IDENTITY_TOLERANCE:.0%}"
        )


def check_spec(spec: Spec) -> None:
    """Check that the spec is complete and physically consistent.

    Raises:
        InvalidSpecError: Fields are missing or contradict each other; all are listed.
    """
    missing = _missing(spec)
    if missing:
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        raise InvalidSpecError(
            f"{spec.origin}: missing {', '.join(missing[:4])}{more};"
            ' set them, or start from a known system with base = "h200_sxm"'
        )
    relative = str(spec.entries["device.calibration_relative"].value)
    if relative and relative not in system_names():
        raise InvalidSpecError(
            f"{spec.origin}: device.calibration_relative = {relative!r} is not a system"
            f"{did_you_mean(relative, system_names())}"
        )
    _check_order(spec)
    _check_peaks(spec)
    _check_identity(spec)


def peaks(entries: Mapping[str, Entry]) -> dict[str, float]:
    """Return the dense peaks that a spec states, by format [FLOP/s]."""
    paths = {name: f"device.peak.{name}" for name in FORMATS}
    return {name: number(entries, path) for name, path in paths.items() if path in entries}
