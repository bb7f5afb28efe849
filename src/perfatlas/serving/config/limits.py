"""Limits of schedulers, routing between replicas, and options of a simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.serving.config.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Callable

ROUTINGS: Final = ("round_robin", "random", "least_loaded", "prefix_aware")
ROUND_ROBIN, RANDOM, LEAST_LOADED, PREFIX_AWARE = range(len(ROUTINGS))
BY_FUNCTION: Final = len(ROUTINGS)  # the router is a function of the caller

# over all engines: each stores the state of its sequences, and every event visits every engine
MAX_SCHEDULERS: Final = 100_000


class SchedulerLimits(NamedTuple):
    """Limits of one scheduler, named as in vLLM V1.

    Limits: The prefix cache of every engine shares whole blocks and evicts the least recently
        freed one; SGLang's radix tree shares single tokens. See also `policies`,
        `async_scheduling` and `speculation`.
    """

    max_num_seqs: int  # Maximum running sequences
    # Maximum tokens per step, decode and prefill; at least `max_num_seqs`
    max_num_batched_tokens: int
    block_size: int  # Tokens per KV cache block
    kv_blocks: int  # Usable KV cache blocks, without the null block
    # Admit a sequence only if all of its tokens so far fit into free blocks, not only its first
    # chunk (`scheduler_reserve_full_isl`). Nothing is reserved.
    reserve_full_isl: bool = True
    # Maximum chunk of one prompt; only 0 (no limit) is supported
    long_prefill_token_threshold: int = 0
    prefix_caching: bool = False  # Share full blocks with equal hashes
    # Schedule a step when the previous one starts, so that arrivals and freed blocks during a step
    # take effect from the step after the next. An idle engine does not schedule ahead. Whether host
    # work is overlapped depends on the prices.
    async_scheduling: bool = False
    rules: str = "vllm"  # Name of the scheduling policy; see the modules of `policies`
    # Allow a prompt to run in several steps; otherwise prompts longer than `max_num_batched_tokens`
    # are rejected. Can be disabled only for TensorRT-LLM and static batches.
    chunked_prefill: bool = True
    mixed_chunk: bool = False  # SGLang only: mix decodes into prefill steps
    # SGLang only: initial fraction of their maximum outputs that sequences are expected to
    # generate; SGLANG_INIT_NEW_TOKEN_RATIO times schedule_conservativeness
    new_token_ratio: float = 0.7
    # SGLang only: decode-only steps between reads of new requests from the socket; they are read at
    # once after a prefill step or when idle
    scheduler_recv_interval: int = 1
    # SGLang decode engines only: tokens reserved per running sequence when another KV cache is
    # accepted (num_reserved_decode_tokens); at least 1, or resumed sequences would preempt each
    # other forever
    reserved_decode_tokens: int = 512
    # TensorRT-LLM only: maximum steps that prompts wait for more prompts while sequences decode, 0
    # to disable
    batch_wait_timeout_iters: int = 0
    # TensorRT-LLM only: tokens of a step at which they stop waiting (batch_wait_max_tokens_ratio of
    # max_num_batched_tokens)
    batch_wait_max_tokens: int = 0
    # TensorRT-LLM only: maximum steps that prompts wait until all attention-data-parallel ranks
    # have some while all decode, 0 to disable (attention_dp_config.timeout_iters with
    # enable_balance)
    rank_balance_iters: int = 0
    # Draft tokens per decode step of a sequence; 0 without speculative decoding
    draft_tokens: int = 0
    # Probability that a draft is accepted if all previous ones are, by position
    acceptance: tuple[float, ...] = ()
    draft_seed: int = 0  # Random seed of acceptance
    host_blocks: int = 0  # KV cache blocks in host memory, 0 for none; see `offload`
    ssd_blocks: int = 0  # KV cache blocks on an SSD, 0 for none
    remote_blocks: int = 0  # KV cache blocks of the pool that all replicas share, 0 for none
    host_move: int = 0  # Transfer time of a block between GPU and host memory [ps]
    ssd_move: int = 0  # Transfer time of a block from SSD to host memory [ps]
    remote_move: int = 0  # Transfer time of a block from the pool over the NICs of a scheduler [ps]
    # Transfer time of a block over the links of the pool, one request after the other [ps]
    remote_share: int = 0
    remote_latency: int = 0  # Latency of a load from the pool [ps]
    # Blocks enter host memory when the GPU evicts them, and the SSD when host memory does;
    # otherwise both when they are computed
    stores_evicted: bool = False
    store_waits: bool = True  # A step waits until the blocks that it computes are stored
    # Layers, each of which is loaded from host memory while the one before is computed; 0 if a step
    # waits for all of its loads first
    load_layers: int = 0

    @property
    def offloads(self) -> bool:
        """Whether there is a cache tier below the GPU."""
        return self.host_blocks + self.ssd_blocks + self.remote_blocks > 0


class Affinity(NamedTuple):
    """Thresholds of `prefix_aware` routing between cached prefixes and load.

    Source: defaults of sglang-router 0.3.2, src/sglang_router/router_args.py: cache_threshold,
    balance_abs_threshold, balance_rel_threshold.
    """

    # Matched fraction of a prompt above which it is routed to the replica with the longest match
    match_share: float = 0.3
    balance_apart: int = 64  # Maximum difference of loads [requests] for prefix routing
    # Maximum ratio of the highest to the lowest load for prefix routing; if both are exceeded, the
    # least loaded replica gets the request
    balance_ratio: float = 1.5


class Replicas(NamedTuple):
    """Identical engines behind one router."""

    number: int = 1
    # Attention-data-parallel ranks per engine, each with its own scheduler and KV cache; all step
    # together. A request goes to the rank with the lowest 4 x waiting + running at its arrival,
    # lowest index first.
    ranks: int = 1
    # `round_robin` over accepted requests; `random`; `least_loaded`: fewest waiting and running
    # requests, ties in turn; or `prefix_aware`: the replica with the longest matching prefix, see
    # `affinity`
    routing: str = "round_robin"
    seed: int = 0  # Seed of `random`
    # Time from the last token of a request to the arrival of the next one, in a closed loop or a
    # conversation, without think time [ps]
    turnaround: int = 0
    affinity: Affinity = Affinity()  # Options of `prefix_aware`
    availability: Availability = Availability()  # Outages and autoscaling
    readers: int = 1  # Tokenization threads per engine
    read_token: int = 0  # Time of a thread per prompt token [ps]
    # Time of a front end to send output tokens of a request once [ps]; see `front`
    stream_token: int = 0
    stream_interval: int = 1  # Output tokens that are sent at a time, after the first
    # Whether tokens wait for those of earlier steps that are not sent yet
    stream_backlog: bool = True
    # Layers of each pipeline stage; empty for engines without stages
    stage_layers: tuple[int, ...] = ()


class Control(NamedTuple):
    """Options of a simulation that do not change what happens to its requests."""

    coalesce: bool = True  # Batch runs of equal decode steps
    # Called every 20,000 events with the fraction of finished requests; returns True to stop the
    # simulation
    watch: Callable[[float], bool] | None = None
    # Whether Ctrl-C ends the simulation with the results so far, marked `interrupted`, which the
    # caller must read; otherwise KeyboardInterrupt is raised
    keeps_partial: bool = False
    series_rows: int = 0  # Maximum rows of the sampled time series, 0 for none
    # Times between which gaps between tokens are counted [ps], None for all. A gap counts at the
    # end of the steps that are advanced together with its own.
    gaps_between: tuple[int, int] | None = None
