"""Consistency checks of a scenario: fields without effect, and contradictory sizes.

Each rule is declared once: a mask over columns, and the message for one scenario.

Shape legend: N rows.
"""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.cost import price_problem
from perfatlas.networks import acceptance_curves, published_curves
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import Scenario, columns_of, parse_scenario
from perfatlas.scenario.resolution.field_facts import unused_rules
from perfatlas.scenario.resolution.pools import ROLES, split_pools, worker_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perfatlas.scenario.fields import BoolArray, Columns

    Sentence = Callable[[Scenario], str]

SIZES: Final = ("tp", "pp", "cp", "attention_dp")
# fields that divide the GPUs of a deployment among the workers of two pools
DIVIDING: Final = frozenset(
    (*SIZES, *(f"{role}_{name}" for role in ROLES for name in (*SIZES, "workers")))
)
SEARCHED: Final = (
    *("model", "system", "engine", "format", "gemm_format", "moe_format", "kv_format"),
    *("gpus", "concurrency", "isl", "osl"),
)
"""Fields of a scenario with two pools that a search for its plan takes over."""


def read_scenario(fields: Mapping[str, Any], *, queues: bool = False) -> Scenario:
    """Return the scenario from named fields, checked for consistency.

    Args:
        queues: Whether requests queue: worker batches are then limits instead of loads.

    Raises:
        InvalidSpecError: A name or value is invalid, or values contradict each other.

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


def broken_rules(columns: Columns, *, queues: bool) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield the mask of each violated rule (N,), and its message for a scenario."""
    yield from _load_rules(columns)
    yield from _price_rules(columns)
    yield from _draft_rules(columns)
    yield from _split_rules(columns, queues=queues)
    two_pools_N = columns.equals("mode", "disaggregated")
    if not queues:
        yield from unused_rules(columns)
        yield (
            columns.equals("method", "simulate") & columns.equals("mode", "static"),
            lambda _: (
                "method = simulate has no effect here: mode = static uses closed forms;"
                " set mode = aggregated, or leave method out"
            ),
        )
    if np.any(two_pools_N):
        rules = list(_pool_rules(columns))
        if not queues:
            rules += _in_flight_rules(columns)
        for broken_N, sentence in rules:
            yield broken_N & two_pools_N, sentence


