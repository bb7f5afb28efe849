"""An engine deployed on its devices, ready to simulate requests.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from perfatlas import inference
from perfatlas.parallelism import plan_problems, stage_layers
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError
from perfatlas.scenario.deployments.fitting_changes import fitting_changes
from perfatlas.scenario.fields import TierSizes, tier_sizes
from perfatlas.scenario.resolution import (
    PARTS,
    feed_forward_plan,
    part_scenario,
    resolve_scenarios,
    resolved_plan,
)
from perfatlas.serving.config import MAX_SCHEDULERS, Replicas, SchedulerLimits
from perfatlas.serving.outcome import ClientDelays
from perfatlas.serving.prices import PriceTable, TableLimits, price_table, split_prices
from perfatlas.serving.requests import TICKS_PER_SECOND, Requests, whole_ticks
from perfatlas.step import candidate_memory, does_not_fit
from perfatlas.vocabulary.fields import MAX_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.operators import IntArray
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.scenario.deployments.arrivals import ResolvedTraffic
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.prices import StepPrices
    from perfatlas.step import Candidates


@dataclass(frozen=True, kw_only=True)
class CacheCapacity:
    """KV cache of one scheduler: one attention-DP rank of one replica."""

    blocks: int  # Blocks, including those the engine reserves
    tokens: int
    cache_bytes: float  # Memory available for the cache on the fullest rank [bytes]
    weights_bytes: float  # Weights on that rank [bytes]


def derived_blocks(question: Candidates, memory: MemoryColumns) -> int:
    """Return the number of cache blocks that fit in memory, per scheduler."""
    ranks, block = int(question.plan.attention_dp[0]), int(question.limits.block_size[0])
    return int(memory.kv_capacity_tokens[0]) // ranks // block


def reserved_blocks_note(question: Candidates) -> list[str]:
    """Return the difference between usable and allocated KV cache, nothing without one."""
    reserved, block = question.profile.memory.reserved_blocks, question.limits.block_size[0]
    if not reserved or not np.isnan(question.limits.kv_blocks[0]):
        return []
    note = (
        f"of the KV cache of each scheduler {question.profile.id} reserves {reserved} block of"
        f" {block:g} tokens, which the capacity of estimate includes and this one does not"
    )
    return [note]


def cache_capacity(scenario: Scenario) -> CacheCapacity:
    """Return the KV cache capacity of a scenario, as `simulate` derives it.

    Args:
        scenario: A model on a system, its plan, engine and limits.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        UnsupportedError: No model, data or engine for the combination.

    Example:
        >>> from perfatlas.scenario.fields import Scenario
        >>> from perfatlas.scenario.deployments import cache_capacity
        >>> asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
        >>> found = cache_capacity(Scenario.read(asked))
        >>> found.tokens == 16 * found.blocks
        True
    """
    question, problems = resolve_scenarios([scenario])
    if question is None:
        raise problems[0] or InvalidSpecError("no candidate is left to size the KV cache for")
    (problem,) = plan_problems(question.model.network, question.plan)
    if problem is not None:
        raise InvalidSpecError(problem)
    memory = candidate_memory(question)
    blocks = derived_blocks(question, memory)
    fixed = memory.total_bytes - memory.kv_bytes
    return CacheCapacity(
        blocks=blocks,
        tokens=blocks * int(question.limits.block_size[0]),
        cache_bytes=float((memory.capacity_bytes - fixed)[0]),
        weights_bytes=float(memory.weights_bytes[0]),
    )


class FrontEnd(NamedTuple):
    """Front end of a replica, for a simulation."""

    seen: ClientDelays  # Latency that a client sees in addition
    read_token: int  # Time to tokenize one prompt token, serial per thread [ps]
    stream_token: int  # Time to send one chunk of output tokens, serial [ps]
    stream_interval: int  # Output tokens per chunk, after the first
    stream_backlog: bool  # Whether chunks wait for those of earlier steps: the times are measured
    readers: int  # Tokenizer threads per replica, 0 for one per request
    note: str  # Assumptions, a sentence


AT_ENGINE: Final = FrontEnd(
    seen=ClientDelays(),
    read_token=0,
    stream_token=0,
    stream_interval=1,
    stream_backlog=True,
    readers=1,
    note="latencies are measured at the engine, without HTTP, tokenization and detokenization",
)


def front_end(question: Candidates, traffic: Traffic, *, pooled: bool) -> FrontEnd:
    """Return the front end of a replica."""
    if traffic.measured_at == "engine":
        return AT_ENGINE
    front = question.profile.front
    read = inference.reading(question, traffic.prompt_text)
    several = int(question.limits.server_processes[0])
    interval = int(question.limits.stream_interval[0])
    note = inference.front_end_note(question, read, pooled=pooled)
    read_token = 0 if read is None else round(read.token_s * TICKS_PER_SECOND)
    if pooled:
        seen = ClientDelays(front.request_s, front.token_s, front.response_s)
        return AT_ENGINE._replace(seen=seen, read_token=read_token, readers=0, note=note)
    return FrontEnd(
        ClientDelays(front.request_s, 0.0, front.response_s),
        read_token,
        round(front.token_s / several * TICKS_PER_SECOND),
        interval,
        not front.assumed,
        several,
        note,
    )


# tokens of a page: prefix caches of finer ones are simulated in pages of as many as prompts allow
FINE: Final = 16
PAGE: Final = 64
# known price tables, by candidates and limits
Priced: TypeAlias = "dict[tuple[str, TableLimits], PriceTable]"


# fields of a scenario that do not affect step prices
LOAD: Final = frozenset(
    (
        "mode",
        "method",
        "isl",
        "osl",
        "batch",
        "concurrency",
        "kv_blocks",
        "stream_interval",
        "server_processes",
        "mixed_chunk",
        "scheduler_recv_interval",
        "rank_balance_iters",
        "dp",
    )
)


class FeedForwardMachine(NamedTuple):
    """Machine of the feed-forward networks of all attention ranks."""

    question: Candidates
    table: PriceTable  # Its prices; those of the deployment include them
    memory: MemoryColumns

    @property
    def gpus(self) -> float:
        """GPUs of a replica."""
        return float(self.question.plan.gpus_per_replica[0])


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """An engine deployed on its devices, ready to simulate requests."""

    scenario: Scenario
    question: Candidates
    memory: MemoryColumns
    limits: SchedulerLimits  # Limits of one scheduler
    replicas: Replicas  # Number of replicas and their routing
    table: PriceTable
    front: FrontEnd  # Front end of a replica
    tiers: TierSizes  # KV cache tiers below the GPUs
    feed_forward: FeedForwardMachine | None = None  # None where one machine runs all layers
    router: Callable[..., int] | None = None  # A function that routes requests

    @property
    def machines(self) -> tuple[FeedForwardMachine, ...]:
        """The machines of a replica: candidates and prices."""
        own = FeedForwardMachine(self.question, self.table, self.memory)
        return (own,) if self.feed_forward is None else (own, self.feed_forward)

    @property
    def gpus(self) -> int:
        """GPUs of a replica on all its machines."""
        return round(sum(each.gpus for each in self.machines))

    @property
    def plan(self) -> dict[str, Any]:
        """The plan by field name, with that of the feed-forward machine if there is one."""
        plan = resolved_plan(self.question)
        if self.feed_forward is not None:
            plan |= {"attention_dp": self.scenario.attention_dp, "dp": self.scenario.dp or 1}
            return plan | feed_forward_plan(self.feed_forward.question)
        return plan

    @property
    def seen(self) -> ClientDelays:
        """Latency that a client sees in addition to the engine's."""
        return self.front.seen

    @property
    def capacity_tokens(self) -> int:
        """KV cache capacity of a replica [tokens]."""
        return self.limits.kv_blocks * self.limits.block_size * self.replicas.ranks

    def held_memory(self) -> dict[str, Any]:
        """Return the memory of the fullest rank with a full cache, by name."""
        memory, blocks = self.memory, derived_blocks(self.question, self.memory)
        fixed_bytes = memory.total_bytes - memory.kv_bytes
        share = min(self.limits.kv_blocks / blocks, 1.0)
        kv_bytes = share * (memory.capacity_bytes - fixed_bytes)
        held = replace(memory, kv_bytes=kv_bytes, total_bytes=fixed_bytes + kv_bytes)
        return inference.plain_results(inference.memory_columns(held))


