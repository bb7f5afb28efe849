"""Accounts of a plan: money, power, tokens and failures by month and by calendar year."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.studies.fleet_plans.study import MONTHS_PER_YEAR, month_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.studies.fleet_plans.market import Books
    from perfatlas.studies.fleet_plans.purchases import FloatArray, Market, Schedule
    from perfatlas.studies.fleet_plans.study import PlanStudy

COSTS: Final = ("capital", "electricity", "colocation", "upkeep", "rent")  # paid in a month
SUMMED: Final = (
    *(
        "delivered_gpus",
        "retired_gpus",
        "lost_gpus",
        "tokens",
        "unserved_tokens",
        "energy_j",
        "spare_gpus",
    ),
    *(f"{name}_usd" for name in (*COSTS, "resale", "depreciation", "revenue", "running_cost")),
    *("node_failures", "emitted_gco2"),
)
LAST: Final = ("installed_gpus", "rented_gpus")  # of a year, what its last month has
HIGHEST: Final = ("peak_power_w",)


def monthly_columns(market: Market, plan: Schedule, books: Books) -> dict[str, FloatArray]:
    """Return the accounts of a plan by month (T,)."""
    machine_V, installed_VT = market.machine_V, plan.installed_VT
    new_V = np.isnan(market.owned_V)
    month_T = np.arange(market.months)
    new_VT = (market.start_V[:, None] == month_T) & new_V[:, None]
    before_VT = np.where(new_VT, plan.bought_V[:, None], 0.0)
    before_VT[:, 1:] += installed_VT[:, :-1]
    before_VT[~new_V, 0] = plan.bought_V[~new_V]
    ratio_VT = np.ones_like(installed_VT)
    now_VT, then_VT = market.kept_VT[:, :-2], market.kept_VT[:, 1:-1]
    ratio_VT[:, 1:] = np.divide(then_VT, now_VT, out=np.zeros_like(now_VT), where=now_VT > 0.0)
    ratio_VT[new_VT] = 1.0
    lost_VT = before_VT * (1.0 - ratio_VT)
    gone_VT = np.maximum(before_VT - lost_VT - installed_VT, 0.0)
    spare_VT = np.where(new_VT, gone_VT, 0.0)  # ordered as part of a whole node, never installed
    retired_VT = gone_VT - spare_VT
    busy_KWT = plan.served_KWT / np.where(market.rate_KW > 0.0, market.rate_KW, 1.0)[:, :, None]
    more_KW = market.busy_w_KW - market.idle_w_K[:, None]
    idle_w_T = market.idle_w_K[machine_V] @ installed_VT
    mean_w_T = idle_w_T + np.einsum("kw,kwt->t", more_KW, busy_KWT)
    peak_w_T = idle_w_T + np.einsum("kw,w,kwt->t", more_KW, market.peak_W, busy_KWT)
    energy_j_T = mean_w_T * market.month_s
    served_WT = plan.served_KWT.sum(0) + plan.rented_served_KWT.sum(0)
    price_WT = np.nan_to_num(market.price_WT)
    columns = {
        "delivered_gpus": (new_VT * plan.bought_V[:, None]).sum(0),
        "retired_gpus": retired_VT.sum(0),
        "spare_gpus": spare_VT.sum(0),
        "lost_gpus": lost_VT.sum(0),
        "installed_gpus": installed_VT.sum(0),
        "rented_gpus": plan.rented_KT.sum(0),
        "tokens": served_WT.sum(0) * market.month_s,
        "unserved_tokens": plan.unserved_WT.sum(0) * market.month_s,
        "mean_power_w": mean_w_T,
        "peak_power_w": peak_w_T,
        "energy_j": energy_j_T,
        "power_value_usd_per_w": plan.power_value_T / market.discount_T[:-1],
        "capital_usd": (new_VT * plan.bought_V[:, None] * books.paid_V[:, None]).sum(0),
        "resale_usd": (retired_VT * market.resale_VT[:, :-1]).sum(0),
        "electricity_usd": energy_j_T * market.usd_per_j_T,
        "colocation_usd": market.colocation_K[machine_V] @ installed_VT,
        "upkeep_usd": market.upkeep_V @ installed_VT,
        "rent_usd": np.nan_to_num(market.rent_K) @ plan.rented_KT,
        # what is lost, retired below its book value or never installed is written off
        "depreciation_usd": (
            books.depreciation_VT * installed_VT
            + books.book_VT[:, :-1] * (lost_VT + spare_VT)
            + np.maximum(books.book_VT - market.resale_VT, 0.0)[:, :-1] * retired_VT
        ).sum(0),
        "revenue_usd": (served_WT * price_WT).sum(0) * market.month_s,
        "node_failures": (books.failing_VT * installed_VT).sum(0),
        "gpus_under_repair": ((1.0 - market.working_VT) * installed_VT).sum(0),
    }
    running = ("electricity_usd", "colocation_usd", "upkeep_usd", "rent_usd", "depreciation_usd")
    columns["running_cost_usd"] = np.sum([columns[name] for name in running], axis=0)
    if market.gco2_per_j is not None:
        columns["emitted_gco2"] = energy_j_T * market.gco2_per_j
    return columns


def yearly_rows(columns: Mapping[str, FloatArray], study: PlanStudy) -> list[dict[str, Any]]:
    """Return the accounts by calendar year: sums, the state of the last month, highest peaks."""
    rows, year_T = [], (study.start + np.arange(study.months)) // MONTHS_PER_YEAR
    for year in np.unique(year_T):
        own = year_T == year
        row: dict[str, Any] = {"year": int(year), "months": int(own.sum())}
        for name, values in columns.items():
            part = values[own]
            if name in SUMMED:
                row[name] = float(part.sum())
            elif name in HIGHEST:
                row[name] = float(part.max())
            else:
                row[name] = float(part[-1] if name in LAST else part.mean())
        row["plan_usd_per_million_tokens"] = per_million(row["running_cost_usd"], row["tokens"])
        rows.append(row)
    return rows


def per_million(usd: float, tokens: float) -> float | None:
    """Return the cost of a million tokens [USD], None without tokens."""
    return usd / tokens * 1e6 if tokens > 0.0 else None


def value_at_end_usd(market: Market, plan: Schedule) -> float:
    """Return the market value of what is installed at the end, discounted [USD]."""
    now, later = market.kept_VT[:, -2], market.kept_VT[:, -1]
    left = np.divide(later, now, out=np.zeros_like(now), where=now > 0.0)
    return float(plan.installed_VT[:, -1] * left @ market.resale_VT[:, -1] * market.discount_T[-1])


def lost_revenue_usd(market: Market, plan: Schedule) -> float:
    """Return the revenue of tokens that are not served, discounted [USD]."""
    lost_T = np.nan_to_num(market.price_WT * plan.unserved_WT).sum(0)
    return float(lost_T @ market.discount_T[:-1] * market.month_s)


def orders(study: PlanStudy, market: Market, plan: Schedule, books: Books) -> list[dict[str, Any]]:
    """Return what is ordered, in order of the months of orders."""
    rows = []
    lead_V = np.array([study.machines[k].lead_time_months for k in market.machine_V.tolist()])
    for cohort in np.lexsort((market.start_V, market.start_V - lead_V)).tolist():
        gpus, machine = plan.bought_V[cohort], study.machines[int(market.machine_V[cohort])]
        if not np.isnan(market.owned_V[cohort]) or gpus < 0.5:
            continue
        delivered = study.start + int(market.start_V[cohort])
        rows.append(
            {
                "order": month_text(delivered - machine.lead_time_months),
                "delivery": month_text(delivered),
                "system": machine.label,
                "gpus": round(gpus),
                "capital_usd": float(gpus * books.paid_V[cohort]),
            }
        )
    return rows
