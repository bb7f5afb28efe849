"""Validation of the inputs of a simulation.

Shape legend: N requests.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import (
    InvalidSpecError,
    UnsupportedError,
    did_you_mean,
    repr_for_error,
    significant,
)
from perfatlas.serving.config.engines import FIRST_FROM, MAX_ENGINE_TYPES
from perfatlas.serving.config.limits import MAX_SCHEDULERS, ROUTINGS
from perfatlas.serving.prices import TERMS
from perfatlas.serving.requests import waiting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.config.engines import EngineFleet
    from perfatlas.serving.config.limits import Control, SchedulerLimits
    from perfatlas.serving.prices import EnergyPrices, StepPrices
    from perfatlas.serving.requests import Requests

# tables of experts, and of the linear layers of which they are a part
EXPERTS: Final = {"decode_experts_B": "decode_linear_B", "mixed_experts_T": "mixed_linear_T"}
MAX_REQUEST: Final = 1 << 30  # tokens of prompt and output
MAX_STEP: Final = 1_000_000_000_000_000  # ps, per part of a step: 1,000 s
MAX_PAUSE: Final = 4_000_000_000_000_000_000  # ps: may start at the last tick of the clock
MAX_DURATION_PS: Final = 1_000_000_000_000_000_000  # ps: sums of a few of these fit into 64 bits


def check_stages(fleet: EngineFleet) -> None:
    """Validate pipeline stages, which are simulated for the identical replicas of a pool."""
    for group in fleet.groups:
        stages = group.stage_layers
        if stages and min(stages) < 1:
            raise InvalidSpecError(
                f"stage_layers {stages}: every pipeline stage needs at least one layer"
            )
        for name, setting in (
            ("several engine types", max(map(len, fleet.pools)) > 1),
            ("asynchronous scheduling", group.limits.async_scheduling),
        ):
            if stages and setting:
                raise UnsupportedError(
                    f"pp = {len(stages)}: {name} with pipeline stages cannot be simulated; use pp"
                    " = 1"
                )


def check_fleet(fleet: EngineFleet, concurrency: int, control: Control) -> None:
    """Validate the engines and the routing of a fleet.

    Args:
        concurrency: Requests in flight of a closed loop.
    """
    _at_least("the number of engine types", len(fleet.groups), 1)
    if len(fleet.groups) > MAX_ENGINE_TYPES:
        raise InvalidSpecError(
            f"there are {len(fleet.groups)} engine types; the maximum is {MAX_ENGINE_TYPES}"
        )
    _check_roles(fleet)
    for group in fleet.groups:
        for name in ("number", "ranks"):
            _at_least(f"replicas.{name}", getattr(group, name), 1)
    schedulers = sum(group.number * group.batches * group.ranks for group in fleet.groups)
    if schedulers > MAX_SCHEDULERS:
        raise InvalidSpecError(
            f"the engines have {schedulers:,} schedulers, one per rank; the maximum is"
            f" {MAX_SCHEDULERS:,}: simulate fewer replicas with proportionally less traffic"
        )
    for name, value in (
        ("replicas.seed", fleet.seed),
        ("replicas.turnaround", fleet.turnaround),
        ("fleet.latency", fleet.latency),
        ("fleet.readers", fleet.readers),
        ("fleet.read_token", fleet.read_token),
        *(
            (f"stream_interval of type {k} - 1", group.stream_interval - 1)
            for k, group in enumerate(fleet.groups)
        ),
        *(
            (f"stream_token of type {k}", group.stream_token)
            for k, group in enumerate(fleet.groups)
        ),
        ("concurrency", concurrency),
        ("control.series_rows", control.series_rows),
    ):
        _at_least(name, value, 0)
    routing = fleet.routing
    if routing not in ROUTINGS:
        raise InvalidSpecError(
            f"routing {repr_for_error(routing)} is unknown; choose one of {', '.join(ROUTINGS)}"
            f"{did_you_mean(routing, ROUTINGS)}"
        )
    share, min_gap, ratio = fleet.affinity
    if not 0.0 <= share <= 1.0:
        raise InvalidSpecError(f"match_share is {share}; it must be between 0 and 1")
    if min_gap < 0:
        raise InvalidSpecError(f"balance_apart is {min_gap}; it must be at least 0 requests")
    if not ratio >= 1.0:
        raise InvalidSpecError(f"balance_ratio is {ratio}; it must be at least 1")
    check_stages(fleet)


def _check_roles(fleet: EngineFleet) -> None:
    """Validate the roles of engines, and the options of two pools."""
    roles = [group.role for group in fleet.groups]
    grouped = sorted(roles, key=lambda role: role == "decode") == roles
    if not grouped or set(roles) not in ({"both"}, {"prefill", "decode"}):
        raise InvalidSpecError(
            f"roles {repr_for_error(', '.join(roles))}: either all are both, or prefill is"
            " followed by decode"
        )
    if fleet.first_from not in FIRST_FROM:
        raise InvalidSpecError(
            f"first_from {repr_for_error(fleet.first_from)} is unknown; choose one of"
            f" {', '.join(FIRST_FROM)}{did_you_mean(fleet.first_from, FIRST_FROM)}"
        )


def check_links(fleet: EngineFleet, requests: Requests) -> None:
    """Validate that transfer times of KV caches do not overflow the clock."""
    longest = int(requests.isl_N.max(initial=0))
    for k, group in enumerate(fleet.groups):
        borders, times, per_token = group.link
        well_formed = len(borders) == len(times) == len(per_token) and borders[:1] == (0,)
        if not well_formed or any(b <= a for a, b in pairwise(borders)):
            raise InvalidSpecError(
                f"the link of engine type {k} has borders {repr_for_error(str(borders))}; they must"
                " be ascending from 0, each with a time and a slope"
            )
        _at_least(f"the link of engine type {k}", min(*times, *per_token), 0)
        time = group.link.time(longest)
        if time > MAX_STEP:
            raise InvalidSpecError(
                f"the KV cache of {longest} tokens takes {time / 1e12:,.0f} s over the link of"
                f" engine type {k}; the maximum is 1,000 s: use shorter prompts or a faster link"
            )


def check_limits(limits: SchedulerLimits) -> None:
    """Validate the limits of a scheduler."""
    for name in ("max_num_seqs", "max_num_batched_tokens", "block_size", "kv_blocks"):
        _at_least(name, getattr(limits, name), 1)
    for name in ("scheduler_recv_interval", "reserved_decode_tokens"):
        _at_least(name, getattr(limits, name), 1)
    for name in ("batch_wait_timeout_iters", "batch_wait_max_tokens", "rank_balance_iters"):
        _at_least(name, getattr(limits, name), 0)
    if not 0.0 < limits.new_token_ratio <= 1.0:
        raise InvalidSpecError(
            f"new_token_ratio is {limits.new_token_ratio}; it must be above 0 and at most 1"
        )
    _check_drafts(limits)
    if limits.long_prefill_token_threshold != 0:
        raise UnsupportedError(
            f"long_prefill_token_threshold {repr_for_error(limits.long_prefill_token_threshold)}"
            " is not supported: several prompts would be partially computed; set it to 0"
        )


def _check_drafts(limits: SchedulerLimits) -> None:
    drafts = limits.draft_tokens
    for name in ("draft_tokens", "draft_seed"):
        _at_least(name, getattr(limits, name), 0)
    if len(limits.acceptance) != drafts or not all(0.0 <= p <= 1.0 for p in limits.acceptance):
        raise InvalidSpecError(
            f"acceptance is {repr_for_error(str(limits.acceptance))}; {drafts} draft_tokens need"
            " one probability for each position"
        )
    if limits.max_num_seqs * (1 + drafts) > limits.max_num_batched_tokens:
        raise InvalidSpecError(
            f"max_num_seqs {limits.max_num_seqs} exceeds max_num_batched_tokens "
            f"{limits.max_num_batched_tokens} / {1 + drafts} tokens per sequence and step; "
            "decrease the first or increase the second"
        )


def check_front(fleet: EngineFleet, requests: Requests) -> None:
    """Validate that front-end times do not overflow the clock."""
    sends = max((group.stream_token for group in fleet.groups), default=0)
    for name, each, tokens in (
        ("read_token", fleet.read_token, requests.isl_N),
        ("stream_token", sends, requests.osl_N),
    ):
        total = each * int(tokens.sum())
        if total > MAX_DURATION_PS:
            raise InvalidSpecError(
                f"{name} {each}: front ends need {significant(total / 1e12)} s for"
                f" {int(tokens.sum()):,} tokens; the maximum is 1,000,000 s: simulate fewer"
                " requests"
            )


def check_requests(requests: Requests, last: int) -> None:
    """Validate requests: equal column lengths, sorted arrivals, and complete sessions.

    Args:
        last: Maximum time of the clock [ps].
    """
    count = requests.isl_N.shape[0]
    for name in ("arrival_N", "osl_N", "session_N", "pause_N", "hash_first_N", "tail_N"):
        _shape(name, getattr(requests, name), (count,))
    _shape("after_first_N", requests.after_first_N, (count + 1,))
    falls = np.flatnonzero(np.diff(requests.arrival_N) < 0)
    if falls.size:
        i = int(falls[0]) + 1
        raise InvalidSpecError(
            f"request {i} arrives at {requests.arrival_N[i]} ps, before request {i - 1} at "
            f"{requests.arrival_N[i - 1]} ps; sort the requests by arrival"
        )
    for name, most in (
        ("isl_N", MAX_REQUEST),
        ("osl_N", MAX_REQUEST),
        ("pause_N", MAX_PAUSE),
    ):
        _within(name, getattr(requests, name), most)
    if count and not 0 <= requests.arrival_N[0] <= requests.arrival_N[-1] <= last:
        raise InvalidSpecError(
            f"arrivals run from {requests.arrival_N[0]} to {requests.arrival_N[-1]} ps; they "
            f"must be within 0 and {last} ps"
        )
    _check_turns(requests)
    _check_hashes(requests)


def _check_turns(requests: Requests) -> None:
    first_N, after_E = requests.after_first_N, requests.after_E
    if first_N[0] != 0 or (np.diff(first_N) < 0).any() or first_N[-1] != after_E.size:
        raise InvalidSpecError(
            f"after_first_N runs from {first_N[0]} to {first_N[-1]}; it must be ascending from 0 to"
            f" {after_E.size}, the size of after_E"
        )
    wrong = np.flatnonzero((np.diff(first_N) > 0) != (requests.pause_N >= 0))
    if wrong.size:
        i = int(wrong[0])
        raise InvalidSpecError(
            f"request {i} has a pause of {requests.pause_N[i]} ps and waits for"
            f" {first_N[i + 1] - first_N[i]} requests; set its pause to -1 exactly if it waits for"
            " none and has an arrival"
        )
    waiting_E = waiting(requests)
    wrong = np.flatnonzero((after_E < 0) | (after_E >= waiting_E))
    if wrong.size:
        i = int(waiting_E[wrong[0]])
        raise InvalidSpecError(
            f"request {i} waits for request {after_E[wrong[0]]}; it can only wait for requests"
            f" before it, 0 to {i - 1}"
        )
    session_N = requests.session_N
    wrong = np.flatnonzero((session_N[after_E] != session_N[waiting_E]) | (session_N[after_E] < 0))
    if wrong.size:
        i, before = int(waiting_E[wrong[0]]), int(after_E[wrong[0]])
        raise InvalidSpecError(
            f"request {i} of session {session_N[i]} waits for request {before} of session"
            f" {session_N[before]}; both must belong to the same session"
        )


def _check_hashes(requests: Requests) -> None:
    if requests.hash_block < 0 or (requests.hash_H.size and not requests.hash_block):
        raise InvalidSpecError(
            f"hash_block is {requests.hash_block} but prompts have hashes; set it to the number of "
            "tokens per hashed block"
        )
    if not requests.hash_block:
        return
    first_N = requests.hash_first_N
    end_N = first_N + np.where(first_N < 0, 0, requests.isl_N // requests.hash_block)
    wrong = np.flatnonzero((first_N < -1) | (end_N > requests.hash_H.size))
    if wrong.size:
        i = int(wrong[0])
        raise InvalidSpecError(
            f"the hashes of request {i}, of {requests.isl_N[i]} tokens, are {first_N[i]} to"
            f" {end_N[i]}; there are {requests.hash_H.size}"
        )


def check_prices(prices: StepPrices, limits: SchedulerLimits, requests: Requests) -> None:
    """Validate that price tables cover all steps that the limits allow."""
    longest = int((requests.isl_N + requests.osl_N).max(initial=1)) + limits.draft_tokens
    longest = min(longest, limits.kv_blocks * limits.block_size)  # longer ones never run
    borders = (prices.context_K, prices.queries_Q, prices.before_P)
    for name, border, reach in zip(
        ("context_K", "queries_Q", "before_P"),
        borders,
        (0, limits.max_num_batched_tokens, longest),
        strict=True,
    ):
        fewest = 1 if reach == 0 else 2
        rising = border.shape[0] >= fewest and border[0] == 0 and (np.diff(border) > 0).all()
        if not rising or border[-1] < reach:
            raise InvalidSpecError(
                f"{name} is {repr_for_error(str(border.tolist()))}; it needs at least {fewest}"
                f" ascending borders from 0 to {reach} or more"
            )
    rows = limits.max_num_seqs * (1 + limits.draft_tokens) + 1
    _at_least("the number of entries of head_B", prices.head_B.shape[0], rows)
    batch = prices.decode_linear_B.shape[0]
    _at_least("the number of entries of decode_linear_B", batch, limits.max_num_seqs + 1)
    if prices.tokens_per_decode != 1 + limits.draft_tokens:
        raise InvalidSpecError(
            f"the prices are for {prices.tokens_per_decode} tokens per sequence and decode step;"
            f" draft_tokens {limits.draft_tokens} requires {1 + limits.draft_tokens}"
        )
    _at_least(
        "the number of entries of mixed_linear_T",
        prices.mixed_linear_T.shape[0],
        limits.max_num_batched_tokens + 1,
    )
    for experts, linear in EXPERTS.items():
        _check_experts(prices, experts, linear)
    for name in ("decode_turns_B", "decode_away_B") if prices.micro_batches > 1 else ():
        _shape(name, getattr(prices, name), (batch,))
    for name in ("decode_base_BK", "decode_slope_BK"):
        _shape(name, getattr(prices, name), (batch, borders[0].shape[0]))
    for name in ("prefill_added_QP", "prefill_last_QP"):
        _shape(name, getattr(prices, name), (borders[1].shape[0], borders[2].shape[0]))
    for name in prices._fields:
        value = np.asarray(getattr(prices, name))
        may_be_negative = name in {"prefill_last_QP", "decode_slope_BK"}
        least = -MAX_STEP if may_be_negative else 0
        if (value < least).any() or (value > MAX_STEP).any():
            raise InvalidSpecError(
                f"{name} ranges from {value.min()} to {value.max()}; it must be {least} to 1e15"
            )
    # a chunk alone in its step may cost less than its share of a full one, but no time at all
    start = int((prices.mixed_linear_T - prices.mixed_experts_T)[1:].min(initial=MAX_STEP))
    shortest = int((prices.prefill_added_QP + prices.prefill_last_QP).min(initial=0))
    if shortest < -start:
        raise InvalidSpecError(
            f"prefill_added_QP + prefill_last_QP is {shortest}; it must be at least {-start}"
        )
    _check_lines(prices)
    _check_products(prices, limits, longest)


def _check_experts(prices: StepPrices, name: str, whole: str) -> None:
    """Validate that the experts of a step are a part of its linear layers."""
    experts_X, linear_X = getattr(prices, name), getattr(prices, whole)
    _shape(name, experts_X, linear_X.shape)
    if (experts_X > linear_X).any():
        x = int(np.argmax(experts_X > linear_X))
        raise InvalidSpecError(
            f"{name}[{x}] is {experts_X[x]}; it must be at most {whole}[{x}] = {linear_X[x]}"
        )


def check_energy(energy: EnergyPrices, prices: StepPrices) -> None:
    """Validate that tables of energy have the shapes of those of time."""
    for name in TERMS:
        _shape(f"{name} of energy", getattr(energy.tables, name), getattr(prices, name).shape)


def _check_lines(prices: StepPrices) -> None:
    """Validate that step times stay non-negative inside a cell, even if they decrease."""
    batch_B1 = np.arange(prices.decode_base_BK.shape[0], dtype=np.float64)[:, None]
    fall_BK = batch_B1 * np.diff(prices.context_K) * prices.decode_slope_BK[:, :-1]
    linear = min(
        (getattr(prices, whole) - getattr(prices, experts))[1:].min()
        for experts, whole in EXPERTS.items()
    )
    wrong = np.argwhere(prices.decode_base_BK[:, :-1] + fall_BK + linear < 0)
    if wrong.size:
        b, k = wrong[0]
        raise InvalidSpecError(
            f"decode_slope_BK[{b}, {k}] = {prices.decode_slope_BK[b, k]} makes a step of {b}"
            f" sequences negative before {prices.context_K[k + 1]} keys"
        )
    if (prices.decode_slope_BK[:, -1] < 0).any():
        raise InvalidSpecError("decode_slope_BK must not be negative in its last, unbounded column")


def _check_products(prices: StepPrices, limits: SchedulerLimits, longest: int) -> None:
    """Validate that sums over sequences and products with tokens fit into 64 bits."""
    width = max(int(np.diff(border).max()) for border in (prices.queries_Q, prices.before_P))
    batch_B1 = np.arange(limits.max_num_seqs + 1, dtype=np.float64)[:, None]
    ends_K = np.append(prices.context_K[1:], max(longest, int(prices.context_K[-1])))
    slope_BK = np.abs(prices.decode_slope_BK[: limits.max_num_seqs + 1])
    # keys beyond the start of a cell, of all sequences
    along_BK = slope_BK * batch_B1 * (ends_K - prices.context_K)
    added_Q = np.abs(prices.prefill_added_QP).max(axis=1).astype(np.float64)
    last = float(np.abs(prices.prefill_last_QP).max())
    # all chunks of a step, which share its tokens: a whole budget, and what short ones cost beyond
    # their share of it
    added = float(added_Q.max())
    share_Q = prices.queries_Q / limits.max_num_batched_tokens
    beyond = float(np.maximum(added_Q - added * share_Q, 0.0).max())
    for name, most, words in (
        ("decode_slope_BK", float(along_BK.max()), "keys of a step"),
        ("prefill_added_QP", added + beyond * limits.max_num_seqs, "chunks of a step"),
        ("prefill_added_QP", added * width, "tokens of a cell"),
        ("prefill_last_QP", last * width, "tokens of a cell"),
    ):
        if most > MAX_DURATION_PS:
            raise InvalidSpecError(
                f"{name} times {words} is up to {most:.3g} ps, which overflows 64 bits; use cheaper"
                " steps, shorter requests or closer borders"
            )


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidSpecError(
            f"{name} is {repr_for_error(int(value))}; it must be at least {least}"
        )


def _within(name: str, column: NDArray[np.int64], most: int) -> None:
    least = -1 if name == "pause_N" else 0
    wrong = np.flatnonzero((column < least) | (column > most))
    if wrong.size:
        raise InvalidSpecError(
            f"{name} of request {wrong[0]} is {column[wrong[0]]}; it must be {least} to {most}"
        )


def _shape(name: str, column: NDArray[np.int64], shape: tuple[int, ...]) -> None:
    if column.shape != shape:
        raise InvalidSpecError(f"{name} has shape {column.shape}; expected {shape}")
