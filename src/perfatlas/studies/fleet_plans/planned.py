"""A plan with its accounts, what it rests on, and what other assumptions change of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.cost import capital_usd
from perfatlas.studies.fleet_plans import accounts
from perfatlas.studies.fleet_plans.market import Books, Case, market_of
from perfatlas.studies.fleet_plans.purchases import (
    HELD_MONTHS,
    LARGE_GAP,
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
VALUES: Final = Case()


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The plan of least cost of a study."""

    study: PlanStudy
    priced: Priced
    market: Market
    books: Books
    schedule: Schedule

    @classmethod
    def of(cls, study: PlanStudy, priced: Priced, case: Case = VALUES) -> Planned:
        """Return the plan of a study, by default at the values of its intervals.

        Raises:
            InvalidSpecError: A machine has no price, or its fleet is invalid.
            ShortError: Demand without a price cannot be met.
        """
        market, books = market_of(study, priced, case)
        return cls(
            study=study, priced=priced, market=market, books=books, schedule=best_schedule(market)
        )

    @property
    def cost_usd(self) -> float:
        """Payments less proceeds and the value at the end, discounted [USD]."""
        return self.schedule.objective_usd - accounts.lost_revenue_usd(self.market, self.schedule)

    @property
    def paid_usd(self) -> float:
        """Payments, discounted [USD]."""
        return float(sum(row["usd"] for row in self.breakdown() if row["usd"] > 0.0))

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
            "plan_cost_usd": self.cost_usd,
            "rounding_gap_usd": schedule.objective_usd - schedule.bound_usd,
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
            results["lost_revenue_usd"] = accounts.lost_revenue_usd(market, schedule)
        if len({workload.verb == "train" for workload in self.study.workloads}) == 1:
            results["plan_usd_per_million_tokens"] = accounts.per_million(
                float(monthly["running_cost_usd"] @ present), float(monthly["tokens"] @ present)
            )
        if "emitted_gco2" in total:
            results["emitted_gco2"] = total["emitted_gco2"]
        return results

    def breakdown(self) -> list[dict[str, Any]]:
        """Return what the plan costs by part, discounted, and its share of what is paid."""
        present = self.market.discount_T[:-1]
        parts = {name: float(self.monthly[f"{name}_usd"] @ present) for name in accounts.COSTS}
        paid = sum(parts.values())
        parts["resale"] = -float(self.monthly["resale_usd"] @ present)
        parts["value at the end"] = -accounts.value_at_end_usd(self.market, self.schedule)
        return [
            {"name": name, "usd": usd, "share": usd / paid if paid else 0.0}
            for name, usd in parts.items()
        ]

    def ends_usd(self) -> dict[str, float | None]:
        """Return the cost where all GPUs are as fast and as slow as their intervals, None if short.

        Fast GPUs are a cheap plan. Both ends contain the cost of the plan.
        """
        ends: dict[str, float | None] = {}
        for end, rates, outer in (("low", "high", min), ("high", "low", max)):
            try:
                other = self.of(self.study, self.priced, Case(rates=rates))
            except ShortError:
                ends[end] = None
            else:
                ends[end] = outer(self.cost_usd, other.cost_usd)
        return ends

    def other_assumptions(self) -> list[dict[str, Any]]:
        """Return what other assumptions add to the cost, and what is ordered in the first months.

        The first row is the plan under its own assumptions. Those that change nothing of the
        market are left out.

        Limits: Costs are those of fractions of orders.
        """
        base = self._relaxed(self.market)
        rows: list[dict[str, Any]] = [
            {
                "assumption": "as in the study",
                "cost_change_usd": 0.0,
                "changes_decision": False,
                "first_orders": self._orders_text(base[1]),
            }
        ]
        for name, case in self._cases():
            market, _ = market_of(self.study, self.priced, case)
            if _is_same(market, self.market):
                continue
            row: dict[str, Any] = {"assumption": name}
            rows.append(row)
            try:
                usd, gpus_K = self._relaxed(market)
            except ShortError as short:
                row |= {"cost_change_usd": None, "unserved_share": short.share, "first_orders": ""}
                row |= {"changes_decision": True, "short_from": short.month}
                continue
            most = SAME_SHARE * max(float(base[1].sum()), float(gpus_K.sum()))
            row |= {
                "cost_change_usd": usd - base[0],
                "changes_decision": bool(np.abs(gpus_K - base[1]).max() > most),
                "first_orders": self._orders_text(gpus_K),
            }
        return rows

    def _orders_text(self, gpus_K: FloatArray) -> str:
        ordered = zip(gpus_K, self.study.machines, strict=True)
        return ", ".join(f"{gpus:,.0f} {machine.label}" for gpus, machine in ordered if gpus >= 1.0)

    def _relaxed(self, market: Market) -> tuple[float, FloatArray]:
        """Return the least objective [USD], and GPUs of the first orders by machine (K,)."""
        schedule = relaxed_schedule(market)
        leads_K = np.array([machine.lead_time_months for machine in self.study.machines])
        ordered_V = market.start_V - leads_K[market.machine_V]
        early = np.isnan(market.owned_V) & (ordered_V < FIRST_MONTHS)
        gpus_K = np.zeros(len(self.study.machines))
        np.add.at(gpus_K, market.machine_V[early], schedule.bought_V[early])
        return schedule.objective_usd, gpus_K

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
        ordered = {
            int(self.market.machine_V[cohort])
            for cohort in np.flatnonzero(self.schedule.bought_V > 0.0)
            if np.isnan(self.market.owned_V[cohort])
        }
        for index, machine in enumerate(self.study.machines):
            if index in ordered:
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
            f"GPUs that are retired, and those left at the end, count with {study.sale_share:.0%}"
            " of their market value (sale_share, assumed), without network and host and never above"
            f" the price of a new one; orders are kept for {HELD_MONTHS} months"
        )
        found.append(
            f"network and host add {shares:.0%} to the price of a GPU; upkeep"
            f" {terms['upkeep_share_per_year']:.0%} of capital per year, colocation"
            f" {terms['colocation_usd_per_kw_month']:g} USD per kW and month, electricity"
            f" {terms['usd_per_kwh']:g} USD per kWh, PUE {terms['pue']:g} ([prices.ownership])"
        )
        found.append(
            f"nodes fail and are repaired as in fleet {study.fleet}, per GPU; a failed node serves"
            " nothing; rented GPUs do not fail, and their rent does not change"
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
        gap = (schedule.objective_usd - schedule.bound_usd) / max(self.paid_usd, 1.0)
        if gap > LARGE_GAP:
            found.append(
                f"whole orders add {gap:.1%} of what is paid to the least cost with fractions: a"
                " better plan may exist"
            )
        return found


def _is_same(one: Market, other: Market) -> bool:
    """Return whether two markets have equal values."""
    return all(
        np.array_equal(getattr(one, name.name), getattr(other, name.name), equal_nan=True)
        if isinstance(getattr(one, name.name), np.ndarray)
        and getattr(one, name.name).dtype.kind == "f"
        else np.array_equal(getattr(one, name.name), getattr(other, name.name))
        for name in fields(Market)
    )
