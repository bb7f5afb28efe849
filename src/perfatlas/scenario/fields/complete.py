"""The complete scenario of an answer: SI numbers and resolved names, with defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.formats import get_format
from perfatlas.hardware import names_file, resolve_system
from perfatlas.networks import resolve_model
from perfatlas.quantities import PerfatlasError
from perfatlas.training import profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.scenario.fields.input_fields import InputFields
    from perfatlas.vocabulary.fields import Field


def complete_scenario(
    fields: Mapping[str, Field],
    inputs: InputFields,
    **decided: Any,  # noqa: ANN401 - values of fields
) -> dict[str, Any]:
    """Return all fields that have a value: given, default or derived.

    Running this scenario again gives the same answer, even if defaults change. Defaults of fields
    without effect are omitted.

    Args:
        **decided: Derived values, such as the method.

    Example:
        >>> from perfatlas.verbs.collective import collective
        >>> answer = collective(system="H200", op="ALL_REDUCE", bytes="1 MiB", gpus=8)
        >>> answer.scenario["system"], answer.scenario["bytes"], answer.scenario["tier"]
        ('h200_sxm', 1048576.0, 'auto')
    """
    values = {**inputs.values, **decided}
    given = inputs.fields_set | set(decided)
    told = {
        name: values[name]
        for name, field in fields.items()
        if values.get(name) is not None and (name in given or _has_effect(field, values))
    }
    return resolved_names(fields, told)


def _has_effect(field: Field, values: Mapping[str, Any]) -> bool:
    """Return whether a default has an effect; False if that depends on a file."""
    needs = field.row.needs
    if needs is None:
        return True
    if not all(name in values for name in needs.reads):
        return False
    missing = needs.missing(values, {})
    return missing is None or missing.is_noted


def plain_values(known: Mapping[str, Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given fields with SI numbers, choices and names in their catalog spelling.

    Args:
        values: Values by field as given, all valid.

    Example:
        >>> from perfatlas.scenario.fields import plain_values
        >>> from perfatlas.vocabulary.fields import SIMULATED, fields_of
        >>> known = fields_of(*SIMULATED)
        >>> plain_values(known, {"request_rate": "90/min", "system": "H200", "seed": None})
        {'request_rate': 1.5, 'system': 'h200_sxm'}
    """
    given = {name: value for name, value in values.items() if value is not None}
    told = {
        name: known[name].read(value) if name in known else value for name, value in given.items()
    }
    return resolved_names(known, told)


def resolved_names(fields: Mapping[str, Field], scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario with catalog spellings of names, and engines with their version."""
    return {
        name: resolved_name(fields[name].catalog, value)
        if name in fields and isinstance(value, str)
        else value
        for name, value in scenario.items()
    }


def resolved_name(catalog: str, text: str) -> str:
    """Return the catalog spelling of a name; paths and unknown names are unchanged.

    Args:
        catalog: models, systems, engines, training_engines or formats; other catalogs leave names
            unchanged.

    Example:
        >>> from perfatlas.scenario.fields import resolved_name
        >>> resolved_name("systems", "H200{device.tdp=500W}")
        'h200_sxm{device.tdp=500W}'
    """
    resolve = _RESOLVED.get(catalog)
    if resolve is None:
        return text
    try:
        return resolve(text.strip())
    except PerfatlasError:
        return text


def _engine(text: str) -> str:
    from perfatlas.engines import resolve_engine  # training has none, and its profiles are many

    return resolve_engine(text).id


def _system(text: str) -> str:
    if names_file(text):
        return text
    name, brace, changes = text.partition("{")
    return f"{resolve_system(name).name}{brace}{changes}"


_RESOLVED: Final[dict[str, Callable[[str], str]]] = {
    "systems": _system,
    "models": lambda text: resolve_model(text).name,
    "engines": _engine,
    "training_engines": lambda text: profiles.resolve_training_engine(text).id,
    "formats": lambda text: (
        "fp8" if text.casefold() == "fp8" else get_format(text, arithmetic=True).name
    ),
}
