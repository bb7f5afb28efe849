"""The schedulers that there are, each a row, found by name and role."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, shown
from perfatlas.serving.policies import sglang, sglang_decode, static, trtllm, vllm

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.serving.policies.policy import Policy

# compiled code knows a policy by its place
POLICIES: Final[list[Policy]] = [
    vllm.VLLM,
    sglang.SGLANG,
    sglang_decode.SGLANG_DECODE,
    trtllm.GUARANTEED_NO_EVICT,
    trtllm.MAX_UTILIZATION,
    static.STATIC,
]


def register(policy: Policy) -> None:
    """Add a scheduler to those there are, before the first simulation of a process.

    Args:
        policy: Its row.

    Raises:
        InvalidSpecError: There is one of this name for one of its roles, or the event loop is
            loaded and keeps the schedulers there were.
    """
    if f"{__package__}.dispatch" in sys.modules:
        raise InvalidSpecError(
            f"scheduler {policy.name} comes after the event loop was loaded; register it before the"
            " first simulation of the process"
        )
    for known in POLICIES:
        shared = set(known.roles) & set(policy.roles)
        if known.name == policy.name and shared:
            raise InvalidSpecError(
                f"scheduler {policy.name} is registered for role {min(shared)}; choose another name"
            )
    POLICIES.append(policy)


def policy_names() -> tuple[str, ...]:
    """Return the names of all schedulers, each once.

    Example:
        >>> from perfatlas.serving.policies import policy_names
        >>> policy_names()[:2]
        ('vllm', 'sglang')
    """
    return names_where(lambda _: True)


def policies_where(holds: Callable[[Policy], bool]) -> list[Policy]:
    """Return the rows of which something holds.

    Args:
        holds: Of a row.
    """
    return [policy for policy in POLICIES if holds(policy)]


def names_where(holds: Callable[[Policy], bool]) -> tuple[str, ...]:
    """Return the names of the rows of which something holds, each once.

    Args:
        holds: Of a row.

    Example:
        >>> from perfatlas.serving.policies import names_where
        >>> names_where(lambda policy: policy.supports_drafts)
        ('vllm',)
    """
    return tuple(dict.fromkeys(policy.name for policy in policies_where(holds)))


def policies_named(name: str) -> list[Policy]:
    """Return the rows of a name, one for each of its roles or for several.

    Args:
        name: Of a scheduler.

    Raises:
        InvalidSpecError: There is none.
    """
    found = policies_where(lambda policy: policy.name == name)
    if not found:
        names = policy_names()
        raise InvalidSpecError(
            f"rules {shown(name)} are unknown; choose one of {', '.join(names)}"
            f"{did_you_mean(name, names)}"
        )
    return found


def find_policy(name: str, role: str = "both") -> Policy:
    """Return the scheduler of engines.

    Args:
        name: As `Limits.rules`.
        role: Of the engines, one of `ROLES`.

    Raises:
        InvalidSpecError: There is no scheduler of this name.
        UnsupportedError: It is not simulated in this role.
    """
    for policy in policies_named(name):
        if role in policy.roles:
            return policy
    named = names_where(lambda policy: role in policy.roles)
    raise UnsupportedError(
        f"role {role} under rules {name} is not simulated; use one of {', '.join(named)}"
    )
