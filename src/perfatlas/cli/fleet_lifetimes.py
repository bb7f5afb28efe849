"""`perfatlas fleet fit --lifetimes`: laws fitted to a table of units and their ages."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Group, Parameter

from perfatlas.cli.envelope import envelope
from perfatlas.cli.output import print_json, require
from perfatlas.cli.vocabulary import MANY, File, given
from perfatlas.quantities import InvalidSpecError, UsageError, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIFETIMES: Final = Group("Lifetimes", sort_key=2)
EXAMPLE: Final = "perfatlas fleet fit --lifetimes units.csv --age years --failed dead --time-unit y"


@Parameter(name="*", group=_LIFETIMES)
@dataclass(frozen=True, kw_only=True)
class LifetimeFlags:
    """A table with a row per unit, in place of histories.

    Args:
        lifetimes: CSV (also .gz), Parquet or JSON Lines.
        age: Column of the age at which a unit failed or was last seen.
        failed: Column that tells whether it failed then: true or false, yes or no, 1 or 0.
        entry: Column of the age at which it was first seen; by default all were watched from new.
        time_unit: Of the ages.
        where: Rows to take, as batch=old; repeatable.
        survival_at: Age at which to tell the share that lives longer; repeatable.
    """

    lifetimes: File | None = None
    age: str | None = None
    failed: str | None = None
    entry: str | None = None
    time_unit: Literal["s", "min", "h", "d", "week", "y"] | None = None
    where: Annotated[list[str] | None, MANY] = None
    survival_at: Annotated[list[float] | None, MANY] = None


def fit_table(flags: LifetimeFlags, others: Sequence[str], *, as_json: bool) -> int:
    """Return the exit code of a fit to a table of lifetimes.

    Args:
        flags: The table.
        others: What else was given; nothing of it has a meaning here.
        as_json: Whether one JSON object is printed.
    """
    from perfatlas.telemetry.lifetime_fit import fit_lifetimes
    from perfatlas.telemetry.lifetime_table import LifetimeColumns, read_lifetimes

    asked = given(flags)
    require(asked, ("lifetimes", "age", "failed", "time_unit"), example=EXAMPLE)
    if others:
        raise UsageError(
            f"--lifetimes is a table of units, which tells all: leave {', '.join(others)} out; for"
            f" example: {EXAMPLE}"
        )
    columns = LifetimeColumns(str(flags.age), str(flags.failed), flags.entry or "")
    path, picked = str(flags.lifetimes), _equalities(flags.where or [])
    seen, counts = read_lifetimes(path, columns, where=picked)
    results = fit_lifetimes(seen, unit=str(flags.time_unit), ages=flags.survival_at or ())
    results |= {"file": asdict(counts)}
    if as_json:
        scenario = {
            name: str(value) if name == "lifetimes" else value for name, value in asked.items()
        }
        print_json(envelope("fleet fit", results=results, scenario=scenario))
        return 0
    from perfatlas.report import open_terminal, print_lifetimes

    print_lifetimes(open_terminal(sys.stdout), results, counts.text())
    return 0


def _equalities(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise InvalidSpecError(
                f"where = {shown(text)}: expected a column and its value, such as batch=old"
            )
        if name in found:
            raise InvalidSpecError(f"where: {name} is given twice, and a row has one value of it")
        found[name] = value
    return found
