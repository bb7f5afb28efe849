"""Silent errors that are noticed after the last clean checkpoint is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.fleet.laws import mean_s

if TYPE_CHECKING:
    from perfatlas.fleet.model import Cause, Fleet, Strategy


MOST: Final = 1_000_000  # checkpoints that are named as a way out


def kept_for(fleet: Fleet, strategy: Strategy) -> int:
    """Return the checkpoints that reach back twice the time until silent errors are noticed.

    Args:
        fleet: The fleet.
        strategy: How the job lives with failures.

    Returns:
        0 where those that are kept reach back far enough on average, or all are verified.
    """
    late_s = [mean_s(cause.lasts) for cause in _late(fleet, strategy) if cause.lasts is not None]
    return min(int(2.0 * max(late_s) / strategy.interval_s) + 2, MOST) if late_s else 0


def _late(fleet: Fleet, strategy: Strategy) -> list[Cause]:
    """Return what is noticed after the last clean checkpoint is gone, on average."""
    if strategy.verify_s:
        return []
    kept_s = strategy.retained * strategy.interval_s
    silent = [cause for cause in fleet.causes if cause.effect == "corrupts"]
    return [c for c in silent if c.lasts is not None and mean_s(c.lasts) > kept_s]


def late_finds(fleet: Fleet, strategy: Strategy) -> list[str]:
    """Return which silent errors throw a job back to its beginning, and what would help.

    Args:
        fleet: The fleet.
        strategy: How the job lives with failures.
    """
    kept_s = strategy.retained * strategy.interval_s
    kept = kept_for(fleet, strategy)
    return [
        f"{cause.name} is noticed {mean_s(cause.lasts):.4g} s late on average, and the checkpoints"
        f" kept reach back {kept_s:.4g} s of work: the job then begins anew; retained ="
        f" {kept} of a strategy keeps more of them, verify notices before one is written"
        for cause in _late(fleet, strategy)
        if cause.lasts is not None
    ]
