"""Named recovery policies: what a launcher does when a node of a job is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError, parse_duration
from perfatlas.reliability.fleet.laws import Constant
from perfatlas.reliability.fleet.model.model import NO_TIME, Fleet, Spares, Strategy

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model.model import Cause


@dataclass(frozen=True, kw_only=True)
class RecoveryPolicy:
    """The documented response of a launcher to the loss of a node."""

    name: str
    does: str  # What happens
    detection_s: float  # Time from the loss of a node to the response [s]
    elastic: Literal["never", "allowed", "always"]  # Whether the job continues with fewer nodes
    source: str  # Documentation or source file
    # Whether the other replicas hold the state, so that one step is lost
    peers_hold_state: bool = False
    spares: Literal["", "cold", "warm", "hot"] = ""  # Kind of spares it needs; "" for any
    # Whether a restart reallocates all nodes, in the order of their numbers
    reallocates: bool = False
    regrows: bool = True  # Whether nodes join a running job

    def text(self) -> str:
        """Return the policy as text."""
        return f"response {self.name}: {self.does} ({self.source})"


@cache
def recovery_policies() -> dict[str, RecoveryPolicy]:
    """Return all policies by name.

    Example:
        >>> from perfatlas.reliability.fleet.model import recovery_policies
        >>> recovery_policies()["slurm_requeue"].detection_s
        300.0
    """
    rows = shipped_table("data/fleet/recovery_policies.toml")["policy"]
    policies = (
        RecoveryPolicy(
            **{name: value for name, value in row.items() if name != "detection"},
            detection_s=parse_duration(row["detection"], field="detection"),
        )
        for row in rows
    )
    return {policy.name: policy for policy in policies}


def with_policy(fleet: Fleet, policy: RecoveryPolicy) -> Fleet:
    """Return a fleet whose lost units are detected as the policy documents.

    Args:
        fleet: The fleet; a cause with a detection of its own keeps it.
    """
    return replace(fleet, causes=tuple(_detected(cause, policy) for cause in fleet.causes))


def _detected(cause: Cause, policy: RecoveryPolicy) -> Cause:
    loses_unit = cause.effect == "stops" and cause.takes != "nothing"
    if not loses_unit or cause.detection != NO_TIME:
        return cause
    return replace(cause, detection=Constant(value_s=policy.detection_s))


def under_policy(strategy: Strategy, policy: RecoveryPolicy, step_s: float | None) -> Strategy:
    """Return a strategy that follows a policy.

    Args:
        step_s: Time of a training step [s], lost where peers hold the state; None if unknown.

    Raises:
        InvalidSpecError: The strategy contradicts the policy, or lacks a required setting.
    """
    if policy.elastic == "never" and strategy.shrink is not None:
        raise InvalidSpecError(
            f"response = {policy.name} restarts the job on all its nodes: remove fewest_gpus or"
            " shrink, or use response torchrun"
        )
    if policy.elastic == "always" and strategy.shrink is None:
        raise InvalidSpecError(
            f"response = {policy.name} drops whole replicas: set fewest_gpus and replica_gpus"
            if policy.regrows
            else f"response = {policy.name} continues on the remaining nodes: set fewest_gpus"
        )
    if strategy.shrink is not None:
        strategy = replace(strategy, shrink=replace(strategy.shrink, regrows=policy.regrows))
    if policy.peers_hold_state:
        step_s = strategy.step_s or step_s
        if step_s is None:
            raise InvalidSpecError(
                f"response = {policy.name} loses one training step: set lost_step in the"
                " strategy, or the measured step (step_time_s)"
            )
        strategy = replace(strategy, step_s=step_s)
    if policy.reallocates:
        # the choice of the spare does not matter where all units are allocated again
        spares = replace(strategy.spares, reallocated=True, order=Spares().order)
        strategy = replace(strategy, spares=spares)
    if policy.spares:
        strategy = replace(strategy, spares=replace(strategy.spares, kind=policy.spares))
    return strategy
