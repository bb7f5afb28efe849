"""Validation of options against the scheduling policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.serving.policies.table import find_policy, names_where

if TYPE_CHECKING:
    from perfatlas.serving.config import Fleet, Limits
    from perfatlas.serving.policies.policy import Policy


def check_policies(fleet: Fleet) -> None:
    """Validate that the schedulers of all engines support their options.

    Raises:
        InvalidSpecError: A scheduler is unknown, or could never run a chunk.
        UnsupportedError: A scheduler does not support a role or an option.
    """
    for group in fleet.groups:
        policy = find_policy(group.limits.rules, group.role)
        _check_fixed(policy, group.limits, group.role)
        _check_chunks(policy, group.limits)
        _check_options(policy, group.limits)


def _check_fixed(policy: Policy, limits: Limits, role: str) -> None:
    for name, value in policy.fixed.get(role, {}).items():
        asked = getattr(limits, name)
        if asked != value:
            raise UnsupportedError(
                f"{name} {asked} is not supported in role {role}; set it to {value}"
            )


def _check_chunks(policy: Policy, limits: Limits) -> None:
    if policy.requires_chunks and not limits.chunked_prefill:
        raise UnsupportedError(f"rules {policy.name} requires chunked_prefill; set it to true")
    cut = policy.chunks_whole_blocks and limits.chunked_prefill
    if cut and limits.max_num_batched_tokens < limits.block_size:
        raise InvalidSpecError(
            f"max_num_batched_tokens {limits.max_num_batched_tokens} is below block_size "
            f"{limits.block_size}: no chunk of whole blocks fits; increase the former"
        )


def _check_options(policy: Policy, limits: Limits) -> None:
    if limits.draft_tokens and not policy.supports_drafts:
        named = " or ".join(names_where(lambda row: row.supports_drafts))
        raise UnsupportedError(
            f"draft_tokens {limits.draft_tokens} is not supported by rules {policy.name}; use"
            f" rules {named}"
        )
    if limits.offloads and not policy.supports_offload:
        named = " or ".join(names_where(lambda row: row.supports_offload))
        raise UnsupportedError(
            f"KV cache offloading is not supported by rules {policy.name}; use rules {named}"
        )
