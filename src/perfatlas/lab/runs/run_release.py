"""The release of an engine that a measured run was served with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.engines import engine_ids, resolve_engine

if TYPE_CHECKING:
    from perfatlas.lab.runs.serving_rows import ServingRun

NUMBERS: Final = re.compile(r"v?(\d+(?:\.\d+)+)")  # 0.5.10 of 0.5.10.post1, 1.2.0 of 1.2.0rc6


def engine_release(run: ServingRun) -> str:
    """Return the engine of a run with its release, such as "sglang@0.5.9".

    The release is that of the run's row. A run that states none, or a development build, had the
    newest release with a profile on its day, or the oldest; the newest if it states no day either.

    Args:
        run: The run.
    """
    stated = NUMBERS.match(run.version)
    if stated:
        return f"{run.backend}@{stated.group(1)}"
    if not run.date:
        return run.backend
    dated = sorted(
        (resolve_engine(one).date, one)
        for one in engine_ids()
        if one.partition("@")[0] == run.backend
    )
    known = [one for date, one in dated if date <= run.date[: len(date)]]
    return known[-1] if known else dated[0][1]
