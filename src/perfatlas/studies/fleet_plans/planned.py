"""A plan with its accounts, what it rests on, and what other assumptions change of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.cost import capital_usd
from perfatlas.studies.fleet_plans import accounts
from perfatlas.studies.fleet_plans.market import Books, Case, market_of
from perfatlas.studies.fleet_plans.purchases import (
    ROUNDING,
    Market,
    Schedule,
    ShortError,
    best_schedule,
    relaxed_schedule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.studies.fleet_plans.purchases import FloatArray
    from perfatlas.studies.fleet_plans.rates import Priced
    from perfatlas.studies.fleet_plans.study import PlanStudy

DELAY_MONTHS: Final = 6
GROWTH_FACTORS: Final = (0.5, 1.5)  # of growth without an interval
FIRST_MONTHS: Final = 12  # whose orders say whether an assumption changes the decision
SAME_SHARE: Final = 0.2  # of the orders of the first months: a smaller change keeps the decision
LARGE_GAP: Final = 0.01  # cost of whole orders over that of fractions


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The plan of least cost of a study."""

    study: PlanStudy
    priced: Priced
    market: Market
    books: Books
    schedule: Schedule

    @classmethod
    def of(cls, study: PlanStudy, priced: Priced) -> Planned:
        """Return the plan of a study.

        Raises:
            InvalidSpecError: A machine has no price, or its fleet is invalid.
            ShortError: Demand without a price cannot be met.
        """
        market, books = market_of(study, priced, Case())
        return cls(
            study=study, priced=priced, market=market, books=books, schedule=best_schedule(market)
        )

    @cached_property
    def monthly(self) -> dict[str, FloatArray]:
        """The accounts by month (T,)."""
        return accounts.monthly_columns(self.market, self.schedule, self.books)

    def months(self) -> dict[str, list[Any]]:
        """Return the accounts by month, GPUs of each machine and tokens of each workload."""
        market, schedule = self.market, self.schedule
        columns: dict[str, list[Any]] = {"month": list(market.month_T)}
        columns |= {name: values.tolist() for name, values in self.monthly.items()}
        site_w = market.site_w_T.tolist()
        columns["site_power_w"] = [watts if math.isfinite(watts) else None for watts in site_w]
        for index, machine in enumerate(self.study.machines):
            own = market.machine_V == index
            columns[f"installed_gpus: {machine.label}"] = schedule.installed_VT[own].sum(0).tolist()
            columns[f"rented_gpus: {machine.label}"] = schedule.rented_KT[index].tolist()
        served_WT = (schedule.served_KWT + schedule.rented_served_KWT).sum(0)
        for index, name in enumerate(market.workload_W):
            columns[f"tokens_per_s: {name}"] = served_WT[index].tolist()
            columns[f"demand_tokens_per_s: {name}"] = market.demand_WT[index].tolist()
        return columns

    def results(self) -> dict[str, Any]:
        """Return the results of the plan; money of several months is discounted to the start."""
        monthly, market, schedule = self.monthly, self.market, self.schedule
        present = market.discount_T[:-1]
        total = {name: float(values.sum()) for name, values in monthly.items()}
        tokens, unserved = total["tokens"], total["unserved_tokens"]
        results: dict[str, Any] = {
            "plan_cost_usd": schedule.cost_usd,
            "plan_cost_bound_usd": schedule.bound_usd,
            "plan_usd_per_million_tokens": accounts.per_million(
                float(monthly["running_cost_usd"] @ present), float(monthly["tokens"] @ present)
            ),
            "capital_usd": total["capital_usd"],
            "tokens": tokens,
            "unserved_share": unserved / (tokens + unserved),
            "peak_power_w": float(monthly["peak_power_w"].max()),
            "energy_j": total["energy_j"],
            "node_failures": total["node_failures"],
            "orders": accounts.orders(self.study, market, schedule, self.books),
            "years": accounts.yearly_rows(monthly, self.study),
            "machines": list(self.priced.rows),
        }
        if not np.isnan(market.price_WT).all():
            results["plan_revenue_usd"] = float(monthly["revenue_usd"] @ present)
        if "emitted_gco2" in total:
            results["emitted_gco2"] = total["emitted_gco2"]
        return results

    def breakdown(self) -> list[dict[str, Any]]:
        """Return what the plan costs by part, discounted, and its share of what is paid."""
        present = self.market.discount_T[:-1]
        parts = {name: float(self.monthly[f"{name}_usd"] @ present) for name in accounts.COSTS}
        paid = sum(parts.values())
        lost = self.market.price_WT * self.schedule.unserved_WT * self.market.month_s
        parts["unserved tokens"] = float(np.nan_to_num(lost).sum(0) @ present)
        parts["resale and value at the end"] = self.schedule.cost_usd - sum(parts.values())
        return [
            {"name": name, "usd": usd, "share": usd / paid if paid else 0.0}
            for name, usd in parts.items()
        ]

    def other_assumptions(self) -> list[dict[str, Any]]:
        """Return the least cost under other assumptions, and what is ordered in the first months.

        Limits: Costs are those of fractions of orders.
        """
        usd, base_K = self._first_orders(Case())
        rows = []
        for name, case in self._cases():
            row: dict[str, Any] = {"assumption": name}
            rows.append(row)
            try:
                other_usd, gpus_K = self._first_orders(case)
            except ShortError as short:
                row |= {"cost_change": None, "unserved_share": short.share, "first_orders": ""}
                row |= {"changes_decision": True, "short_from": short.month}
                continue
            most = SAME_SHARE * max(float(base_K.sum()), float(gpus_K.sum()))
            row |= {
                "cost_change": other_usd / usd - 1.0 if usd else None,
                "plan_cost_usd": other_usd,
                "changes_decision": bool(np.abs(gpus_K - base_K).max() > most),
                "first_orders": ", ".join(
                    f"{gpus:,.0f} {machine.label}"
                    for gpus, machine in zip(gpus_K, self.study.machines, strict=True)
                    if gpus >= 1.0
                ),
            }
        return rows

    def _first_orders(self, case: Case) -> tuple[float, FloatArray]:
        """Return the least cost of a case [USD], and GPUs of its first months by machine (K,)."""
        market, _ = market_of(self.study, self.priced, case)
        schedule = relaxed_schedule(market)
        early = np.isnan(market.owned_V) & (market.start_V < FIRST_MONTHS)
        gpus_K = np.zeros(len(self.study.machines))
        np.add.at(gpus_K, market.machine_V[early], schedule.bought_V[early])
        return schedule.cost_usd, gpus_K

    def _cases(self) -> Iterator[tuple[str, Case]]:
        """Yield assumptions other than those of the plan, each alone."""
        growths = [workload.growth_per_year for workload in self.study.workloads]
        if any(growth.low < growth.high for growth in growths):
            for end in ("low", "high"):
                yield f"demand growth at {end} end", Case(growth=end)
        elif any(growth.value for growth in growths):
            for factor in GROWTH_FACTORS:
                yield f"demand growth x {factor:g}", Case(growth_factor=factor)
        for end in ("low", "high"):
            yield f"rates of GPUs at {end} end", Case(rates=end)
        for end in ("low", "high"):
            yield f"purchase prices at {end} end", Case(prices=end)
        yield "electricity price at high end", Case(tariff="high")
        for index, machine in enumerate(self.study.machines):
            if machine.is_sold:
                yield (
                    f"{machine.label} {DELAY_MONTHS} months late",
                    Case(delayed={index: DELAY_MONTHS}),
                )

    def assumptions(self) -> list[str]:
        """Return what the plan rests on, in sentences."""
        study, terms = self.study, self.study.prices.terms["value"]
        shares = terms["network_share"] + terms["host_share"]
        immortal = [machine.label for machine in study.machines if machine.lifetime is None]
        refused = [row for row in self.priced.rows if "reason" in row]
        found = [
            f"{row['system']} does not run {row['workload']}: {row['reason']}" for row in refused
        ]
        found.append(
            f"cost of capital {terms['rate']:.0%} per year; a GPU keeps"
            f" {terms['residual_share']:.0%} of its value after {terms['life_years']:g} years, by"
            " equal percentages each year"
        )
        found.append(
            f"GPUs that are retired before the end bring {study.sale_share:.0%} of their market"
            " value (sale_share); what is left at the end of the plan counts in full"
        )
        found.append(
            f"network and host add {shares:.0%} to the price of a GPU; upkeep"
            f" {terms['upkeep_share_per_year']:.0%} of capital per year, colocation"
            f" {terms['colocation_usd_per_kw_month']:g} USD per kW and month, electricity"
            f" {terms['usd_per_kwh']:g} USD per kWh, PUE {terms['pue']:g} ([prices.ownership])"
        )
        found.append(
            f"nodes fail and are repaired as in fleet {study.fleet}, per GPU; a failed node serves"
            " nothing"
        )
        found.append(
            "orders are whole nodes (gpus_per_order); capacity is provided for the peak load of a"
            " month, and a GPU serves at its rate at full load; demand grows by equal percentages"
        )
        if immortal:
            found.append(f"no permanent loss of GPUs (lifetime): {', '.join(immortal)}")
        return found

    def sources(self) -> tuple[str, ...]:
        """Return the references of catalog prices."""
        found = [
            capital_usd(machine.system, self.study.prices)
            for machine in self.study.machines
            if machine.usd_per_gpu is None
        ]
        return tuple(dict.fromkeys(ref for quoted in found if quoted for ref in quoted[1]))

    def warnings(self) -> list[str]:
        """Return what to know before relying on the plan."""
        market, schedule, found = self.market, self.schedule, []
        full = np.flatnonzero(schedule.power_value_T > 0.0)
        if full.size:
            value = self.monthly["power_value_usd_per_w"][full].max() * 1e6
            found.append(
                f"the site's power limits the plan in {full.size} of {market.months} months, first"
                f" in {market.month_T[full[0]]}: one more MW in such a month is worth up to"
                f" {value:,.0f} USD"
            )
        short_T = schedule.unserved_WT.sum(0) > ROUNDING * market.demand_WT.sum(0)
        if short_T.any():
            found.append(
                f"not all tokens are served in {int(short_T.sum())} months, first in"
                f" {market.month_T[int(np.argmax(short_T))]}: serving them costs more than they"
                " bring, or cannot be done"
            )
        gap = (schedule.cost_usd - schedule.bound_usd) / max(abs(schedule.bound_usd), 1.0)
        if gap > LARGE_GAP:
            found.append(
                f"whole orders cost {gap:.1%} more than fractions of them: a better rounding may"
                " exist"
            )
        return found
