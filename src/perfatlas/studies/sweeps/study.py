"""The study that `sweep` reads: a verb, what varies, constraints and derived columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import commands, verb_fields
from perfatlas.files import Text, known_keys
from perfatlas.quantities import Expression, InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.studies.points import Axis, Points, Sample, SampledName, spread
from perfatlas.studies.sweeps.names import (
    check_name,
    flattened,
    is_hardware,
    is_override,
    is_whole,
    read_value,
    result_names,
)
from perfatlas.vocabulary.metrics import HIGH_ENDING, LOW_ENDING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.vocabulary.fields import Field

RANGE: Final = ("from", "to", "steps", "step", "scale")
SCALES: Final = ("linear", "log")
METHOD: Final = "sobol"  # of samples
MAX_VALUES: Final = 1_000_000  # of one axis
DEFAULT_SAMPLES: Final = 1024
MAX_POINTS: Final = 100_000  # of a study with a base, whose rows are in memory


def check_base(points: Points, base: Mapping[str, Any], origin: str) -> None:
    """Check that every point of a study has a base."""
    if base and points.size > MAX_POINTS:
        raise InvalidSpecError(
            f"{origin}: base needs at most {MAX_POINTS:,} points, and there are {points.size:,};"
            " vary fewer names or values"
        )
    for name, value in base.items():
        axis = next((axis for axis in points.axes if name in axis.names), None)
        if axis is None:
            names = [text for axis in points.axes for text in axis.names]
            raise InvalidSpecError(
                f"{origin}: base.{name} does not vary in [vary] or [[zip]]"
                f"{did_you_mean(name, names)}"
            )
        missing = [key for key in axis.names if key not in base]
        if missing:
            raise InvalidSpecError(
                f"{origin}: base.{name}: {missing[0]} varies together with it; name it in base too"
            )
        together = zip(*axis.values, strict=True)
        if tuple(base[key] for key in axis.names) not in together:
            choices = ", ".join(
                repr_for_error(value) for value in axis.values[axis.names.index(name)]
            )
            raise InvalidSpecError(
                f"{origin}: base.{name} = {repr_for_error(value)} is none of its values: {choices}"
            )


def read_axes(
    command: str, raw: Mapping[str, Any], fixed: Mapping[str, Any], origin: str
) -> tuple[Axis, ...]:
    """Return the crossed axes of a study; those of hardware vary fastest.

    The rows of a block then share few systems, each resolved once.
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
        twice = next(row for index, row in enumerate(rows) if row in rows[:index])
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
    if type(steps) is not int or not 2 <= steps <= MAX_VALUES:
        raise InvalidSpecError(
            f"{where}: {repr_for_error(steps)} values: expected 2 to {MAX_VALUES:,}"
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
        raw: The table [sample].
    """
    if not raw:
        return None
    where = f"{origin}: sample"
    known_keys(raw, dict.fromkeys(("method", "points", "seed", "vary")), where)
    if (method := raw.get("method", METHOD)) != METHOD:
        raise InvalidSpecError(f"{where}: method = {repr_for_error(method)}: expected {METHOD}")
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
    return Sample(points=points, seed=seed, names=names)


def _sampled(command: str, name: str, raw: Any, where: str) -> SampledName:  # noqa: ANN401
    check_name(command, name, where)
    if not isinstance(raw, dict):
        return SampledName(name=name, choices=values_of(command, name, raw, where))
    path = f"{where}.{name}"
    if "steps" in raw or "step" in raw:
        return SampledName(name=name, choices=tuple(_rangevalues_of(command, name, raw, path)))
    low, high, log = _ends(command, name, raw, path)
    whole = is_whole(command, name)
    return SampledName(name=name, low=low, high=high, log=log, whole=whole)


KEYS: Final = (
    *("verb", "name", "objective", "constraints"),
    *("scenario", "vary", "zip", "sample", "derived", "base"),
)
OBJECTIVES: Final = (  # the first that a verb reports ranks the rows, if the study names none
    "output_tokens_per_s_per_gpu",
    "tokens_per_s_per_gpu",
    "goodput",
    "time_s",
)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study, checked."""

    command: str
    fixed: Mapping[str, Any]  # Fields of the verb that are the same at all points
    points: Points  # What varies
    constraints: tuple[Expression, ...] = ()  # Expressions that a point must meet
    # Expressions of further columns, by name
    derived: Mapping[str, Expression] = field(default_factory=dict)
    objective: str = ""  # Name of the metric, or derived column, that ranks the rows; "" for none
    # Values of the rows to which others are compared, by name; empty for none
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_tabled(self) -> bool:
        """Whether the verb answers columns, not rows one by one."""
        return bool(commands()[self.command][1].table)

    @property
    def fields(self) -> Mapping[str, Field]:
        """The fields of the verb, by name."""
        return verb_fields(self.command)

    @property
    def inputs(self) -> dict[str, Any]:
        """Values that are known before a point is answered: names with a fixed value or None."""
        defaults = {
            name: verb_field.default
            for name, verb_field in verb_fields(self.command).items()
            if verb_field.default is not None
        }
        return {**defaults, **self.fixed, **dict.fromkeys(self.points.names)}

    def is_known_before(self, expression: Expression) -> bool:
        """Return whether an expression reads only what is known before a point is answered.

        Args:
            expression: A constraint or the expression of a derived column.
        """
        inputs = self.inputs
        return all(
            self.is_known_before(self.derived[name]) if name in self.derived else name in inputs
            for name in expression.names
        )


def sweepable() -> list[str]:
    """Return the commands that a study can name: those with --table.

    Example:
        >>> from perfatlas.studies.sweeps.study import sweepable
        >>> "kernel gemm" in sweepable(), "search" in sweepable()
        (True, False)
    """
    return [name for name, (_, command) in commands().items() if command.table or command.row]


def read_study(raw: Mapping[str, Any], origin: str) -> Study:
    """Return a study, checked as far as is possible without answering it.

    Args:
        raw: The tables of its TOML.
        origin: The file, for messages.

    Raises:
        InvalidSpecError: A key or name is unknown, or a value is invalid.
    """
    known_keys(raw, dict.fromkeys(KEYS), origin)
    command = _command(raw, origin)
    scenario = flattened(_table(raw, "scenario", origin))
    for name, value in scenario.items():
        check_name(command, name, f"{origin}: scenario")
        if isinstance(value, dict):
            raise InvalidSpecError(
                f"{origin}: scenario.{name} = {repr_for_error(value)}: expected one value; a range"
                " belongs into [vary]"
            )
    fixed = {
        name: value if is_override(name) else read_value(command, name, value, origin)
        for name, value in scenario.items()
    }
    overrides = {name: [value] for name, value in fixed.items() if is_override(name)}
    axes = read_axes(command, raw, overrides, origin)
    sample = read_sample(command, _table(raw, "sample", origin), origin)
    points = Points(axes=axes, sample=sample)
    twice = [name for index, name in enumerate(points.names) if name in points.names[:index]]
    if twice:
        raise InvalidSpecError(f"{origin}: {twice[0]} varies twice; give it once")
    if not points.names:
        raise InvalidSpecError(
            f"{origin}: nothing varies; give a table [vary], such as batch = [1, 8, 64]"
        )
    both = [name for name in points.names if name in fixed and not is_override(name)]
    if both:
        raise InvalidSpecError(f"{origin}: {both[0]} is in [scenario] and varies; give it once")
    study = Study(
        command=command,
        fixed={name: value for name, value in fixed.items() if not is_override(name)},
        points=points,
        constraints=tuple(map(Expression, _texts(raw, origin))),
        derived=_derived(raw, origin),
        objective=_objective(raw, command, origin),
        base=_base(raw, command, origin),
    )
    check_base(points, study.base, origin)
    return _checked(study, origin)


def _command(raw: Mapping[str, Any], origin: str) -> str:
    names = sweepable()
    if "verb" not in raw:
        raise InvalidSpecError(f"{origin}: verb is required: one of {', '.join(names)}")
    return Text(choices=tuple(names)).read(raw["verb"], f"{origin}: verb")


def _table(raw: Mapping[str, Any], name: str, origin: str) -> Mapping[str, Any]:
    table = raw.get(name, {})
    if not isinstance(table, dict):
        raise InvalidSpecError(
            f"{origin}: {name} = {repr_for_error(table)}: expected a table, [{name}]"
        )
    return table


def _texts(raw: Mapping[str, Any], origin: str) -> list[str]:
    constraints = raw.get("constraints", [])
    if not isinstance(constraints, list) or not all(isinstance(text, str) for text in constraints):
        raise InvalidSpecError(
            f"{origin}: constraints = {repr_for_error(constraints)}: expected a list of"
            ' expressions, such as ["tp * pp <= 8"]'
        )
    return constraints


def _derived(raw: Mapping[str, Any], origin: str) -> dict[str, Expression]:
    expressions = {}
    for name, text in _table(raw, "derived", origin).items():
        if not name.isidentifier() or not isinstance(text, str):
            raise InvalidSpecError(
                f"{origin}: derived.{name} = {repr_for_error(text)}: expected a name of letters,"
                ' digits and _ with an expression, such as tokens = "isl + osl"'
            )
        expressions[name] = Expression(text)
    return expressions


def _base(raw: Mapping[str, Any], command: str, origin: str) -> dict[str, Any]:
    base = flattened(_table(raw, "base", origin))
    for name in base:
        check_name(command, name, f"{origin}: base")
    return {
        name: values_of(command, name, [value], f"{origin}: base")[0]
        for name, value in base.items()
    }


def _objective(raw: Mapping[str, Any], command: str, origin: str) -> str:
    if "objective" not in raw:
        names = result_names(command)
        return next((name for name in OBJECTIVES if name in names), "")
    if not isinstance(raw["objective"], str):
        raise InvalidSpecError(
            f"{origin}: objective = {repr_for_error(raw['objective'])}: expected a metric"
        )
    return raw["objective"]


def _checked(study: Study, origin: str) -> Study:
    """Return the study, having checked every name that its expressions read."""
    inputs, results = study.inputs, result_names(study.command)
    names = [*inputs, *study.derived, *results]
    expressions = {f"derived.{name}": expression for name, expression in study.derived.items()}
    expressions |= {
        f"constraint {constraint.text!r}": constraint for constraint in study.constraints
    }
    earlier: set[str] = set()
    for where, expression in expressions.items():
        for name in expression.names:
            if name not in names:
                unset = name in verb_fields(study.command)
                hint = "; the study does not set it" if unset else did_you_mean(name, names)
                raise InvalidSpecError(f"{origin}: {where}: unknown name {name!r}{hint}")
            if where.startswith("derived.") and name in study.derived and name not in earlier:
                raise InvalidSpecError(
                    f"{origin}: {where} reads {name}, which is derived later; order them"
                )
        earlier.add(where.removeprefix("derived."))
    _check_derived(study, origin)
    if study.objective and study.objective not in (*results, *study.derived):
        plain = [name for name in results if not name.endswith((LOW_ENDING, HIGH_ENDING))]
        raise InvalidSpecError(
            f"{origin}: objective = {study.objective!r} is no result of {study.command}"
            f"{did_you_mean(study.objective, [*plain, *study.derived])}"
        )
    return study


def _check_derived(study: Study, origin: str) -> None:
    """Refuse derived columns that would hide another one."""
    fields = verb_fields(study.command)
    for name, expression in study.derived.items():
        if name in study.fixed or name in study.points.names:
            raise InvalidSpecError(f"{origin}: derived.{name} is set in the study already")
        if name in fields and not study.is_known_before(expression):
            raise InvalidSpecError(
                f"{origin}: derived.{name} is a field of {study.command}, so that it can only read"
                " fields, not results"
            )
        if name in result_names(study.command) and name not in fields:
            raise InvalidSpecError(
                f"{origin}: derived.{name} is a result of {study.command}; choose another name"
            )
