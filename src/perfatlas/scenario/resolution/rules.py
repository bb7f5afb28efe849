"""Rules of scenarios: contradictory loads and sizes, and fields without effect.

Shape legend: N rows, V distinct values of a field.
"""

from __future__ import annotations

import math
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.cost import price_problem
from perfatlas.networks import acceptance_curves, published_curves
from perfatlas.quantities import Rule, broken_rules
from perfatlas.scenario.fields import Scenario, columns_of, without_effect
from perfatlas.scenario.resolution.field_facts import EFFECTS, FACTS, facts_of_field
from perfatlas.scenario.resolution.pools import ROLES, worker_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.fields import BoolArray, Columns

SIZES: Final = ("tp", "pp", "cp", "attention_dp")
# fields that divide the GPUs of a deployment among the workers of two pools
DIVIDING: Final = frozenset(
    (*SIZES, *(f"{role}_{name}" for role in ROLES for name in (*SIZES, "workers")))
)
# fields of a scenario with two pools that a search for its plan takes over
SEARCHED: Final = (
    *("model", "system", "engine", "format", "gemm_format", "moe_format", "kv_format"),
    *("gpus", "concurrency", "isl", "osl"),
)


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
    scenario = Scenario.read(fields)
    for problem in scenario_problems(columns_of([scenario]), queues=queues).values():
        raise problem
    return scenario


def scenario_problems(columns: Columns, *, queues: bool) -> dict[int, PerfatlasError]:
    """Return the error of each row that contradicts itself, by the first rule that says so."""
    if queues:
        return broken_rules((*LOADS, *SPLIT, *QUEUED_SPLIT, *POOLS), columns)
    found = broken_rules((*LOADS, *SPLIT, *STEADY_SPLIT), columns)
    unused = without_effect(columns, FACTS, facts_of_field)
    return broken_rules((*EFFECTS, *STEADY, *POOLS, *IN_FLIGHT), columns) | unused | found


def _prefix_message(c: Columns, row: int) -> str:
    prefix, isl = c.at(row, ("prefix", "isl")).values()
    return (
        f"prefix = {prefix}: cached tokens are part of isl = {isl} and at least one token must be"
        f" computed; prefix is at most {isl - 1}"
    )


def _unpriced(c: Columns) -> BoolArray:
    """Return the rows whose prices cannot be read, or are those of unknown systems (N,)."""
    given = c["usd_per_gpu_hour"]
    broken_V = np.array([price_problem(value) is not None for value in given.values])
    unpriced_N: BoolArray = given.is_set & broken_V[given.codes_N]
    return unpriced_N


def _of_unknown_acceptance(c: Columns) -> BoolArray:
    """Return the rows that draft without an acceptance rate, given or published (N,)."""
    model = c["model"]
    known_V = np.array([bool(name and acceptance_curves(name)) for name in model.values])
    given_N = c.is_set("speculative_acceptance") | c.is_set("acceptance_by_position")
    drafts_N = c.numbers("speculative_depth") > 0.0
    unknown_N: BoolArray = drafts_N & ~given_N & ~known_V[model.codes_N]
    return unknown_N


def _acceptance_message(c: Columns, row: int) -> str:
    known = dict.fromkeys(curve.network for curve in published_curves() if curve.models)
    return (
        f"speculative_depth = {c.row(row)['speculative_depth']} needs speculative_acceptance, the"
        " probability that a draft token is accepted if all preceding ones are: it depends on"
        " model, drafter and text, so measure it (engines report accepted over drafted tokens);"
        f" published curves give it for {', '.join(known)}"
    )


def _of_other_depth(c: Columns) -> BoolArray:
    """Return the rows with another number of acceptance rates than drafts (N,)."""
    given, depth_N = c["acceptance_by_position"], c.numbers("speculative_depth")
    numbers_V = np.array([math.nan if value is None else len(value) for value in given.values])
    numbers_N = numbers_V[given.codes_N]
    other_N: BoolArray = ~np.isnan(numbers_N) & (depth_N > 0.0) & (numbers_N != depth_N)
    return other_N


def _depth_message(c: Columns, row: int) -> str:
    fields = c.row(row)
    return (
        f"acceptance_by_position has {len(fields['acceptance_by_position'])} numbers, one for each"
        f" of speculative_depth = {fields['speculative_depth']} drafts is needed"
    )


def _two_pools(c: Columns) -> BoolArray:
    return c.equals("mode", "disaggregated")


def _is_split(c: Columns) -> BoolArray:
    return c.is_set("feed_forward_system")


def _on_fewer_sequences(c: Columns) -> BoolArray:
    """Return the rows whose micro-batches would have less than a sequence (N,)."""
    each_N = np.ceil(c.numbers("concurrency", 1.0) / c.numbers("dp", 1.0))
    batch_N = np.where(c.is_set("batch"), c.numbers("batch"), each_N)
    parts_N = c.numbers("micro_batches") * c.numbers("attention_dp")
    fewer_N: BoolArray = _is_split(c) & (parts_N > batch_N)
    return fewer_N


def _sizes_of(c: Columns) -> dict[str, FloatArray]:
    """Return the GPUs of a worker of each pool (N,), by role."""
    workers = {role: worker_columns(c, role) for role in ROLES}
    return {
        role: np.prod([worker.numbers(name, 1.0) for name in SIZES], axis=0)
        for role, worker in workers.items()
    }


