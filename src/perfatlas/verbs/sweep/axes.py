"""Axes of a study: lists, ranges and samples of its tables [vary], [[zip]] and [sample]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, cast

from perfatlas.files import known_keys
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.studies import Axis, Sample, SampledName, spread
from perfatlas.verbs.sweep.names import check_name, flattened, is_hardware, is_whole, read_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.studies import Method

RANGE: Final = ("from", "to", "steps", "step", "scale")
SCALES: Final = ("linear", "log")
METHODS: Final = ("sobol", "latin_hypercube")
MOST_VALUES: Final = 1_000_000  # of one axis
DEFAULT_SAMPLES: Final = 1024


def read_axes(
    command: str, raw: Mapping[str, Any], fixed: Mapping[str, Any], origin: str
) -> tuple[Axis, ...]:
    """Return the crossed axes of a study; those of hardware vary fastest.

    The rows of a block then share few systems, each resolved once.

    Args:
        command: The verb.
        raw: The tables of the study.
        fixed: Hardware fields and dimensions of models with one value.
        origin: The file, for messages.

    Raises:
        InvalidSpecError: A name is unknown, or its values are invalid.
    """
    vary = raw.get("vary", {})
    together = raw.get("zip", [])
    if not isinstance(vary, dict) or not isinstance(together, list):
        raise InvalidSpecError(f"{origin}: expected one table [vary] and tables [[zip]]")
    axes = [
        _axis(command, {name: values}, f"{origin}: vary")
        for name, values in {**flattened(vary), **fixed}.items()
    ]
    for number, table in enumerate(together, 1):
        if not isinstance(table, dict):
            raise InvalidSpecError(f"{origin}: zip {number}: expected a table, [[zip]]")
        axes.append(_axis(command, flattened(table), f"{origin}: zip {number}"))
    return tuple(sorted(axes, key=lambda axis: any(map(is_hardware, axis.names))))


def _axis(command: str, table: Mapping[str, Any], where: str) -> Axis:
    """Return names that vary together."""
    if not table:
        raise InvalidSpecError(f"{where}: no names; give at least one with its values")
    for name in table:
        check_name(command, name, where)
    values = {name: values_of(command, name, raw, where) for name, raw in table.items()}
    lengths = {name: len(cells) for name, cells in values.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InvalidSpecError(f"{where}: names that vary together need equal lengths: {listed}")
    rows = list(zip(*values.values(), strict=True))
    texts = dict.fromkeys(map(repr, rows))
    if len(texts) < len(rows):
        twice = next(row for place, row in enumerate(rows) if row in rows[:place])
        raise InvalidSpecError(
            f"{where}: {', '.join(f'{n} = {v}' for n, v in zip(table, twice, strict=True))} is"
            " listed twice"
        )
    return Axis(names=tuple(values), values=tuple(values.values()))


def values_of(command: str, name: str, raw: Any, where: str) -> tuple[Any, ...]:  # noqa: ANN401
    """Return the values of a list or a range."""
    if isinstance(raw, dict):
        return tuple(_rangevalues_of(command, name, raw, f"{where}.{name}"))
    if not isinstance(raw, list) or not raw:
        raise InvalidSpecError(
            f"{where}.{name} = {repr_for_error(raw)}: expected a list of values, or a range such as"
            ' {from = 1, to = 64, steps = 7, scale = "log"}'
        )
    values = [read_value(command, name, value, where) for value in raw]
    return tuple(values)


def _rangevalues_of(command: str, name: str, raw: Mapping[str, Any], where: str) -> list[Any]:
    """Return the values of a range with a number of steps, or a step."""
    low, high, log = _ends(command, name, raw, where)
    if ("steps" in raw) == ("step" in raw):
        raise InvalidSpecError(
            f"{where}: give either steps, the number of values, or step, their distance"
        )
    whole = is_whole(command, name)
    if "step" in raw:
        step = _number(command, name, raw["step"], where)
        if log or step <= 0.0:
            raise InvalidSpecError(f"{where}: step must be positive, with scale linear")
        steps = math.floor((high - low) / step * (1.0 + 1e-12)) + 1
        high = low + step * (steps - 1)
    else:
        steps = raw["steps"]
    if type(steps) is not int or not 2 <= steps <= MOST_VALUES:
        raise InvalidSpecError(
            f"{where}: {repr_for_error(steps)} values: expected 2 to {MOST_VALUES:,}"
        )
    values = spread(low, high, steps, log=log)
    return list(dict.fromkeys(map(round, values))) if whole else list(values)


def _ends(command: str, name: str, raw: Mapping[str, Any], where: str) -> tuple[float, float, bool]:
    """Return the ends of a range, and whether its scale is logarithmic."""
    known_keys(raw, dict.fromkeys(RANGE), where)
    for key in ("from", "to"):
        if key not in raw:
            raise InvalidSpecError(f"{where}: a range needs from and to")
    low, high = (_number(command, name, raw[key], where) for key in ("from", "to"))
    scale = raw.get("scale", "linear")
    if scale not in SCALES:
        raise InvalidSpecError(
            f"{where}: scale = {repr_for_error(scale)} is not one of {', '.join(SCALES)}"
            f"{did_you_mean(str(scale), SCALES)}"
        )
    if not low < high:
        raise InvalidSpecError(f"{where}: from = {low:g} must be less than to = {high:g}")
    if scale == "log" and low <= 0.0:
        raise InvalidSpecError(f"{where}: from = {low:g}: scale log needs a positive number")
    return low, high, scale == "log"


def _number(command: str, name: str, raw: Any, where: str) -> float:  # noqa: ANN401 - a cell
    is_whole(command, name)
    value = read_value(command, name, raw, where)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidSpecError(f"{where}: {repr_for_error(raw)} is no number")
    return float(value)


def read_sample(command: str, raw: Mapping[str, Any], origin: str) -> Sample | None:
    """Return what is sampled, None for nothing.

    Args:
        command: The verb.
        raw: The table [sample].
        origin: The file, for messages.

    Raises:
        InvalidSpecError: A key or name is unknown, or a value is invalid.
    """
    if not raw:
        return None
    where = f"{origin}: sample"
    known_keys(raw, dict.fromkeys(("method", "points", "seed", "vary")), where)
    method = raw.get("method", "sobol")
    if method not in METHODS:
        raise InvalidSpecError(
            f"{where}: method = {repr_for_error(method)} is not one of {', '.join(METHODS)}"
            f"{did_you_mean(str(method), METHODS)}"
        )
    points, seed = raw.get("points", DEFAULT_SAMPLES), raw.get("seed", 0)
    for key, value, least in (("points", points, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidSpecError(
                f"{where}: {key} = {repr_for_error(value)}: expected an integer of {least} or more"
            )
    table = raw.get("vary", {})
    if not isinstance(table, dict):
        raise InvalidSpecError(
            f"{where}: vary = {repr_for_error(table)}: expected a table, [sample.vary]"
        )
    vary = flattened(table)
    if not vary:
        raise InvalidSpecError(f"{where}: nothing is sampled; give a table [sample.vary]")
    names = tuple(_sampled(command, name, value, f"{where}.vary") for name, value in vary.items())
    return Sample(method=cast("Method", method), points=points, seed=seed, names=names)


def _sampled(command: str, name: str, raw: Any, where: str) -> SampledName:  # noqa: ANN401
    check_name(command, name, where)
    if not isinstance(raw, dict):
        return SampledName(name=name, choices=values_of(command, name, raw, where))
    place = f"{where}.{name}"
    if "steps" in raw or "step" in raw:
        return SampledName(name=name, choices=tuple(_rangevalues_of(command, name, raw, place)))
    low, high, log = _ends(command, name, raw, place)
    whole = is_whole(command, name)
    return SampledName(name=name, low=low, high=high, log=log, whole=whole)
