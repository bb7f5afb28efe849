"""The table of scheduling policies, by name and role."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, repr_for_error
from perfatlas.serving.policies import sglang, sglang_decode, static, trtllm, vllm

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.serving.policies.policy import BatchingPolicy

# compiled code identifies a policy by its index
POLICIES: Final[list[BatchingPolicy]] = [
    vllm.VLLM,
    sglang.SGLANG,
    sglang_decode.SGLANG_DECODE,
    trtllm.GUARANTEED_NO_EVICT,
    trtllm.MAX_UTILIZATION,
    static.STATIC,
]


def register(policy: BatchingPolicy) -> None:
    """Register a scheduling policy, before the first simulation of a process.

    Raises:
        InvalidSpecError: A policy of this name exists for one of its roles, or the event loop is
            already loaded.
    """
    if f"{__package__}.dispatch" in sys.modules:
        raise InvalidSpecError(
            f"scheduler {policy.name} was registered after the event loop was loaded; register it"
            " before the first simulation of the process"
        )
    for other in POLICIES:
        shared = set(other.roles) & set(policy.roles)
        if other.name == policy.name and shared:
            raise InvalidSpecError(
                f"scheduler {policy.name} already exists for role {min(shared)}; rename it"
            )
    POLICIES.append(policy)


def policy_names() -> tuple[str, ...]:
    """Return the distinct names of all policies.

    Example:
        >>> from perfatlas.serving.policies import policy_names
        >>> policy_names()[:2]
        ('vllm', 'sglang')
    """
    return names_where(lambda _: True)


def policies_where(holds: Callable[[BatchingPolicy], bool]) -> list[BatchingPolicy]:
    """Return the policies that satisfy a predicate."""
    return [policy for policy in POLICIES if holds(policy)]


def names_where(holds: Callable[[BatchingPolicy], bool]) -> tuple[str, ...]:
    """Return the distinct names of the policies that satisfy a predicate.

    Example:
        >>> from perfatlas.serving.policies import names_where
        >>> names_where(lambda policy: policy.divides_sequences)
        ('sglang',)
    """
    return tuple(dict.fromkeys(policy.name for policy in policies_where(holds)))


def policies_named(name: str) -> list[BatchingPolicy]:
    """Return the policies of a name, one for each role or group of roles.

    Raises:
        InvalidSpecError: There is no scheduler of this name.
    """
    matches = policies_where(lambda policy: policy.name == name)
    if not matches:
        names = policy_names()
        raise InvalidSpecError(
            f"unknown rules {repr_for_error(name)}; choose one of {', '.join(names)}"
            f"{did_you_mean(name, names)}"
        )
    return matches


def find_policy(name: str, role: str = "both") -> BatchingPolicy:
    """Return the scheduling policy of engines.

    Args:
        name: Value of `SchedulerLimits.rules`.
        role: Role of the engines, one of `ROLES`.

    Raises:
        InvalidSpecError: There is no scheduler of this name.
        UnsupportedError: It does not support this role.
    """
    for policy in policies_named(name):
        if role in policy.roles:
            return policy
    named = names_where(lambda policy: role in policy.roles)
    raise UnsupportedError(
        f"rules {name} does not support role {role}; use one of {', '.join(named)}"
    )
