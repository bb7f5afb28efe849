"""Rules for measured serving runs: scenarios and exclusions."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas.quantities import InvalidSpecError, did_you_mean
from validation.runs.pool_launches import (
    PoolLaunch,
    PoolPlan,
    batch_of,
    pool_launch_of,
    pool_plan_of,
)
from validation.runs.serving_launches import Launch, launch_of
from validation.runs.serving_matches import FIELDS, SIZES, Match, take_match
from validation.scoring import data_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from validation.runs.pool_launches import PoolRun
    from validation.runs.serving_rows import ServingRun

Experts = Literal["stated", "ep", "tp"]
FORMATS: Final = ("format", "moe_format", "kv_format", "attention_format")
OVERRIDES: Final = (*FORMATS[2:], "length_ratio", "expert_distribution", "as_served", "as_launched")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Excluded runs, with the name of a reason defined in the file."""

    match: Match
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Scenario fields for a set of runs."""

    name: str  # Name of the rule
    match: Match  # Matching runs
    model: str  # Model with the config of the formats
    formats: Mapping[str, str]  # Formats of the recipe, by vocabulary name
    # Expert sharding: as stated, all expert-parallel ("ep") or all tensor-parallel ("tp")
    experts: Experts
    source: str  # Documentation


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A variant of the scenarios of all runs, by names of `OVERRIDES`."""

    name: str
    note: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run with per-request times: its name, file without suffix, model and system."""

    name: str
    file: str
    model: str
    system: str
    source: str


@dataclass(frozen=True, kw_only=True)
class ServingRules:
    """Rules of `serving_runs.toml`.

    Args:
        sha256: Digest of the file of runs.
        reasons: Reasons of exclusions, by name.
        left_out: Excluded runs by name of the reason.
        asks: Scenario rules; the first match applies.
        length_ratio: Mean over nominal length by kind of run.
        prompt_text: Content of prompts, by kind of run.
        networks: Model -> canonical name of its network, where it has several.
        settings: Variants of the scenarios.
        goal, budget: Figure -> largest value, for "dense" and "all" models.
        launches: Launch limits of the engines; the first match applies.
        pool_launches: The same for two pools.
        pool_batches: Sequences of a decode scheduler, by the keys of `batch_of`.
        pool_plans: Actual use of ranks where rows differ; the first match applies.
        pool_split: Systems of two-pool runs by what may be read of them: "read" or "held_out".
        pool_goal, pool_budget: Like goal and budget, for runs of two pools.
        ttft_statistic: Statistic of the TTFT in rows, by kind of run.
        traffic_goal, traffic_budget: Like goal and budget, for simulated traffic.
        scenario_goal, scenario_budget: The same with limits that follow from the scenario alone.
        recorded: Runs with per-request times.
        recorded_goal: Figure -> largest error.
    """

    title: str
    sha256: str
    reasons: Mapping[str, str]
    left_out: tuple[LeftOut, ...]
    asks: tuple[Ask, ...]
    length_ratio: Mapping[str, float]
    prompt_text: Mapping[str, str]
    networks: Mapping[str, str]
    settings: tuple[Setting, ...]
    goal: Mapping[str, Mapping[str, float]]
    budget: Mapping[str, Mapping[str, float]]
    launches: tuple[Launch, ...]
    pool_launches: tuple[PoolLaunch, ...]
    pool_batches: Mapping[str, Any]
    pool_plans: tuple[PoolPlan, ...]
    pool_split: Mapping[str, tuple[str, ...]]
    pool_goal: Mapping[str, Mapping[str, float]]
    pool_budget: Mapping[str, Mapping[str, float]]
    ttft_statistic: Mapping[str, str]
    traffic_goal: Mapping[str, Mapping[str, float]]
    traffic_budget: Mapping[str, Mapping[str, float]]
    scenario_goal: Mapping[str, Mapping[str, float]]
    scenario_budget: Mapping[str, Mapping[str, float]]
    recorded: tuple[RecordedRun, ...]
    recorded_goal: Mapping[str, float]

    def without_limits(self) -> ServingRules:
        """Return the rules with the traffic of the launches, and without their limits."""
        launches = (
            replace(launch, limits={}, unsimulated="", limited=False) for launch in self.launches
        )
        return replace(self, launches=tuple(launches))

    def launch(self, run: ServingRun) -> Launch | None:
        """Return the launch limits of the engine of a run, None for its defaults."""
        return next((launch for launch in self.launches if launch.match.fits(run)), None)

    def pool_launch(self, run: PoolRun) -> PoolLaunch | None:
        """Return the launch limits of both pools of a run, None for engine defaults."""
        return next((pool for pool in self.pool_launches if pool.match.fits(run.decode)), None)

    def pool_plan(self, run: PoolRun) -> PoolPlan | None:
        """Return the actual use of the ranks of a run, None for as stated."""
        return next((plan for plan in self.pool_plans if plan.match.fits(run.decode)), None)

    def decode_batch(self, run: PoolRun) -> int | None:
        """Return the decode scheduler sequences stated in a recipe, None for no limit."""
        if not self.pool_batches.get("rows") or run.decode.kind != "dump":
            return None
        rest = dict(self.pool_batches)
        fits = take_match(rest).fits(run.decode)
        return batch_of(rest["rows"], run.decode) if fits else None

    def network(self, run: ServingRun) -> str:
        """Return the name of the network of a run."""
        return self.networks.get(run.model, run.model)

    def ask(self, run: ServingRun) -> Ask:
        """Return the scenario rule of a run.

        Raises:
            InvalidSpecError: No rule matches.
        """
        for ask in self.asks:
            if ask.match.fits(run):
                return ask
        raise InvalidSpecError(
            f"serving_runs.toml has no scenario rule for {run.model} {run.precision} on"
            f" {run.backend}, {run.system} (run {run.id!r})"
        )


@cache
def serving_rules() -> ServingRules:
    """Return the shipped rules.

    Example:
        >>> from validation.runs import serving_rules
        >>> sorted(serving_rules().goal)
        ['all', 'dense']
    """
    return parse_serving_rules(data_text("serving_runs.toml"))


def parse_serving_rules(text: str) -> ServingRules:
    """Return rules from their TOML.

    Args:
        text: The file.

    Raises:
        InvalidSpecError: Not TOML, a field is missing or unknown, or a reason is undefined.
    """
    try:
        return _rules(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidSpecError(f"serving_runs.toml is not TOML: {error}") from None
    except KeyError as error:
        raise InvalidSpecError(f"serving_runs.toml: missing {error}") from None


def _rules(data: dict[str, Any]) -> ServingRules:
    reasons = dict(data["reasons"])
    left_out = tuple(_left_out(entry) for entry in data["left_out"])
    for rule in left_out:
        if rule.reason not in reasons:
            hint = did_you_mean(rule.reason, reasons)
            raise InvalidSpecError(f"serving_runs.toml: no reason {rule.reason!r}{hint}")
    return ServingRules(
        title=data["title"],
        sha256=data["source"]["sha256"],
        reasons=reasons,
        left_out=left_out,
        asks=tuple(_ask(entry) for entry in data["asks"]),
        length_ratio=dict(data["length_ratio"]),
        prompt_text=dict(data.get("prompt_text", {})),
        networks=dict(data.get("networks", {})),
        settings=tuple(_setting(entry) for entry in data.get("settings", [])),
        goal=dict(data.get("goal", {})),
        budget=dict(data.get("budget", {})),
        launches=tuple(_launch(entry) for entry in data.get("launches", [])),
        pool_launches=tuple(_pool_launch(entry) for entry in data.get("pool_launches", [])),
        pool_batches=dict(data.get("pool_batches", {})),
        pool_plans=tuple(_pool_plan(entry) for entry in data.get("pool_plans", [])),
        pool_split={k: tuple(v) for k, v in data.get("pool_split", {}).items()},
        pool_goal=dict(data.get("pool_goal", {})),
        pool_budget=dict(data.get("pool_budget", {})),
        ttft_statistic=dict(data.get("ttft_statistic", {})),
        traffic_goal=dict(data.get("traffic_goal", {})),
        traffic_budget=dict(data.get("traffic_budget", {})),
        scenario_goal=dict(data.get("scenario_goal", {})),
        scenario_budget=dict(data.get("scenario_budget", {})),
        recorded=tuple(_recorded(entry) for entry in data.get("recorded", [])),
        recorded_goal=dict(data.get("recorded_goal", {})),
    )


def _left_out(entry: dict[str, Any]) -> LeftOut:
    rest = dict(entry)
    reason, source, match = rest.pop("reason"), rest.pop("ref"), take_match(rest)
    _refuse_unknown(rest, ())
    return LeftOut(match=match, reason=reason, source=source)


def _ask(entry: dict[str, Any]) -> Ask:
    rest = dict(entry)
    name, source, model = rest.pop("name"), rest.pop("ref"), rest.pop("checkpoint")
    formats = {str(key): str(rest.pop(key)) for key in FORMATS if key in rest}
    experts, match = rest.pop("experts", "stated"), take_match(rest)
    _refuse_unknown(rest, ())
    return Ask(
        name=name,
        match=match,
        model=model,
        formats=formats,
        experts=experts,
        source=source,
    )


def _setting(entry: dict[str, Any]) -> Setting:
    rest = dict(entry)
    name, note = rest.pop("name"), rest.pop("note")
    _refuse_unknown(rest, OVERRIDES)
    return Setting(name=name, note=note, changes=rest)


def _launch(entry: dict[str, Any]) -> Launch:
    rest = dict(entry)
    name, source, match = rest.pop("name"), rest.pop("ref"), take_match(rest)
    return launch_of(rest, match, name, source)


def _pool_launch(entry: dict[str, Any]) -> PoolLaunch:
    rest = dict(entry)
    match = take_match(rest)
    return pool_launch_of(rest, match)


def _pool_plan(entry: dict[str, Any]) -> PoolPlan:
    rest = dict(entry)
    match = take_match(rest)
    return pool_plan_of(rest, match)


def _recorded(entry: dict[str, Any]) -> RecordedRun:
    return RecordedRun(
        name=entry["name"],
        file=entry["file"],
        model=entry["model"],
        system=entry["system"],
        source=entry["ref"],
    )


def _refuse_unknown(rest: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in rest:
        if name not in known:
            hint = did_you_mean(name, (*known, *FIELDS, *SIZES, *FORMATS))
            raise InvalidSpecError(f"serving_runs.toml: unknown field {name!r}{hint}")
