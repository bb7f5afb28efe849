"""Names of a study: fields of the verb, hardware fields, dimensions of models, results."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import declared_metrics, verb_fields
from perfatlas.engines import resolve_engine
from perfatlas.files import Number
from perfatlas.hardware import FIELDS, resolve_system
from perfatlas.networks import MODEL_FIELDS, read_dimension, resolve_model, unknown_dimension
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.vocabulary.fields import canonical_name
from perfatlas.vocabulary.metrics import HIGH_ENDING, LOW_ENDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECTIONS: Final = ("device", "node", "fabric")
POOLS: Final = ("prefill_system", "decode_system", "feed_forward_system")
MODEL: Final = "model"
STATUS: Final = ("warnings", "error_code", "error")
FORMAT_PEAKS: Final = {"nvfp4": "fp4", "mxfp4": "fp4", "mxfp8": "fp8"}
_ALIASES: Final = {
    "fabric.scale_up.domain": "device.scale_up.domain_size",
    "device.scale_up.domain": "device.scale_up.domain_size",
    **{f"device.peak.{name}": f"device.peak.{ours}" for name, ours in FORMAT_PEAKS.items()},
}


def flattened(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with overrides by their dotted names, however TOML nests them.

    `device.tdp = [1]` is a nested table in TOML, `"device.tdp" = [1]` is not.

    Example:
        >>> from perfatlas.studies.sweeps.names import flattened
        >>> flattened({"tp": [1], "device": {"tdp": ["500W"]}})
        {'tp': [1], 'device.tdp': ['500W']}
    """
    return {_ALIASES.get(name, name): value for name, value in _walked(table, "")}


def _walked(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        nested = prefix or name in (*SECTIONS, *POOLS, MODEL)
        if nested and isinstance(value, dict) and "from" not in value:
            yield from _walked(value, f"{name}.")
        else:
            yield name, value


def is_hardware(name: str) -> bool:
    """Return whether a name is a hardware field: of the system, or of one pool's.

    Args:
        name: Such as device.memory.bandwidth or decode_system.device.memory.bandwidth.
    """
    return overridden(name)[1] in FIELDS


def is_override(name: str) -> bool:
    """Return whether a name is a hardware field or a dimension of the model.

    Args:
        name: Such as device.memory.bandwidth or model.layers.
    """
    field, path = overridden(name)
    return path in FIELDS or (field == MODEL and path in MODEL_FIELDS)


def overridden(name: str) -> tuple[str, str]:
    """Return the field that an override changes, and the path inside it.

    Args:
        name: A hardware field, or a dimension of the model.

    Example:
        >>> from perfatlas.studies.sweeps.names import overridden
        >>> overridden("decode_system.device.tdp"), overridden("device.tdp")
        (('decode_system', 'device.tdp'), ('system', 'device.tdp'))
        >>> overridden("model.layers")
        ('model', 'layers')
    """
    head, _, path = name.partition(".")
    if head in POOLS and path:
        return head, _ALIASES.get(path, path)
    return (MODEL, path) if head == MODEL and path else ("system", name)


def check_name(command: str, name: str, where: str) -> None:
    """Refuse a name that the verb does not read.

    Args:
        name: A field of it, a hardware field, or a dimension of the model.
    """
    fields = verb_fields(command)
    field, path = overridden(name)
    if name in fields or (is_override(name) and field in fields):
        return
    if is_override(name):
        raise InvalidSpecError(f"{where}: {name}: {command} has no field {field!r}")
    if field == MODEL:
        raise InvalidSpecError(f"{where}: {name}: {unknown_dimension(path)}")
    if ours := canonical_name(name, fields):
        raise InvalidSpecError(f"{where}: {name!r} is called {ours!r} in perfatlas")
    hint = did_you_mean(path, FIELDS) if "." in name else did_you_mean(name, fields)
    listed = (
        "; `perfatlas catalog systems show h200_sxm --verbose` lists hardware fields"
        if "." in name
        else f"; `perfatlas {command} --help` lists all"
    )
    raise InvalidSpecError(
        f"{where}: {repr_for_error(name)} is no field of {command} and no hardware field"
        f"{hint or listed}"
    )


def read_value(command: str, name: str, value: Any, where: str) -> Any:  # noqa: ANN401 - a cell
    """Return a value of a name; numbers with units become SI numbers, empty text is unset.

    Args:
        name: A field of it, a hardware field, or a dimension of the model.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidSpecError(f"{where}: {name} = {value}: expected a finite number")
    if is_hardware(name):
        reader = FIELDS[overridden(name)[1]].reader
        number: Any = reader.read(value, f"{where}: {name}")
        return int(number) if isinstance(reader, Number) and reader.whole else number
    if is_override(name):
        return _dimension(name, value, where)
    field = verb_fields(command)[name]
    if value == "":  # unset, as in a table
        return value
    value = field.folded(value)
    if field.choices and value not in field.choices:
        text = f"{name} = {repr_for_error(value)} is not one of {', '.join(field.choices)}"
        text += did_you_mean(str(value), field.choices)
        raise InvalidSpecError(f"{where}: {text}")
    if isinstance(value, str):
        catalog = field.catalog
        if catalog == "systems":
            resolve_system(value)
        elif catalog == "models":
            resolve_model(value)
        elif catalog == "engines":
            resolve_engine(value)
    if field.number is None or not isinstance(value, str):
        return value
    try:
        number = field.number.read(value)
    except (ValueError, InvalidSpecError) as problem:
        raise InvalidSpecError(f"{where}: {name} = {repr_for_error(value)}: {problem}") from problem
    whole = field.type is int and isinstance(number, float) and number.is_integer()
    return int(number) if whole else number


def _dimension(name: str, value: object, where: str) -> int:
    try:
        return read_dimension(overridden(name)[1], value)
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"{where}: model.{problem}") from None


def is_whole(command: str, name: str) -> bool:
    """Return whether the values of a name are integers.

    Args:
        name: A field of it, a hardware field, or a dimension of the model.
    """
    if is_hardware(name):
        reader = FIELDS[overridden(name)[1]].reader
        number, whole = isinstance(reader, Number), isinstance(reader, Number) and reader.whole
    elif is_override(name):
        number = whole = True
    else:
        field = verb_fields(command)[name]
        number, whole = field.type in (int, float), field.type is int
    if not number:
        raise InvalidSpecError(f"{name} has no numbers: give a list of values instead of a range")
    return whole


@cache
def result_names(command: str) -> tuple[str, ...]:
    """Return the columns that a table of a verb may have.

    Example:
        >>> from perfatlas.studies.sweeps.names import result_names
        >>> "ttft_s_low" in result_names("estimate"), "memory_fits" in result_names("estimate")
        (True, True)
    """
    names: dict[str, None] = {}
    for metric in declared_metrics().values():
        if command not in metric.verbs:
            continue
        name = metric.name.replace(".", "_")
        ends = ["", LOW_ENDING, HIGH_ENDING] if metric.has_interval else [""]
        if command in metric.statistics_of:
            ends = [f"_{statistic}" for statistic in metric.statistics]
        names |= dict.fromkeys(f"{name}{end}" for end in ends)
        names |= dict.fromkeys(f"{name}_{part}" for part in metric.parts)
    return (*names, "tier", *STATUS)


def is_higher_better(objective: str) -> bool:
    """Return whether a higher value of a column is better; of unknown ones, it is.

    Args:
        objective: A result or derived column.
    """
    from perfatlas.vocabulary.metrics import find_metric

    metric = find_metric(objective) or find_metric(objective.rpartition("_")[0])
    return metric is None or metric.better != "lower"
