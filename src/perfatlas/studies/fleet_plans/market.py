"""The market of a study: prices, power, ageing and demand by month.

Shape legend: K machines, W workloads, T months, V cohorts, E ends of
intervals (value, low, high).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.cost import capital_usd
from perfatlas.quantities import HOUR_S, InvalidSpecError
from perfatlas.studies.fleet_plans.ageing import MONTH_S, node_failures, surviving
from perfatlas.studies.fleet_plans.purchases import Market
from perfatlas.studies.fleet_plans.study import MONTHS_PER_YEAR, Ends, month_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.studies.fleet_plans.purchases import FloatArray, IntArray
    from perfatlas.studies.fleet_plans.rates import Priced
    from perfatlas.studies.fleet_plans.study import PlanStudy

W_PER_KW: Final = 1000.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """Which end of each interval a market has: the name of a field of `Ends`."""

    rates: str = "value"
    growth: str = "value"
    prices: str = "value"
    tariff: str = "value"  # End of the terms of ownership that the electricity price has
    growth_factor: float = 1.0
    delayed: Mapping[int, int] = field(default_factory=dict)  # Months of delay by machine


@dataclass(frozen=True, kw_only=True)
class Books:
    """What accounts need beside the market."""

    paid_V: FloatArray  # Capital of a GPU [USD]
    depreciation_VT: FloatArray  # Book loss of a GPU in a month [USD]
    book_VT: FloatArray  # Book value of a GPU at the start of a month (V, T + 1) [USD]
    failing_VT: FloatArray  # Failures of nodes in a month, per GPU


def market_of(study: PlanStudy, priced: Priced, case: Case) -> tuple[Market, Books]:
    """Return the market of a study in a case.

    Raises:
        InvalidSpecError: A machine for sale has no price, or its fleet is invalid.

    Source: capital keeps residual_share^(age / life) of its value (25 to 35% after 36 months are
        published, data/prices.toml); books lose (1 - residual_share) / life of it each year.
    Limits: GPUs in place have cost what such a GPU costs at the start.
    """
    terms, months = study.prices.terms["value"], study.months
    year_T = np.arange(months) / MONTHS_PER_YEAR
    life, residual = terms["life_years"], terms["residual_share"]
    shares = 1.0 + terms["network_share"] + terms["host_share"]
    capital_KT = shares * _gpu_price(study, case, year_T)
    cohorts = _cohorts(study, case)
    machine_V: IntArray = np.array([machine for machine, _, _, _ in cohorts], np.int64)
    start_V = np.array([start for _, start, _, _ in cohorts], np.int64)
    owned_V = np.array([gpus for _, _, gpus, _ in cohorts], float)
    age_V = np.array([age for _, _, _, age in cohorts], float)  # months at start_V
    paid_V = capital_KT[machine_V, start_V]
    since_VT = np.arange(months + 1) - start_V[:, None]
    age_VT: FloatArray = age_V[:, None] + since_VT.astype(float)
    years_VT = np.maximum(age_VT, 0.0) / MONTHS_PER_YEAR
    working_VT, kept_VT, failing_VT = _ageing(study, priced, machine_V, age_VT)
    node_w_K = np.maximum(priced.node_w_KW.max(axis=1), priced.idle_w_K)
    included = terms["colocation_includes_power"] != 0.0
    tariff = 0.0 if included else study.prices.terms[case.tariff]["usd_per_kwh"]
    colocation_K = terms["colocation_usd_per_kw_month"] * node_w_K / W_PER_KW
    growth = (1.0 + study.electricity_change_per_year) ** year_T
    # of the GPU alone, and never above a new one: its network and host are not sold
    gpu_KT = _gpu_price(study, case, np.arange(months + 1) / MONTHS_PER_YEAR)
    paid_gpu_V = gpu_KT[machine_V, start_V]
    new_VT = np.minimum(paid_gpu_V[:, None], gpu_KT[machine_V])
    resale_VT = study.sale_share * new_VT * residual ** (years_VT / life)
    rent_K = [machine.rent_usd_per_gpu_hour for machine in study.machines]
    hours = MONTH_S / HOUR_S
    node_V = np.array(priced.devices_K, float)[machine_V]
    market = Market(
        workload_W=tuple(workload.name for workload in study.workloads),
        month_T=tuple(month_text(study.start + month) for month in range(months)),
        demand_WT=np.array([_demand(study, index, case) for index in range(len(study.workloads))]),
        peak_W=np.array([workload.peak_ratio for workload in study.workloads]),
        price_WT=np.array(
            [
                np.full(months, np.nan)
                if workload.usd_per_million_tokens is None
                else workload.usd_per_million_tokens
                / 1e6
                * (1.0 + workload.price_change_per_year) ** year_T
                for workload in study.workloads
            ]
        ),
        rate_KW=priced.rate_EKW[Ends._fields.index(case.rates)],
        busy_w_KW=terms["pue"] * priced.node_w_KW,
        idle_w_K=terms["pue"] * priced.idle_w_K,
        site_w_T=np.array([_site_w(study, month) for month in range(months)]),
        usd_per_j_T=tariff / (W_PER_KW * HOUR_S) * growth,
        gco2_per_j=study.gco2_per_kwh and study.gco2_per_kwh / (W_PER_KW * HOUR_S),
        capital_KT=capital_KT,
        colocation_K=colocation_K,
        rent_K=np.array([np.nan if usd is None else usd * hours for usd in rent_K]),
        max_rented_K=np.array([machine.max_rented_gpus for machine in study.machines]),
        gpus_per_order_K=np.array(
            [
                machine.gpus_per_order or devices
                for machine, devices in zip(study.machines, priced.devices_K, strict=True)
            ]
        ),
        max_delivered_K=np.array(
            [machine.max_gpus_per_month * study.deliver_every_months for machine in study.machines]
        ),
        rentable_KT=np.array(
            [_rentable(study, index, case) for index in range(len(study.machines))]
        ),
        discount_T=(1.0 + terms["rate"]) ** (-np.arange(months + 1) / MONTHS_PER_YEAR),
        month_s=MONTH_S,
        machine_V=machine_V,
        start_V=start_V,
        owned_V=owned_V,
        working_VT=working_VT,
        kept_VT=kept_VT,
        resale_VT=resale_VT,
        upkeep_V=paid_V * terms["upkeep_share_per_year"] / MONTHS_PER_YEAR,
    )
    books = Books(
        paid_V=paid_V,
        depreciation_VT=np.where(
            (age_VT[:, :-1] >= 0.0) & (years_VT[:, :-1] < life),
            (paid_V * (1.0 - residual) / (life * MONTHS_PER_YEAR))[:, None],
            0.0,
        ),
        book_VT=np.maximum(
            paid_V[:, None] * (1.0 - (1.0 - residual) * years_VT / life), paid_V[:, None] * residual
        ),
        failing_VT=failing_VT * MONTH_S / node_V[:, None],
    )
    return market, books


def _gpu_price(study: PlanStudy, case: Case, year_T: FloatArray) -> FloatArray:
    """Return the price of a GPU by machine and month (K, T) [USD]; 0 where none is needed."""
    rows = []
    for machine in study.machines:
        usd = machine.usd_per_gpu
        if not (machine.is_sold or machine.owned):  # it is rented
            usd = Ends(0.0, 0.0, 0.0)
        elif usd is None:
            if (found := capital_usd(machine.system, study.prices)) is None:
                raise InvalidSpecError(
                    f"machine {machine.label}: no purchase price is known; set usd_per_gpu"
                )
            usd = Ends(*found[0])
        change = getattr(machine.price_change_per_year, case.prices)
        rows.append(getattr(usd, case.prices) * (1.0 + change) ** year_T)
    return np.array(rows)


def _first_month(study: PlanStudy, index: int, case: Case) -> int:
    """Return the first month in which a machine can be had."""
    machine = study.machines[index]
    return study.month(machine.available, 0) + case.delayed.get(index, 0)


def _rentable(study: PlanStudy, index: int, case: Case) -> NDArray[np.bool_]:
    """Return the months in which a machine can be rented (T,)."""
    rents = study.machines[index].rent_usd_per_gpu_hour is not None
    return (np.arange(study.months) >= _first_month(study, index, case)) & rents


def _cohorts(study: PlanStudy, case: Case) -> list[tuple[int, int, float, float]]:
    """Return machine, month of delivery, GPUs in place (NaN if new) and age [months] of each."""
    found: list[tuple[int, int, float, float]] = []
    for index, machine in enumerate(study.machines):
        found += [
            (index, 0, float(owned.gpus), float(study.start - owned.delivered))
            for owned in machine.owned
        ]
        if not machine.is_sold:
            continue
        first = max(_first_month(study, index, case), machine.lead_time_months)
        found += [
            (index, month, np.nan, 0.0)
            for month in range(0, study.months, study.deliver_every_months)
            if month >= first
        ]
    return found


def _ageing(
    study: PlanStudy, priced: Priced, machine_V: IntArray, age_VT: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return working time (V, T), GPUs not lost (V, T + 1) as shares, and failures [1/s]."""
    months = age_VT.shape[1] - 1
    working, kept = np.zeros((machine_V.size, months)), np.zeros(age_VT.shape)
    failing = np.zeros((machine_V.size, months))
    for cohort, machine in enumerate(machine_V.tolist()):
        own, there = study.machines[machine], age_VT[cohort] >= 0.0
        age_s = age_VT[cohort][there] * MONTH_S
        kept[cohort][there] = surviving(own.lifetime, age_s)
        failures = node_failures(
            own.fleet or study.fleet, priced.devices_K[machine], age_s, MONTH_S
        )
        working[cohort][there[:-1]] = 1.0 - failures.down_A[: there[:-1].sum()]
        failing[cohort][there[:-1]] = failures.rate_per_s_A[: there[:-1].sum()]
    return working, kept, failing


def _demand(study: PlanStudy, index: int, case: Case) -> FloatArray:
    """Return the mean load of a workload by month (T,) [tokens/s], 0 outside its months.

    It grows from the first month of the workload.
    """
    workload = study.workloads[index]
    month_T = np.arange(study.months)
    growth = getattr(workload.growth_per_year, case.growth) * case.growth_factor
    first, last = study.month(workload.first, 0), study.month(workload.last, study.months - 1)
    grown = (1.0 + growth) ** ((month_T - first) / MONTHS_PER_YEAR)
    load = workload.tokens_per_day / (24.0 * HOUR_S) * grown
    return np.asarray(np.where((month_T >= first) & (month_T <= last), load, 0.0), float)


def _site_w(study: PlanStudy, month: int) -> float:
    """Return the power of the site in a month [W], 0 before its first step."""
    reached = [power for since, power in study.site_power if since <= study.start + month]
    return reached[-1] if reached else 0.0
