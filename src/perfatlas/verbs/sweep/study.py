"""The study that `sweep` reads: a verb, what varies, constraints and derived columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import commands, verb_fields
from perfatlas.files import Text, known_keys
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.studies import Expression, Points
from perfatlas.verbs.sweep.axes import read_axes, read_sample, values_of
from perfatlas.verbs.sweep.base_rows import check_base
from perfatlas.verbs.sweep.names import (
    check_name,
    flattened,
    is_override,
    read_value,
    result_names,
)
from perfatlas.vocabulary.metrics import HIGH, LOW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.vocabulary.fields import Field

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
    """A study, checked.

    Args:
        command: The verb.
        fixed: Fields of the verb that are the same at all points.
        points: What varies.
        constraints: Expressions that a point must meet.
        derived: Expressions of further columns, by name.
        objective: Name of the metric, or derived column, that ranks the rows; "" for none.
        base: Values of the rows to which others are compared, by name; empty for none.
    """

    command: str
    fixed: Mapping[str, Any]
    points: Points
    constraints: tuple[Expression, ...] = ()
    derived: Mapping[str, Expression] = field(default_factory=dict)
    objective: str = ""
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
            name: one.default
            for name, one in verb_fields(self.command).items()
            if one.default is not None
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
        >>> from perfatlas.verbs.sweep.study import sweepable
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
    for name in scenario:
        check_name(command, name, f"{origin}: scenario")
    fixed = {
        name: value if is_override(name) else read_value(command, name, value, origin)
        for name, value in scenario.items()
    }
    overrides = {name: [value] for name, value in fixed.items() if is_override(name)}
    axes = read_axes(command, raw, overrides, origin)
    sample = read_sample(command, _table(raw, "sample", origin), origin)
    points = Points(axes=axes, sample=sample)
    _check_once(points.names, origin)
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
    found = raw.get(name, {})
    if not isinstance(found, dict):
        raise InvalidSpecError(
            f"{origin}: {name} = {repr_for_error(found)}: expected a table, [{name}]"
        )
    return found


def _texts(raw: Mapping[str, Any], origin: str) -> list[str]:
    found = raw.get("constraints", [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidSpecError(
            f"{origin}: constraints = {repr_for_error(found)}: expected a list of expressions, such"
            ' as ["tp * pp <= 8"]'
        )
    return found


def _derived(raw: Mapping[str, Any], origin: str) -> dict[str, Expression]:
    found = {}
    for name, text in _table(raw, "derived", origin).items():
        if not name.isidentifier() or not isinstance(text, str):
            raise InvalidSpecError(
                f"{origin}: derived.{name} = {repr_for_error(text)}: expected a name of letters,"
                ' digits and _ with an expression, such as tokens = "isl + osl"'
            )
        found[name] = Expression(text)
    return found


def _base(raw: Mapping[str, Any], command: str, origin: str) -> dict[str, Any]:
    found = flattened(_table(raw, "base", origin))
    for name in found:
        check_name(command, name, f"{origin}: base")
    return {
        name: values_of(command, name, [value], f"{origin}: base")[0]
        for name, value in found.items()
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


def _check_once(names: tuple[str, ...], origin: str) -> None:
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise InvalidSpecError(f"{origin}: {twice[0]} varies twice; give it once")
    if not names:
        raise InvalidSpecError(
            f"{origin}: nothing varies; give a table [vary], such as batch = [1, 8, 64]"
        )


def _checked(study: Study, origin: str) -> Study:
    """Return the study, having checked every name that its expressions read."""
    inputs, results = study.inputs, result_names(study.command)
    known = [*inputs, *study.derived, *results]
    expressions = {f"derived.{name}": one for name, one in study.derived.items()}
    expressions |= {f"constraint {one.text!r}": one for one in study.constraints}
    earlier: set[str] = set()
    for where, expression in expressions.items():
        for name in expression.names:
            if name not in known:
                unset = name in verb_fields(study.command)
                hint = "; the study does not set it" if unset else did_you_mean(name, known)
                raise InvalidSpecError(f"{origin}: {where}: unknown name {name!r}{hint}")
            if where.startswith("derived.") and name in study.derived and name not in earlier:
                raise InvalidSpecError(
                    f"{origin}: {where} reads {name}, which is derived later; order them"
                )
        earlier.add(where.removeprefix("derived."))
    _check_derived(study, origin)
    if study.objective and study.objective not in (*results, *study.derived):
        plain = [name for name in results if not name.endswith((LOW, HIGH))]
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
