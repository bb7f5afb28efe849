"""`perfatlas fleet fit --lifetimes`: fit distributions to a table of units and their ages."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Group, Parameter

from perfatlas.commands.flags import MANY, SWITCH, Count, File, Seconds, changed_flags, default
from perfatlas.commands.output import envelope, print_json, require
from perfatlas.files import check_writable
from perfatlas.quantities import InvalidSpecError, UsageError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.reliability.telemetry.reading import FileCounts

_LIFETIMES: Final = Group("Lifetimes", sort_key=2)
EXAMPLE: Final = "perfatlas fleet fit --lifetimes units.csv --age years --failed dead --time-unit y"
FLEET_EXAMPLE: Final = (
    f"{EXAMPLE} --component gpu --nodes 2048 --repair-s 14400 --output fleet.toml"
)
SHOWN: Final = ("json", "verbose")  # how the answer is shown
_OF_FLEET: Final = ("output", "nodes", "gpus_per_node", "units", *SHOWN)
_OF_PARTS: Final = ("component", "repair_s", "start_ages")


@Parameter(name="*", group=_LIFETIMES)
@dataclass(frozen=True, kw_only=True)
class LifetimeFlags:
    """A table with one row per unit, instead of histories.

    Args:
        lifetimes: Table of lifetimes; --output needs --component, --nodes and --repair-s too.
        age: Column with the age at which a unit failed or was last observed.
        failed: Column with whether it failed then: true or false, yes or no, 1 or 0.
        entry: Column with the age when observation began (left truncation); by default 0.
        time_unit: Unit of the ages.
        where: Filter of rows, such as batch=old; repeatable.
        survival_at: Age at which to print the survival probability; repeatable.
        law: Distribution to use.
        component: Component in the rows: gpu, host, or another with its --units.
        repair_s: Time to repair a node in seconds; 0 for immediate repair.
        start_ages: Ages of components at job start: all new, or mixed as in a long-running fleet.
    """

    lifetimes: File | None = None
    age: str | None = None
    failed: str | None = None
    entry: str | None = None
    time_unit: Literal["s", "min", "h", "d", "week", "y"] | None = None
    where: Annotated[list[str] | None, MANY] = None
    survival_at: Annotated[list[float] | None, MANY] = None
    law: Annotated[
        Literal["exponential", "weibull", "lognormal"] | None, default("the best by AIC")
    ] = None
    component: str | None = None
    repair_s: Seconds = None
    start_ages: Annotated[Literal["new", "mixed"] | None, default("mixed")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FitFlags:
    """Facts that the logs do not contain.

    Args:
        nodes: Number of observed nodes, including those without failures.
        start: Start of the observation, ISO 8601 with a zone.
        end: End of the observation.
        units: Number of units of a component, such as nic=16384; repeatable.
        kinds: Kinds of events that count as failures: failure, unclear, ...; repeatable.
        service_start: Table of component, node, device and start: when units entered service.
        repaired: Whether a repair renews the age of a unit for its cause, or keeps it.
        open_is_down: Count an event without a recovery as still down at the end.
        cascade_s: Seconds after the first failure of a device in which others are its effects.
        match_s: Seconds within which records of several logs about one node are one failure.
        output: File for the fleet; its evidence is written beside it.
        json: Print one JSON object.
        verbose: Print all causes, nodes, laws and assumptions.
    """

    nodes: Count = None
    gpus_per_node: Annotated[Count, default("8")] = None
    start: str | None = None
    end: str | None = None
    units: Annotated[list[str] | None, MANY] = None
    kinds: Annotated[list[str] | None, MANY] = None
    service_start: File | None = None
    repaired: Annotated[Literal["as_new", "as_old"] | None, default("as_new")] = None
    open_is_down: Annotated[bool | None, SWITCH] = None
    cascade_s: Annotated[Seconds, default("60")] = None
    match_s: Annotated[Seconds, default("600")] = None
    output: File | None = None
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False


def fit_table(flags: LifetimeFlags, rest: FitFlags, files: Sequence[File]) -> int:
    """Fit a table of lifetimes; return the exit code.

    Args:
        rest: Other flags; only counts and the output apply.
        files: Histories, which must be empty.
    """
    from perfatlas.reliability.telemetry.fits import LifetimeColumns, read_lifetimes
    from perfatlas.reliability.telemetry.fleets import fit_lifetimes

    set_fields = changed_flags(flags)
    require(set_fields, ("lifetimes", "age", "failed", "time_unit"), example=EXAMPLE)
    _check_rest(flags, rest, files)
    columns = LifetimeColumns(str(flags.age), str(flags.failed), flags.entry or "")
    path, picked = str(flags.lifetimes), _equalities(flags.where or [])
    seen, counts = read_lifetimes(path, columns, where=picked)
    results = fit_lifetimes(
        seen, unit=str(flags.time_unit), ages=flags.survival_at or (), law=flags.law
    )
    results |= {"file": asdict(counts)} | _written(flags, rest, results, counts)
    if rest.json:
        set_fields |= {
            name: value for name, value in changed_flags(rest).items() if name not in SHOWN
        }
        scenario = {name: str(v) if isinstance(v, File) else v for name, v in set_fields.items()}
        print_json(envelope("fleet fit", results=results, scenario=scenario))
        return 0
    from perfatlas.report.text import open_terminal
    from perfatlas.verbs.fleet.text import print_lifetimes

    line = reproduce_fit(
        set_fields | {k: v for k, v in changed_flags(rest).items() if k not in SHOWN}
    )
    console = open_terminal(sys.stdout)
    print_lifetimes(console, results, counts.text(), reproduce=line, verbose=rest.verbose)
    return 0


def reproduce_fit(set_fields: Mapping[str, Any], files: Sequence[File] = ()) -> str:
    """Return the command line of a fit."""
    from perfatlas.report.text import reproduce_line

    line = reproduce_line("fleet fit", set_fields)
    return " ".join([line, *(shlex.quote(str(path)) for path in files)])


def _check_rest(flags: LifetimeFlags, rest: FitFlags, files: Sequence[File]) -> None:
    """Refuse flags that do not apply to a table, and a fleet without the required flags."""
    set_fields = changed_flags(rest)
    odd = [*map(str, files), *(_flag(name) for name in set_fields if name not in _OF_FLEET)]
    if odd:
        raise UsageError(
            f"--lifetimes replaces histories and their options: leave"
            f" {', '.join(odd)} out; for example: {EXAMPLE}"
        )
    needed = changed_flags(flags) | set_fields
    if rest.output is not None:
        require(needed, ("component", "nodes", "repair_s"), example=FLEET_EXAMPLE)
        check_writable(str(rest.output))
        return
    idle = [
        _flag(name) for name in (*_OF_FLEET, *_OF_PARTS) if name in needed and name not in SHOWN
    ]
    if idle:
        verb = "requires" if len(idle) == 1 else "require"
        raise UsageError(f"{' and '.join(idle)} {verb} --output; for example: {FLEET_EXAMPLE}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _written(
    flags: LifetimeFlags, rest: FitFlags, results: Mapping[str, Any], counts: FileCounts
) -> dict[str, Any]:
    """Write the fleet if requested; return the paths of the fleet and its evidence."""
    if rest.output is None:
        return {}
    from perfatlas.reliability.telemetry.fleets import PartsOfFleet, write_lifetime_fleet

    parts = PartsOfFleet(
        component=str(flags.component),
        nodes=rest.nodes or 0,
        gpus_per_node=8 if rest.gpus_per_node is None else rest.gpus_per_node,
        units=counts_of(rest.units or []),
        repair_s=flags.repair_s or 0.0,
        ages=flags.start_ages or "mixed",
    )
    beside = write_lifetime_fleet(str(rest.output), results, counts, parts)
    return {"nodes": rest.nodes, "output": str(rest.output), "evidence": str(beside)}


def counts_of(texts: Sequence[str]) -> dict[str, int]:
    """Return the number of units of each component.

    Args:
        texts: Texts such as nic=16384.

    Raises:
        InvalidSpecError: A text is not of that form.
    """
    found = {}
    for text in texts:
        name, _, count = text.partition("=")
        if not name or not count.isdigit():
            raise InvalidSpecError(
                f"units = {repr_for_error(text)}: expected a component and a count, such as"
                " nic=16384"
            )
        found[name] = int(count)
    return found


def _equalities(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise InvalidSpecError(
                f"where = {repr_for_error(text)}: expected a column and a value, such as batch=old"
            )
        if name in found:
            raise InvalidSpecError(f"where: {name} is set twice; a row has only one value of it")
        found[name] = value
    return found
