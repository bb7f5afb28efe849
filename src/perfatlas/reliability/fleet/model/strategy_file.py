"""Strategies of a job as tables of a TOML file, in the fleet file or a separate one.

```toml
[[strategy]]
name = "two levels"
interval = "12 min"          # work between checkpoints; default: the optimum
state = "5.7 TB"             # checkpoint size; bandwidths apply to the whole job
verify = "20 s"              # before every checkpoint
maintenance = { every = "30 d", lasts = "6 h" }
spares = { count = 32, kind = "warm", start = "5 min", order = "longest_idle" }
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

from perfatlas import files
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.reliability.fleet.model import model
from perfatlas.reliability.fleet.model.checks import check_once
from perfatlas.reliability.fleet.model.file_fields import NAME, TimeOrLaw, fields_of, name_of

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import Law

_TIME: Final = files.Duration()
_BYTES: Final = files.Number(dimension="bytes", unit="B", least=1.0, example="5.7 TB")
_SPEED: Final = files.Number(dimension="bytes_per_s", unit="B/s", least=1e-6, example="400 GB/s")
_SPARES: Final = files.Record(
    fields=fields_of(model.Spares, "reallocated")
    | {"count": files.Field(files.Whole(), required=True, meaning="the number of spares")},
    build=model.Spares,
)
_SHRINK: Final = files.Record(
    fields=fields_of(model.Shrink)
    | {
        "replica_units": files.Field(files.Whole()),
        "fewest": files.Field(files.Whole(), required=True, meaning="the minimum number of units"),
    },
    build=lambda *, replica_units=1, **given: model.Shrink(replica_units=replica_units, **given),
)
_STRATEGY: Final = fields_of(model.Strategy, "levels", "restarts", "step_s") | {
    "interval": files.Field(_TIME, into="interval_s"),
    "lost_step": files.Field(_TIME, into="step_s"),
    "spares": files.Field(_SPARES),
    "shrink": files.Field(_SHRINK),
    "state": files.Field(_BYTES, into="state_bytes"),
}
_KEYS: Final = {**_STRATEGY, "checkpoint": None, "restart": None}
_MOVES: Final = ("write", "lag", "read")
_LEVEL: Final = fields_of(model.Level) | {
    "write": files.Field(_TIME, into="write_s"),
    **{f"{key}_bandwidth": files.Field(_SPEED) for key in _MOVES},
}
_GROWING: Final[dict[str, files.Field[Any]]] = {
    "fixed": files.Field(_TIME, into="fixed_s"),
    "per_rank": files.Field(_TIME, required=True, into="per_rank_s"),
}


@dataclass(frozen=True, kw_only=True)
class StrategyTable:
    """A strategy as written in a file."""

    name: str
    table: Mapping[str, Any]  # The parsed TOML table
    origin: str  # File name for messages

    @property
    def reads_bytes(self) -> bool:
        """Whether a checkpoint is defined by a bandwidth, so that its bytes matter."""
        rows = files.sub_tables(self.table.get("checkpoint", []), f"{self.origin}: checkpoint")
        return any(key.endswith("_bandwidth") for row in rows for key in row)

    def fields(self, *, ranks: int, state_bytes: float | None = None) -> dict[str, Any]:
        """Return the fields of a `Strategy` set in the table.

        `interval_s` is missing where the optimum is to be used, `levels` or `restarts` where the
        table has none.

        Args:
            ranks: Processes of the job, for times that grow with them.
            state_bytes: Size of a checkpoint, overriding the table [bytes].

        Raises:
            InvalidSpecError: A key is unknown or missing, a time has no unit.
        """
        where = f"{self.origin}: strategy {self.name!r}"
        table = self.table
        top_level = {key: value for key, value in table.items() if key in _STRATEGY}
        values = files.read_fields(top_level, _STRATEGY, where)
        default_bytes = values.pop("state_bytes", None)
        state_bytes = default_bytes if state_bytes is None else state_bytes
        if "checkpoint" in table:
            rows = files.sub_tables(table["checkpoint"], f"{where}: checkpoint")
            values["levels"] = tuple(_level(row, where, state_bytes) for row in rows)
            check_once(f"{where}: checkpoint", [level.name for level in values["levels"]])
        if "restart" in table:
            rows = files.sub_tables(table["restart"], f"{where}: restart")
            values["restarts"] = tuple(_restart(row, where, ranks) for row in rows)
            check_once(f"{where}: restart", [restart.name for restart in values["restarts"]])
        return values


def strategies_of(table: Mapping[str, Any], origin: str) -> tuple[StrategyTable, ...]:
    """Return the strategies of a file."""
    strategies: list[StrategyTable] = []
    for row in files.sub_tables(table.get("strategy", []), f"{origin}: strategy"):
        name = name_of(row, f"{origin}: strategy")
        files.known_keys(row, _KEYS, f"{origin}: strategy {name!r}")
        strategies.append(StrategyTable(name=name, table=row, origin=origin))
    check_once(f"{origin}: strategy", [strategy.name for strategy in strategies])
    return tuple(strategies)


def choose(strategies: tuple[StrategyTable, ...], name: str | None, origin: str) -> StrategyTable:
    """Return the strategy with a name, by default the first.

    Args:
        strategies: Strategies of the file, at least one where `name` is None.
    """
    if name is None:
        return strategies[0]
    names = [strategy.name for strategy in strategies]
    if name not in names:
        text = f"one of {', '.join(names)}" if names else "a [[strategy]] table"
        raise InvalidSpecError(
            f"strategy = {repr_for_error(name)}: expected {text} in"
            f" {origin}{did_you_mean(name, names)}"
        )
    return strategies[names.index(name)]


def _level(table: Mapping[str, Any], where: str, state_bytes: float | None) -> model.Level:
    where = f"{where}: checkpoint {name_of(table, f'{where}: checkpoint')!r}"
    values = files.read_fields(table, _LEVEL, where)
    for key in _MOVES:
        speed = values.pop(f"{key}_bandwidth", None)
        if speed is None:
            continue
        if f"{key}_s" in values:
            raise InvalidSpecError(f"{where}: {key} and {key}_bandwidth are mutually exclusive")
        if state_bytes is None:
            raise InvalidSpecError(
                f"{where}: {key}_bandwidth needs the checkpoint size: set state, such as state ="
                " '5.7 TB', or --checkpoint-bytes or --model"
            )
        values[f"{key}_s"] = state_bytes / speed
    if "write_s" not in values:
        raise InvalidSpecError(f"{where}: write or write_bandwidth is missing")
    return model.Level(**values)


def _restart(table: Mapping[str, Any], where: str, ranks: int) -> model.Restart:
    where = f"{where}: restart {name_of(table, f'{where}: restart')!r}"
    fields: dict[str, files.Field[Any]] = {
        "name": files.Field(NAME, required=True),
        "phases": files.Field(_Phases(ranks)),
        "success": files.Field(files.Number()),
    }
    return model.Restart(**files.read_fields(table, fields, where))


@dataclass(frozen=True)
class _Phases:
    """Phases of a restart by name: a time, a distribution, or a time that grows with the ranks."""

    ranks: int

    def read(self, value: object, where: str) -> dict[str, float | Law]:
        """Return the phases."""
        return {
            NAME.read(key, f"{where}: phase"): self._phase(times, f"{where}: {key}")
            for key, times in files.sub_table(value, where, "a table of times").items()
        }

    def _phase(self, value: object, where: str) -> float | Law:
        if not isinstance(value, Mapping) or "law" in value:
            return TimeOrLaw().read(value, where)
        times = {"fixed_s": 0.0} | files.read_fields(value, _GROWING, where)
        return model.collective_init_s(self.ranks, **times)
