"""Physical consistency checks of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.files import Text
from perfatlas.hardware.catalog import catalog_spec, system_names
from perfatlas.hardware.changes import number, ports_of_leaf
from perfatlas.hardware.device_fields import FORMATS, DeviceKind
from perfatlas.hardware.schema import KINDS, fields_of, kind_of, unit_of
from perfatlas.quantities import InvalidSpecError, did_you_mean, format_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.files import Entry
    from perfatlas.hardware.spec import Spec

IDENTITY_TOLERANCE: Final = 0.03
ROUNDED: Final = 1.0 + 1e-12  # of clocks that follow from one another
# (narrow, wide): the narrower format must not have the lower dense peak unless a reason is stated.
TORUS: Final = ("ici", "neuronlink")  # kinds of links that form a torus
MAX_TORUS_LINKS: Final = 6  # two of each axis
_PEAK_ORDER: Final = (("fp8", "bf16"), ("int8", "bf16"), ("fp4", "fp8"), ("fp4", "bf16"))
# (lower, upper): the first may not exceed the second.
_ORDER: Final = (
    ("device.clock.sustained", "device.clock.boost"),
    ("device.clock.peak", "device.clock.boost"),
    ("device.idle", "device.tdp"),
    ("device.packages", "device.dies"),
)


def _text(entries: Mapping[str, Entry], path: str) -> str:
    unit = unit_of(path)
    return format_quantity(number(entries, path), unit) if unit else f"{number(entries, path):g}"


def _missing(spec: Spec, kind: DeviceKind) -> list[str]:
    required = (path for path, field in fields_of(kind).items() if field.required)
    paths = [path for path in required if path not in spec.entries]
    if not any(f"device.peak.{name}" in spec.entries for name in ("bf16", "fp16")):
        paths.append("device.peak.bf16")
    return paths


def _check_kind(spec: Spec, kind: DeviceKind) -> None:
    """Check that devices of a kind have the stated fields, and their choices."""
    fields = fields_of(kind)
    for path, entry in spec.entries.items():
        if path not in fields:
            others = [name for name, other in KINDS.items() if path in other.fields]
            raise InvalidSpecError(
                f"{spec.origin}: {path} applies only to device.kind = {' or '.join(others)}; this"
                f" device is of kind {kind.name}"
            )
        if isinstance(fields[path].reader, Text):
            fields[path].reader.read(entry.value, f"{spec.origin}: {path}")


def _check_order(spec: Spec, kind: DeviceKind) -> None:
    entries = spec.entries
    for lower, upper in (*_ORDER, *kind.orders):
        if number(entries, lower) > number(entries, upper) * ROUNDED:
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
        on_torus = str(entries["device.scale_up.kind"].value) in TORUS
        if on_torus and "device.wraparound_multiple" in entries and links > MAX_TORUS_LINKS:
            raise InvalidSpecError(
                f"{spec.origin}: device.scale_up.links = {links:g}: a torus of at most three axes"
                f" has at most {MAX_TORUS_LINKS}"
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


def _check_identity(spec: Spec, kind: DeviceKind) -> None:
    entries = spec.entries
    peak = "device.peak.bf16" if "device.peak.bf16" in entries else "device.peak.fp16"
    if kind.width not in entries:
        return
    parts = (kind.count, "device.clock.peak", kind.width)
    product = 1.0
    for part in parts:
        product *= number(entries, part)
    if abs(number(entries, peak) / product - 1.0) > IDENTITY_TOLERANCE:
        terms = " x ".join(f"{part} {_text(entries, part)}" for part in parts)
        raise InvalidSpecError(
            f"{spec.origin}: {peak} = {_text(entries, peak)} contradicts {terms}"
            f" = {format_quantity(product, 'FLOP/s')} by more than {IDENTITY_TOLERANCE:.0%}"
        )


def _check_fabric(spec: Spec) -> None:
    """Check that leaves fit their switches, and pods consist of leaves."""
    entries = spec.entries
    ports, leaf = ports_of_leaf(entries), int(number(entries, "fabric.leaf_nodes"))
    radix = int(number(entries, "fabric.radix")) if "fabric.radix" in entries else 0
    if radix and leaf > 1 and leaf * ports >= radix:
        raise InvalidSpecError(
            f"{spec.origin}: fabric.leaf_nodes = {leaf}, {ports} ports of a switch each,"
            f" leaves no uplink of fabric.radix = {radix}; set fabric.leaf_nodes to at most"
            f" {max((radix - 1) // ports, 1)}, or leave it out"
        )
    if "fabric.pod_nodes" not in entries:
        named = entries["fabric.topology"].value
        for path in ("fabric.pod_oversubscription", "fabric.topology"):
            if path in entries and (path != "fabric.topology" or named == "dragonfly_plus"):
                raise InvalidSpecError(
                    f"{spec.origin}: {path} = {entries[path].value} needs the nodes of a pod; set"
                    " fabric.pod_nodes (of a dragonfly, the nodes of a group)"
                )
        return
    pod = int(number(entries, "fabric.pod_nodes"))
    if pod % leaf:
        raise InvalidSpecError(
            f"{spec.origin}: fabric.pod_nodes = {pod} is no multiple of fabric.leaf_nodes = {leaf};"
            " a pod consists of whole leaves"
        )


def check_spec(spec: Spec) -> None:
    """Check that the spec is complete and physically consistent."""
    kind = kind_of(spec.entries, spec.origin)
    missing = _missing(spec, kind)
    if missing:
        more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
        raise InvalidSpecError(
            f"{spec.origin}: missing {', '.join(missing[:4])}{more};"
            f" set them, or start from a known system of its kind with base ="
            f' "{kind.base}"'
        )
    _check_kind(spec, kind)
    relative = str(spec.entries["device.calibration_relative"].value)
    if relative and relative not in system_names():
        raise InvalidSpecError(
            f"{spec.origin}: device.calibration_relative = {relative!r} is not a system"
            f"{did_you_mean(relative, system_names())}"
        )
    if relative and kind_of(catalog_spec(relative).entries, relative) is not kind:
        raise InvalidSpecError(
            f"{spec.origin}: device.calibration_relative = {relative!r} is not of kind {kind.name}"
        )
    _check_order(spec, kind)
    _check_peaks(spec)
    _check_identity(spec, kind)
    _check_fabric(spec)


def peaks(entries: Mapping[str, Entry]) -> dict[str, float]:
    """Return the dense peaks that a spec states, by format [FLOP/s]."""
    paths = {name: f"device.peak.{name}" for name in FORMATS}
    return {name: number(entries, path) for name, path in paths.items() if path in entries}
