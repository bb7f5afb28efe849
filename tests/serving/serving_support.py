"""Small engines, prices and scenarios shared by the serving tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfatlas.serving import config
from perfatlas.serving.policies import names_where, policy_names
from perfatlas.serving.prices import StepPrices
from perfatlas.serving.requests import Requests, after_previous, plain_requests, with_hashes

Int = NDArray[np.int64]

PADDED = ("padded_decode", "padded_mixed", "micro_batches")


def flat_prices(
    decode: int, mixed: int, *, seqs: int = 64, tokens: int = 512, per_token: int = 0
) -> StepPrices:
    """Prices in which a decode step takes `decode`, with prompts `mixed` + `per_token` x tokens."""
    nothing = np.zeros((seqs + 1, 1), np.int64)
    return StepPrices(
        decode_linear_B=np.full(seqs + 1, decode),
        mixed_linear_T=mixed + per_token * np.arange(tokens + 1),
        decode_experts_B=np.zeros(seqs + 1, np.int64),
        mixed_experts_T=np.zeros(tokens + 1, np.int64),
        head_B=np.zeros(seqs + 1, np.int64),
        context_K=np.zeros(1, np.int64),
        decode_base_BK=nothing,
        decode_slope_BK=nothing,
        queries_Q=np.array([0, tokens]),
        before_P=np.array([0, 1_000_000]),
        prefill_added_QP=np.zeros((2, 2), np.int64),
        prefill_last_QP=np.zeros((2, 2), np.int64),
        host_step=0,
        host_sequence=0,
        host_prefill=0,
        host_overlapped=False,
    )


def random_prices(draw: np.random.Generator, limits: config.SchedulerLimits) -> StepPrices:
    """Random tables, as nothing may depend on increasing times."""
    batch, tokens = limits.max_num_seqs + 1, limits.max_num_batched_tokens
    context_K = np.concatenate([[0], np.cumsum(draw.integers(1, 40, draw.integers(0, 5)))])
    cells = context_K.shape[0]
    queries_Q = np.array([0, *sorted({1, tokens // 2 + 1, tokens})], np.int64)
    before_P = np.array([0, 10, 100, 100_000])
    base_BK = draw.integers(0, 300, (batch, cells))
    # down to where the attention of a batch reaches 0 at the end of its cell; the last has none
    keys_BK = np.maximum(np.arange(batch), 1)[:, None] * np.append(np.diff(context_K), 10**9)
    slope_BK = np.maximum(draw.integers(-2, 3, (batch, cells)), -(base_BK // keys_BK))
    prices = StepPrices(
        decode_linear_B=draw.integers(0, 50, batch),
        mixed_linear_T=draw.integers(20, 90, tokens + 1),
        decode_experts_B=np.zeros(batch, np.int64),
        mixed_experts_T=np.zeros(tokens + 1, np.int64),
        head_B=draw.integers(0, 9, limits.max_num_seqs * (1 + limits.draft_tokens) + 1),
        context_K=context_K,
        decode_base_BK=base_BK,
        decode_slope_BK=slope_BK,
        queries_Q=queries_Q,
        before_P=before_P,
        prefill_added_QP=draw.integers(0, 50, (queries_Q.shape[0], before_P.shape[0])),
        prefill_last_QP=draw.integers(-20, 50, (queries_Q.shape[0], before_P.shape[0])),
        host_step=int(draw.integers(0, 60)),
        host_sequence=int(draw.integers(0, 4)),
        host_prefill=int(draw.integers(0, 20)),
        host_overlapped=bool(draw.integers(2)),
        tokens_per_decode=1 + limits.draft_tokens,
    )
    return prices._replace(
        decode_experts_B=draw.integers(0, prices.decode_linear_B + 1),
        mixed_experts_T=draw.integers(0, prices.mixed_linear_T - 19),
        padded_decode=int(draw.choice([0, 2, tokens])),
        padded_mixed=int(draw.choice([0, tokens // 3, tokens])),
        micro_batches=int(draw.choice([1, 1, 1, 2, 3])),
        decode_turns_B=draw.integers(0, 90, batch),
        decode_away_B=draw.integers(0, 200, batch),
    )


def scaled(prices: StepPrices, factor: int) -> StepPrices:
    """Return the prices times a factor."""
    counts = ("context_K", "queries_Q", "before_P", "host_overlapped", "tokens_per_decode")
    times = [name for name in prices._fields if name not in (*counts, *PADDED)]
    return prices._replace(**{name: getattr(prices, name) * factor for name in times})


def random_limits(draw: np.random.Generator) -> config.SchedulerLimits:
    """Random limits, mostly tight."""
    seqs = int(draw.choice([1, 2, 3, 4, 6, 8, 30]))
    size = int(draw.choice([1, 2, 3, 4, 8, 16]))
    rules = str(draw.choice(["vllm", "sglang", *policy_names()]))
    drafts = int(draw.choice([0, 0, 1, 3]))
    return config.SchedulerLimits(
        max_num_seqs=seqs,
        draft_tokens=drafts,
        acceptance=tuple(float(chance) for chance in draw.random(drafts)),
        draft_seed=int(draw.integers(1000)),
        max_num_batched_tokens=max(seqs * (1 + drafts), size) + int(draw.integers(0, 40)),
        block_size=size,
        kv_blocks=int(draw.integers(4, 60)) * int(draw.choice([1, 1, 1, 6])),
        reserve_full_isl=bool(draw.integers(2)),
        prefix_caching=bool(draw.integers(2)),
        async_scheduling=bool(draw.integers(2)),
        rules=rules,
        mixed_chunk=bool(draw.integers(2)) and not drafts,
        new_token_ratio=float(draw.choice([0.02, 0.3, 0.7, 1.0])),
        chunked_prefill=rules in ("vllm", "sglang") or bool(draw.integers(2)),
        scheduler_recv_interval=int(draw.choice([1, 1, 2, 5, 30])),
        batch_wait_timeout_iters=int(draw.choice([0, 0, 1, 4, 20])),
        batch_wait_max_tokens=int(draw.integers(0, 60)),
    )


def random_requests(draw: np.random.Generator, count: int, longest: int) -> Requests:
    """Prompts with shared prefixes, sessions with turns, some requests too long or empty."""
    isl_N = draw.integers(0 if draw.random() < 0.3 else 1, longest + 1, count)
    osl_N = draw.integers(0 if draw.random() < 0.3 else 1, longest + 1, count)
    spread = int(draw.choice([1, 100, 3_000, 60_000]))
    arrival_N = np.sort(draw.integers(0, spread, count))
    requests = plain_requests(arrival_N, isl_N, osl_N)
    if draw.random() < 0.5:
        session_N = draw.integers(-1, 4, count)
        pause_N = np.where(draw.random(count) < 0.6, draw.choice([0, 7, 300], count), -1)
        for i in range(count):
            if session_N[i] < 0 or session_N[i] not in session_N[:i]:
                pause_N[i] = -1
        requests = in_sessions(requests, session_N, pause_N)
        if draw.random() < 0.5:
            requests = _with_more_edges(draw, requests)
    return _with_hashes(draw, requests)


def _with_more_edges(draw: np.random.Generator, requests: Requests) -> Requests:
    """Let requests wait for any earlier ones of their session."""
    pause_N = requests.pause_N.copy()
    edges: list[list[int]] = []
    for i, session in enumerate(requests.session_N):
        earlier = np.flatnonzero((requests.session_N[:i] == session) & (session >= 0))
        number = int(draw.integers(0, 1 + min(len(earlier), 3)))
        edges.append(sorted(draw.choice(earlier, number, replace=False).tolist() if number else []))
        pause_N[i] = draw.choice([0, 7, 300]) if number else -1
    return requests._replace(
        pause_N=pause_N,
        after_first_N=np.cumsum([0, *map(len, edges)]),
        after_E=np.array([i for some in edges for i in some], np.int64),
    )


def _with_hashes(draw: np.random.Generator, requests: Requests) -> Requests:
    block = int(draw.choice([1, 3, 4, 8]))
    hashes: list[list[int]] = []
    for isl in requests.isl_N:
        prompt: list[int] = []
        if draw.random() < 0.9:
            family = int(draw.integers(3))
            apart = int(draw.integers(0, 20))
            own = int(draw.integers(100, 200))
            for place in range(-(-int(isl) // block)):
                shared = place < apart
                prompt.append(1000 * place + (family if shared else own))
        hashes.append(prompt)
    return with_prompts(requests, hashes, block)


def random_fleet(draw: np.random.Generator, groups: int = 1) -> config.EngineFleet:
    """One to three engines of one to three ranks for each type."""
    made = []
    for _ in range(groups):
        limits = random_limits(draw)
        number, ranks = int(draw.integers(1, 4)), int(draw.choice([1, 1, 2, 3]))
        made.append(config.ReplicaGroup(random_prices(draw, limits), limits, number, ranks))
    affinity = config.Affinity(
        match_share=float(draw.choice([0.0, 0.3, 0.5, 1.0])),
        balance_apart=int(draw.choice([0, 2, 8, 64])),
        balance_ratio=float(draw.choice([1.0, 1.5, 3.0])),
    )
    routing = str(draw.choice([*config.ROUTINGS, "prefix_aware"]))
    return config.EngineFleet(tuple(made), routing, seed=int(draw.integers(100)), affinity=affinity)


def _drawn_rules(draw: np.random.Generator, role: str) -> str:
    return str(draw.choice(names_where(lambda policy: role in policy.roles)))


def random_pools(draw: np.random.Generator) -> config.EngineFleet:
    """Two pools with links, mostly as fast as steps."""
    fleet = random_fleet(draw, groups=2)
    groups = []
    for group, role in zip(fleet.groups, ("prefill", "decode"), strict=True):
        limits = group.limits._replace(rules=_drawn_rules(draw, role))
        if limits.rules in ("vllm", "sglang"):
            limits = limits._replace(chunked_prefill=True)
        if role == "decode":
            limits = limits._replace(batch_wait_timeout_iters=0)
            limits = limits._replace(reserved_decode_tokens=int(draw.choice([1, 2, 8, 30])))
        prices = random_prices(draw, limits)
        groups.append(group._replace(prices=prices, limits=limits, role=role, link=_link(draw)))
    return fleet._replace(
        groups=tuple(groups),
        latency=int(draw.choice([0, 5, 200])),
        first_from=str(draw.choice(config.FIRST_FROM)),
    )


def _link(draw: np.random.Generator) -> config.Link:
    """A link with one or two linear pieces, and a time for 0 tokens."""
    each = int(draw.choice([0, 1, 10]))
    if draw.random() < 0.5:
        return config.Link(per_token=(each,))
    border, first, more = (int(draw.integers(1, 40)) for _ in range(3))
    return config.Link((0, border), (first, first + border * (each + more)), (each + more, each))


def requests_of(rows: Sequence[tuple[int, int, int]]) -> Requests:
    """Return requests of (arrival, isl, osl)."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    return plain_requests(table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy())


def with_prompts(requests: Requests, hashes: Sequence[Sequence[int]], block: int) -> Requests:
    """Return requests with lists of hashes, one per prompt."""
    count_N = np.array([len(prompt) for prompt in hashes])
    hash_P = np.array([value for prompt in hashes for value in prompt], np.int64)
    return with_hashes(requests, count_N, hash_P, block)


def in_sessions(
    requests: Requests, session_N: Sequence[int] | Int, pause_N: Sequence[int] | Int
) -> Requests:
    """Return requests of sessions; one with a pause waits for the previous one of its session."""
    sessions, pauses = np.array(session_N), np.array(pause_N)
    after_first_N, after_E = after_previous(sessions, pauses)
    return requests._replace(
        session_N=sessions, pause_N=pauses, after_first_N=after_first_N, after_E=after_E
    )