def _of_other_sum(c: Columns) -> BoolArray:
    """Return the rows whose workers do not have the GPUs that are stated (N,)."""
    two_N = _two_pools(c)
    if not two_N.any():
        return two_N
    sums_N = sum(c.numbers(f"{role}_workers") * gpus_N for role, gpus_N in _sizes_of(c).items())
    other_N: BoolArray = two_N & c.is_set("gpus") & (c.numbers("gpus") != sums_N)
    return other_N


def _sum_message(c: Columns, row: int) -> str:
    """Return that two pools do not match gpus, or that nothing divides the GPUs."""
    fields, given = c.row(row), c.given(row)
    if DIVIDING.isdisjoint(given):
        named = {name: given[name] for name in SEARCHED if name in given}
        words = " ".join(f"--{n.replace('_', '-')} {shlex.quote(str(v))}" for n, v in named.items())
        return (
            f"gpus = {fields['gpus']} does not say how many GPUs prefill and decode have; find the"
            f" best division with `perfatlas search --mode disaggregated {words}`, or set"
            " prefill_tp, prefill_workers, decode_tp and decode_workers"
        )
    prefill, decode = (int(gpus_N[row]) for gpus_N in _sizes_of(c).values())
    workers = fields["prefill_workers"], fields["decode_workers"]
    return (
        f"gpus = {fields['gpus']}, but prefill_workers x {prefill} + decode_workers x {decode} GPUs"
        f" = {workers[0]} x {prefill} + {workers[1]} x {decode} ="
        f" {workers[0] * prefill + workers[1] * decode}; leave gpus out, or make the sum match"
    )


def _most_in_flight(c: Columns, name: str) -> FloatArray:
    """Return the sequences that a worker of a pool can have (N,)."""
    in_flight_N = c.numbers("concurrency", np.inf)
    if name == "prefill_batch":
        return in_flight_N
    return np.maximum(np.floor(in_flight_N / c.numbers("decode_workers")), 1.0)


def _beyond_flight(c: Columns, name: str) -> BoolArray:
    """Return the rows whose workers have more sequences than there are requests (N,)."""
    beyond_N: BoolArray = c.numbers(name, 0.0) > _most_in_flight(c, name)
    return _two_pools(c) & beyond_N


def _flight_message(name: str, c: Columns, row: int) -> str:
    fields = c.row(row)
    return (
        f"{name} = {fields[name]} per worker exceeds the concurrency = {fields['concurrency']}"
        f" requests in flight over the deployment; set {name} to at most"
        f" {_most_in_flight(c, name)[row]:.0f}, or raise concurrency"
    )


LOADS: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        lambda c: c.is_set("batch") & c.is_set("concurrency"),
        "batch = {batch} and concurrency = {concurrency} exclude each other: batch is per replica,"
        " concurrency over the deployment",
        "set one of the two",
    ),
    Rule(
        lambda c: c.numbers("prefix") >= c.numbers("isl"),
        _prefix_message,
    ),
    Rule(_unpriced, lambda c, row: str(price_problem(c.row(row)["usd_per_gpu_hour"]))),
    Rule(
        _of_unknown_acceptance,
        _acceptance_message,
    ),
    Rule(_of_other_depth, _depth_message),
)
SPLIT: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        lambda c: _is_split(c) & c.is_set("gpus"),
        "gpus = {gpus} does not say how many machines attention and feed-forward networks have",
        "set tp and dp for attention, feed_forward_tp and feed_forward_pp for the rest",
    ),
    Rule(
        lambda c: _is_split(c) & (c.is_set("ep") | c.is_set("moe_tp")),
        "ep and moe_tp divide experts, which run on feed_forward_system",
        "set feed_forward_tp and feed_forward_ep instead",
    ),
)
QUEUED_SPLIT: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        lambda c: _is_split(c) & ((c.numbers("pp") > 1.0) | (c.numbers("cp") > 1.0)),
        "pp = {pp}, cp = {cp}: simulate runs all layers of attention on each of its replicas",
        "set pp and cp to 1, and feed_forward_pp for stages of the other machine",
    ),
)
STEADY_SPLIT: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        _on_fewer_sequences,
        "micro_batches = {micro_batches} divides the batch of each of attention_dp = {attention_dp}"
        " ranks, and there are fewer sequences",
        "raise batch",
    ),
)
STEADY: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        lambda c: c.equals("method", "simulate") & c.equals("mode", "static"),
        "method = simulate has no effect here: mode = static uses closed forms",
        "set mode = aggregated, or leave method out",
    ),
)
POOLS: Final[tuple[Rule[Columns], ...]] = (
    Rule(
        lambda c: _two_pools(c) & c.is_set("batch"),
        "batch = {batch} has no effect in mode disaggregated",
        "use prefill_batch and decode_batch, per worker, or concurrency, over the deployment",
    ),
    Rule(
        lambda c: _two_pools(c) & (c.numbers("dp", 1.0) != 1.0),
        "dp = {dp} has no effect in mode disaggregated",
        "use prefill_workers and decode_workers",
    ),
    Rule(_of_other_sum, _sum_message),
)
IN_FLIGHT: Final[tuple[Rule[Columns], ...]] = tuple(
    Rule(
        partial(_beyond_flight, name=name),
        partial(_flight_message, name),
    )
    for name in ("prefill_batch", "decode_batch")
)
