"""Published runs of collectives: never fitted to, errors stated, budgets that may only shrink."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.collectives import bus_bandwidth
from perfatlas.hardware import resolve_system
from perfatlas.lab.validate.published_collectives import published_runs, validate_published

# Mean absolute error per operation, and the least share inside the 90% interval.
BUDGETS = {"all_reduce": (0.27, 0.77), "dispatch": (0.41, 0.83), "combine": (0.31, 0.83)}


def test_every_run_names_its_source_and_one_measurement() -> None:
    runs = published_runs()
    assert len({run["id"] for run in runs}) == len(runs) > 50
    for run in runs:
        resolve_system(run["system"])
        assert len(run["source"]) > 30
        assert ("time_s" in run) != ("busbw_bytes_per_s" in run)


def test_bus_bandwidth_and_time_agree() -> None:
    # CoreWeave README, one NVL72 rack: 8 GiB in 20,299 us at 834.57 GB/s
    (row,) = (r for r in validate_published()["published"] if r["id"] == "nvl72-rack-8192mib")
    assert row["published_s"] == pytest.approx(20299e-6, rel=1e-4)
    found = bus_bandwidth(
        "all_reduce", np.array([2.0**33]), np.array([72.0]), np.array([row["published_s"]])
    )
    assert found[0] == pytest.approx(834.57e9, rel=1e-6)


def test_errors_stay_within_their_budgets() -> None:
    results = validate_published()
    totals = {row["op"]: row for row in results["published_totals"]}
    assert set(totals) == {*BUDGETS, "all"}
    for op, (mape, inside) in BUDGETS.items():
        assert totals[op]["mape"] <= mape
        assert totals[op]["inside_90"] >= inside
    assert sum(totals[op]["rows"] for op in BUDGETS) == totals["all"]["rows"]


@pytest.mark.parametrize("start", ["h100-8-nodes", "h100-node-ring", "b200-2-nodes"])
def test_nodes_of_eight_are_near(start: str) -> None:
    rows = [r for r in validate_published()["published"] if r["id"].startswith(start)]
    assert rows
    assert all(abs(row["error"]) <= 0.05 and row["inside_90"] for row in rows)
