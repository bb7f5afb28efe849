"""What a scenario may not say: fields its mode does not read, and sizes that contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.pools import split_pools
from perfatlas.scenario.vocabulary import Scenario, parse_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

POOL_FIELDS: Final = tuple(
    name for name in Scenario.model_fields if name.startswith(("prefill_", "decode_"))
)


def read_scenario(fields: Mapping[str, Any], *, queues: bool = False) -> Scenario:
    """Return the scenario of named fields, when all of them are read and none contradicts another.

    Args:
        fields: Names of the vocabulary.
        queues: Requests queue: batches of workers are limits, not loads.

    Raises:
        InvalidSpecError: A name, a value or two values together break a rule.

    Example:
        >>> from perfatlas.scenario import read_scenario
        >>> read_scenario({"model": "openai/gpt-oss-20b", "system": "h100_sxm", "batch": 8}).batch
        8
    """
    scenario = parse_scenario(fields)
    _check_load(scenario)
    _check_drafts(scenario)
    if scenario.mode == "disaggregated":
        _check_pools(scenario)
        if scenario.concurrency is not None and not queues:
            _check_in_flight(scenario, scenario.concurrency)
    else:
        _check_one_pool(scenario)
    return scenario


def _check_load(s: Scenario) -> None:
    """Refuse a load that contradicts itself.

    Raises:
        InvalidSpecError: Batch and concurrency are both given, or the prefix leaves no token.
    """
    if s.batch is not None and s.concurrency is not None:
        raise InvalidSpecError(
            f"batch = {s.batch} and concurrency = {s.concurrency}: batch counts the sequences of"
            " one replica, concurrency those of the deployment; give one of the two"
        )
    if s.prefix >= s.isl:
        raise InvalidSpecError(
            f"prefix = {s.prefix}: cached tokens are part of isl = {s.isl} and at least one token"
            f" is computed; prefix is at most {s.isl - 1}"
        )


def _check_drafts(s: Scenario) -> None:
    """Refuse drafts without the chance that one is accepted, and the chance without drafts.

    Raises:
        InvalidSpecError: One of the two is missing.
    """
    if s.speculative_depth and s.speculative_acceptance is None:
        raise InvalidSpecError(
            f"speculative_depth = {s.speculative_depth} needs speculative_acceptance, the chance"
            " that a draft is accepted where all before it are: it depends on model, drafter and"
            " text, so measure it (engines print accepted over drafted tokens)"
        )
    if s.speculative_acceptance is not None and not s.speculative_depth:
        raise InvalidSpecError(
            f"speculative_acceptance = {s.speculative_acceptance:g}, but nothing is drafted; give"
            " speculative_depth, the tokens drafted per step"
        )


def check_running(s: Scenario, plan: tuple[float, ...]) -> None:
    """Refuse a static batch that the stated limit of the engine does not let run at a time.

    Args:
        s: A scenario; in mode aggregated what exceeds the limit waits.
        plan: Its sizes, as `plan_sizes` returns them.

    Raises:
        InvalidSpecError: More sequences on an attention-DP rank than max_num_seqs.
    """
    if s.mode != "static" or s.max_num_seqs is None:
        return
    replicas, ranks = int(plan[-1]), s.attention_dp
    batch = s.batch or -(-(s.concurrency or 1) // replicas)
    if -(-batch // ranks) > s.max_num_seqs:
        raise InvalidSpecError(
            f"max_num_seqs = {s.max_num_seqs}, but a batch of {batch} runs {-(-batch // ranks)}"
            f" sequences at a time; use a batch of at most {s.max_num_seqs * ranks} per replica,"
            " raise max_num_seqs, or use mode aggregated, where the rest queue"
        )


def _check_one_pool(s: Scenario) -> None:
    for name in POOL_FIELDS:
        if name in s.model_fields_set:
            raise InvalidSpecError(
                f"{name} = {getattr(s, name)}: mode {s.mode} has one pool of workers and does not"
                f" read {name}; use mode disaggregated or leave {name} out"
            )


def _check_pools(s: Scenario) -> None:
    """Refuse what two pools do not read, and a false number of GPUs."""
    if s.batch is not None:
        raise InvalidSpecError(
            f"batch = {s.batch}: mode disaggregated does not read batch; use prefill_batch and"
            " decode_batch, of one worker, or concurrency, of the deployment"
        )
    if s.dp not in (None, 1):
        raise InvalidSpecError(
            f"dp = {s.dp}: mode disaggregated does not read dp; its replicas are prefill_workers"
            " and decode_workers"
        )
    pools = split_pools(s)
    prefill, decode = (p.tp or 1 for p in (pools.prefill, pools.decode))
    prefill *= pools.prefill.pp * pools.prefill.cp * pools.prefill.attention_dp
    decode *= pools.decode.pp * pools.decode.attention_dp
    total = s.prefill_workers * prefill + s.decode_workers * decode
    if s.gpus is not None and s.gpus != total:
        raise InvalidSpecError(
            f"gpus = {s.gpus}, but prefill_workers x {prefill} + decode_workers x {decode} GPUs ="
            f" {s.prefill_workers} x {prefill} + {s.decode_workers} x {decode} = {total};"
            " leave gpus out, or make the sum match"
        )


def _check_in_flight(s: Scenario, concurrency: int) -> None:
    """Refuse batches of more requests than are in flight."""
    rules = {"prefill_batch": concurrency, "decode_batch": max(concurrency // s.decode_workers, 1)}
    for name, most in rules.items():
        held = getattr(s, name)
        if held is not None and held > most:
            raise InvalidSpecError(
                f"{name} = {held} on each worker, but concurrency = {concurrency} requests are in"
                f" flight over the deployment; use {name} = {most} or less, or raise concurrency"
            )