def _load_rules(columns: Columns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield batch with concurrency, and prefixes that leave no token to compute."""
    yield (
        columns.is_set("batch") & columns.is_set("concurrency"),
        lambda s: (
            f"batch = {s.batch} and concurrency = {s.concurrency} exclude each other: batch is per"
            " replica, concurrency over the deployment; set one of the two"
        ),
    )
    yield (
        columns.numbers("prefix") >= columns.numbers("isl"),
        lambda s: (
            f"prefix = {s.prefix}: cached tokens are part of isl = {s.isl} and at least one token"
            f" must be computed; prefix is at most {s.isl - 1}"
        ),
    )


def _price_rules(columns: Columns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield files of prices that cannot be read, and prices of unknown systems."""
    if columns.is_set_anywhere("usd_per_gpu_hour"):
        given = columns["usd_per_gpu_hour"]
        broken_V = np.array([price_problem(value) is not None for value in given.values])
        yield broken_V[given.codes_N], lambda s: str(price_problem(s.usd_per_gpu_hour))


def _draft_rules(columns: Columns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield speculative decoding without an acceptance rate, given or published."""
    drafts_N = columns.numbers("speculative_depth") > 0.0
    chance_N = columns.is_set("speculative_acceptance") | columns.is_set("acceptance_by_position")
    model, unknown_N = columns["model"], drafts_N & ~chance_N
    for code in set(model.codes_N[unknown_N].tolist()):
        unknown_N &= (model.codes_N != code) | (not acceptance_curves(model.values[code]))
    yield (
        unknown_N,
        lambda s: (
            f"speculative_depth = {s.speculative_depth} needs speculative_acceptance, the"
            " probability that a draft token is accepted if all preceding ones are: it depends on"
            " model, drafter and text, so measure it (engines report accepted over drafted tokens);"
            " published curves give it for"
            f" {', '.join(dict.fromkeys(c.network for c in published_curves() if c.models))}"
        ),
    )
    given = columns["acceptance_by_position"]
    lengths = np.array([-1 if value is None else len(value) for value in given.values])[
        given.codes_N
    ]
    yield (
        (lengths >= 0) & drafts_N & (lengths != columns.numbers("speculative_depth")),
        lambda s: (
            f"acceptance_by_position has {len(s.acceptance_by_position or ())} numbers, one for"
            f" each of speculative_depth = {s.speculative_depth} drafts is needed"
        ),
    )


def _split_rules(columns: Columns, *, queues: bool) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield split layers with a free plan, divided experts, or fewer sequences than parts."""
    split_N = columns.is_set("feed_forward_system")
    yield (
        split_N & columns.is_set("gpus"),
        lambda s: (
            f"gpus = {s.gpus} does not say how many machines attention and feed-forward networks"
            " have; set tp and dp for attention, feed_forward_tp and feed_forward_pp for the rest"
        ),
    )
    yield (
        split_N & (columns.is_set("ep") | columns.is_set("moe_tp")),
        lambda _: (
            "ep and moe_tp divide experts, which run on feed_forward_system; set feed_forward_tp"
            " and feed_forward_ep instead"
        ),
    )
    if queues:
        yield (
            split_N & ((columns.numbers("pp") > 1.0) | (columns.numbers("cp") > 1.0)),
            lambda s: (
                f"pp = {s.pp}, cp = {s.cp}: simulate runs all layers of attention on each of its"
                " replicas; set pp and cp to 1, and feed_forward_pp for stages of the other machine"
            ),
        )
        return
    each_N = np.ceil(columns.numbers("concurrency", 1.0) / columns.numbers("dp", 1.0))
    batch_N = columns.numbers("batch")
    batch_N = np.where(np.isnan(batch_N), each_N, batch_N)
    yield (
        split_N & (columns.numbers("micro_batches") * columns.numbers("attention_dp") > batch_N),
        lambda s: (
            f"micro_batches = {s.micro_batches} divides the batch of each of attention_dp ="
            f" {s.attention_dp} ranks, and there are fewer sequences; raise batch"
        ),
    )


def _pool_rules(columns: Columns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield fields without effect in mode disaggregated, and a wrong number of GPUs."""
    yield (
        columns.is_set("batch"),
        lambda s: (
            f"batch = {s.batch} has no effect in mode disaggregated; use prefill_batch and"
            " decode_batch, per worker, or concurrency, over the deployment"
        ),
    )
    yield (
        columns.numbers("dp", 1.0) != 1.0,
        lambda s: (
            f"dp = {s.dp} has no effect in mode disaggregated; use prefill_workers and"
            " decode_workers"
        ),
    )
    gpus_N = np.zeros(columns.size)
    for role in ROLES:
        worker = worker_columns(columns, role)
        ways = [worker.numbers(name, 1.0) for name in SIZES]
        gpus_N += columns.numbers(f"{role}_workers") * np.prod(ways, axis=0)
    yield columns.is_set("gpus") & (columns.numbers("gpus") != gpus_N), _false_sum


def _false_sum(s: Scenario) -> str:
    """Return the message that two pools do not match gpus, or that nothing divides the GPUs."""
    if s.fields_set.isdisjoint(DIVIDING):
        return _undivided(s)
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


def _undivided(s: Scenario) -> str:
    """Return the message that a number of GPUs alone says nothing about pools."""
    named = {name: getattr(s, name) for name in SEARCHED if name in s.fields_set}
    words = " ".join(f"--{n.replace('_', '-')} {shlex.quote(str(v))}" for n, v in named.items())
    return (
        f"gpus = {s.gpus} does not say how many GPUs prefill and decode have; find the best"
        f" division with `perfatlas search --mode disaggregated {words}`, or set prefill_tp,"
        " prefill_workers, decode_tp and decode_workers"
    )


def _in_flight_rules(columns: Columns) -> Iterator[tuple[BoolArray, Sentence]]:
    """Yield batches that exceed the requests in flight."""
    in_flight_N = columns.numbers("concurrency", np.inf)
    most_N = np.maximum(np.floor(in_flight_N / columns.numbers("decode_workers")), 1.0)
    for name, limit_N in (("prefill_batch", in_flight_N), ("decode_batch", most_N)):
        yield columns.numbers(name, 0.0) > limit_N, partial(_more_than_in_flight, name)


def _more_than_in_flight(name: str, s: Scenario) -> str:
    most = concurrency = s.concurrency or 0
    if name == "decode_batch":
        most = max(concurrency // s.decode_workers, 1)
    return (
        f"{name} = {getattr(s, name)} per worker exceeds the concurrency = {concurrency} requests"
        f" in flight over the deployment; set {name} to at most {most}, or raise concurrency"
    )
