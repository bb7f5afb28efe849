"""Facts of a simulation that conditions of fields refer to; options without effect."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Literal

from perfatlas.answer import OFFLOADING, unread_of_steps
from perfatlas.engines import resolve_engine
from perfatlas.networks import is_graph
from perfatlas.quantities import InvalidSpecError, remarks
from perfatlas.scenario import fields, resolution
from perfatlas.scenario.deployments.arrivals import starts_in_the_middle
from perfatlas.scenario.deployments.candidate_remarks import UNUSED_POWER, Remarked
from perfatlas.scenario.deployments.load import has_steady_rate
from perfatlas.serving.requests import PREFIX_AWARE
from perfatlas.vocabulary.fields import SIMULATED, Missing, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfatlas.scenario.deployments.arrivals import ResolvedTraffic
    from perfatlas.scenario.deployments.services import Service

    Facts = dict[str, Callable[[], Missing | None]]

Searched = Literal["", "rate", "replicas", "sessions"]


def refuse_unused_options(
    traffic: fields.Traffic, scenario: fields.Scenario, *, searched: Searched = ""
) -> None:
    """Refuse options that have no effect because a condition is not met.

    Args:
        searched: What is searched: the largest rate, or the smallest number of replicas.

    Raises:
        InvalidSpecError: An option has no effect; the message says why.

    Example:
        >>> from perfatlas.scenario.fields import Traffic
        >>> from perfatlas.scenario.deployments import refuse_unused_options
        >>> from perfatlas.scenario.fields import Scenario
        >>> scenario = Scenario.read({"model": "m", "system": "s", "mixed_chunk": True})
        >>> refuse_unused_options(Traffic.read({"request_rate": 4}), scenario)
        Traceback (most recent call last):
        perfatlas.quantities.errors.InvalidSpecError: mixed_chunk has no effect here: ...
    """
    _refuse_of_scheduler(traffic, scenario)
    values = {**traffic.values, **scenario.values}
    if is_graph(scenario.model):  # one item each
        values |= {"isl": None, "osl": None}
        if traffic.routing == PREFIX_AWARE:
            why = f"requests of {scenario.model}, a graph of operators, have no prefixes"
            missing = Missing(why, "set another routing")
            raise InvalidSpecError(fields.no_effect_sentence({"routing": traffic.routing}, missing))
    fields.refuse_unused(values, fields_of(*SIMULATED), _facts(traffic, scenario, searched))
    _refuse_overridden(traffic, scenario)


def _facts(traffic: fields.Traffic, scenario: fields.Scenario, searched: Searched) -> Facts:
    """Return the facts of a simulation that conditions of fields refer to."""

    def search() -> Missing | None:
        if searched:
            return None
        why = "SLOs apply to each request, and slo_attainment is the fraction of requests that meet"
        return Missing(f"{why} them", "search (--find-rate, --find-replicas, --find-sessions)")

    def random_draws() -> Missing | None:
        if draws(traffic, scenario):
            return None
        if traffic.requests is not None:
            return Missing("the requests of a file do not depend on the seed", "")
        return Missing("arrivals and lengths are fixed, so that all seeds give equal results", "")

    scheduler = {"scheduler": traffic.scheduler}
    kinds = [
        resolution.facts_of({**kind.values, **scheduler}) for kind in _kinds(traffic, scenario)
    ]
    return {name: partial(_of_any_kind, kinds, name) for name in kinds[0]} | {
        "steady rate": lambda: _steady_rate(traffic, scenario, searched),
        "search": search,
        "random draws": random_draws,
        "split steps": lambda: None,
    }


def _of_any_kind(kinds: Sequence[Facts], name: str) -> Missing | None:
    """Return what a fact misses in every kind of replica."""
    found = [facts[name]() for facts in kinds]
    return None if any(missing is None for missing in found) else found[0]


def _steady_rate(
    traffic: fields.Traffic, scenario: fields.Scenario, searched: Searched
) -> Missing | None:
    """Return why the number of requests does not follow from a precision."""
    if traffic.num_requests is not None:
        return Missing(f"num_requests = {traffic.num_requests:,} is a fixed sample", "")
    if searched == "rate":
        return Missing("a search for the largest rate sets the number of requests itself", "")
    if not has_steady_rate(traffic, scenario):
        why = "requests of a file, of sessions, of a closed loop or of a ramp, or replicas that"
        return Missing(f"{why} change, have no steady rate", "")
    return None


def _kinds(traffic: fields.Traffic, scenario: fields.Scenario) -> list[fields.Scenario]:
    """Return the scenario of each kind of replica."""
    if traffic.replica_kinds is None:
        return [scenario]
    return fields.kind_scenarios(scenario, traffic.replica_kinds)


def _refuse_of_scheduler(traffic: fields.Traffic, scenario: fields.Scenario) -> None:
    """Refuse options of other schedulers; schedulers declare which options they read."""
    from perfatlas.serving.policies import POLICIES

    for name in sorted(traffic.fields_set | scenario.fields_set):
        readers = [policy for policy in POLICIES if name in policy.reads]
        if not readers:
            continue
        rules = _rules(traffic, scenario)
        if not any(policy.name in rules for policy in readers):
            raise InvalidSpecError(
                f"{name} has no effect here: it applies only to the scheduler of"
                f" {_alternatives(reader.title for reader in readers)}; this scenario uses"
                f" {' and '.join(rules)}; set engine ="
                f" {_alternatives(reader.name for reader in readers)}, or leave {name} out"
            )


def _alternatives(names: Iterable[str]) -> str:
    """Return distinct names as a choice."""
    return " or ".join(dict.fromkeys(names))


def _rules(traffic: fields.Traffic, scenario: fields.Scenario) -> list[str]:
    """Return the distinct scheduling policies."""
    if traffic.scheduler is not None:
        return [traffic.scheduler]
    ones = _kinds(traffic, scenario)
    return list(dict.fromkeys(resolve_engine(one.engine).scheduler.rules for one in ones))


def draws(traffic: fields.Traffic, scenario: fields.Scenario) -> bool:
    """Return whether anything is random, so that the seed has an effect."""
    chances = resolution.acceptance_of_drafts(vars(scenario))
    if any(0.0 < chance < 1.0 for chance in chances) or traffic.routing == "random":
        return True
    if starts_in_the_middle(traffic):
        return True
    if traffic.requests is not None:
        return False
    if traffic.length_distribution not in (None, "fixed") or traffic.think_time_s > 0.0:
        return True
    if traffic.arrival == "ramp":
        return True
    by_rate = traffic.request_rate is not None and math.isfinite(traffic.request_rate)
    return by_rate and traffic.arrival not in ("constant", "closed")


def _refuse_overridden(traffic: fields.Traffic, scenario: fields.Scenario) -> None:
    """Refuse shared values that every pool or kind overrides with another one.

    Not a condition, since it compares the values of pools or kinds.
    """
    if scenario.mode == "disaggregated":
        for name in ("system", *resolution.SHARED):
            if name in scenario.fields_set:
                own = [
                    getattr(scenario, field)
                    for field in (f"prefill_{name}", f"decode_{name}")
                    if field in fields.Scenario.fields()
                ]
                _refuse_where_all_differ(scenario, name, own, "pools")
    if traffic.replica_kinds is None and (
        sentence := resolution.overridden_format(scenario.values)
    ):
        raise InvalidSpecError(sentence)
    for name in fields.ReplicaKind.fields() if traffic.replica_kinds is not None else ():
        if name in scenario.fields_set:
            own = [getattr(kind, name) for kind in traffic.replica_kinds]
            _refuse_where_all_differ(scenario, name, own, "kinds")


def _refuse_where_all_differ(
    scenario: fields.Scenario, name: str, own: list[object], whose: str
) -> None:
    shared = getattr(scenario, name)
    if resolution.is_overridden(shared, own):
        raise InvalidSpecError(resolution.overridden_sentence(name, shared, own, whose))


def no_effect_remarks(
    traffic: fields.Traffic, scenario: fields.Scenario, resolved: ResolvedTraffic, ready: Service
) -> list[str]:
    """Return remarks on options that are valid but have no effect on this traffic."""
    notes = []
    hashed = resolved.requests.hash_block > 0
    if traffic.prefix_caching and not hashed:
        notes.append(
            "prefix_caching reuses only blocks of preempted requests here: prompts share no"
            " prefix, since they have no hashes, turns or shared_prefix"
        )
    if traffic.routing == PREFIX_AWARE and not hashed:
        notes.append(
            "routing = prefix_aware uses only the load here: prompts share no prefix, since they"
            " have no hashes, turns or shared_prefix"
        )
    number = max(
        ready.entry.replicas.number,
        ready.decoding.replicas.number,
        sum(pool.replicas.number for pool in ready.pools) if ready.heterogeneous else 1,
    )
    if traffic.routing == PREFIX_AWARE:  # which follows prefixes to ranks
        number = max(number, ready.entry.replicas.ranks)
    why = "there is one replica"
    if ready.entry.feed_forward is not None:
        why = "attention replicas (dp) share one machine and step together, as ranks of one replica"
    replicas = Missing(why, "") if number == 1 else None
    facts = _facts(traffic, scenario, "") | {"several replicas": lambda: replicas}
    notes += fields.unused_warnings(
        {**traffic.values, **scenario.values}, fields_of(*SIMULATED), facts
    )
    further = () if traffic.host_cache_bytes is None else (OFFLOADING,)
    found: list[str] = []
    for pool in ready.pools:
        (unused,) = remarks(1, (UNUSED_POWER, Remarked(pool.question)))
        found += [*unused, *unread_of_steps(pool.question, further)[0]]
    return [*notes, *dict.fromkeys(found)]
