"""Reference implementation of engines: one event after the other, every step by itself.

It shares no code with the loop it checks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from perfatlas.serving.config import EngineFleet, ReplicaGroup
from perfatlas.serving.outcome import GAP_EDGES
from perfatlas.serving.prices import StepPrices
from perfatlas.serving.prices.tables import Ticks
from perfatlas.serving.requests import Requests
from tests.serving.reference_blocks import Part, Sequence
from tests.serving.reference_offload import Tier
from tests.serving.reference_router import PrefixRouter
from tests.serving.reference_sglang import SglangDecodeScheduler, SglangScheduler
from tests.serving.reference_trtllm import TrtllmScheduler
from tests.serving.reference_vllm import Scheduler
from tests.serving.support import hashes_of

GOLDEN = 0x9E3779B97F4A7C15
WORD = 2**64 - 1
EDGES = GAP_EDGES.tolist()


def _chunk(prices: StepPrices, table: Ticks, queries: int, before: int) -> int:
    """Interpolate along the queries at both borders, then along the keys, each rounded down."""
    q = max(k for k in range(len(prices.queries_Q) - 1) if prices.queries_Q[k] <= queries)
    p = max(k for k in range(len(prices.before_P) - 1) if prices.before_P[k] <= before)
    q0, q1 = int(prices.queries_Q[q]), int(prices.queries_Q[q + 1])
    p0, p1 = int(prices.before_P[p]), int(prices.before_P[p + 1])
    ends = []
    for column in (p, p + 1):
        low, high = int(table[q, column]), int(table[q + 1, column])
        ends.append(low + (high - low) * (queries - q0) // (q1 - q0))
    return ends[0] + (ends[1] - ends[0]) * (before - p0) // (p1 - p0)


def step_time(prices: StepPrices, ranks: list[list[Part]], layers: int = 0) -> int:
    """Return the time of the slowest rank, which may load layers while it computes others."""
    mixed = any(not part.decodes for rank in ranks for part in rank)
    linear = prices.mixed_linear_T if mixed else prices.decode_linear_B
    experts = prices.mixed_experts_T if mixed else prices.decode_experts_B
    sizes = [sum(part.tokens for part in rank) if mixed else len(rank) for rank in ranks]
    most = max(sizes)
    padded = prices.padded_mixed if mixed else prices.padded_decode
    away = 0
    if prices.micro_batches > 1 and not mixed:
        away = int(prices.decode_away_B[-(-sum(max(size, 1) for size in sizes) // len(ranks))])
    if len(ranks) == 1 or most * (1 if mixed else prices.tokens_per_decode) <= padded:
        times = [_rank_time(prices, rank, int(linear[most]), layers, mixed=mixed) for rank in ranks]
        return max(away, *times)
    sizes = [max(size, 1) for size in sizes]  # a rank without requests runs one token
    mean, more = divmod(sum(sizes), len(ranks))
    shared = int(experts[mean])
    if more:
        shared += (int(experts[mean + 1]) - shared) * more // len(ranks)
    own = [int(linear[size]) - int(experts[size]) for size in sizes]
    times = [
        _rank_time(prices, rank, shared + part, layers, mixed=mixed)
        for rank, part in zip(ranks, own, strict=True)
    ]
    return max(away, *times)


def _rank_time(
    prices: StepPrices, parts: list[Part], linear: int, layers: int, *, mixed: bool
) -> int:
    chunks = [part for part in parts if not part.decodes]
    decodes = [part for part in parts if part.decodes]
    rows = sum(part.tokens if part.decodes else part.samples for part in parts)
    device = linear + int(prices.head_B[rows])
    keyed, passes, count = 0, 1, len(decodes)  # of a micro-batch, and their number
    if decodes:
        keys = sum(part.before + part.tokens for part in decodes)
        cell = max(k for k, border in enumerate(prices.context_K) if border <= keys // count)
        past = keys - count * int(prices.context_K[cell])
        keyed = int(prices.decode_base_BK[count, cell])
        keyed += int(prices.decode_slope_BK[count, cell]) * past
        device += keyed
        passes = -(-count // -(-count // prices.micro_batches))
    for part in chunks:
        device += _chunk(prices, prices.prefill_added_QP, part.tokens, part.before)
    if chunks:
        last = prices.prefill_last_QP
        device += max(_chunk(prices, last, part.tokens, part.before) for part in chunks)
    moves = sum(part.moves for part in parts)
    if layers:
        moves = max(moves - device * (layers - 1) // layers, moves // layers)
    device += moves
    if mixed:
        device += (passes - 1) * keyed
    elif decodes and prices.micro_batches > 1:
        device = max(device, int(prices.decode_turns_B[count]) + passes * keyed)
    host = prices.host_step + prices.host_sequence * len(parts)
    host += prices.host_prefill if chunks else 0
    return max(device, host) if prices.host_overlapped else device + host


@dataclass
class Replica:
    index: int
    group: ReplicaGroup
    ranks: list[Scheduler]
    end: int = -1  # of the step that runs, -1 between steps
    running: list[list[Part]] = field(default_factory=list)  # by rank
    planned: list[list[Part]] = field(default_factory=list)
    start: int = 0
    steps: int = 0
    busy: int = 0
    paused: list[Sequence] = field(default_factory=list)

    @property
    def load(self) -> int:
        return sum(len(rank.queue()) + len(rank.running) + len(rank.away) for rank in self.ranks)


def link_time(group: ReplicaGroup, tokens: int) -> int:
    """Return the transfer time of a KV cache over a link, by its linear piece."""
    pieces = zip(*group.link, strict=True)
    border, time, each = max(piece for piece in pieces if piece[0] <= tokens)
    return time + (tokens - border) * each


class Simulation:
    """Order at equal times: steps end, requests arrive, steps start."""

    def __init__(self, requests: Requests, fleet: EngineFleet, concurrency: int = 0) -> None:
        self.requests = requests
        self.fleet = fleet
        self.routing = fleet.routing
        self.seed = fleet.seed
        self.concurrency = concurrency
        self.replicas: list[Replica] = []
        for group in fleet.groups:
            named = {"vllm": Scheduler, "sglang": SglangScheduler}
            scheduler = named.get(group.limits.rules, TrtllmScheduler)
            if group.role == "decode" and group.limits.rules == "sglang":
                scheduler = SglangDecodeScheduler
            remote = Tier(group.limits.remote_blocks)
            for _ in range(group.number):
                ranks = [scheduler(group.limits) for _ in range(group.ranks)]
                for rank in ranks:
                    rank.tiers.remote = remote
                    rank.keeps = group.role == "prefill"
                    rank.again = fleet.first_from == "recomputed"
                    rank.early = fleet.first_from == "prefill"
                self.replicas.append(Replica(len(self.replicas), group, ranks))
        self.sequences = [
            Sequence(i, int(requests.isl_N[i]), int(requests.osl_N[i]), [])
            for i in range(len(requests.isl_N))
        ]
        for replica in self.replicas:
            for rank in replica.ranks:
                rank.alone = replica.group.ranks == 1
        self.turns = {"entry": 0, "decode": 0}
        self.last = {"entry": -1, "decode": -1}
        self.number = len(self.replicas)
        self.router = PrefixRouter(requests, fleet.affinity, self.number)
        self.links: dict[tuple[int, int], int] = {}  # by replica and rank
        self.steps = 0
        self.gaps = [0] * len(GAP_EDGES)
        self.most_running = 0
        self.comes: list[tuple[int, int]] = []
        self.since = [0] * len(self.sequences)  # last end of those that a request waits for
        self.waits_for = [
            set(requests.after_E[first:end].tolist())
            for first, end in pairwise(requests.after_first_N)
        ]
        trees: dict[tuple[bool, int], set[int]] = {}
        for i, session in enumerate(requests.session_N.tolist()):
            trees.setdefault((session < 0, i if session < 0 else session), set()).add(i)
        self.trees = list(trees.values())
        self.to_come = list(self.trees)
        if concurrency == 0:
            self.comes = [
                (int(requests.arrival_N[i]), i) for i, left in enumerate(self.waits_for) if not left
            ]
        for _ in range(concurrency):
            self.issue(0)

    def answer_keys(self, i: int, size: int) -> dict[int, Hashable]:
        requests = self.requests
        said = int(requests.isl_N[i] + requests.osl_N[i])
        for j in range(i + 1, len(requests.isl_N)):
            first, end = requests.after_first_N[j : j + 2]
            if i not in requests.after_E[first:end]:
                continue
            if requests.isl_N[j] < said or not requests.hash_block:
                continue
            old, new = (hashes_of(requests, k).tolist() for k in (i, j))
            full = int(requests.isl_N[i]) // requests.hash_block
            if old and new and old[:full] == new[:full]:
                return dict(enumerate(self.keys(j, size)[: said // size]))
        return {}

    def keys(self, i: int, size: int) -> list[Hashable]:
        requests = self.requests
        hashes = hashes_of(requests, i)
        keys: list[Hashable] = []
        if len(hashes):
            for block in range(int(requests.isl_N[i]) // size):
                last = ((block + 1) * size - 1) // requests.hash_block
                keys.append((int(hashes[last]), block))
        return keys

    def issue(self, now: int) -> None:
        if self.to_come:
            tree = self.to_come.pop(0)
            roots = [i for i in sorted(tree) if not self.waits_for[i]]
            arrivals = [int(self.requests.arrival_N[i]) for i in roots]
            wait = max(now - arrivals[0], 0)
            self.comes += [(time + wait, i) for time, i in zip(arrivals, roots, strict=True)]

    def follow(self, i: int, now: int) -> None:
        for j, left in enumerate(self.waits_for):
            if i in left:
                left.remove(i)
                self.since[j] = max(self.since[j], now)
                if not left:
                    self.comes.append((self.since[j] + int(self.requests.pause_N[j]), j))
        tree = next(tree for tree in self.trees if i in tree)
        tree.remove(i)
        if self.concurrency and not tree:
            self.trees.remove(tree)
            self.issue(now)

    def route(self, i: int, pool: str = "entry") -> Replica:
        replicas = [
            replica
            for replica in self.replicas
            if (replica.group.role == "decode") == (pool == "decode")
        ]
        count = len(replicas)
        if self.routing == "round_robin":
            self.turns[pool] += 1
            return replicas[(self.turns[pool] - 1) % count]
        if self.routing == "random":
            z = (self.seed + (i + 1) * GOLDEN) & WORD
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
            return replicas[((z ^ (z >> 31)) >> 1) % count]
        if self.routing == "prefix_aware" and pool == "entry":
            loads = {replica.index: replica.load for replica in replicas}
            return self.replicas[self.router.choose(i, loads)]
        after = self.last[pool] + 1  # equals take turns
        chosen = min(replicas, key=lambda one: (one.load, (one.index - after) % self.number))
        self.last[pool] = chosen.index
        return chosen

    def runs(self, sequence: Sequence, group: ReplicaGroup) -> bool:
        limits = group.limits
        osl = min(sequence.osl, 1) if group.role == "prefill" else sequence.osl
        tokens = sequence.isl + osl
        more = limits.draft_tokens
        if limits.rules == "vllm":
            more = 2 * more - 1
        elif limits.rules == "sglang":
            more = (1 + more) * (2 if more and limits.async_scheduling else 1) - 1
        most = tokens + more
        whole = limits.chunked_prefill or sequence.isl <= limits.max_num_batched_tokens
        whole = whole or group.role == "decode"
        fits = most <= limits.kv_blocks * limits.block_size
        if limits.rules == "sglang":
            room = limits.kv_blocks * limits.block_size
            fits = most + limits.block_size < room
            if group.role == "decode":
                whole_pages = -(-tokens // limits.block_size) * limits.block_size
                fits = fits and whole_pages + limits.reserved_decode_tokens <= room
        return bool(sequence.isl > 0 and sequence.osl > 0 and whole and fits)

    def arrive(self, i: int, now: int) -> None:
        sequence = self.sequences[i]
        sequence.arrival = now
        if not all(self.runs(sequence, group) for group in self.fleet.groups):
            self.follow(i, now)
            return
        replica = self.route(i)
        sequence.replica = replica.index
        sequence.whole_osl = sequence.osl
        if replica.group.role == "prefill":
            sequence.osl = 1
        self.queue(sequence, replica)

    def queue(self, sequence: Sequence, replica: Replica) -> None:
        size = replica.group.limits.block_size
        sequence.prompt_keys = self.keys(sequence.index, size)
        sequence.answer_keys = self.answer_keys(sequence.index, size)
        loads = [
            4 * (len(rank.queue()) + len(rank.away)) + len(rank.running) for rank in replica.ranks
        ]
        rank = replica.ranks[loads.index(min(loads))]
        prefixes = self.fleet.routing == "prefix_aware" and replica.group.limits.prefix_caching
        if prefixes and len(loads) > 1 and replica.group.role != "decode":
            rank = self.by_prefix(sequence, replica.ranks, rank)
        rank.take(sequence)

    def by_prefix(self, sequence: Sequence, ranks: list[Scheduler], least: Scheduler) -> Scheduler:
        """Return the rank with the longest cached prefix, by the thresholds of the router."""
        share, apart, ratio = self.fleet.affinity
        loads = [len(one.queue()) + len(one.away) + len(one.running) for one in ranks]
        if max(loads) - min(loads) > apart and max(loads) > ratio * min(loads):
            return least
        size = ranks[0].limits.block_size
        found = [one.found(sequence, one.pool.lookup(sequence, size)) for one in ranks]
        here = found[ranks.index(least)]
        if max(found) > max(int(share * sequence.isl) // size, here):
            return ranks[found.index(max(found))]
        return least

    def end(self, sequence: Sequence, now: int) -> None:
        """Finish a sequence with its last token, or the last one of its prefill engine."""
        if not sequence.kept:
            self.follow(sequence.index, now)
            return
        # the prefill engine may still know it, as one that has ended
        sequence = self.sequences[sequence.index] = replace(sequence, blocks=[])
        sequence.osl = sequence.whole_osl
        sequence.stage = "handed"
        sequence.handed = now
        sequence.finished = -1
        sequence.generated = sequence.num_computed = sequence.num_registered = sequence.target = 0
        sequence.placeholders = sequence.below = 0
        if self.fleet.first_from != "prefill":
            sequence.first_token = -1
        self.comes.append((now, sequence.index))

    def go_on(self, sequence: Sequence, now: int) -> None:
        if sequence.stage == "handed":
            replica = self.route(sequence.index, "decode")
            sequence.decoded_at = replica.index
            self.queue(sequence, replica)
            return
        ends = (self.replicas[sequence.replica], self.replicas[sequence.decoded_at])
        if sequence.stage == "fetched":
            there = next(k for k, rank in enumerate(ends[1].ranks) if sequence in rank.away)
            links = ((ends[0].index, sequence.rank), (ends[1].index, there))
            start = max(now, *(self.links.get(link, 0) for link in links))
            tokens = sequence.isl - sequence.num_registered * ends[1].group.limits.block_size
            start += max(link_time(end.group, tokens) for end in ends)
            self.links |= dict.fromkeys(links, start)
            sequence.stage = "travelling"
            self.comes.append((start + self.fleet.latency, sequence.index))
            return
        sequence.arrived = now
        pools = [rank.pool for rank in ends[0].ranks]
        pools[sequence.rank].give_back(sequence.kept)
        sequence.kept = []
        rank = next(rank for rank in ends[1].ranks if sequence in rank.away)
        rank.here.append(sequence)
        if sequence.osl == 1 and self.fleet.first_from != "recomputed":
            rank.here.remove(sequence)
            rank.away.remove(sequence)
            rank.register(sequence, sequence.isl)
            rank.pool.give_back(sequence.blocks)
            sequence.first_token = sequence.finished = sequence.resumed = now
            self.follow(sequence.index, now)

    def plan(self, replica: Replica, start: int) -> None:
        for rank in replica.ranks:
            rank.tiers.copied = 0
            rank.schedule(start)
            self.comes += [(time, sequence.index) for time, sequence in rank.sent]
            rank.sent = []
        replica.planned = [rank.scheduled for rank in replica.ranks]

    def pausing(self, replica: Replica) -> list[Sequence]:
        """Sequences that could decode in a prefill step; SGLang lets them wait."""
        waits: list[Sequence] = []
        if replica.group.limits.rules != "sglang":
            return waits
        for rank, parts in zip(replica.ranks, replica.running, strict=True):
            runs = [part.sequence for part in parts]
            if any(part.decodes for part in parts):
                continue
            waits += [
                one for one in rank.running if one not in runs and one.num_computed >= one.target
            ]
        return waits

    def note(self, replica: Replica, now: int) -> None:
        """Apply the ending step to sequences, before its tokens are returned."""
        for one in replica.paused:
            one.interference += now - replica.start
        decodes = [[part for part in rank if part.decodes] for rank in replica.running]
        extra = 0
        if decodes != replica.running and any(decodes):
            layers = replica.group.limits.load_layers
            extra = now - replica.start - step_time(replica.group.prices, decodes, layers)
        for part in (part for rank in replica.running for part in rank):
            one = part.sequence
            # preempted while the step ran, not finished
            ends = part.samples and one.generated + part.gives >= one.osl
            gone = one.num_computed == 0 and not (ends and replica.group.limits.rules == "vllm")
            if one.finished >= 0:
                continue
            if part.decodes:
                one.interference += extra
            back = part.samples or part.before + part.tokens >= one.mark
            if back and not gone and one.lost_since >= 0:
                one.lost += now - one.lost_since
                one.lost_since = -1
            if part.samples:
                if one.generated > 0:
                    gap = now - one.last_token
                    border = bisect_right(EDGES, gap) - 1  # the last edge not above it
                    self.gaps[border] += 1
                self.gaps[0] += part.gives - 1
                one.last_token = now

    def begin(self, replica: Replica, now: int) -> None:
        if not any(replica.planned):
            self.plan(replica, now)
        for _ in range(2):  # an idle engine looks again
            if not any(replica.planned):
                for rank in replica.ranks:
                    rank.idle()
                self.plan(replica, now)
        replica.running, replica.planned = replica.planned, []
        if any(replica.running):
            layers = replica.group.limits.load_layers
            replica.end = now + step_time(replica.group.prices, replica.running, layers)
            self.steps += 1
            replica.steps += 1
            replica.busy += replica.end - now
            replica.start = now
            replica.paused = self.pausing(replica)
            if replica.group.limits.async_scheduling:
                self.plan(replica, replica.end)

    def run(self) -> Simulation:
        while self.comes or any(replica.end >= 0 for replica in self.replicas):
            ends = [replica.end for replica in self.replicas if replica.end >= 0]
            now = min(ends + [time for time, _ in self.comes])
            for replica in self.replicas:
                if replica.end == now:
                    replica.end = -1
                    self.note(replica, now)
                    for index, parts in enumerate(replica.running):
                        for sequence in replica.ranks[index].update(parts, now):
                            sequence.rank = index
                            self.end(sequence, now)
            while self.comes and min(self.comes)[0] <= now:
                self.comes.sort()
                i = self.comes.pop(0)[1]
                if self.sequences[i].stage:
                    self.go_on(self.sequences[i], now)
                else:
                    self.arrive(i, now)
            for replica in self.replicas:
                if replica.end < 0:
                    self.begin(replica, now)
        return self
