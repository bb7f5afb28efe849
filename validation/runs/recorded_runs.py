"""Simulated and recorded engine runs with per-request times.

Shape legend: N requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments import ResolvedTraffic, run_traffic, service
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import request_latencies
from perfatlas.serving.requests import plain_requests, whole_ticks
from validation.runs.shared_data import missing_data, read_settings, read_table, shared_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.deployments import Service
    from validation.runs.run_selection import RecordedRun, ServingRules

Row = dict[str, Any]
FOLDER: Final = "serving_requests"
COLUMNS: Final = ("arrival_s", "input_tokens", "output_tokens", "first_token_s", "last_token_s")
FIGURES: Final = ("ttft_mean", "ttft_p99", "tpot_mean", "latency_mean", "makespan")


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Requests of a run in order of arrival; times [s] (N,)."""

    arrival_s: FloatArray
    first_s: FloatArray
    last_s: FloatArray
    osl_N: FloatArray

    def figures(self) -> dict[str, float]:
        """Return the compared figures [s]."""
        ttft_s = self.first_s - self.arrival_s
        tpot_s = (self.last_s - self.first_s) / np.maximum(self.osl_N - 1.0, 1.0)
        return {
            "ttft_mean": float(ttft_s.mean()),
            "ttft_p99": float(np.percentile(ttft_s, 99)),
            "tpot_mean": float(tpot_s.mean()),
            "latency_mean": float((self.last_s - self.arrival_s).mean()),
            "makespan": float(self.last_s.max() - self.arrival_s.min()),
        }


def compare_recorded(rules: ServingRules) -> tuple[list[Row], list[str]]:
    """Return recorded and simulated figures, and missing files.

    Args:
        rules: The rules, with runs and goals.

    Returns:
        One row per run and figure: `measured_s`, `predicted_s`, `error`, `goal_error`, `goal_met`;
        sentences of missing files.
    """
    rows: list[Row] = []
    missing: list[str] = []
    for recorded in rules.recorded:
        path = shared_folder() / FOLDER / f"{recorded.file}.csv"
        settings = path.with_suffix(".toml")
        absent = [file for file in (path, settings) if not file.is_file()]
        if absent:
            missing.append(missing_data(absent[0]))
        else:
            rows += _compared(recorded, path, read_settings(settings), rules)
    return rows, missing


def _compared(
    recorded: RecordedRun, path: Path, settings: Mapping[str, Any], rules: ServingRules
) -> list[Row]:
    columns = _columns(path)
    measured = Timed(
        arrival_s=columns["arrival_s"],
        first_s=columns["first_token_s"],
        last_s=columns["last_token_s"],
        osl_N=columns["output_tokens"],
    )
    ready, resolved = _deployed(recorded, settings["engine"], columns)
    were, are = measured.figures(), _simulated(ready, resolved).figures()
    rows = []
    for figure in FIGURES:
        error, goal = are[figure] / were[figure] - 1.0, rules.recorded_goal.get(figure)
        rows.append(
            {
                "run": recorded.name,
                "figure": figure,
                "measured_s": were[figure],
                "predicted_s": are[figure],
                "error": error,
                "goal_error": goal,
                "goal_met": "-" if goal is None else "yes" if abs(error) <= goal else "no",
            }
        )
    return rows


def _columns(path: Path) -> dict[str, FloatArray]:
    table = read_table(path)
    try:
        found = {
            name: np.array([float(row[name]) for row in table], np.float64) for name in COLUMNS
        }
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSpecError(f"{path} is not a table of timed requests: {error}") from None
    if not table or (np.diff(found["arrival_s"]) < 0.0).any():
        raise InvalidSpecError(f"{path}: requests are not in order of arrival")
    return found


def _deployed(
    recorded: RecordedRun, engine: Mapping[str, Any], columns: Mapping[str, FloatArray]
) -> tuple[Service, ResolvedTraffic]:
    """Return what served as the settings of a run state, and its requests."""
    ranks, tp = int(engine["data_parallel_size"]), int(engine["tensor_parallel_size"])
    fields: Row = {
        "model": recorded.model,
        "system": recorded.system,
        "engine": "vllm",
        "tp": tp,
        "max_num_seqs": engine["max_num_seqs"],
        "max_num_batched_tokens": engine["max_num_batched_tokens"],
        "measured_at": "engine",
    }
    if engine["enable_expert_parallel"]:
        fields |= {"attention_dp": ranks, "ep": ranks * tp}
    elif ranks > 1:
        fields |= {"dp": ranks}
    requests = plain_requests(
        whole_ticks(columns["arrival_s"] - columns["arrival_s"][0]),
        columns["input_tokens"].astype(np.int64),
        columns["output_tokens"].astype(np.int64),
    )
    resolved = ResolvedTraffic(requests, 0, (), ())
    traffic, scenario = split_fields(fields)
    return service(scenario, traffic, resolved), resolved


def _simulated(ready: Service, resolved: ResolvedTraffic) -> Timed:
    """Return the simulated requests of a run."""
    outcome = run_traffic(ready, resolved, Control())
    found = request_latencies(resolved.requests, outcome, ready.seen)
    return Timed(
        arrival_s=found.arrival_s,
        first_s=found.arrival_s + found.ttft_s,
        last_s=found.arrival_s + found.request_latency_s,
        osl_N=resolved.requests.osl_N[found.place_N].astype(np.float64),
    )
