"""Plans of a fleet over years: a plan worked by hand, laws of the linear program, refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfatlas import fleet_plan
from perfatlas.cli import main
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.reliability.fleet.laws import Weibull
from perfatlas.studies import fleet_plans
from perfatlas.studies.fleet_plans import Case, Priced, best_schedule, market_of, read_plan
from perfatlas.studies.fleet_plans.accounts import monthly_columns
from perfatlas.studies.fleet_plans.purchases import ShortError

if TYPE_CHECKING:
    from pathlib import Path

NO_FAILURES = """
units = 8
[[cause]]
name = "never"
per_unit = 1
lifetime = { law = "exponential", mean = "1e9 y" }
"""
TERMS = {
    "rate": 0.1, "life_years": 5, "residual_share": 0.1, "network_share": 0.5, "host_share": 0.0,
    "upkeep_share_per_year": 0.12, "colocation_usd_per_kw_month": 100.0, "usd_per_kwh": 0.1,
    "pue": 1.25,
}  # fmt: skip
DAY = 86400.0


def _study(folder: Path, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - tables of TOML
    fleet = folder / "never.toml"
    fleet.write_text(NO_FAILURES, "utf-8")
    chat = {"name": "chat", "tokens_per_day": 1000 * DAY, "peak_ratio": 2.0, "scenario": {"tp": 1}}
    study = {
        "start": "2026-01",
        "months": 12,
        "fleet": str(fleet),
        "sale_share": 1.0,
        "prices": {"ownership": TERMS},
        "workload": [chat],
        "machine": [{"system": "h200_sxm", "usd_per_gpu": 20000.0}],
    }
    return study | changes


def _priced(*rates: float, workloads: int = 1) -> Priced:
    rate_KW = np.repeat(np.array(rates)[:, None], workloads, axis=1)
    return Priced(
        rate_EKW=np.stack([rate_KW, 0.8 * rate_KW, 1.2 * rate_KW]),
        node_w_KW=np.full(rate_KW.shape, 1000.0),
        idle_w_K=np.full(len(rates), 400.0),
        devices_K=(8,) * len(rates),
    )


def _solved(study: dict[str, Any], *rates: float, **case: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - as above
    priced = _priced(*rates, workloads=len(study["workload"]))
    market, books = market_of(read_plan(study, "study"), priced, Case(**case))
    return market, books, best_schedule(market)


def test_a_plan_by_hand(tmp_path: Path) -> None:
    # 1,000 tokens/s, twice that at the peak, 100 tokens/s/GPU: 20 GPUs, 24 in nodes of 8, at once.
    # capital 20,000 x 1.5; a twelfth of 12% of it a month is upkeep: 300 USD; 100 USD of colocation
    market, books, plan = _solved(_study(tmp_path), 100.0)
    columns = monthly_columns(market, plan, books)
    assert plan.bought_V[0] == pytest.approx(24.0)
    assert plan.bought_V[1:] == pytest.approx(0.0, abs=1e-6)
    assert columns["capital_usd"][0] == pytest.approx(24 * 30000.0)
    assert columns["upkeep_usd"] == pytest.approx(24 * 300.0)
    assert columns["colocation_usd"] == pytest.approx(24 * 100.0)
    # 10 GPUs are busy in the mean, 20 at the peak; the others idle; PUE 1.25
    assert columns["mean_power_w"] == pytest.approx(1.25 * (24 * 400 + 10 * 600))
    assert columns["peak_power_w"] == pytest.approx(1.25 * (24 * 400 + 20 * 600))
    hours = 365.25 * 24 / 12
    assert columns["electricity_usd"] == pytest.approx(1.25 * 15.6 * hours * 0.1)
    assert columns["depreciation_usd"] == pytest.approx(24 * 30000 * 0.9 / 60)
    monthly = 24 * 400 + 1.25 * 15.6 * hours * 0.1
    discount = 1.1 ** (-np.arange(12) / 12)
    left = 24 * 20000 * 0.1 ** (1 / 5) / 1.1  # of the GPUs, not of their network
    assert plan.objective_usd == pytest.approx(24 * 30000 + monthly * discount.sum() - left)
    assert plan.bound_usd < plan.objective_usd
    assert columns["tokens"].sum() == pytest.approx(1000 * 365.25 * DAY)


def test_gpus_and_tokens_are_conserved(tmp_path: Path) -> None:
    workload = _study(tmp_path)["workload"][0] | {"growth_per_year": 30.0}
    machines = [
        {"system": "h100_sxm", "buy": False, "usd_per_gpu": 1.0,
         "owned": [{"gpus": 40, "delivered": "2023-01"}],
         "lifetime": {"law": "weibull", "shape": 2.0, "scale": "6 y"}},
        {"system": "b200_sxm", "usd_per_gpu": 9000.0, "max_gpus_per_month": 8},
        {"system": "h200_sxm", "buy": False, "rent_usd_per_gpu_hour": 9.0},
    ]  # fmt: skip
    study = _study(tmp_path, workload=[workload], machine=machines, sale_share=1.0)
    market, books, plan = _solved(study, 50.0, 150.0, 100.0)
    columns = monthly_columns(market, plan, books)
    gone = columns["retired_gpus"] + columns["lost_gpus"] + columns["spare_gpus"]
    changed = columns["delivered_gpus"] - gone
    installed = columns["installed_gpus"]
    assert np.diff(installed) == pytest.approx(changed[1:])
    assert installed[0] == pytest.approx(40.0 + changed[0])
    assert columns["lost_gpus"].sum() > 0.1
    served = plan.served_KWT.sum(0) + plan.rented_served_KWT.sum(0) + plan.unserved_WT
    assert served == pytest.approx(market.demand_WT)
    assert columns["delivered_gpus"].max() <= 8.0
    assert columns["rented_gpus"].max() > 0.0


@pytest.mark.parametrize(("hourly", "rented"), [(0.5, True), (9.0, False)])
def test_rent_is_chosen_where_it_costs_less(
    tmp_path: Path,
    hourly: float,
    rented: bool,  # noqa: FBT001 - a case
) -> None:
    machine = {"system": "h200_sxm", "usd_per_gpu": 20000.0, "rent_usd_per_gpu_hour": hourly}
    # a year of a GPU that is bought: 30,000 less 0.63 of it, upkeep, space and power: 19,000 USD
    _, _, plan = _solved(_study(tmp_path, machine=[machine]), 100.0)
    assert (plan.rented_KT.sum() > 0.0) == rented
    assert (plan.bought_V.sum() > 0.0) != rented


def test_a_token_is_served_where_it_pays(tmp_path: Path) -> None:
    chat = _study(tmp_path)["workload"][0]
    for usd, served in ((0.01, False), (100.0, True)):
        study = _study(tmp_path, workload=[chat | {"usd_per_million_tokens": usd}])
        _, _, plan = _solved(study, 100.0)
        assert (plan.unserved_WT.sum() < 1e-6) == served


def test_power_limits_what_is_bought_and_has_a_value(tmp_path: Path) -> None:
    machines = [
        {"system": "h200_sxm", "usd_per_gpu": 10000.0},
        {"system": "b200_sxm", "usd_per_gpu": 30000.0},
    ]
    free, _, cheap = _solved(_study(tmp_path, machine=machines), 100.0, 200.0)
    assert cheap.bought_V[free.machine_V == 0].sum() > 0.0
    assert cheap.power_value_T == pytest.approx(0.0)
    study = _study(tmp_path, machine=machines, site_power="15kW")
    market, books, dear = _solved(study, 100.0, 200.0)
    columns = monthly_columns(market, dear, books)
    assert columns["peak_power_w"].max() <= 15e3 * (1 + 1e-9)
    assert dear.bought_V[market.machine_V == 1].sum() > 0.0
    assert dear.objective_usd > cheap.objective_usd
    assert dear.power_value_T.max() > 0.0
    # the value of power is the slope of the least cost
    more = _study(tmp_path, machine=machines, site_power="15.01kW")
    saved = dear.bound_usd - _solved(more, 100.0, 200.0)[2].bound_usd
    assert saved == pytest.approx(10.0 * dear.power_value_T.sum(), rel=0.02)


def test_the_parts_of_the_cost_sum_to_it(tmp_path: Path) -> None:
    chat = _study(tmp_path)["workload"][0] | {
        "growth_per_year": 4.0,
        "usd_per_million_tokens": 40.0,
    }
    machines = [
        {"system": "h100_sxm", "usd_per_gpu": 20000.0, "price_change_per_year": -0.6,
         "owned": [{"gpus": 40, "delivered": "2023-01"}],
         "lifetime": {"law": "weibull", "shape": 2.0, "scale": "6 y"}},
        {"system": "b200_sxm", "usd_per_gpu": 20000.0, "available": "2026-06"},
        {"system": "h200_sxm", "buy": False, "rent_usd_per_gpu_hour": 3.0, "max_rented_gpus": 9},
    ]  # fmt: skip
    study = read_plan(_study(tmp_path, workload=[chat], machine=machines, sale_share=0.8), "study")
    planned = fleet_plans.Planned.of(study, _priced(50.0, 300.0, 100.0))
    parts = {row["name"]: row["usd"] for row in planned.breakdown()}
    assert sum(parts.values()) == pytest.approx(planned.cost_usd)
    assert parts["value at the end"] < 0.0
    assert parts["rent"] > 0.0
    ends = planned.ends_usd()
    assert ends["low"] is not None
    assert ends["high"] is not None
    assert ends["low"] <= planned.cost_usd <= ends["high"]
    own, *others = planned.other_assumptions()
    assert (own["assumption"], own["cost_change_usd"]) == ("as in the study", 0.0)
    names = [row["assumption"] for row in others]
    assert "purchase prices at low end" not in names  # they have no interval
    assert "electricity price at high end" not in names


def test_a_few_gpus_do_not_become_a_rack(tmp_path: Path) -> None:
    machines = [
        {"system": "h200_sxm", "usd_per_gpu": 20000.0, "gpus_per_order": 8},
        {"system": "gb200", "usd_per_gpu": 30000.0, "gpus_per_order": 72},
    ]
    study = read_plan(_study(tmp_path, machine=machines), "study")
    market, _ = market_of(study, _priced(100.0, 180.0), Case())
    plan = best_schedule(market)
    assert plan.bought_V[market.machine_V == 1].sum() == pytest.approx(0.0, abs=1e-6)
    assert plan.bought_V[market.machine_V == 0].sum() == pytest.approx(24.0)


def test_used_gpus_are_never_worth_more_than_new_ones(tmp_path: Path) -> None:
    falling = {"system": "h200_sxm", "usd_per_gpu": 20000.0, "price_change_per_year": -0.6}
    market, _, plan = _solved(_study(tmp_path, machine=[falling], months=24), 100.0)
    assert plan.bought_V.sum() == pytest.approx(24.0)  # nothing is bought to be sold
    first = market.resale_VT[0]
    assert first[12] == pytest.approx(20000.0 * 0.4 * 0.1 ** (1 / 5))


def test_months_are_those_of_the_study(tmp_path: Path) -> None:
    late = {"from": "2026-07", "growth_per_year": 3.0}
    chat = _study(tmp_path)["workload"][0] | late
    rented = {"system": "h200_sxm", "buy": False, "rent_usd_per_gpu_hour": 1.0,
              "available": "2026-07"}  # fmt: skip
    market, _, plan = _solved(_study(tmp_path, workload=[chat], machine=[rented]), 100.0)
    assert market.demand_WT[0, 5:7].tolist() == pytest.approx([0.0, 1000.0])  # not grown before
    assert (plan.rented_KT[0] > 0.0).tolist() == [False] * 6 + [True] * 6
    few = {"system": "h200_sxm", "usd_per_gpu": 1.0, "max_gpus_per_month": 8}
    quarterly = _study(tmp_path, machine=[few], deliver_every_months=3)
    _, _, plan = _solved(quarterly, 100.0)
    assert plan.bought_V[0] == pytest.approx(24.0)  # three months of deliveries


@pytest.mark.parametrize("tokens_per_day", [1e4, 1e9, 1e14])
def test_demands_of_all_sizes_are_solved(tmp_path: Path, tokens_per_day: float) -> None:
    chat = _study(tmp_path)["workload"][0] | {"tokens_per_day": tokens_per_day}
    _, _, plan = _solved(_study(tmp_path, workload=[chat], site_power="1TW"), 100.0)
    needed = 2.0 * tokens_per_day / DAY / 100.0
    assert plan.bought_V.sum() == pytest.approx(8.0 * math.ceil(needed / 8.0 - 1e-6))


def test_a_shortage_is_that_of_what_must_be_served(tmp_path: Path) -> None:
    chat = _study(tmp_path)["workload"][0]
    paid = chat | {"name": "paid", "usd_per_million_tokens": 1000.0, "tokens_per_day": 1e4 * DAY}
    study = _study(tmp_path, workload=[chat, paid], site_power="20kW")
    with pytest.raises(ShortError, match=r"chat: 20% of") as short:  # 16 GPUs at 1.25 kW
        _solved(study, 100.0)
    assert short.value.share == pytest.approx(0.2)
    few = {"system": "h200_sxm", "buy": False, "rent_usd_per_gpu_hour": 1.0,
           "max_rented_gpus": 20 * (1 - 5e-7)}  # fmt: skip
    with pytest.raises(ShortError, match=r"chat: 5e-05% of the demand|max_rented_gpus limit"):
        _solved(_study(tmp_path, machine=[few]), 100.0)


def test_first_orders_are_those_of_the_earliest_months(tmp_path: Path) -> None:
    chat = _study(tmp_path)["workload"][0] | {"from": "2026-02", "growth_per_year": 20.0}
    machines = [
        {"system": "h200_sxm", "usd_per_gpu": 20000.0},
        {"system": "b200_sxm", "usd_per_gpu": 9000.0, "lead_time_months": 6},
    ]
    study = _study(tmp_path, workload=[chat], machine=machines)
    planned = fleet_plans.Planned.of(read_plan(study, "study"), _priced(100.0, 150.0))
    orders = planned.results()["orders"]
    assert [row["order"] for row in orders] == sorted(row["order"] for row in orders)
    assert orders[0]["system"] == "b200_sxm"
    assert orders[0]["delivery"] == "2026-07"


def test_more_demand_and_slower_gpus_cost_more(tmp_path: Path) -> None:
    chat = _study(tmp_path)["workload"][0]
    growth = {"value": 1.0, "low": 0.5, "high": 2.0}
    study = _study(tmp_path, workload=[chat | {"growth_per_year": growth}])
    base = _solved(study, 100.0)[2].bound_usd
    assert _solved(study, 100.0, growth="low")[2].bound_usd < base
    assert _solved(study, 100.0, growth="high")[2].bound_usd > base
    assert _solved(study, 100.0, rates="low")[2].bound_usd > base
    assert _solved(study, 100.0, rates="high")[2].bound_usd < base


def test_demand_that_cannot_be_met_names_its_month(tmp_path: Path) -> None:
    machine = {"system": "h200_sxm", "usd_per_gpu": 1.0, "available": "2026-03"}
    with pytest.raises(InfeasibleError, match=r"chat: 100% of the demand of 2026-01"):
        _solved(_study(tmp_path, machine=[machine]), 100.0)
    late = {"system": "h200_sxm", "usd_per_gpu": 1.0, "lead_time_months": 2}
    chat = _study(tmp_path)["workload"][0] | {"from": "2026-03"}
    _, _, plan = _solved(_study(tmp_path, machine=[late], workload=[chat]), 100.0)
    assert plan.installed_VT[:, :2].sum() == 0.0


def test_wear_raises_failures_with_age(tmp_path: Path) -> None:
    path = tmp_path / "worn.toml"
    path.write_text(
        'units = 8\n[[cause]]\nname = "fan"\nper_unit = 1\nas_old = true\n'
        'lifetime = { law = "weibull", shape = 2.0, scale = "1000 d" }\n'
        '[[repair]]\nname = "swap"\nstages = [{ name = "swap", lasts = "2 d" }]\n',
        "utf-8",
    )
    ages = np.array([0.0, 500 * DAY])
    found = fleet_plans.node_failures(str(path), 8, ages, DAY)
    # the mean hazard of a day from age a: ((a + 1)^2 - a^2) / 1000^2 a day
    assert found.rate_per_s_A * DAY == pytest.approx([1e-6, 1001e-6])
    assert found.down_A == pytest.approx([2e-6, 2002e-6])
    half = fleet_plans.node_failures(str(path), 4, ages, DAY)
    assert half.rate_per_s_A == pytest.approx(found.rate_per_s_A / 2.0)
    law = Weibull(shape=2.0, scale_s=1000 * DAY)
    kept = fleet_plans.surviving(law, ages)
    assert kept == pytest.approx([1.0, math.exp(-0.25)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start": "July 2026"}, "start = 'July 2026': expected a month"),
        ({"months": 0}, "months"),
        ({"months": 10**30}, "out of range"),
        ({"machine": []}, r"0 \[\[machine\]\]: expected 1 to"),
        ({"site_power": "-5MW"}, "site_power"),
        ({"machine": [{"system": "h200_sxm"}] * 2}, "listed twice"),
        ({"machine": [{"system": "h200_sxm", "buy": False}]}, "buy = false needs"),
        (
            {"machine": [{"system": "h200_sxm", "owned": [{"gpus": 8, "delivered": "2027-01"}]}]},
            "delivered by the start",
        ),
        ({"machine": [{"system": "h200_sxm", "power": "1kW"}]}, "power and idle_power together"),
        (
            {"machine": [{"system": "h200_sxm", "usd_per_gpu": {"value": 1, "low": 2, "high": 3}}]},
            "low <= value <= high",
        ),
        ({"sizes": 1}, "unknown key 'sizes'"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        read_plan(_study(tmp_path) | change, "study")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verb": "train"}, "checkpoint_write and restart must be set"),
        ({"restart": "1 h"}, "apply only to verb = 'train'"),
        ({"until": "2025-12"}, "leave no month"),
        ({"scenario": {"system": "h200_sxm"}}, "each .*machine.* has its own"),
        ({"peak_ratio": 0.5}, "peak_ratio"),
        ({"tokens_per_day": float("nan")}, "tokens_per_day"),
    ],
)
def test_wrong_workloads_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    chat = _study(tmp_path)["workload"][0] | change
    with pytest.raises(InvalidSpecError, match=words):
        read_plan(_study(tmp_path, workload=[chat]), "study")


def test_a_machine_without_a_price_is_refused(tmp_path: Path) -> None:
    study = read_plan(_study(tmp_path, machine=[{"system": "l40s"}]), "study")
    with pytest.raises(InvalidSpecError, match="no purchase price is known; set usd_per_gpu"):
        market_of(study, _priced(100.0), Case())


SERVED = {"model": "meta-llama/Llama-3.1-8B", "batch": 64, "isl": 1024, "osl": 256}


def test_the_verb_prices_machines_by_estimates_and_searches() -> None:
    chat = {"name": "chat", "tokens_per_day": 1e10, "scenario": SERVED}
    searched = {
        "name": "code", "verb": "search", "tokens_per_day": 1e9,
        "scenario": {"model": SERVED["model"], "gpus": 2, "isl": 1024, "osl": 256,
                     "slo_tpot_s": 0.02},
    }  # fmt: skip
    trained = {
        "name": "training", "verb": "train", "tokens_per_day": 1e9, "checkpoint_write": "30 s",
        "restart": "10 min",
        "scenario": {"model": SERVED["model"], "tp": 2, "dp": 4, "global_batch": 64},
    }  # fmt: skip
    study = {
        "start": "2026-07", "months": 6, "workload": [chat, searched, trained],
        "machine": [{"system": "h200_sxm"}], "gco2_per_kwh": 400.0,
    }  # fmt: skip
    found = fleet_plan(study, sensitivity=False)
    rows = {row["workload"]: row for row in found.results["machines"]}
    assert 0.9 < rows["training"]["goodput"] < 1.0
    assert "concurrency" in rows["code"]["plan"]
    assert found.results["emitted_gco2"] > 0.0
    assert len(found.columns["month"]) == 6
    shares = [row["share"] for row in found.answer.breakdown if row["share"] > 0.0]
    assert sum(shares) == pytest.approx(1.0)


def test_machines_that_cannot_run_a_workload_are_named() -> None:
    scenario = {"model": "meta-llama/Llama-3.1-405B", "batch": 1, "isl": 128, "osl": 16, "tp": 1}
    study = {
        "start": "2026-07", "months": 2, "machine": [{"system": "h200_sxm"}],
        "workload": [{"name": "large", "tokens_per_day": 1e6, "scenario": scenario}],
    }  # fmt: skip
    with pytest.raises(InfeasibleError, match="no machine can run workload large: h200_sxm: "):
        fleet_plan(study)


def test_the_shipped_plan_fits_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, page = tmp_path / "months.csv", tmp_path / "page.html"
    words = ["fleet", "plan", "llama_70b_service", "--output", str(table), "--html", str(page)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "First decision: order" in out
    assert "Under other assumptions".lower() in out
    assert len(out.splitlines()) <= 33
    assert len(table.read_text("utf-8").splitlines()) == 49
    text = page.read_text("utf-8")
    assert "Power of the site" in text
    assert "Rubin" in text or "rubin" in text


def test_an_unknown_plan_names_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "plan", "llama_70b", "--json"]) == 3
    assert "llama_70b_service" in json.dumps(capsys.readouterr().out)


def test_orders_of_fractions_are_rounded_up(tmp_path: Path) -> None:
    chat = _study(tmp_path)["workload"][0] | {"growth_per_year": 1.0}
    study = read_plan(_study(tmp_path, workload=[chat]), "study")
    market, _ = market_of(study, _priced(100.0), Case())
    plan = best_schedule(market)
    assert (plan.bought_V % 8.0) == pytest.approx(0.0, abs=1e-6)
    relaxed = fleet_plans.relaxed_schedule(market)
    total, whole = np.cumsum(relaxed.bought_V), np.cumsum(plan.bought_V)
    assert (whole >= total - 1e-6).all()
    assert (whole < total + 8.0).all()
    larger = replace(market, gpus_per_order_K=np.array([72]))
    assert best_schedule(larger).objective_usd > plan.objective_usd
