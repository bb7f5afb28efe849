"""KV cache sizes printed by engines at start-up compared with derived ones."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.quantities import InvalidSpecError, parse_quantity
from perfatlas.sampling import error_statistics
from perfatlas.scenario.deployments import cache_capacity
from perfatlas.scenario.fields import Scenario
from validation.scoring import data_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class CapacityRun:
    """A cache size printed by an engine."""

    id: str  # Name of the run
    version: str
    scenario: Scenario
    tokens: float  # Tokens of one scheduler, NaN where only memory is printed
    cache_bytes: float  # Memory of one rank's cache, NaN where tokens are printed [bytes]
    weights_bytes: float  # Memory of one rank's weights, NaN where not printed [bytes]
    informed: bool  # Whether its figures determined a memory rule or an assumption
    assumed: str  # Assumptions, "" for none
    source: str  # Publication


@dataclass(frozen=True, kw_only=True)
class CapacityRuns:
    """The published cache sizes."""

    title: str
    runs: tuple[CapacityRun, ...]  # Compared runs
    left_out: tuple[Mapping[str, str], ...]  # Excluded runs, each with `id`, `source` and `reason`
    budget: Mapping[str, float]  # Largest median and p90 error allowed over all runs


def validate_capacity() -> Row:
    """Return the errors of derived cache sizes relative to those printed by engines.

    Every run of `validation/data/kv_capacity.toml` is predicted by `cache_capacity`, which derives
    the blocks of `simulate`; no constant is fitted. `error` is predicted / published - 1, of tokens
    or of their memory; `gap_bytes` is predicted less published memory of a rank; median and p90 are
    of |error|, bias is the mean of ln(predicted/published).

    Returns:
        `totals` over all runs, by engine and over runs that did not determine the rules; `runs`;
        `left_out` with their reasons; `failures`: the budgets that are exceeded.
    """
    published = capacity_runs()
    rows = [_scored(run) for run in published.runs]
    groups = {
        "all": rows,
        **{engine: _of(rows, "engine", engine) for engine in {row["engine"]: 0 for row in rows}},
        "not informed": _of(rows, "informed", value=False),
    }
    totals = [_total(name, group) for name, group in groups.items()]
    return {
        "published": published.title,
        "scored": len(rows),
        "totals": totals,
        "runs": rows,
        "left_out": [dict(each) for each in published.left_out],
        "failures": gate(totals[0], published.budget),
    }


def capacity_runs() -> CapacityRuns:
    """Return the published cache sizes of `validation/data/kv_capacity.toml`."""
    return parse_capacity_runs(data_text("kv_capacity.toml"))


def parse_capacity_runs(text: str) -> CapacityRuns:
    """Return the published cache sizes of a TOML text.

    Raises:
        InvalidSpecError: A run states neither or both of tokens and cache, or repeats an id.
    """
    raw = tomllib.loads(text)
    runs = tuple(_parsed(each) for each in raw["run"])
    names = [run.id for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSpecError(f"run {name!r} is defined twice; expected unique ids")
    return CapacityRuns(
        title=raw["title"],
        runs=runs,
        left_out=tuple(raw.get("left_out", ())),
        budget=raw.get("budget", {}),
    )


def gate(total: Mapping[str, Any], budget: Mapping[str, float]) -> list[str]:
    """Return a sentence for every budget that a total exceeds.

    Args:
        total: Statistics of a group of runs.
        budget: {name of a statistic: largest value}.
    """
    return [
        f"{name} of {total['group']} is {100 * total[name]:.1f}%, above its budget of"
        f" {100 * limit:.1f}%"
        for name, limit in budget.items()
        if total[name] > limit
    ]


def _parsed(raw: Mapping[str, Any]) -> CapacityRun:
    if ("tokens" in raw) == ("cache" in raw):
        raise InvalidSpecError(f"run {raw['id']!r}: expected exactly one of tokens and cache")
    return CapacityRun(
        id=raw["id"],
        version=raw["version"],
        scenario=Scenario.read({"engine": f"{raw['engine']}@{raw['version']}", **raw["scenario"]}),
        tokens=float(raw.get("tokens", "nan")),
        cache_bytes=_bytes(raw, "cache"),
        weights_bytes=_bytes(raw, "weights"),
        informed=raw.get("informed", False),
        assumed=raw.get("assumed", ""),
        source=raw["source"],
    )


def _bytes(raw: Mapping[str, Any], name: str) -> float:
    return parse_quantity(raw[name], "bytes") if name in raw else float("nan")


def _scored(run: CapacityRun) -> Row:
    found = cache_capacity(run.scenario)
    of_tokens = np.isnan(run.cache_bytes)
    published = run.tokens if of_tokens else run.cache_bytes
    predicted = float(found.tokens) if of_tokens else found.cache_bytes
    # Both give the bytes per token, so that runs with tokens have a memory gap too.
    gap_bytes = found.cache_bytes * (1.0 - published / predicted)
    return {
        "id": run.id,
        "engine": run.scenario.engine.partition("@")[0],
        "version": run.version,
        "model": run.scenario.model,
        "system": run.scenario.system,
        "gpus": (run.scenario.tp or 1) * run.scenario.attention_dp * run.scenario.pp,
        "unit": "tokens" if of_tokens else "bytes",
        "published": published,
        "predicted": predicted,
        "error": predicted / published - 1.0,
        "gap_bytes": gap_bytes,
        "weights_gap_bytes": _known(found.weights_bytes - run.weights_bytes),
        "informed": run.informed,
        "assumed": run.assumed,
        "source": run.source,
    }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _of(rows: Sequence[Row], name: str, value: object) -> list[Row]:
    return [row for row in rows if row[name] == value]


def _total(group: str, rows: Sequence[Row]) -> Row:
    predicted, published = (np.array([row[n] for row in rows]) for n in ("predicted", "published"))
    statistics = error_statistics(predicted, published)
    return {
        "group": group,
        "rows": statistics.rows,
        "median_error": statistics.median_error,
        "p90_error": statistics.p90_error,
        "bias": statistics.bias,
        "worst_error": float(np.max(np.abs(predicted / published - 1.0))),
    }