def deployment(
    scenario: Scenario,
    traffic: Traffic,
    resolved: ResolvedTraffic,
    known: Priced | None = None,
    *,
    most_running: int = MAX_COUNT,
    pooled: bool = False,
) -> Deployment:
    """Return the deployment of a scenario, with steps priced for its requests.

    Args:
        known: Price tables of earlier calls, to reuse and extend.
        most_running: Maximum sequences per scheduler, if below the engine's limit.
        pooled: Whether it is one of two pools.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.
    """
    longest = int(resolved.requests.isl_N.max(initial=0))
    asked, part = scenario, ""
    if scenario.feed_forward_system:  # replicas that share the other machine step together
        if scenario.node_power_cap_w is not None:
            raise UnsupportedError(
                f"node_power_cap_w = {scenario.node_power_cap_w:g}: the power of split layers is"
                " not predicted; leave it out"
            )
        ranks = (scenario.dp or 1) * scenario.attention_dp
        scenario, part = scenario.changed(attention_dp=ranks, dp=1), PARTS[0]
    question, problems = resolve_scenarios([scenario], longest, pooled=pooled, part=part)
    if question is None:
        raise problems[0] or InvalidSpecError("no candidate is left to simulate")
    question = _with_lengths(question, resolved.requests)
    number = traffic.max_replicas or int(question.plan.dp[0])
    ranks = int(question.plan.attention_dp[0])
    check_count("max_replicas" if traffic.max_replicas else "dp", number, ranks)
    plan = question.plan
    if part:  # without experts, ranks that step together are replicas
        plan = replace(plan, dp=plan.attention_dp, attention_dp=plan.dp, moe_tp=plan.tp)
    (problem,) = plan_problems(question.model.network, plan)
    if problem is not None:
        raise InvalidSpecError(problem)
    _refuse_tokens(question, resolved.requests)
    memory = candidate_memory(question)
    if derived_blocks(question, memory) <= question.profile.memory.reserved_blocks:
        sentence, advice = fitting_changes(scenario, question)
        raise InfeasibleError(sentence, advice=advice)
    limits = _limits(question, memory, traffic, resolved.requests)
    if scenario.block_size is None:
        limits = _in_pages(limits, resolved.requests)
    tiers = tier_sizes(traffic, question, resolved.requests, limits.block_size)
    limits = limits._replace(
        max_num_seqs=min(limits.max_num_seqs, most_running),
        mixed_chunk=bool(scenario.mixed_chunk),
        scheduler_recv_interval=1 if pooled else _receive_interval(question, limits.rules),
        rank_balance_iters=0 if pooled else _balance_iters(question, limits.rules),
        **tiers.limits,
    )
    known = {} if known is None else known
    table = _table(scenario, question, limits, resolved.requests, part, known)
    feed_forward = None
    if part:
        feed_forward = _feed_forward(scenario, limits, resolved.requests, table, known)
        table = _split_table(scenario, question, table, feed_forward)
    front = front_end(question, traffic, pooled=pooled)
    return Deployment(
        scenario=asked,
        question=question,
        memory=memory,
        limits=limits,
        replicas=_replicas(scenario, traffic, front, (number, ranks))._replace(
            stage_layers=_stage_layers(question)
        ),
        table=table,
        front=front,
        tiers=tiers,
        feed_forward=feed_forward,
        router=traffic.router,
    )


