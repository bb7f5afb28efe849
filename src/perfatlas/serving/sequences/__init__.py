"""Sequences of a scheduler and their KV cache blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.sequences.offload import find_offloaded as find_offloaded
    from perfatlas.serving.sequences.pools import (
        continues_elsewhere as continues_elsewhere,
        first_output as first_output,
        free_prefill_blocks as free_prefill_blocks,
        hand_over as hand_over,
        is_handed as is_handed,
        join as join,
        join_one as join_one,
        schedule_arrival as schedule_arrival,
        start_transfer as start_transfer,
        tokens_to_allocate as tokens_to_allocate,
    )
    from perfatlas.serving.sequences.preemption import (
        preempt as preempt,
        preempt_uncached as preempt_uncached,
    )
    from perfatlas.serving.sequences.rank_linear import (
        RankTokens as RankTokens,
        decode_linear_energy as decode_linear_energy,
        decode_linear_time as decode_linear_time,
        linear_energy as linear_energy,
        linear_time as linear_time,
        rank_tokens as rank_tokens,
    )
    from perfatlas.serving.sequences.running import (
        admit_head as admit_head,
        clear_step as clear_step,
        has_ended as has_ended,
        last_joined as last_joined,
        leave_queue as leave_queue,
        leave_running as leave_running,
        queue_at_socket as queue_at_socket,
        queue_first as queue_first,
        queue_last as queue_last,
        receive_at_interval as receive_at_interval,
        run_chunk as run_chunk,
        start_decoding as start_decoding,
        steps_to_receiving as steps_to_receiving,
        take_finishing as take_finishing,
        unreported_tokens as unreported_tokens,
    )
    from perfatlas.serving.sequences.shared_queue import take_shared as take_shared
    from perfatlas.serving.sequences.speculation import (
        advance_each as advance_each,
        decode_steps as decode_steps,
        reserve as reserve,
    )
    from perfatlas.serving.sequences.stages import (
        first_batch as first_batch,
        in_flight as in_flight,
        queue_owner as queue_owner,
    )
    from perfatlas.serving.sequences.step_energy import (
        batch_energy as batch_energy,
        decode_energy as decode_energy,
        rank_energy as rank_energy,
    )
    from perfatlas.serving.sequences.step_time import (
        UNLIMITED_STEPS as UNLIMITED_STEPS,
        Line as Line,
        batch_time as batch_time,
        cell as cell,
        decode_kernels as decode_kernels,
        decode_time as decode_time,
        host_work as host_work,
        longest as longest,
        rank_line as rank_line,
        steps_until as steps_until,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
