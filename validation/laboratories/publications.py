"""Published serving runs as sources: each publication is one laboratory.

Of measurements that were collected elsewhere, the explored half counts; the half that is held out
judges the intervals.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.engines import resolve_engine
from validation.laboratories.outside import EXPLORED, half_of, outside_sources
from validation.laboratories.predictions import gpu_times, output_times, predicted_runs
from validation.laboratories.sources import tabulated_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfatlas.inference import Evaluation
    from validation.laboratories.predictions import SourceRuns, Times

SCALES: Final = ("service", "step")
LAST_BATCH: Final = 3  # later ones judge the intervals and move none
# what a metric measures, and whether it is a rate
TIMES: Final[Mapping[str, tuple[Callable[[Evaluation], Times], bool]]] = {
    "tpot_s": (output_times, False),
    "output_tokens_per_s_per_user": (output_times, True),
    "output_tokens_per_s_per_gpu": (gpu_times, True),
}


def all_sources() -> list[SourceRuns]:
    """Return the runs of all sources, tables and publications, with their predictions.

    Raises:
        MissingDependencyError: A file is missing.
        UnsupportedError: A file is not that of the rules.
    """
    return [*tabulated_sources(), *publications()]


def publications() -> list[SourceRuns]:
    """Return the explored serving runs of publications with their predictions.

    Left out are engines that are ideal or borrow the profile of another release: the intervals of
    both have a part of their own.
    """
    found = []
    for source in outside_sources():
        counts = source["scale"] in SCALES and source["batch"] <= LAST_BATCH
        runs = list(_explored(source)) if counts else []
        if runs:
            found.append(_joined(source["title"], runs))
    return found


def _explored(source: Mapping[str, Any]) -> Iterator[SourceRuns]:
    for run in source["rows"]:
        fields = {**source["fields"], **run["fields"], "method": "formula"}
        engine = resolve_engine(fields.get("engine", "vllm"))
        if run["metric"] not in TIMES or half_of(run["id"]) != EXPLORED:
            continue
        if engine.borrowed or engine.name == "ideal":
            continue
        times, is_rate = TIMES[run["metric"]]
        measured_s = np.array([1.0 / run["value"] if is_rate else run["value"]])
        row = {"id": run["id"]}
        yield predicted_runs(source["title"], [row], [fields], measured_s, times)


def _joined(title: str, runs: Sequence[SourceRuns]) -> SourceRuns:
    """Return runs of one publication, which have different fields each, as one source."""
    names = ("measured_s", "predicted_s", "low_s", "high_s", "laboratory", "phase")
    reasons = [reason for run in runs for reason in run.refused]
    return replace(
        runs[0],
        source=title,
        kinds=tuple(chain(*(run.kinds for run in runs))),
        stacks=tuple(chain(*(run.stacks for run in runs))),
        parts=tuple(chain(*(run.parts for run in runs))),
        rows=tuple(chain(*(run.rows for run in runs))),
        refused={reason: reasons.count(reason) for reason in dict.fromkeys(reasons)},
        **{name: np.concatenate([getattr(run, name) for run in runs]) for name in names},
    )
