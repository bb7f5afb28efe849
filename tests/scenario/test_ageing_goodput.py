"""Jobs on fleets whose parts age."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.verbs.goodput import fleet_goodput, goodput

WEARING = """
units = {units}
gpus_per_unit = 8
[[cause]]
name = "node"
lifetime = {{ law = "weibull", shape = {shape}, scale = "{scale} d" }}
per_unit = 8
{ages}
[[repair]]
name = "swap"
stages = [ {{ name = "swap", lasts = {{ law = "constant", value = "1 h" }} }} ]
"""
JOB = {"checkpoint_write_s": 60.0, "restart_s": 300.0, "half_width": 0.005}


def asked(
    folder: Path, shape: float, scale: float, ages: str = "", nodes: int = 2048
) -> dict[str, object]:
    path = folder / "fleet.toml"
    text = WEARING.format(units=nodes + nodes // 64, shape=shape, scale=scale, ages=ages)
    path.write_text(text, encoding="utf-8")
    return {"fleet": str(path), "gpus": 8 * nodes, **JOB}


# infant mortality fails 512 nodes as often as wear 2,048: the simulation takes as long
@pytest.mark.parametrize(
    ("shape", "scale", "nodes"),
    [(3.0, 300.0, 2048), pytest.param(0.5, 3000.0, 512, marks=pytest.mark.study)],
)
def test_no_interval_beats_the_one_called_optimal_where_parts_age(
    tmp_path: Path, shape: float, scale: float, nodes: int
) -> None:
    fields = asked(tmp_path, shape, scale, nodes=nodes)
    best = fleet_goodput(**fields).answer
    best_s = best.results["optimal_checkpoint_interval_s"]
    assert best.results["checkpoint_interval_s"] == best_s
    assert any("covers the age of parts" in said for said in best.evidence.assumptions)
    for factor in (0.1, 0.3, 0.6, 1.6, 3.0, 10.0):
        other = fleet_goodput(**fields, checkpoint_interval_s=factor * best_s).answer
        assert other.results["goodput"] <= best.results["goodput"] + 0.001


def test_a_gain_by_the_optimal_interval_is_no_loss_where_parts_age(tmp_path: Path) -> None:
    fields = asked(tmp_path, 3.0, 300.0) | {"what_if": True, "checkpoint_interval_s": 360.0}
    rows = fleet_goodput(**fields).answer.results["changes"]
    gains = {row["name"]: row["gained_gpu_hours"] for row in rows}
    assert gains["checkpoints at the best interval found"] > 1e6


def test_no_optimal_interval_is_named_if_none_is_found() -> None:
    # 64 nodes of 40 d fail every 15 h; the best stretch is far beyond a tenth of an hour
    fields = {"gpus": 512, "node_mtbf_s": 40 * 86400.0, "checkpoint_write_s": 30.0}
    found = goodput(**fields, restart_s=300.0, failure_shape=0.7, duration_s=3600.0)
    assert found.results["optimal_checkpoint_interval_s"] is None
    assert any("no optimum was found, that of memoryless" in s for s in found.evidence.assumptions)
    # Daly: sqrt(2 x 30 s x 15 h) (1 + sqrt(30 s / 30 h) / 3) - 30 s = 1800 s x (1 + 1/180) - 30 s
    assert found.results["checkpoint_interval_s"] == pytest.approx(1780.0, rel=1e-4)


def test_the_simple_form_searches_where_nodes_age() -> None:
    fields = {"gpus": 512, "node_mtbf_s": 40 * 86400.0, "checkpoint_write_s": 30.0}
    found = goodput(**fields, restart_s=300.0, failure_shape=0.7)
    assert any("mixed ages" in said for said in found.evidence.assumptions)
    best_s = found.results["optimal_checkpoint_interval_s"]
    for factor in (0.2, 5.0):
        other = goodput(
            **fields, restart_s=300.0, failure_shape=0.7, checkpoint_interval_s=factor * best_s
        )
        assert other.results["goodput"] < found.results["goodput"]
