"""Options of a simulation that would change nothing: refused, or remarked on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perfatlas.engines import resolve_engine
from perfatlas.models import resolve_model
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments.load import has_steady_rate
from perfatlas.scenario.fields import ReplicaKind, Scenario, kind_scenarios, refuse_unused
from perfatlas.scenario.resolution import SHARED
from perfatlas.vocabulary.fields import Missing, fields_asked, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfatlas.scenario.deployments.arrivals import Arriving
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.scenario.fields import Traffic


def refuse_unread(traffic: Traffic, scenario: Scenario, *, finds_rate: bool = False) -> None:
    """Refuse options that would change nothing, because what they need is not asked for.

    Args:
        traffic: What arrives.
        scenario: What runs where.
        finds_rate: The largest rate is searched.

    Raises:
        InvalidSpecError: An option has no effect; the message says why.

    Example:
        >>> from perfatlas.scenario.fields import parse_traffic
        >>> from perfatlas.scenario.deployments import refuse_unread
        >>> from perfatlas.scenario.fields.vocabulary import parse_scenario
        >>> traffic = parse_traffic({"request_rate": 4, "mixed_chunk": True})
        >>> refuse_unread(traffic, parse_scenario({"model": "m", "system": "s"}))
        Traceback (most recent call last):
        perfatlas.quantities.errors.InvalidSpecError: mixed_chunk has no effect here: ...
    """
    _refuse_of_scheduler(traffic, scenario)
    values = {**dict(traffic), **dict(scenario)}
    refuse_unused(
        values, fields_asked("simulate"), _facts(traffic, scenario, finds_rate=finds_rate)
    )
    _refuse_overridden(traffic, scenario)


def _facts(
    traffic: Traffic, scenario: Scenario, *, finds_rate: bool
) -> dict[str, Callable[[], Missing | None]]:
    """Return what the conditions of fields ask of a simulation."""

    def experts() -> Missing | None:
        if resolve_model(scenario.model).architecture.has_experts:
            return None
        return Missing(f"{value_text(scenario.model)} is a dense model", "use an MoE model")

    def rate_search() -> Missing | None:
        if finds_rate:
            return None
        why = "each request is held to the objectives, and slo_attainment is the share that meets"
        return Missing(f"{why} them", "search for the largest rate (--find-rate)")

    def random_draws() -> Missing | None:
        if draws(traffic, scenario):
            return None
        if traffic.requests is not None:
            return Missing("the requests of a file are the same with every seed", "")
        return Missing("arrivals and lengths are fixed, so that all seeds give the same", "")

    def front_end() -> Missing | None:
        fronts = [resolve_engine(one.engine).front for one in _kinds(traffic, scenario)]
        if any(front.tokenizes or front.token_s for front in fronts):
            return None
        return Missing(f"the front end of engine {value_text(scenario.engine)} takes no time", "")

    return {
        "experts": experts,
        "steady rate": lambda: _steady_rate(traffic, scenario, finds_rate=finds_rate),
        "rate search": rate_search,
        "random draws": random_draws,
        "front end": front_end,
    }


def _steady_rate(traffic: Traffic, scenario: Scenario, *, finds_rate: bool) -> Missing | None:
    """Return why the number of requests does not follow from a precision."""
    if traffic.num_requests is not None:
        return Missing(f"num_requests = {traffic.num_requests:,} is a fixed sample", "")
    if finds_rate:
        return Missing("a search for the largest rate sets the number of requests itself", "")
    if not has_steady_rate(traffic, scenario):
        why = "requests of a file, of sessions, of a closed loop or of a ramp, or replicas that"
        return Missing(f"{why} change, have no steady rate", "")
    return None


def _kinds(traffic: Traffic, scenario: Scenario) -> list[Scenario]:
    """Return the scenario of each kind of replica."""
    if traffic.replica_kinds is None:
        return [scenario]
    return kind_scenarios(scenario, traffic.replica_kinds)


def _refuse_of_scheduler(traffic: Traffic, scenario: Scenario) -> None:
    """Refuse what only other schedulers read: no condition, as a scheduler tells what it reads."""
    from perfatlas.serving.policies import POLICIES

    for name in sorted(traffic.model_fields_set):
        readers = [policy for policy in POLICIES if name in policy.reads]
        if not readers:
            continue
        rules = _rules(traffic, scenario)
        if not any(policy.name in rules for policy in readers):
            raise InvalidSpecError(
                f"{name} has no effect here: it applies only to the scheduler of"
                f" {_alternatives(one.title for one in readers)}, and this is"
                f" {' and '.join(rules)}; use engine"
                f" {_alternatives(one.name for one in readers)}, or leave {name} out"
            )


def _alternatives(names: Iterable[str]) -> str:
    """Return names, each once, as a choice."""
    return " or ".join(dict.fromkeys(names))


def _rules(traffic: Traffic, scenario: Scenario) -> list[str]:
    """Return the rules of all schedulers, each once."""
    if traffic.scheduler is not None:
        return [traffic.scheduler]
    ones = _kinds(traffic, scenario)
    return list(dict.fromkeys(resolve_engine(one.engine).scheduler.rules for one in ones))


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


def _refuse_overridden(traffic: Traffic, scenario: Scenario) -> None:
    """Refuse what all share where none takes it: each has its own, and another one.

    No condition: it compares a value with those of pools or of kinds.
    """
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
        f"{name} = {shared} has no effect here: all {whose} have their own"
        f" ({', '.join(map(str, own))}); leave {name} out"
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