def _with_lengths(question: Candidates, requests: Requests) -> Candidates:
    """Return a question with the mean lengths of the requests, which size caches per sequence.

    Compressed keys and states of linear attention take memory per sequence beside that per token.
    """
    if not requests.isl_N.size:
        return question
    lengths = {"isl": requests.isl_N, "osl": requests.osl_N}
    means = {name: np.full(question.size, length_N.mean()) for name, length_N in lengths.items()}
    return replace(question, load=replace(question.load, **means))


def _replicas(
    scenario: Scenario, traffic: Traffic, front: FrontEnd, sizes: tuple[int, int]
) -> Replicas:
    """Return the replicas, of which there are `sizes[0]` with `sizes[1]` schedulers each."""
    number, ranks = sizes
    return Replicas(
        number=number,
        ranks=ranks,
        routing=traffic.routing,
        seed=traffic.seed,
        turnaround=int(whole_ticks(np.array(front.seen.turnaround_s))),
        affinity=traffic.affinity(),
        # attention replicas of split layers are no replicas of the service
        availability=traffic.availability(None if scenario.feed_forward_system else scenario.dp),
        readers=front.readers,
        read_token=front.read_token,
        stream_token=front.stream_token,
        stream_interval=front.stream_interval,
        stream_backlog=front.stream_backlog,
    )


def _refuse_tokens(question: Candidates, requests: Requests) -> None:
    """Refuse requests of tokens of a graph, of which each is an item."""
    most = max(int(requests.isl_N.max(initial=1)), int(requests.osl_N.max(initial=1)))
    if question.model.network.item and most > 1:
        raise InvalidSpecError(
            f"requests of up to {most:,} tokens: a request of {question.model.name} is one"
            f" {question.model.network.item}; set isl and osl of a file to 1, and leave lengths out"
        )


