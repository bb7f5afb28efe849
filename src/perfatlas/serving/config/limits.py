"""What bounds a scheduler, how replicas share the traffic, how a simulation is watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.serving.config.availability import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable

ROUTINGS: Final = ("round_robin", "random", "least_loaded", "prefix_aware")
ROUND_ROBIN, RANDOM, LEAST_LOADED, PREFIX_AWARE = range(len(ROUTINGS))

# of all engines: each holds the state of its sequences, and every event looks at every engine
MOST_SCHEDULERS: Final = 100_000


class Limits(NamedTuple):
    """Limits of one scheduler, by the names of vLLM V1.

    Args:
        max_num_seqs: Sequences that run together.
        max_num_batched_tokens: Tokens of one step, decoded and of prompts; at least `max_num_seqs`.
        block_size: Tokens of a cache block.
        kv_blocks: Usable cache blocks, the null block not counted.
        reserve_full_isl: Admit a sequence only where all of its tokens so far fit into free blocks,
            not only its first chunk (`scheduler_reserve_full_isl`). Nothing is set aside.
        long_prefill_token_threshold: Longest chunk of one prompt; only 0, no limit, is simulated.
        prefix_caching: Full blocks of equal hash are shared.
        async_scheduling: A step is scheduled when the one before it begins, so that what arrives
            or is given back in a step counts from the step after the next. The engine is never
            ahead of itself when idle. Host work is hidden only where the prices say so.
        rules: Name of its policy, as the modules of `policies` describe them.
        chunked_prefill: A prompt may run in several steps; where it may not, one longer than
            `max_num_batched_tokens` is rejected. TensorRT-LLM and static batches alone do without.
        mixed_chunk: Of SGLang: sequences decode in steps with prompts too.
        new_token_ratio: Of SGLang: share of their longest outputs that sequences are expected to
            give, at the start; SGLANG_INIT_NEW_TOKEN_RATIO times schedule_conservativeness.
        scheduler_recv_interval: Of SGLang: what arrives is read from the socket every so many
            steps that only decode, at once where a prompt ran or nothing does.
        reserved_decode_tokens: Of SGLang, where it decodes for prefill engines: tokens that stay
            free for every sequence when another cache is taken (num_reserved_decode_tokens); at
            least 1, or sequences that come back throw each other out for ever.
        batch_wait_timeout_iters: Of TensorRT-LLM: prompts wait for more beside sequences that
            decode, at most so many steps, 0 for never.
        batch_wait_max_tokens: Of TensorRT-LLM: tokens of a step for which they wait no longer
            (batch_wait_max_tokens_ratio of max_num_batched_tokens).
        draft_tokens: Tokens that are drafted for every step of a sequence that decodes; 0 for no
            speculative decoding.
        acceptance: Probability that a draft is accepted where those before it are, by position.
        draft_seed: Seed of what is accepted.
        host_blocks: Cache blocks that host memory keeps, 0 for none; what `offload` says of them.
        ssd_blocks: Cache blocks that an SSD keeps below it, 0 for none.
        host_move: What a block takes between the GPU and host memory [ps].
        ssd_move: What a block takes from the SSD to host memory [ps].

    Limits: The prefix cache of every engine shares whole blocks and gives up the least recently
        freed; SGLang's tree shares single tokens. More is in `policies`, `async_scheduling` and
        `speculation`.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    kv_blocks: int
    reserve_full_isl: bool = True
    long_prefill_token_threshold: int = 0
    prefix_caching: bool = False
    async_scheduling: bool = False
    rules: str = "vllm"
    chunked_prefill: bool = True
    mixed_chunk: bool = False
    new_token_ratio: float = 0.7
    scheduler_recv_interval: int = 1
    reserved_decode_tokens: int = 512
    batch_wait_timeout_iters: int = 0
    batch_wait_max_tokens: int = 0
    draft_tokens: int = 0
    acceptance: tuple[float, ...] = ()
    draft_seed: int = 0
    host_blocks: int = 0
    ssd_blocks: int = 0
    host_move: int = 0
    ssd_move: int = 0

    @property
    def offloads(self) -> bool:
        """Whether there is a tier below the GPU."""
        return self.host_blocks + self.ssd_blocks > 0


class Affinity(NamedTuple):
    """When a router of `prefix_aware` follows a prefix, and when the load.

    Args:
        match_share: Share of a prompt above which it goes where the most of it went before.
        balance_apart: Requests by which loads differ at most where prefixes are followed,
        balance_ratio: and how many times the least load the most is; past both the least loaded
            replica takes the request.

    Source: defaults of sglang-router 0.3.2, src/sglang_router/router_args.py: cache_threshold,
    balance_abs_threshold, balance_rel_threshold.
    """

    match_share: float = 0.3
    balance_apart: int = 64
    balance_ratio: float = 1.5


class Replicas(NamedTuple):
    """Equal engines behind one router.

    Args:
        number: Engines.
        ranks: Attention-data-parallel ranks of an engine: each has its scheduler and its cache, all
            step together. A request goes to the rank with the least 4 waiting + running at its
            arrival, the lowest one of equals.
        routing: `round_robin` over accepted requests, `random`, `least_loaded`: fewest waiting
            and running, of equals the next in turn, or `prefix_aware`: where the beginning of the
            prompt went before, as `affinity` says.
        seed: Seed of `random`.
        turnaround: From the last token of a request to the arrival of the one it causes, in a
            closed loop or a conversation, beyond the time to think [ps].
        affinity: Of `prefix_aware`.
        upkeep: What changes replicas while traffic runs.
        readers: Threads of one that tokenize.
        read_token: What such a thread takes for a token of a prompt [ps],
        stream_token: and a front end to send output tokens of a request, as `front` says [ps],
        stream_interval: after the first so many at a time.
    """

    number: int = 1
    ranks: int = 1
    routing: str = "round_robin"
    seed: int = 0
    turnaround: int = 0
    affinity: Affinity = Affinity()
    upkeep: Upkeep = Upkeep()
    readers: int = 1
    read_token: int = 0
    stream_token: int = 0
    stream_interval: int = 1


class Control(NamedTuple):
    """How a simulation runs; nothing here changes what comes of the requests.

    Args:
        coalesce: Take stretches of equal decode steps at once.
        watch: Told every 20,000 instants which share of the requests is done; true stops the
            simulation.
        series_rows: Most rows of the sampled series, 0 for none.
    """

    coalesce: bool = True
    watch: Callable[[float], bool] | None = None
    series_rows: int = 0
