"""A limit of the power of a job among the layouts of a search."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.quantities import InfeasibleError, UnsupportedError
from perfatlas.verbs.train import search_training, train

SEARCH: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "max_gpus": 32,
    "global_batch": 64,
    "num_layouts": 1,
}


def job_power_w(row: dict[str, Any]) -> float:
    """Return the AC power of the nodes of a layout, as `train` answers it."""
    sizes = ("gpus", "tp", "pp", "cp", "vpp", "micro_batch", "zero", "recompute")
    told = {name: row[name] for name in sizes} | {"pipeline_schedule": row["pipeline_schedule"]}
    fields = {name: SEARCH[name] for name in ("model", "system", "global_batch")}
    found = train(**fields, **told).results
    return float(found["node_power_w"] * found["gpus"] / 8)


def test_the_best_layout_keeps_the_limit() -> None:
    free = search_training(**SEARCH).results
    most_w = job_power_w(free["layouts"][0])
    limited = search_training(**SEARCH, max_job_power_w=0.6 * most_w).results
    assert job_power_w(limited["layouts"][0]) <= 0.6 * most_w
    assert limited["layouts"][0]["gpus"] < free["layouts"][0]["gpus"]
    assert limited["rejected_layouts"]["max_job_power_w"] > 0
    above = search_training(**SEARCH, max_job_power_w=2.0 * most_w).results
    assert above["layouts"] == free["layouts"]


def test_what_no_layout_keeps_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="max_job_power_w = 100 W"):
        search_training(**SEARCH, max_job_power_w=100)
    with pytest.raises(UnsupportedError, match="max_job_power_w"):
        search_training(
            **SEARCH | {"system": "h100_sxm{device.architecture=other}"}, max_job_power_w=1e6
        )