def _stage_layers(question: Candidates) -> tuple[int, ...]:
    """Return the layers of each pipeline stage, none for one stage."""
    stages = int(question.plan.pp[0])
    return stage_layers(question.model.network, stages) if stages > 1 else ()


def check_count(name: str, engines: int, ranks: int) -> None:
    """Refuse more schedulers than a simulation supports."""
    if engines * ranks > MAX_SCHEDULERS:
        each = f" with {ranks:,} schedulers each" if ranks > 1 else ""
        raise InvalidSpecError(
            f"{name} = {engines:,}{each}: a simulation supports at most {MAX_SCHEDULERS:,}"
            f" schedulers; set {name} to {MAX_SCHEDULERS // ranks:,} or fewer and scale the"
            " traffic accordingly"
        )


def _table(
    scenario: Scenario,
    question: Candidates,
    limits: SchedulerLimits,
    requests: Requests,
    part: str,
    known: Priced,
) -> PriceTable:
    """Return step prices up to rounded limits, so that similar loads share a table."""
    longest = _rounded_up(int((requests.isl_N + requests.osl_N).max()) + 2 * limits.draft_tokens)
    requested = int(question.limits.max_num_seqs[0])
    reach = TableLimits(
        max_num_seqs=min(_rounded_up(limits.max_num_seqs), max(requested, limits.max_num_seqs)),
        max_num_batched_tokens=limits.max_num_batched_tokens,
        longest_context=min(longest, limits.kv_blocks * limits.block_size + limits.block_size),
    )
    # images are encoded in proportion to the tokens of prompts
    load = LOAD - {"isl"} if scenario.images else LOAD
    alike = {name: value for name, value in scenario.values.items() if name not in load}
    key = (f"{part}{alike}", reach)
    if key not in known:
        known[key] = price_table(question.context(), reach, reuse=_alike(known, *key))
    steps = (known[key].prefills, known[key].decodes)
    if inference.breaks_limits(question, steps)[0]:
        raise inference.power_limit_error(question, steps)
    return known[key]


