"""Time to resolve a system and to read the config of a model, both after a first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from timing import Row, timed

from perfatlas.hardware import resolve_system
from perfatlas.networks.catalog import catalog_config
from perfatlas.networks.hf_config import read_config

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEM: Final = "h200_sxm"
MODEL: Final = "meta-llama/Llama-3.1-70B"
SYSTEM_GOAL_S: Final = 0.5e-3
MODEL_GOAL_S: Final = 3e-3


def catalog_times(*, runs: int) -> list[Row]:
    """Return the time of one catalog query, the mean of many in a row.

    Args:
        runs: Repetitions of the median.
    """
    config = catalog_config(MODEL)
    return [
        _row("resolve_system", lambda: resolve_system(SYSTEM), 1000, SYSTEM_GOAL_S, runs),
        _row("read_config", lambda: read_config(config, "timed"), 20, MODEL_GOAL_S, runs),
    ]


def _row(name: str, ask: Callable[[], object], times: int, goal_s: float, runs: int) -> Row:
    def asked() -> None:
        for _ in range(times):
            ask()

    timing, _ = timed(asked, runs=runs)
    return Row(
        section="catalogs",
        name=name,
        value=timing.wall_s / times,
        cpu_value=timing.cpu_s / times,
        goal=f"< {goal_s:g}",
        met=timing.wall_s / times < goal_s,
        runs=timing.runs,
        note=f"mean of {times} in a row",
    )
