"""What a simulation would not read: options without what they belong to, refused or remarked on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.engines import resolve_engine
from perfatlas.models import resolve_model
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import ReplicaKind, Scenario, kind_scenarios
from perfatlas.scenario.resolution import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfatlas.scenario.deployments.arrivals import Arriving
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.scenario.fields import Traffic

OF_EXPERTS: Final = {"moe_format": None, "expert_distribution": "uniform"}


def refuse_unread(traffic: Traffic, scenario: Scenario, *, finds_rate: bool = False) -> None:
    """Refuse options that would change nothing, because what they belong to is not asked for.

    Args:
        traffic: What arrives.
        scenario: What runs where.
        finds_rate: The largest rate is searched.

    Raises:
        InvalidSpecError: An option would not be read; the message says what it belongs to.

    Example:
        >>> from perfatlas.scenario.fields import parse_traffic
        >>> from perfatlas.scenario.deployments import refuse_unread
        >>> from perfatlas.scenario.fields.vocabulary import parse_scenario
        >>> traffic = parse_traffic({"request_rate": 4, "mixed_chunk": True})
        >>> refuse_unread(traffic, parse_scenario({"model": "m", "system": "s"}))
        Traceback (most recent call last):
        perfatlas.quantities.errors.InvalidSpecError: mixed_chunk is of the scheduler of SGLang...
    """
    _refuse_of_scheduler(traffic, scenario)
    _refuse_of_files(traffic)
    _refuse_of_draws(traffic, scenario)
    _refuse_of_objectives(traffic, finds_rate=finds_rate)
    _refuse_of_front_ends(traffic, scenario)
    if traffic.retry_after_s is not None and traffic.on_failure == "lost":
        raise InvalidSpecError(
            f"retry_after_s = {traffic.retry_after_s:g} is that of on_failure = retry, and requests"
            " that fail are lost here; leave one of the two out"
        )
    _refuse_overridden(traffic, scenario)
    _refuse_of_experts(scenario)


def _refuse_of_scheduler(traffic: Traffic, scenario: Scenario) -> None:
    from perfatlas.serving.policies import POLICIES

    for name in sorted(traffic.model_fields_set):
        readers = [policy for policy in POLICIES if name in policy.reads]
        if not readers:
            continue
        rules = _rules(traffic, scenario)
        if not any(policy.name in rules for policy in readers):
            raise InvalidSpecError(
                f"{name} is of the scheduler of {_alternatives(one.title for one in readers)},"
                f" and the rules here are {' and '.join(rules)}; use engine"
                f" {_alternatives(one.name for one in readers)}, or leave {name} out"
            )


def _alternatives(names: Iterable[str]) -> str:
    """Return names, each once, as a choice."""
    return " or ".join(dict.fromkeys(names))


def _rules(traffic: Traffic, scenario: Scenario) -> list[str]:
    """Return the rules of all schedulers, each once."""
    if traffic.scheduler is not None:
        return [traffic.scheduler]
    ones = [scenario]
    if traffic.replica_kinds is not None:
        ones = kind_scenarios(scenario, traffic.replica_kinds)
    return list(dict.fromkeys(resolve_engine(one.engine).scheduler.rules for one in ones))


def _refuse_of_front_ends(traffic: Traffic, scenario: Scenario) -> None:
    """Refuse how a front end works where it takes no time."""
    given = [name for name in ("prompt_text",) if name in traffic.model_fields_set]
    given += [name for name in ("stream_interval",) if name in scenario.model_fields_set]
    if not given:
        return
    if traffic.measured_at == "engine":
        raise InvalidSpecError(
            f"{given[0]} is of the front end, which measured_at = engine leaves out; leave one of"
            " the two out"
        )
    ones = [scenario]
    if traffic.replica_kinds is not None:
        ones = kind_scenarios(scenario, traffic.replica_kinds)
    fronts = [resolve_engine(one.engine).front for one in ones]
    if not any(front.tokenizes or front.token_s for front in fronts):
        raise InvalidSpecError(
            f"{given[0]} is of the front end, and that of engine {scenario.engine} takes no time;"
            f" leave {given[0]} out"
        )


def _refuse_of_files(traffic: Traffic) -> None:
    """Refuse a format without a file, and lengths beside those of a file."""
    given = traffic.model_fields_set
    if "request_format" in given and traffic.requests is None and traffic.lengths_from is None:
        raise InvalidSpecError(
            f"request_format = {traffic.request_format} is that of a file of requests, and there is"
            " none; give requests (or lengths_from), or leave request_format out"
        )


def _refuse_of_draws(traffic: Traffic, scenario: Scenario) -> None:
    """Refuse how to draw what is not drawn."""
    if traffic.request_rate == math.inf and traffic.arrival in ("gamma", "constant"):
        raise InvalidSpecError(
            f"arrival = {traffic.arrival} spaces requests by their rate, and request_rate = inf"
            " sends all at once; give a finite rate, or leave arrival out"
        )
    if traffic.lengths_from is not None:
        fields = scenario.model_fields_set | traffic.model_fields_set
        given = [name for name in ("isl", "osl", "length_spread") if name in fields]
        if given:
            raise InvalidSpecError(
                f"{given[0]} says how long generated requests are, and lengths are drawn from"
                " lengths_from; leave one of the two out"
            )
    if traffic.num_seeds > 1 and not draws(traffic, scenario):
        why = (
            "draws traffic again; requests of a file are as they are"
            if traffic.requests is not None
            else "draws again, and nothing is drawn here: lengths and arrivals are fixed"
        )
        raise InvalidSpecError(
            f"num_seeds = {traffic.num_seeds} {why}: every run would be the same; leave num_seeds"
            " out"
        )


def draws(traffic: Traffic, scenario: Scenario) -> bool:
    """Return whether anything is drawn by chance, so that a seed matters.

    Args:
        traffic: What arrives and how it is shared.
        scenario: What runs where.
    """
    drafted = scenario.speculative_depth and 0.0 < (scenario.speculative_acceptance or 0.0) < 1.0
    if drafted or traffic.routing == "random":
        return True
    if traffic.requests is not None:
        return traffic.request_format == "servegen"
    if traffic.length_distribution != "fixed" or traffic.think_time_s > 0.0:
        return True
    if traffic.arrival == "ramp":
        return True
    by_rate = traffic.request_rate is not None and math.isfinite(traffic.request_rate)
    return by_rate and traffic.arrival not in ("constant", "closed")


def _refuse_of_objectives(traffic: Traffic, *, finds_rate: bool) -> None:
    if traffic.slo_percentile is not None and not finds_rate:
        raise InvalidSpecError(
            f"slo_percentile = {traffic.slo_percentile:g} is that of a search for the largest rate"
            " (--find-rate, max_request_rate): elsewhere each request is held to the objectives,"
            " and slo_attainment is the share that meets them; leave slo_percentile out"
        )


def _refuse_overridden(traffic: Traffic, scenario: Scenario) -> None:
    """Refuse what all share where none takes it: each has its own, and another one."""
    if scenario.mode == "disaggregated":
        for name in ("system", *SHARED):
            if name in scenario.model_fields_set:
                own = [
                    getattr(scenario, field)
                    for field in (f"prefill_{name}", f"decode_{name}")
                    if field in Scenario.model_fields
                ]
                _refuse_where_all_differ(scenario, name, own, "pools")
    for name in ReplicaKind.model_fields if traffic.replica_kinds is not None else ():
        if name in scenario.model_fields_set:
            own = [getattr(kind, name) for kind in traffic.replica_kinds]
            _refuse_where_all_differ(scenario, name, own, "kinds")


def _refuse_where_all_differ(scenario: Scenario, name: str, own: list[object], whose: str) -> None:
    shared = getattr(scenario, name)
    if shared is None or any(value is None or value == shared for value in own):
        return
    raise InvalidSpecError(
        f"{name} = {shared} is of no use: all {whose} have their own"
        f" ({', '.join(map(str, own))}); leave {name} out"
    )


def _refuse_of_experts(scenario: Scenario) -> None:
    """Refuse how experts are computed where the model has none."""
    given = [
        name
        for name, neutral in OF_EXPERTS.items()
        if name in scenario.model_fields_set and getattr(scenario, name) != neutral
    ]
    if not given:
        return
    if not resolve_model(scenario.model).architecture.has_experts:
        name = given[0]
        raise InvalidSpecError(
            f"{name} = {getattr(scenario, name)} is of experts, and {scenario.model} has none;"
            f" leave {name} out"
        )


def idle_remarks(traffic: Traffic, scenario: Scenario, came: Arriving, ready: Service) -> list[str]:
    """Return what is asked for, is legitimate and changes nothing in this traffic, in sentences.

    Args:
        traffic: What arrives and how it is shared.
        scenario: What runs where.
        came: What arrives.
        ready: What serves it.
    """
    said = []
    hashed = came.requests.hash_block > 0
    if traffic.prefix_caching and not hashed:
        said.append(
            "prefix_caching finds nothing here: prompts share no prefix, as they have neither"
            " hashes nor turns nor a shared_prefix"
        )
    if traffic.routing == "prefix_aware" and not hashed:
        said.append(
            "routing = prefix_aware follows no prefix here: prompts share none, as they have"
            " neither hashes nor turns nor a shared_prefix; all go to the least loaded replica"
        )
    number = max(
        ready.entry.replicas.number,
        ready.decoding.replicas.number,
        sum(pool.replicas.number for pool in ready.pools) if ready.kinds else 1,
    )
    if "routing" in traffic.model_fields_set and number == 1:
        said.append(f"routing = {traffic.routing} has no choice: there is one replica")
    if "seed" in traffic.model_fields_set and not draws(traffic, scenario):
        said.append(f"seed = {traffic.seed} changes nothing here: nothing is drawn by chance")
    return said
