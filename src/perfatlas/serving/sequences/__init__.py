"""Sequences of a scheduler and their KV cache blocks."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.sequences.tier_blocks import clear_tiers
    from perfatlas.serving.sequences.pools import (
        cancel_transfer, continues_elsewhere, first_output, free_prefill_blocks, hand_over,
        is_handed, join, join_one, schedule_arrival, start_transfer, tokens_to_allocate,
    )
    from perfatlas.serving.sequences.preemption import preempt, preempt_uncached
    from perfatlas.serving.sequences.rank_linear import (
        RankTokens, decode_linear_energy, decode_linear_time, linear_energy, linear_time,
        rank_tokens,
    )
    from perfatlas.serving.sequences.running import (
        admit_head, clear_step, has_ended, last_joined, leave_queue, leave_running, leave_socket,
        queue_at_socket, queue_first, queue_last, receive_at_interval, run_chunk, start_decoding,
        steps_to_receiving, take_finishing, unreported_tokens,
    )
    from perfatlas.serving.sequences.shared_queue import take_shared
    from perfatlas.serving.sequences.speculation import (
        advance_each, allocate_decodes, decode_blocks, decode_steps, reserve,
    )
    from perfatlas.serving.sequences.stages import cache_owner, first_batch, in_flight, queue_owner
    from perfatlas.serving.sequences.step_energy import batch_energy, decode_energy, rank_energy
    from perfatlas.serving.sequences.step_time import (
        UNLIMITED_STEPS, Line, batch_time, cell, decode_kernels, decode_time, host_work, longest,
        rank_line, split_line, steps_until,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
