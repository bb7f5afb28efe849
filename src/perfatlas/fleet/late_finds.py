"""Silent errors that are noticed after the last clean checkpoint is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.fleet.laws import mean_s

if TYPE_CHECKING:
    from perfatlas.fleet.model import Fleet, Strategy


def late_finds(fleet: Fleet, strategy: Strategy) -> list[str]:
    """Return which silent errors throw a job back to its beginning, and what would help.

    Args:
        fleet: The fleet.
        strategy: How the job lives with failures.
    """
    if strategy.verify_s:
        return []
    kept_s = strategy.retained * strategy.interval_s
    return [
        f"{cause.name} is noticed {mean_s(cause.lasts):.4g} s late on average, and the checkpoints"
        f" kept reach back {kept_s:.4g} s of work: the job then begins anew; retained ="
        f" {int(2.0 * mean_s(cause.lasts) / strategy.interval_s) + 2} of a strategy keeps more of"
        " them, verify_s notices before one is written"
        for cause in fleet.causes
        if cause.effect == "corrupts" and cause.lasts is not None and mean_s(cause.lasts) > kept_s
    ]
