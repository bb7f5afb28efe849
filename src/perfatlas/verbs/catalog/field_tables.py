"""The tables of input fields, metrics and fields of files as catalogs: rows, and one entry."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from perfatlas.declarations import declared_metrics, questions, verb_fields
from perfatlas.files import Array, Flag, Named, Number, Text, Whole
from perfatlas.quantities import UsageError, did_you_mean, repr_for_error
from perfatlas.vocabulary import fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Protocol

    class FileField(Protocol):
        """A field of a hardware or engine file."""

        @property
        def reader(self) -> object:
            """Reads its value."""

        @property
        def required(self) -> bool:
            """Whether every file states it."""

        @property
        def read_by(self) -> tuple[str, ...]:
            """What may use its value."""


def _known(name: str, names: Collection[str], catalog: str, hint: str = "") -> str:
    """Return the name of an entry in any spelling of a flag.

    Raises:
        UsageError: There is no such entry; the message names the nearest.
    """
    plain = name.strip().replace("-", "_")
    for spelling in (name, plain):
        if spelling in names:
            return spelling
    nearest = f"; did you mean {hint!r}?" if hint else did_you_mean(plain, names) or ";"
    raise UsageError(
        f"unknown name {repr_for_error(name)}{nearest} `perfatlas catalog {catalog}` lists all"
    )


def command_rows() -> list[dict[str, Any]]:
    """Return one row per command that takes named fields."""
    rows = []
    for name in questions():
        schema = fields.json_schema(name, verb_fields(name))
        required = ", ".join(schema["required"])
        rows.append({"name": name, "fields": len(schema["properties"]), "required": required})
    return rows


def command_facts(name: str) -> dict[str, Any]:
    """Return the JSON schema of the fields of a command."""
    known = name if name in questions() else _known(name, questions(), "commands")
    return fields.json_schema(known, verb_fields(known))


def _definitions() -> dict[str, dict[tuple[str, str], list[tuple[str, fields.Field]]]]:
    """Return the commands of every field, by its name, then by its group and text."""
    found: dict[str, dict[tuple[str, str], list[tuple[str, fields.Field]]]] = {}
    for command in questions():
        for name, field in verb_fields(command).items():
            place = found.setdefault(name, {}).setdefault((field.group.title, field.row.text), [])
            place.append((command, field))
    return found


def field_rows() -> list[dict[str, Any]]:
    """Return one row per input field, with the beginning of its meaning."""
    rows = []
    for name, uses in sorted(_definitions().items()):
        firsts = [same[0][1] for same in uses.values()]
        texts = dict.fromkeys(
            re.split(r"[.;:] |\.$", field.row.text, maxsplit=1)[0] for field in firsts
        )
        unit = next((field.unit for field in firsts if field.unit), "")
        commands = [command for same in uses.values() for command, _ in same]
        rows.append({"name": name, "unit": unit, "meaning": "; ".join(texts), "commands": commands})
    return rows


def field_facts(name: str) -> dict[str, Any]:
    """Return all that is declared of an input field, for each meaning that it has."""
    found = _definitions()
    if name in questions() and name not in found:
        raise UsageError(f"{name} is a command; its fields: perfatlas catalog commands {name!r}")
    known = _known(name, found, "fields", fields.canonical_name(name, found))
    return {"name": known, "definitions": [_field_facts(same) for same in found[known].values()]}


def _field_facts(uses: list[tuple[str, fields.Field]]) -> dict[str, Any]:
    """Return what is declared of a field that several commands have with one meaning."""
    (_, field), *_ = uses
    others = {fields.default_text(other): None for _, other in uses if other.row != field.row}
    known = {name for command, _ in uses for name in verb_fields(command)}
    row = field.row
    return {
        "meaning": row.text,
        "group": f"{field.group.title}: {field.group.text}",
        "type": "choice" if field.choices else fields.annotation_of(field).removesuffix(" | str"),
        "unit": field.unit,
        "default": "required"
        if field.required
        else "; ".join({fields.default_text(field): None} | others),
        "values": fields.bounds_text(field),
        "needs": fields.needs_text(row.needs, known),
        "commands": [command for command, _ in uses],
        "flag": field.name if row.positional else f"--{field.name.replace('_', '-')}",
        "other_flag": row.alias and f"--{row.alias}",
        "in_other_tools": list(row.elsewhere),
        "set_by_pool": [f"{pool}_{field.name}" for pool in row.pools],
        "set_by_replica": row.by_replica or None,
    }


def metric_rows() -> list[dict[str, Any]]:
    """Return one row per metric."""
    return [
        {"name": name, "unit": metric.unit, "label": metric.label, "commands": list(metric.verbs)}
        for name, metric in sorted(declared_metrics().items())
    ]


def metric_facts(name: str) -> dict[str, Any]:
    """Return all that is declared of a metric."""
    table = declared_metrics()
    metric = table[_known(name, table, "metrics")]
    return {
        "name": metric.name,
        "label": metric.label,
        "meaning": metric.description,
        "unit": "ratio" if metric.unit == "1" else metric.unit,
        "better": metric.better,
        "type": metric.holds,
        "interval": f"{metric.name}_low, {metric.name}_high (90%)" if metric.has_interval else "",
        "statistics": list(metric.statistics) if metric.statistics_of else [],
        "statistics_of": list(metric.statistics_of),
        "parts": dict(metric.parts),
        "commands": list(metric.verbs),
    }


def hardware_field_rows() -> list[dict[str, Any]]:
    """Return one row per field of a hardware file."""
    return [
        _file_row(name, next(iter(found.values()))) for name, found in _hardware_fields().items()
    ]


def hardware_field_facts(name: str) -> dict[str, Any]:
    """Return all that is declared of a field of a hardware file, for each kind of device."""
    found = _hardware_fields()
    known = _known(name, found, "hardware-fields")
    kinds: dict[str, dict[str, Any]] = {}
    for kind, field in found[known].items():
        facts = _file_facts(field)
        kinds.setdefault(str(facts), facts | {"kinds": []})["kinds"].append(kind)
    return {"name": known, "definitions": list(kinds.values())}


def _hardware_fields() -> dict[str, dict[str, FileField]]:
    """Return the fields of hardware files, by path, then by the kind of device."""
    from perfatlas.hardware import FIELDS, KINDS

    found: dict[str, dict[str, FileField]] = {}
    for kind in KINDS.values():
        for path, field in kind.fields.items():
            found.setdefault(path, {})[kind.name] = field
    for path, field in FIELDS.items():
        if not path.startswith("device."):
            found[path] = {"all": field}
    return found


def engine_field_rows() -> list[dict[str, Any]]:
    """Return one row per field of an engine file."""
    return [_file_row(name, field) for name, field in _engine_fields().items()]


def engine_field_facts(name: str) -> dict[str, Any]:
    """Return all that is declared of a field of an engine file."""
    found = _engine_fields()
    known = _known(name, found, "engine-fields")
    return {"name": known, **_file_facts(found[known])}


def _engine_fields() -> Mapping[str, FileField]:
    from perfatlas.engines import profile_fields

    return profile_fields()


def _file_row(name: str, field: FileField) -> dict[str, Any]:
    facts = _file_facts(field)
    return {"name": name, **{key: facts[key] for key in ("type", "unit", "values")}}


def _file_facts(field: FileField) -> dict[str, Any]:
    """Return what is declared of a field of a file."""
    kind, unit, values = _reader_facts(field.reader)
    return {
        "type": kind,
        "unit": unit,
        "values": values,
        "required": field.required,
        "read_by": list(field.read_by),
    }


def _reader_facts(reader: object) -> tuple[str, str, str]:
    """Return the type, the unit and the allowed values of a reader."""
    if isinstance(reader, (Array, Named)):
        kind, unit, values = _reader_facts(reader.of)
        return f"{'list' if isinstance(reader, Array) else 'table'} of {kind}s", unit, values
    if isinstance(reader, (Number, Whole)):
        least = f"at least {reader.least:g}" if math.isfinite(reader.least) else ""
        both = f"{reader.least:g} to {reader.most:g}" if math.isfinite(reader.most) else least
        whole = isinstance(reader, Whole) or reader.whole
        return "integer" if whole else "number", getattr(reader, "unit", ""), both
    if isinstance(reader, Flag):
        return "flag", "", "true, false"
    if isinstance(reader, Text):
        return ("choice" if reader.choices else "text"), "", ", ".join(reader.choices)
    return "table", "", ""
