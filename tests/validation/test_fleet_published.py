from __future__ import annotations

from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Literal

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.closed_form import optimal_interval_s, renewal_efficiency
from perfatlas.reliability.fleet.model import (
    Fleet,
    Job,
    Level,
    Restart,
    Spares,
    Strategy,
    find_rate,
    published_durations,
    published_rates,
)
from perfatlas.reliability.fleet.model.catalog import published_cause
from perfatlas.reliability.fleet.simulator import simulate
from validation.fleet.anchors import published_anchors

DATA = resources.files("validation").joinpath("data")
TABLE = DATA.joinpath("published_figures.csv")
HEAD = "source,metric,value,value_max,qualifier,unit,n_gpus\n"


def test_every_published_figure_is_listed_once_with_a_reason() -> None:
    rows = published_anchors()
    assert len(rows) == TABLE.read_text("utf-8").count("\n") - 1
    assert all(row.why for row in rows)
    counts = Counter(row.status for row in rows)
    assert counts == {
        "reproduced": 1, "consistent": 11, "arithmetic": 10, "missed": 8, "declined": 104,
    }  # fmt: skip
    missed = {(row.metric, row.published) for row in rows if row.status == "missed"}
    assert missed == {
        ("job_mttf_measured", "47.7 d"),
        ("node_failure_rate_needed_for_ettr_0.9_at_12000_gpus", "~1 1/(1000 node-d)"),
        ("checkpoint_write_time_needed_for_ettr_0.9_at_12000_gpus", "~10 s"),
        ("ettr_formula_error_vs_monte_carlo", "~5 %"),
        ("GPU-related_share", "45.6 %"),
        ("fault_share[ecc]", "25.7 %"),
        ("step-commit_@15_s_MTBF", "30.2 %"),
        ("ckpt_time_at_20_Gbps_remote_storage", "42 min"),
    }
    # a figure is off by how much, unless it is a bound that holds or inside a range
    assert all(row.off is not None for row in rows if row.status in ("reproduced", "missed"))
    assert all(row.off is None for row in rows if row.status == "consistent")


def test_figures_of_one_cluster_by_rates_of_others_by_hand() -> None:
    rows = {(row.metric, row.published): row for row in published_anchors()}

    def ends(metric: str, published: str) -> tuple[float, float]:
        row = rows[metric, published]
        return row.ours or 0.0, row.ours_max or row.ours or 0.0

    expected = 33 * 128 * 24 / 7.9 / 128  # days, nodes, interruptions of a node a day
    assert ends("restarts", "~90 count") == pytest.approx(
        (expected - 1.96 * expected**0.5, expected + 1.96 * expected**0.5), rel=1e-4
    )
    assert ends("machine_attrition", "~2 machines/d") == pytest.approx(
        (128 * 0.0065, 24 / 7.9), rel=1e-4
    )
    again = 60 * (1 / 0.823 - 1)
    assert ends("step-commit_@15_s_MTBF", "30.2 %") == pytest.approx(
        (100 * 0.823**4, 100 * 15 / (15 + again))
    )
    assert rows["step-commit_@15_s_MTBF", "30.2 %"].off == pytest.approx(82.3**4 / 1e6 / 30.2 - 1)
    per_day = 12288 / 16384 * 419 / 54
    assert ends("repairs_and_recoveries", ">100 count over weeks") == pytest.approx(
        (14 * per_day, 56 * per_day)
    )
    hours = 24 / (1536 * 0.0065), 24 / per_day
    assert ends("effective_training_time", ">90 %") == pytest.approx(
        tuple(100 * mtti / (mtti + 25 / 60) for mtti in hours)
    )
    # a fault an hour, 6.75 min of 100 steps redone, 15 or 30 min to restart
    name = "time_for_3000_steps_with_injected_faults[checkpoint restart]"
    assert ends(name, "818 min") == pytest.approx((405 / (1 - 21.75 / 60), 405 / (1 - 36.75 / 60)))
    assert ends("GPU-related_share", "45.6 %")[0] == pytest.approx(100 * 268 / 419)
    assert ends("fault_share[ecc]", "25.7 %")[0] == pytest.approx(100 * 91 / 419)
    assert ends("nccl_init_time_after", "<30 s")[0] == pytest.approx(10_000 * 5 / 2048)
    assert rows["nccl_init_time_after", "<5 s"].status == "declined"  # what the other is made of


def test_what_12000_gpus_need_solves_its_own_equation() -> None:
    rows = {row.metric: row for row in published_anchors()}
    write_s = rows["checkpoint_write_time_needed_for_ettr_0.9_at_12000_gpus"].ours or 0.0
    mtti_s = 16 * 3600.0  # 1,500 nodes that fail once in 1,000 days
    best_s = float(optimal_interval_s(write_s, mtti_s))
    assert float(renewal_efficiency(best_s, write_s, 300.0, mtti_s).value_C) == pytest.approx(0.9)
    largest = rows["ETTR_largest_jobs"]
    best_s = float(optimal_interval_s(300.0, 7.9 * 3600))
    low = float(renewal_efficiency(best_s, 300.0, 300.0, 7.9 * 3600).value_C)
    assert largest.ours == pytest.approx(low, rel=1e-4)


