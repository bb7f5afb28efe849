"""Strategies of a job as tables of a TOML file, beside the fleet or in a file of their own.

```toml
[[strategy]]
name = "two levels"
interval = "12 min"          # work between checkpoints; the optimum if left out
state = "5.7 TB"             # of a checkpoint; bandwidths are of the whole job
verify = "20 s"              # before every checkpoint
maintenance = { every = "30 d", lasts = "6 h" }
spares = { count = 32, kind = "warm", start = "5 min" }
shrink = { replica_units = 16, fewest = 1984, overhead = 1.02, rejoin = "1 min" }

[[strategy.checkpoint]]
name = "peer memory"
write = "3 s"
read = "5 s"
survives = "unit"

[[strategy.checkpoint]]
name = "remote"
write_bandwidth = "2 TB/s"
lag_bandwidth = "200 GB/s"
read_bandwidth = "400 GB/s"
every = 10

[[strategy.restart]]
name = "in-job"
phases = { init = { fixed = "5 s", per_rank = "3 ms" }, warm_up = "30 s" }
success = 0.8

[[strategy.restart]]
name = "scheduler"
phases = { reschedule = { law = "lognormal", median = "5 min", sigma = 1 } }
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.laws import Constant
from perfatlas.fleet.model.checks import check_once
from perfatlas.fleet.model.file_fields import (
    amount,
    known_keys,
    law_of,
    name_of,
    one_of,
    printable,
    real,
    switch,
    tables,
    time_s,
    whole,
)
from perfatlas.fleet.model.model import (
    REACHES,
    Level,
    Maintenance,
    Restart,
    Shrink,
    Spares,
    collective_init_s,
)
from perfatlas.quantities import InvalidSpecError, did_you_mean, parse_duration, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.fleet.laws import Law


@dataclass(frozen=True, kw_only=True)
class StrategyTable:
    """A strategy as a file has it.

    Args:
        name: Of the strategy.
        table: As TOML has it.
        origin: Where it was read, for messages.
    """

    name: str
    table: Mapping[str, Any]
    origin: str

    @property
    def reads_bytes(self) -> bool:
        """Whether a checkpoint is told by a bandwidth, so that its bytes matter."""
        rows = tables(self.table.get("checkpoint", []), f"{self.origin}: checkpoint")
        return any(key.endswith("_bandwidth") for row in rows for key in row)

    def fields(self, *, ranks: int, state_bytes: float | None = None) -> dict[str, Any]:
        """Return the fields of a `Strategy` that the table gives.

        `interval_s` is missing where the table leaves it to the optimum, `levels` or `restarts`
        where it has none.

        Args:
            ranks: Processes of the job, for what grows with them.
            state_bytes: Of a checkpoint, in place of the table's [bytes].

        Raises:
            InvalidSpecError: A key is unknown or missing, a time has no unit.
        """
        where = f"{self.origin}: strategy {self.name!r}"
        table = self.table
        given: dict[str, Any] = {"name": self.name}
        for key, (field, read) in _READERS.items():
            if key in table:
                given[field] = read(table[key], f"{where}: {key}")
        if "state" in table and state_bytes is None:
            state_bytes = amount(table["state"], "bytes", f"{where}: state")
        if "checkpoint" in table:
            rows = tables(table["checkpoint"], f"{where}: checkpoint")
            given["levels"] = tuple(_level(row, where, state_bytes) for row in rows)
            check_once(f"{where}: checkpoint", [level.name for level in given["levels"]])
        if "restart" in table:
            rows = tables(table["restart"], f"{where}: restart")
            given["restarts"] = tuple(_restart(row, where, ranks) for row in rows)
            check_once(f"{where}: restart", [restart.name for restart in given["restarts"]])
        return given


def strategies_of(table: Mapping[str, Any], origin: str) -> tuple[StrategyTable, ...]:
    """Return the strategies of a file.

    Args:
        table: As `tomllib` reads it.
        origin: Where it was read, for messages.

    Raises:
        InvalidSpecError: One has no name or an unknown key, or two have the same name.
    """
    found: list[StrategyTable] = []
    for row in tables(table.get("strategy", []), f"{origin}: strategy"):
        name = name_of(row, f"{origin}: strategy")
        known_keys(row, _KEYS, f"{origin}: strategy {name!r}")
        found.append(StrategyTable(name=name, table=row, origin=origin))
    check_once(f"{origin}: strategy", [strategy.name for strategy in found])
    return tuple(found)


def choose(found: tuple[StrategyTable, ...], name: str | None, origin: str) -> StrategyTable:
    """Return the strategy of a name, the first where none is named.

    Args:
        found: Those of the file, at least one where `name` is None.
        name: The one asked for.
        origin: Where they were read, for messages.

    Raises:
        InvalidSpecError: There is none of that name.
    """
    if name is None:
        return found[0]
    names = [strategy.name for strategy in found]
    if name not in names:
        told = f"one of {', '.join(names)}" if names else "[[strategy]] tables, and it has none"
        raise InvalidSpecError(
            f"strategy = {shown(name)}: expected of {origin} {told}{did_you_mean(name, names)}"
        )
    return found[names.index(name)]


def _level(table: Mapping[str, Any], where: str, state_bytes: float | None) -> Level:
    name = name_of(table, f"{where}: checkpoint")
    where = f"{where}: checkpoint {name!r}"
    speeds = {f"{key}_bandwidth" for key in ("write", "lag", "read")}
    known_keys(table, {"name", "write", "lag", "read", "every", "survives", *speeds}, where)
    given: dict[str, Any] = {"name": name, "every": whole(table.get("every", 1), f"{where}: every")}
    for key in ("write", "lag", "read"):
        if f"{key}_bandwidth" in table:
            given[f"{key}_s"] = _moved_s(table, key, where, state_bytes)
        elif isinstance(table.get(key), Mapping) and key == "read":
            given["read_s"] = law_of(table["read"], f"{where}: read")
        elif key in table:
            given[f"{key}_s"] = time_s(table, key, where)
    if "write_s" not in given:
        raise InvalidSpecError(f"{where}: write or write_bandwidth is missing")
    if "survives" in table:
        given["survives"] = one_of(table["survives"], REACHES, f"{where}: survives")
    return Level(**given)


def _moved_s(table: Mapping[str, Any], key: str, where: str, state_bytes: float | None) -> float:
    """Return how long a checkpoint takes through a bandwidth [s]."""
    if key in table:
        raise InvalidSpecError(f"{where}: {key} and {key}_bandwidth: give one of them")
    if state_bytes is None:
        raise InvalidSpecError(
            f"{where}: {key}_bandwidth of how many bytes? give state, such as state = '5.7 TB', or"
            " checkpoint_bytes or model to the command"
        )
    speed = amount(table[f"{key}_bandwidth"], "bytes_per_s", f"{where}: {key}_bandwidth")
    return state_bytes / speed


def _restart(table: Mapping[str, Any], where: str, ranks: int) -> Restart:
    name = name_of(table, f"{where}: restart")
    where = f"{where}: restart {name!r}"
    known_keys(table, {"name", "phases", "success"}, where)
    phases = table.get("phases", {})
    if not isinstance(phases, Mapping):
        raise InvalidSpecError(f"{where}: phases = {shown(phases)}: expected a table of times")
    return Restart(
        name=name,
        phases={
            printable(key, f"{where}: phase"): _phase(value, f"{where}: {key}", ranks)
            for key, value in phases.items()
        },
        success=real(table.get("success", 1.0), f"{where}: success"),
    )


def _phase(value: object, where: str, ranks: int) -> float | Law:
    """Return a time, its law, or what grows with the ranks."""
    if not isinstance(value, Mapping):
        return parse_duration(value, field=where)
    if "law" in value:
        return law_of(value, where)
    known_keys(value, {"fixed", "per_rank"}, where)
    return collective_init_s(
        ranks,
        fixed_s=parse_duration(value.get("fixed", "0 s"), field=f"{where}: fixed"),
        per_rank_s=time_s(value, "per_rank", where),
    )


def _table(value: object, where: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidSpecError(f"{where} = {shown(value)}: expected a table of {', '.join(keys)}")
    known_keys(value, keys, where)
    return value


def _spares(value: object, where: str) -> Spares:
    table = _table(value, where, {"count", "kind", "start"})
    kinds = ("cold", "warm", "hot")
    return Spares(
        count=whole(table.get("count"), f"{where}: count"),
        kind=one_of(table.get("kind", "cold"), kinds, f"{where}: kind"),  # type: ignore[arg-type]
        start=law_of(table["start"], f"{where}: start") if "start" in table else _NOTHING,
    )


def _shrink(value: object, where: str) -> Shrink:
    table = _table(value, where, {"replica_units", "fewest", "overhead", "rejoin"})
    return Shrink(
        replica_units=whole(table.get("replica_units", 1), f"{where}: replica_units"),
        fewest=whole(table.get("fewest"), f"{where}: fewest"),
        overhead=real(table.get("overhead", 1.0), f"{where}: overhead"),
        rejoin_s=parse_duration(table.get("rejoin", "0 s"), field=f"{where}: rejoin"),
    )


def _maintenance(value: object, where: str) -> Maintenance:
    table = _table(value, where, {"every", "lasts", "restart"})
    return Maintenance(
        every_s=time_s(table, "every", where),
        lasts_s=time_s(table, "lasts", where),
        restart=name_of(table, where, "restart") if "restart" in table else "",
    )


def _name(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidSpecError(f"{where} = {shown(value)}: expected the name of a restart")
    return value


def _time(value: object, where: str) -> float:
    return parse_duration(value, field=where)


_NOTHING: Final = Constant(value_s=0.0)
_READERS: Final[dict[str, tuple[str, Callable[[object, str], Any]]]] = {
    "interval": ("interval_s", _time),
    "verify": ("verify_s", _time),
    "lost_step": ("step_s", _time),
    "slow_patience": ("slow_patience_s", _time),
    "retained": ("retained", whole),
    "silent_restart": ("silent_restart", _name),
    "slow_restart": ("slow_restart", _name),
    "detection_exposed": ("detection_exposed", switch),
    "restart_exposed": ("restart_exposed", switch),
    "spares": ("spares", _spares),
    "shrink": ("shrink", _shrink),
    "maintenance": ("maintenance", _maintenance),
}
_KEYS: Final = {"name", "state", "checkpoint", "restart", *_READERS}