def _feed_forward(
    scenario: Scenario,
    limits: SchedulerLimits,
    requests: Requests,
    own: PriceTable,
    known: Priced,
) -> FeedForwardMachine:
    """Return the machine of the feed-forward networks, priced for the tokens of all ranks.

    Args:
        own: Prices of the machine of attention.
    """
    ranks, queries = scenario.attention_dp, 1 + limits.draft_tokens
    of_part = -(-(own.prices.decode_linear_B.size - 1) // scenario.micro_batches)
    sequences, tokens = ranks * queries * of_part, ranks * limits.max_num_batched_tokens
    load = {"batch": ranks * limits.max_num_seqs, "dp": 1, "concurrency": None}
    # the drafter runs on the machine of attention
    load |= {"speculative_depth": 0, "speculative_acceptance": None, "acceptance_by_position": None}
    other = part_scenario(scenario.changed(**load), PARTS[1])
    question, problems = resolve_scenarios([other], part=PARTS[1])
    if question is None:
        raise (problems[0] or InvalidSpecError("no candidate is left")).of("feed_forward_system")
    (problem,) = plan_problems(question.model.network, question.plan)
    if problem is not None:
        raise InvalidSpecError(
            f"feed_forward_tp = {other.tp}, feed_forward_ep = {other.ep or 1}, of the machine of"
            f" feed-forward networks: {problem}"
        )
    memory = candidate_memory(question)
    if not memory.fits[0]:
        sentence, advice = does_not_fit(question, lambda _: False)
        raise InfeasibleError(f"feed_forward_system: {sentence}", advice=advice)
    of_machine = limits._replace(
        max_num_seqs=sequences, max_num_batched_tokens=tokens, draft_tokens=0
    )
    table = _table(other, question, of_machine, requests, PARTS[1], known)
    return FeedForwardMachine(question, table, memory)


def _split_table(
    scenario: Scenario, question: Candidates, own: PriceTable, other: FeedForwardMachine
) -> PriceTable:
    """Return the prices of steps that alternate between two machines; energies are unknown."""
    ranks = scenario.attention_dp

    def link(tokens_X: IntArray) -> IntArray:
        tokens = tokens_X.astype(np.float64)
        link_s = inference.hidden_link_s(
            (question, tokens * ranks), (other.question, tokens * ranks)
        )
        return whole_ticks(np.where(tokens > 0.0, link_s, 0.0))

    def joined(name: str) -> StepPrices:
        return split_prices(
            getattr(own, name) or own.prices,
            getattr(other.table, name) or other.table.prices,
            link,
            ranks=ranks,
            micro_batches=scenario.micro_batches,
        )

    rooflines = own.roofline is not None or other.table.roofline is not None
    return replace(
        own,
        prices=joined("prices"),
        energy=None,
        roofline=joined("roofline") if rooflines else None,
    )


def _alike(known: Priced, scenario: str, reach: TableLimits) -> PriceTable | None:
    """Return a known table of a scenario whose limits differ only in max_num_seqs, if any."""
    for (other, limits), table in known.items():
        if other == scenario and replace(limits, max_num_seqs=reach.max_num_seqs) == reach:
            return table
    return None


def _rounded_up(value: int) -> int:
    """Return the next power of two, or three halves of one."""
    power = 1 << max(value - 1, 0).bit_length()
    return power * 3 // 4 if power >= 4 and value <= power * 3 // 4 else power


def _limits(
    question: Candidates, memory: MemoryColumns, traffic: Traffic, requests: Requests
) -> SchedulerLimits:
    requested = question.limits
    block = int(requested.block_size[0])
    derived = derived_blocks(question, memory) - question.profile.memory.reserved_blocks
    blocks = derived if math.isnan(requested.kv_blocks[0]) else int(requested.kv_blocks[0])
    budget = int(requested.max_num_batched_tokens[0])
    # concurrency is limited by the requests, and by one block per sequence
    most = min(
        int(requested.max_num_seqs[0]),
        budget // (1 + question.drafts),
        blocks,
        requests.isl_N.shape[0],
    )
    shared = traffic.prefix_caching
    profile = question.profile.scheduler
    rules = traffic.scheduler or profile.rules
    chunked = profile.chunked_prefill
    if traffic.scheduler is not None or traffic.chunked_prefill is not None:
        chunked = traffic.chunked_prefill is not False
    return SchedulerLimits(
        max_num_seqs=max(most, 1),
        max_num_batched_tokens=budget,
        block_size=block,
        kv_blocks=blocks,
        prefix_caching=requests.hash_block > 0 if shared is None else shared,
        async_scheduling=question.profile.host.overlapped
        and question.plan.pp[0] == 1
        and not question.model.network.item,  # a batch is formed when the one before has ended
        rules=rules,
        chunked_prefill=chunked,
        draft_tokens=question.drafts,
        acceptance=question.draft_acceptance,
        draft_seed=traffic.seed,
    )


def _in_pages(limits: SchedulerLimits, requests: Requests) -> SchedulerLimits:
    """Return limits with pages of up to `PAGE` tokens for a prefix cache that has smaller ones."""
    page = limits.block_size
    coarser = limits.prefix_caching and page < FINE
    while coarser and 2 * page <= min(requests.hash_block or PAGE, PAGE):
        page *= 2
    blocks = limits.kv_blocks * limits.block_size // page
    return limits._replace(block_size=page, kv_blocks=max(blocks, 1))


def pages_note(ready: Deployment) -> tuple[str, ...]:
    """Return how the simulated pages of a prefix cache differ from the engine's, if they do."""
    engine, page = int(ready.question.limits.block_size[0]), ready.limits.block_size
    if page == engine:
        return ()
    note = (
        f"the prefix cache of {ready.question.profile.id} has pages of {engine} tokens and is"
        f" simulated in pages of {page}: a sequence holds {(page - engine) / 2:g} tokens more on"
        " average (block_size sets the page)"
    )
    return (note,)


def _receive_interval(question: Candidates, rules: str) -> int:
    """Return the steps between reads of new requests, 1 for schedulers that read in every step."""
    reads = _reads(rules, "scheduler_recv_interval")
    return int(question.limits.scheduler_recv_interval[0]) if reads else 1


def _balance_iters(question: Candidates, rules: str) -> int:
    """Return the steps that prompts wait for those of other ranks, 0 for other schedulers."""
    several = int(question.plan.attention_dp[0]) > 1 and _reads(rules, "rank_balance_iters")
    return int(question.limits.rank_balance_iters[0]) if several else 0


def _reads(rules: str, name: str) -> bool:
    """Return whether a scheduling policy reads a limit."""
    from perfatlas.serving.policies import POLICIES

    return any(policy.name == rules and name in policy.reads for policy in POLICIES)
