"""What is asked for measured serving runs, and which are left out: the committed rules."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Literal

from perfatlas.lab.runs.pool_launches import (
    PoolLaunch,
    PoolPlan,
    batch_of,
    pool_launch_of,
    pool_plan_of,
)
from perfatlas.lab.runs.serving_launches import Launch, launch_of
from perfatlas.lab.runs.serving_matches import FIELDS, SIZES, Match, take_match
from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.runs.pool_launches import PoolRun
    from perfatlas.lab.runs.serving_rows import ServingRun

Experts = Literal["stated", "ep", "tp"]
FORMATS: Final = ("format", "moe_format", "kv_format", "attention_format")
OVERRIDES: Final = (*FORMATS[2:], "length_ratio", "expert_distribution")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Runs that are not scored, for a reason that is named elsewhere in the file."""

    match: Match
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How perfatlas is asked for some runs.

    Args:
        name: What they are.
        match: Which they are.
        model: Model whose config states the formats.
        formats: Formats the recipe passes, by names of the vocabulary.
        experts: How experts are divided: as the row says, or all by ranks ("ep") or inside ("tp").
        source: Where this is documented.
    """

    name: str
    match: Match
    model: str
    formats: Mapping[str, str]
    experts: Experts
    source: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Another way to ask for all runs: what it changes, by names of `OVERRIDES`."""

    name: str
    note: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run whose every request was timed: its name, file without suffix, model and system."""

    name: str
    file: str
    model: str
    system: str
    source: str


@dataclass(frozen=True, kw_only=True)
class ServingRules:
    """The committed rules.

    Args:
        title: What the runs are.
        sha256: Digest of the file they are about.
        reasons: Why a run is left out, by name.
        left_out: Runs that are left out by name of the reason.
        asks: How to ask; the first that fits is used.
        length_ratio: Mean over nominal length by kind of run.
        prompt_text: What prompts are made of, by kind of run.
        networks: Model -> the name its network goes by where it has several.
        settings: Other ways to ask.
        goal, budget: Figure -> largest value, for "dense" and "all" models.
        launches: Limits the engines were started with; the first that fits is used.
        pool_launches: The same of two pools.
        pool_batches: Sequences of a decode scheduler, by what `batch_of` reads.
        pool_plans: How ranks were used where rows say otherwise; the first that fits.
        pool_goal, pool_budget: Like goal and budget, of runs of two pools.
        ttft_statistic: Statistic of TTFT that rows state, by kind of run.
        traffic_goal, traffic_budget: Like goal and budget, of simulated traffic.
        recorded: Runs whose every request was timed.
        recorded_goal, recorded_scaled_goal: Figure -> largest error, of both lines.
        points: Whose points of operation are compared: model, system, gpu, ref.
        points_goal: Figure -> largest value.
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
    pool_goal: Mapping[str, Mapping[str, float]]
    pool_budget: Mapping[str, Mapping[str, float]]
    ttft_statistic: Mapping[str, str]
    traffic_goal: Mapping[str, Mapping[str, float]]
    traffic_budget: Mapping[str, Mapping[str, float]]
    recorded: tuple[RecordedRun, ...]
    recorded_goal: Mapping[str, float]
    recorded_scaled_goal: Mapping[str, float]
    points: Mapping[str, str]
    points_goal: Mapping[str, float]

    def launch(self, run: ServingRun) -> Launch | None:
        """Return the limits the engine of a run was started with, None for its defaults."""
        return next((launch for launch in self.launches if launch.match.fits(run)), None)

    def pool_launch(self, run: PoolRun) -> PoolLaunch | None:
        """Return the limits both pools of a run were started with, None for those of the engine."""
        return next((one for one in self.pool_launches if one.match.fits(run.decode)), None)

    def pool_plan(self, run: PoolRun) -> PoolPlan | None:
        """Return how the ranks of a run were used, None for as its row says."""
        return next((one for one in self.pool_plans if one.match.fits(run.decode)), None)

    def decode_batch(self, run: PoolRun) -> int | None:
        """Return the sequences of a decode scheduler that a recipe states, None for no limit."""
        if not self.pool_batches.get("rows") or run.decode.kind != "dump":
            return None
        rest = dict(self.pool_batches)
        fits = take_match(rest).fits(run.decode)
        return batch_of(rest["rows"], run.decode) if fits else None

    def network(self, run: ServingRun) -> str:
        """Return the name of the network of a run."""
        return self.networks.get(run.model, run.model)

    def ask(self, run: ServingRun) -> Ask:
        """Return how to ask for a run.

        Raises:
            InvalidSpecError: The rules do not say.
        """
        for ask in self.asks:
            if ask.match.fits(run):
                return ask
        raise InvalidSpecError(
            f"serving_runs.toml does not say how to ask for {run.model} {run.precision} on"
            f" {run.backend}, {run.system} (run {run.id!r})"
        )


@cache
def serving_rules() -> ServingRules:
    """Return the shipped rules.

    Example:
        >>> from perfatlas.lab.runs import serving_rules
        >>> sorted(serving_rules().goal)
        ['all', 'dense']
    """
    text = resources.files("perfatlas").joinpath("data/validation/serving_runs.toml")
    return parse_serving_rules(text.read_text("utf-8"))


def parse_serving_rules(text: str) -> ServingRules:
    """Return rules from their TOML.

    Args:
        text: The file.

    Raises:
        InvalidSpecError: Not TOML, a field is missing or unknown, or a reason is not named.
    """
    try:
        return _rules(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidSpecError(f"serving_runs.toml is not TOML: {error}") from None
    except KeyError as error:
        raise InvalidSpecError(f"serving_runs.toml lacks {error}") from None


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
        pool_goal=dict(data.get("pool_goal", {})),
        pool_budget=dict(data.get("pool_budget", {})),
        ttft_statistic=dict(data.get("ttft_statistic", {})),
        traffic_goal=dict(data.get("traffic_goal", {})),
        traffic_budget=dict(data.get("traffic_budget", {})),
        recorded=tuple(_recorded(entry) for entry in data.get("recorded", [])),
        recorded_goal=dict(data.get("recorded_goal", {})),
        recorded_scaled_goal=dict(data.get("recorded_scaled_goal", {})),
        points=dict(data.get("points", {})),
        points_goal=dict(data.get("points_goal", {})),
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