def test_a_range_that_a_figure_is_outside_of_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    name = "NVIDIA NTP arXiv:2504.06095,share_of_time_above_0.1pct_gpus_failed"
    effective = "Meta Llama 3 (2024),effective_training_time"
    path.write_text(
        HEAD + f"{name},81,,=,%,\n{name},90,,=,%,\n{effective},99,,>,%,16384\n", "utf-8"
    )
    found = [row.status for row in published_anchors(path)]
    assert found == ["consistent", "missed", "missed"]


def test_a_figure_without_a_rule_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    path.write_text(HEAD + "Somebody,a new metric,1,,=,h,8\n", "utf-8")
    with pytest.raises(InvalidSpecError, match="neither a rule nor a reason"):
        published_anchors(path)
    path.write_text(HEAD + "Somebody,a new metric,one,,=,h,8\n", "utf-8")
    with pytest.raises(InvalidSpecError, match="'one' is not a number"):
        published_anchors(path)
    share = "Alibaba Aegis NSDI'25,GPU-related_share,45.6,,=,%,\n"
    path.write_text(HEAD + share, "utf-8")
    with pytest.raises(InvalidSpecError, match="the table has none"):
        published_anchors(path)
    path.write_text("source,metric\n", "utf-8")
    with pytest.raises(InvalidSpecError, match="no column value"):
        published_anchors(path)


def test_a_wrong_figure_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    name = "NVIDIA NTP arXiv:2504.06095,usable_fraction_with_0.1pct_gpus_failed"
    path.write_text(HEAD + f"{name},94,,=,%,\n{name},97,,=,%,\n", "utf-8")
    right, wrong = published_anchors(path)
    assert (right.status, wrong.status) == ("reproduced", "missed")
    assert wrong.off == pytest.approx(100 * 0.999**64 / 97 - 1)


def test_catalog_rates_carry_kind_source_and_interval() -> None:
    llama = find_rate("llama3_node_unexpected")
    assert llama.per_day == pytest.approx(3.7887e-3, rel=1e-4)
    assert llama.low_per_day is not None
    assert llama.high_per_day is not None
    assert llama.low_per_day / llama.per_day == pytest.approx(0.907, abs=1e-3)
    assert llama.high_per_day / llama.per_day == pytest.approx(1.100, abs=1e-3)
    for rate in published_rates().values():
        assert rate.rate_kind
        assert rate.source
        assert rate.evidence in ("read", "note", "hearsay", "derived")
        assert rate.per_day > 0
    assert all(d.low_s <= d.high_s and d.source for d in published_durations().values())
    causes = [rate for rate in published_rates().values() if rate.name.startswith("llama3_")]
    counted = sum(
        rate.per_day * {"gpu": 884_736, "node": 110_592, "job": 54}[rate.of]
        for rate in causes
        if rate.name not in ("llama3_node_unexpected", "llama3_node_all")
    )
    assert counted == pytest.approx(419.0)
    with pytest.raises(InvalidSpecError, match="did you mean 'rsc1_node'"):
        find_rate("rsc1_nodes")


def test_what_a_rate_is_of_must_be_known() -> None:
    for name in ("aegis_h100", "aegis_a100"):
        with pytest.raises(InvalidSpecError, match="per an unknown unit"):
            published_cause(name, per_unit=8.0)
    with pytest.raises(InvalidSpecError, match="per job, and its source does not state the GPUs"):
        published_cause("gemini_sdc")
    with pytest.raises(InvalidSpecError, match="per node, and its source does not state the GPUs"):
        published_cause("tpu_v4_machine")
    assert published_cause("gemini_sdc", shared=1.0).shared == 1.0
    assert published_cause("tpu_v4_machine", per_unit=1.0).per_unit == 1.0
    assert published_cause("llama3_software", shared=1.0).per_unit == 0.0


def test_what_takes_nothing_out_does_not_strike_in_a_spare() -> None:
    software = published_cause("llama3_software", gpus_per_unit=8)
    fleet = Fleet(units=4096, causes=(software,))
    job = Job(fleet=fleet, units=2048, horizon_s=54 * 86400.0)
    counts = []
    kinds: tuple[Literal["cold", "hot"], ...] = ("cold", "hot")
    for kind in kinds:
        strategy = Strategy(
            interval_s=600.0,
            levels=(Level(write_s=5.0),),
            restarts=(Restart(name="restart", phases={"all": 1.0}),),
            spares=Spares(count=2048, kind=kind),
        )
        counts.append(simulate(job, strategy, replicas=50, seed=3).mtti_s)
    assert counts[0] == pytest.approx(counts[1])
    assert counts[0] == pytest.approx(54 * 86400 / 63, rel=0.05)
