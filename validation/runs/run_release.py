"""The release of an engine that a measured run was served with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.engines import engine_ids, resolve_engine

if TYPE_CHECKING:
    from validation.runs.run_selection import ServingRules
    from validation.runs.serving_rows import ServingRun

NUMBERS: Final = re.compile(r"v?(\d+(?:\.\d+)+)")  # 0.5.10 of 0.5.10.post1, 1.2.0 of 1.2.0rc6


def engine_release(run: ServingRun, rules: ServingRules) -> str:
    """Return the engine of a run with its release, such as "sglang@0.5.9".

    The release is that of the run's row. A run that states none, or a development build, had the
    newest release with a profile on its day, or the oldest; the newest if it states no day either.
    A run that was launched with asynchronous scheduling has the first release with it.

    Args:
        rules: Launches of the runs.
    """
    found, launch = _stated(run), rules.launch(run)
    asked = launch is not None and launch.limits.get("async_scheduling", False)
    if not asked or resolve_engine(found).host.overlapped:
        return found
    return next(profile for profile in _profiles(run) if resolve_engine(profile).host.overlapped)


def _stated(run: ServingRun) -> str:
    """Return the release that the row of a run states, or that of its day."""
    stated = NUMBERS.match(run.version)
    if stated:
        return f"{run.backend}@{stated.group(1)}"
    if not run.date:
        return run.backend
    dated = [(resolve_engine(profile).date, profile) for profile in _profiles(run)]
    known = [text for date, text in dated if date <= run.date[: len(date)]]
    return known[-1] if known else dated[0][1]


def _profiles(run: ServingRun) -> list[str]:
    """Return the profiles of the engine of a run, by month."""
    ids = [engine_id for engine_id in engine_ids() if engine_id.partition("@")[0] == run.backend]
    return sorted(ids, key=lambda text: resolve_engine(text).date)
