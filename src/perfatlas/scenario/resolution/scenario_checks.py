"""What a scenario may not say: fields its mode does not read, and sizes that contradict.

Every rule is declared once: where it is broken, over columns, and its sentence for one scenario.

Shape legend: N rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import Scenario, parse_scenario
from perfatlas.scenario.resolution.field_columns import columns_of
from perfatlas.scenario.resolution.pools import ROLES, split_pools, worker_columns
from perfatlas.scenario.resolution.unused_fields import unused_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perfatlas.scenario.resolution.field_columns import BoolArray, ScenarioColumns

    Sentence = Callable[[Scenario], str]


def read_scenario(fields: Mapping[str, Any], *, queues: bool = False) -> Scenario:
    """Return the scenario of named fields, when all of them are read and none contradicts another.

    Args:
        fields: Names of the vocabulary.
        queues: Requests queue: batches of workers are limits, not loads.

    Raises:
        InvalidSpecError: A name, a value or two values together break a rule.

    Example:
        >>> from perfatlas.scenario.resolution import read_scenario
        >>> read_scenario({"model": "openai/gpt-oss-20b", "system": "h100_sxm", "batch": 8}).batch
        8
    """
    scenario = parse_scenario(fields)
    for broken_N, sentence in broken_rules(columns_of([scenario]), queues=queues):
        if broken_N[0]:
            raise InvalidSpecError(sentence(scenario))
    return scenario


def broken_rules(columns: ScenarioColumns, *, queues: bool) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield where each rule between fields is broken (N,), and its sentence for a scenario.

    Args:
        columns: Scenarios, every value of them legal.
        queues: Requests queue: batches of workers are limits, not loads.
    """
    yield from _load_rules(columns)
    yield from _draft_rules(columns)
    two_pools_N = columns.equals("mode", "disaggregated")
    if not queues:
        yield from unused_rules(columns)
        yield (
            columns.equals("method", "simulate") & columns.equals("mode", "static"),
            lambda _: (
                "method = simulate has no effect here: mode = static is answered by closed forms;"
                " set mode = aggregated, or leave method out"
            ),
        )
    if np.any(two_pools_N):
        rules = list(_pool_rules(columns))
        if not queues:
            rules += _in_flight_rules(columns)
        for broken_N, sentence in rules:
            yield broken_N & two_pools_N, sentence


def _load_rules(columns: ScenarioColumns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield that batch and concurrency are both given, and that the prefix leaves no token."""
    yield (
        columns.given("batch") & columns.given("concurrency"),
        lambda s: (
            f"batch = {s.batch} and concurrency = {s.concurrency}: batch counts the sequences of"
            " one replica, concurrency those of the deployment; give one of the two"
        ),
    )
    yield (
        columns.numbers("prefix") >= columns.numbers("isl"),
        lambda s: (
            f"prefix = {s.prefix}: cached tokens are part of isl = {s.isl} and at least one token"
            f" is computed; prefix is at most {s.isl - 1}"
        ),
    )


def _draft_rules(columns: ScenarioColumns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield drafts without the chance that one is accepted."""
    drafts_N = columns.numbers("speculative_depth") > 0.0
    chance_N = columns.given("speculative_acceptance")
    yield (
        drafts_N & ~chance_N,
        lambda s: (
            f"speculative_depth = {s.speculative_depth} needs speculative_acceptance, the chance"
            " that a draft is accepted where all before it are: it depends on model, drafter and"
            " text, so measure it (engines print accepted over drafted tokens)"
        ),
    )


def _pool_rules(columns: ScenarioColumns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield what two pools do not read, and a false number of GPUs."""
    yield (
        columns.given("batch"),
        lambda s: (
            f"batch = {s.batch}: mode disaggregated does not read batch; use prefill_batch and"
            " decode_batch, of one worker, or concurrency, of the deployment"
        ),
    )
    yield (
        columns.numbers("dp", 1.0) != 1.0,
        lambda s: (
            f"dp = {s.dp}: mode disaggregated does not read dp; its replicas are prefill_workers"
            " and decode_workers"
        ),
    )
    gpus_N = np.zeros(columns.size)
    for role in ROLES:
        worker = worker_columns(columns, role)
        ways = [worker.numbers(name, 1.0) for name in ("tp", "pp", "cp", "attention_dp")]
        gpus_N += columns.numbers(f"{role}_workers") * np.prod(ways, axis=0)
    yield columns.given("gpus") & (columns.numbers("gpus") != gpus_N), _false_sum


def _false_sum(s: Scenario) -> str:
    """Return that the devices of two pools are not those that are given."""
    pools = split_pools(s)
    prefill, decode = (
        (p.tp or 1) * p.pp * p.cp * p.attention_dp for p in (pools.prefill, pools.decode)
    )
    total = s.prefill_workers * prefill + s.decode_workers * decode
    return (
        f"gpus = {s.gpus}, but prefill_workers x {prefill} + decode_workers x {decode} GPUs ="
        f" {s.prefill_workers} x {prefill} + {s.decode_workers} x {decode} = {total};"
        " leave gpus out, or make the sum match"
    )


def _in_flight_rules(columns: ScenarioColumns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield batches of more requests than are in flight."""
    in_flight_N = columns.numbers("concurrency", np.inf)
    most_N = np.maximum(np.floor(in_flight_N / columns.numbers("decode_workers")), 1.0)
    for name, limit_N in (("prefill_batch", in_flight_N), ("decode_batch", most_N)):
        yield columns.numbers(name, 0.0) > limit_N, partial(_more_than_in_flight, name)


def _more_than_in_flight(name: str, s: Scenario) -> str:
    most = concurrency = s.concurrency or 0
    if name == "decode_batch":
        most = max(concurrency // s.decode_workers, 1)
    return (
        f"{name} = {getattr(s, name)} on each worker, but concurrency = {concurrency} requests are"
        f" in flight over the deployment; use {name} = {most} or less, or raise concurrency"
    )
