"""Validation of options against the scheduling policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.policies.table import find_policy

if TYPE_CHECKING:
    from perfatlas.serving.config import EngineFleet


def check_policies(fleet: EngineFleet) -> None:
    """Validate that the schedulers of all engines support their options.

    Raises:
        InvalidSpecError: A scheduler is unknown, or could never run a chunk.
        UnsupportedError: A scheduler does not support a role or an option.
    """
    for group in fleet.groups:
        limits = group.limits
        policy = find_policy(limits.rules, group.role)
        for limit, value in policy.fixed.get(group.role, {}).items():
            configured = getattr(limits, limit)
            if configured != value:
                raise UnsupportedError(
                    f"{limit} {configured} is not supported in role {group.role}; set it to {value}"
                )
        if policy.requires_chunks and not limits.chunked_prefill:
            raise UnsupportedError(f"rules {policy.name} requires chunked_prefill; set it to true")
        cut = policy.chunks_whole_blocks and limits.chunked_prefill
        if cut and limits.max_num_batched_tokens < limits.block_size:
            raise InvalidSpecError(
                f"max_num_batched_tokens {limits.max_num_batched_tokens} is below block_size "
                f"{limits.block_size}: no chunk of whole blocks fits; increase the former"
            )
        if limits.draft_tokens and limits.mixed_chunk and "mixed_chunk" in policy.reads:
            raise UnsupportedError(
                f"{policy.title} does not mix decodes into prefill steps with speculative decoding:"
                f" draft_tokens {limits.draft_tokens}; set mixed_chunk to false"
            )
