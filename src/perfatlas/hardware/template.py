"""A commented hardware file to start from, with every field of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.files import Flag, Number, Text, format_toml
from perfatlas.hardware.description import field_values
from perfatlas.hardware.resolve import resolve_system
from perfatlas.hardware.schema import DEFAULT_KIND, KINDS, fields_of, unit_of
from perfatlas.quantities import InvalidSpecError, format_quantity, repr_for_error

if TYPE_CHECKING:
    from perfatlas.files import Value
    from perfatlas.hardware.device_fields import SpecField

DIGITS: Final = 12  # of a value of the base
HEADER: Final = """\
# A hardware file of perfatlas; --system takes its path. Lines that start with "#" are not read:
# remove the "#" to set a field. Each field has its meaning, unit and range, and what it changes.
# Numbers have the units of datasheets: "4.8 TB/s", "228 KiB". Peaks are dense; bandwidth of links
# is per device and direction. A value may state its own source:
#   device.tdp = {{ value = "700 W", kind = "datasheet", ref = "name of the document" }}
# with kind datasheet, measured, derived or assumed. The bf16 peak must equal {count} x
# device.clock.peak x {width} within 3%.
"""
BASED: Final = """\
# All fields are those of the base until they are set here. Peaks that are not set follow the
# {unit}s, the peak clock and the FLOP per clock.
"""
SOURCE: Final = {"kind": "assumed", "ref": "name the document that the values come from"}


def system_template(base: str | None = None, kind: str | None = None) -> str:
    r"""Return the text of a hardware file with all fields as comments, primary fields first.

    Args:
        base: System whose values the file starts from; None for a file without values.
        kind: Kind of machine, as in `device.kind`; None for that of the base.

    Raises:
        InvalidSpecError: There is no such system or kind, or the base is of another kind.

    Example:
        >>> from perfatlas.hardware import system_template
        >>> "# device.sm_count = 132\n" in system_template("h200_sxm")
        True
    """
    system = None if base is None else resolve_system(base)
    values: dict[str, Value] = {} if system is None else field_values(system)
    head = {} if system is None else {"base": system.name}
    if kind not in (None, *KINDS):
        kinds = ", ".join(KINDS)
        raise InvalidSpecError(f"kind = {repr_for_error(kind)} is not known; use {kinds}")
    if system is not None and kind not in (None, system.device.kind):
        raise InvalidSpecError(
            f"base = {system.name} is of kind {system.device.kind}; leave out kind, or use"
            f" another base"
        )
    schema = KINDS[kind or (DEFAULT_KIND if system is None else system.device.kind)]
    parts = [HEADER.format(count=schema.count, width=schema.width)]
    parts += [*([BASED.format(unit=schema.unit)] if head else []), "\n"]
    parts += [format_toml(head), _inline_source()]
    set_here = {} if head or schema.name == DEFAULT_KIND else {"device.kind": schema.name}
    parts += [f'{path} = "{value}"\n' for path, value in set_here.items()]
    for title, primary in (("Primary fields", True), ("Further fields", False)):
        parts.append(f"\n# ---- {title} ----\n")
        parts += [
            _field(path, field, values.get(path))
            for path, field in fields_of(schema).items()
            if field.primary is primary and path not in set_here
        ]
    return "".join(parts)


def _inline_source() -> str:
    kind, ref = SOURCE["kind"], SOURCE["ref"]
    return f'source = {{ kind = "{kind}", ref = "{ref}" }}\n'


def _field(path: str, field: SpecField, value: Value | None) -> str:
    """Return the comments of a field, and its line."""
    need = "required without a base" if field.required and field.default is None else "optional"
    if field.default is not None:
        need += f", by default {field.default:g}"
    effect = f"changes {', '.join(field.read_by)}" if field.read_by else "descriptive"
    rule = "; ".join((*_bounds(path, field), need))
    return f"\n# {field.meaning}\n# {rule}\n# {effect}\n# {path} = {_value_text(path, value)}\n"


def _bounds(path: str, field: SpecField) -> list[str]:
    match field.reader:
        case Number(least=least, most=most):
            unit = unit_of(path)
            return [f"[{unit or 'number'}] {least:g} to {most:g}"]
        case Flag():
            return ["true or false"]
        case Text(choices=choices) if choices:
            return [", ".join(choices)]
    return []


def _value_text(path: str, value: Value | None) -> str:
    """Return a value as TOML, "..." without one."""
    if value is None or value == "":
        return "..."
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if path == "device.year" else f'"{value}"'
    unit = unit_of(path)
    return f'"{format_quantity(value, unit, digits=DIGITS)}"' if unit else f"{value:.12g}"
