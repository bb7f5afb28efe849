"""What to buy, keep, rent and sell each month at least cost: a linear program.

Shape legend: K machines, W workloads, T months, V cohorts (GPUs of a machine that were delivered
in one month). Money is discounted to the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InfeasibleError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

ROUNDING: Final = 1e-6  # of orders, and of shares of a demand


@dataclass(frozen=True, kw_only=True)
class Market:
    """Demand, machines and prices by month."""

    workload_W: tuple[str, ...]  # Names
    month_T: tuple[str, ...]  # Names
    demand_WT: FloatArray  # Mean load [tokens/s]
    peak_W: FloatArray  # Peak load over the mean
    price_WT: FloatArray  # Revenue of a token [USD]; NaN where all must be served
    rate_KW: FloatArray  # Tokens/s of a GPU at full load; 0 where it cannot run the workload
    busy_w_KW: FloatArray  # Power of the facility for a busy GPU [W]
    idle_w_K: FloatArray  # For an idle one [W]
    site_w_T: FloatArray  # Power that the site may draw [W]
    usd_per_j_T: FloatArray  # Electricity
    gco2_per_j: float | None  # Carbon of the electricity
    capital_KT: FloatArray  # A GPU with its share of network and host [USD]
    running_K: FloatArray  # Colocation and upkeep of a GPU for a month [USD], by machine (K,)
    rent_K: FloatArray  # Rent of a GPU for a month [USD]; NaN where there is none
    max_rented_K: FloatArray
    gpus_per_order_K: IntArray
    max_delivered_K: FloatArray  # GPUs in a month
    discount_T: FloatArray  # Value of a dollar of a month at the start; one more than months
    month_s: float
    machine_V: IntArray
    start_V: IntArray  # Month of delivery; 0 for GPUs in place
    owned_V: FloatArray  # GPUs in place at the start; NaN for cohorts that may be bought
    working_VT: FloatArray  # Share of the time in which a GPU works, by age
    kept_VT: FloatArray  # Share of a cohort that is not lost at the start of a month (V, T + 1)
    resale_VT: FloatArray  # Market value of a GPU at the start of a month (V, T + 1) [USD]
    upkeep_VT: FloatArray  # Upkeep of a GPU for a month, a share of its capital [USD]

    @property
    def months(self) -> int:
        """Number of months."""
        return int(self.demand_WT.shape[1])


class ShortError(InfeasibleError):
    """Demand that cannot be met: from which month, and by which share."""

    def __init__(self, message: str, *, month: str = "", share: float = 0.0, **parts: Any) -> None:  # noqa: ANN401 - of the base
        """Store the shortage."""
        super().__init__(message, **parts)
        self.month, self.share = month, share


class Schedule(NamedTuple):
    """A plan."""

    bought_V: FloatArray  # GPUs of each cohort, of those in place at the start too
    installed_VT: FloatArray
    rented_KT: FloatArray
    served_KWT: FloatArray  # Mean load on GPUs at the site [tokens/s]
    rented_served_KWT: FloatArray
    unserved_WT: FloatArray  # [tokens/s]
    cost_usd: (
        float  # Discounted, less what is left at the end; revenue of unserved tokens is a cost
    )
    bound_usd: float  # Least cost of any plan, orders of fractions of nodes included
    power_value_T: FloatArray  # What one more watt of a month is worth [USD/W], discounted


def best_schedule(market: Market) -> Schedule:
    """Return the plan of least cost.

    Orders are multiples of `gpus_per_order_K`: the linear program is solved with fractions, its
    orders are rounded up month by month, and what runs where is decided again.

    Raises:
        InfeasibleError: Demand without a price cannot be met.

    Source: linear program over cohorts, solved by HiGHS (scipy.optimize.linprog).
    Limits: A GPU serves each workload at its rate at full load, in proportion to its time: no
        batches that become small, no fragments of a deployment. Sales have no cost.
    """
    relaxed = relaxed_schedule(market)
    quantum_V = market.gpus_per_order_K[market.machine_V].astype(float)
    bought_V = relaxed.bought_V.copy()
    for machine in range(market.rate_KW.shape[0]):
        cohorts = np.flatnonzero((market.machine_V == machine) & np.isnan(market.owned_V))
        total_V = np.cumsum(bought_V[cohorts]) / quantum_V[cohorts]
        whole_V = np.ceil(total_V - ROUNDING) * quantum_V[cohorts]
        bought_V[cohorts] = np.diff(whole_V, prepend=0.0)
    rounded = _Program(market).solve(bought_V)
    return rounded._replace(bound_usd=relaxed.cost_usd, power_value_T=relaxed.power_value_T)


def relaxed_schedule(market: Market) -> Schedule:
    """Return the plan of least cost with fractions of orders, a bound of `best_schedule`.

    Raises:
        InfeasibleError: Demand without a price cannot be met.
    """
    return _Program(market).solve()


class _Rows:
    """Rows of a sparse matrix with their right sides."""

    def __init__(self) -> None:
        self.cells: list[tuple[Any, Any, Any]] = []
        self.right: list[FloatArray] = []
        self.count = 0

    def add(self, right: FloatArray) -> IntArray:
        """Add rows; return their numbers."""
        rows = np.arange(self.count, self.count + right.size)
        self.right.append(np.asarray(right, float))
        self.count += right.size
        return rows

    def put(self, rows: IntArray, columns: IntArray, values: FloatArray | float) -> None:
        self.cells.append((rows, columns, np.broadcast_to(values, rows.shape)))

    def matrix(self, columns: int) -> Any:  # noqa: ANN401 - of scipy
        from scipy.sparse import coo_array

        at = [np.concatenate([part[index] for part in self.cells]) for index in range(3)]
        return coo_array((at[2], (at[0], at[1])), shape=(self.count, columns)).tocsr()


class _Program:
    """The linear program of a market; columns are GPUs, and shares of a demand that is unserved."""

    def __init__(self, market: Market) -> None:
        self.market = market
        machines = market.rate_KW.shape[0]
        months, cohorts = market.months, market.machine_V.size
        can_run = market.rate_KW > 0.0
        rents_K = ~np.isnan(market.rent_K)
        used_WT = market.demand_WT > 0.0
        exists_VT = np.arange(months) >= market.start_V[:, None]
        runs_KWT = can_run[:, :, None] & used_WT
        first = 0
        self.at: dict[str, IntArray] = {}
        for name, mask in (
            ("bought", np.ones(cohorts, bool)),
            ("installed", exists_VT),
            ("rented", np.broadcast_to(rents_K[:, None], (machines, months))),
            ("busy", runs_KWT),  # GPUs at full load that the mean load of a workload needs
            ("busy_rented", runs_KWT & rents_K[:, None, None]),
            ("unserved", used_WT),
        ):
            numbers = np.full(mask.shape, -1)
            numbers[mask] = np.arange(first, first + mask.sum())
            self.at[name], first = numbers, first + int(mask.sum())
        self.size = first
        self.upper, self.equal = _Rows(), _Rows()
        self._limits()
        self._demand()

    def _left(self, cohort: IntArray, month: IntArray, new: NDArray[np.bool_]) -> FloatArray:
        """Return the share of a cohort that is not lost from a month to the next, 1 if new."""
        now, later = (self.market.kept_VT[cohort, month + add] for add in (0, 1))
        share = np.divide(later, now, out=np.zeros_like(now), where=now > 0.0)
        return np.where(new, 1.0, share)

    def _cells(self, name: str) -> tuple[IntArray, ...]:
        """Return the indices of what has a column, then its column."""
        at = self.at[name]
        where = np.nonzero(at >= 0)
        return (*where, at[where])

    def _limits(self) -> None:
        """Add what is installed, its capacity and its power."""
        market, rows = self.market, self.upper
        cohort, month, column = self._cells("installed")
        begins = month == market.start_V[cohort]
        grown = rows.add(np.zeros(column.size))  # installed <= what was kept of it
        rows.put(grown, column, 1.0)
        first, before = self.at["bought"][cohort], self.at["installed"][cohort, month - 1]
        rows.put(grown, np.where(begins, first, before), -self._left(cohort, month - 1, begins))
        machines, months = market.rate_KW.shape[0], market.months
        for busy, source in (("busy", "installed"), ("busy_rented", "rented")):
            capacity = rows.add(np.zeros(machines * months)).reshape(machines, months)
            kind, workload, month, column = self._cells(busy)
            rows.put(capacity[kind, month], column, market.peak_W[workload])
            first, month, column = self._cells(source)
            kind = market.machine_V[first] if source == "installed" else first
            works = market.working_VT[first, month] if source == "installed" else 1.0
            rows.put(capacity[kind, month], column, -np.broadcast_to(works, column.shape))
        limited = np.flatnonzero(np.isfinite(market.site_w_T))
        self.power = np.full(months, -1)
        self.power[limited] = rows.add(market.site_w_T[limited])
        cohort, month, column = self._cells("installed")
        keep = self.power[month] >= 0
        idle = market.idle_w_K[market.machine_V[cohort]]
        rows.put(self.power[month][keep], column[keep], idle[keep])
        kind, workload, month, column = self._cells("busy")
        keep = self.power[month] >= 0
        more = (market.busy_w_KW[kind, workload] - market.idle_w_K[kind]) * market.peak_W[workload]
        rows.put(self.power[month][keep], column[keep], more[keep])

    def _demand(self) -> None:
        """Add that each workload is served, or counted as unserved: shares of its demand."""
        market, rows = self.market, self.equal
        workload, month, column = self._cells("unserved")
        numbers = np.full(market.demand_WT.shape, -1)
        numbers[workload, month] = rows.add(np.ones(column.size))
        rows.put(numbers[workload, month], column, 1.0)
        for name in ("busy", "busy_rented"):
            kind, workload, month, column = self._cells(name)
            share = market.rate_KW[kind, workload] / market.demand_WT[workload, month]
            rows.put(numbers[workload, month], column, share)

    def _costs(self) -> FloatArray:
        """Return the discounted cost of each column [USD]."""
        market, cost = self.market, np.zeros(self.size)
        discount_T = market.discount_T
        start_V, machine_V = market.start_V, market.machine_V
        new_V = np.isnan(market.owned_V)
        capital_V = market.capital_KT[machine_V, start_V] * discount_T[start_V]
        cost[self.at["bought"]] = np.where(new_V, capital_V, 0.0)
        cohort, month, column = self._cells("installed")
        own = market.upkeep_VT[cohort, month] + market.running_K[machine_V[cohort]]
        own = own + market.idle_w_K[machine_V[cohort]] * market.month_s * market.usd_per_j_T[month]
        # what is not kept is sold at the start of the next month; GPUs that are lost, and orders
        # that are never installed, bring nothing
        fresh = (month == start_V[cohort]) & new_V[cohort]
        held = discount_T[month] * (own + np.where(fresh, 0.0, market.resale_VT[cohort, month]))
        back = discount_T[month + 1] * market.resale_VT[cohort, month + 1]
        cost[column] = held - back * self._left(cohort, month, np.zeros(month.size, bool))
        in_place = np.flatnonzero(~new_V)  # sold at once unless they are installed
        cost[self.at["bought"][in_place]] = -discount_T[0] * market.resale_VT[in_place, 0]
        kind, month, column = self._cells("rented")
        cost[column] = market.rent_K[kind] * discount_T[month]
        kind, workload, month, column = self._cells("busy")
        more = market.busy_w_KW[kind, workload] - market.idle_w_K[kind]
        cost[column] = more * market.month_s * market.usd_per_j_T[month] * discount_T[month]
        workload, month, column = self._cells("unserved")
        lost = market.demand_WT[workload, month] * market.month_s
        cost[column] = np.nan_to_num(market.price_WT[workload, month]) * lost * discount_T[month]
        return cost

    def _bounds(self, bought_V: FloatArray | None) -> FloatArray:
        """Return the ends of each column (columns, 2)."""
        market = self.market
        bounds = np.column_stack([np.zeros(self.size), np.full(self.size, np.inf)])
        quantum_K = market.gpus_per_order_K
        most_K = np.floor(market.max_delivered_K / quantum_K) * quantum_K
        most_V = np.where(np.isnan(market.owned_V), most_K[market.machine_V], market.owned_V)
        bounds[self.at["bought"], 1] = most_V
        owned = ~np.isnan(market.owned_V)
        bounds[self.at["bought"][owned], 0] = market.owned_V[owned]
        if bought_V is not None:
            bounds[self.at["bought"]] = bought_V[:, None]
        kind, _, column = self._cells("rented")
        bounds[column, 1] = market.max_rented_K[kind]
        workload, month, column = self._cells("unserved")
        bounds[column, 1] = np.where(np.isnan(market.price_WT[workload, month]), 0.0, 1.0)
        return bounds

    def solve(self, bought_V: FloatArray | None = None) -> Schedule:
        """Return the plan of least cost, with these orders if they are given."""
        cost, bounds = self._costs(), self._bounds(bought_V)
        found = self._minimum(cost, bounds)
        if found.status == 2:
            raise self._short(bounds)
        market, x = self.market, np.append(found.x, 0.0)
        values = {name: x[at] for name, at in self.at.items()}
        marginals = np.append(found.ineqlin.marginals, 0.0)
        served, rented = (
            values[name] * market.rate_KW[:, :, None] for name in ("busy", "busy_rented")
        )
        return Schedule(
            values["bought"],
            values["installed"],
            values["rented"],
            served,
            rented,
            values["unserved"] * market.demand_WT,
            float(found.fun),
            float(found.fun),
            -marginals[self.power],
        )

    def _minimum(self, cost: FloatArray, bounds: FloatArray) -> Any:  # noqa: ANN401 - of scipy
        from scipy.optimize import linprog

        found = linprog(
            cost,
            A_ub=self.upper.matrix(self.size),
            b_ub=np.concatenate(self.upper.right),
            A_eq=self.equal.matrix(self.size),
            b_eq=np.concatenate(self.equal.right),
            bounds=bounds,
            method="highs",
        )
        if found.status not in (0, 2):
            raise InfeasibleError(f"the plan has no optimum: {found.message}")
        return found

    def _short(self, bounds: FloatArray) -> ShortError:
        """Return which demand cannot be met, from when, and by how much."""
        market, bounds = self.market, bounds.copy()
        workload, month, column = self._cells("unserved")
        bounds[column, 1] = 1.0
        missing = np.zeros(self.size)
        missing[column] = market.demand_WT[workload, month] / market.demand_WT.max()
        short = self._minimum(missing, bounds).x[column]
        must = np.isnan(market.price_WT[workload, month]) & (short > ROUNDING)
        first = int(month[must].min())
        worst = int(np.argmax(np.where(must & (month == first), short, 0.0)))
        by = "site_power, max_gpus_per_month and max_rented_gpus limit what can be installed."
        return ShortError(
            f"{market.workload_W[workload[worst]]}: {short[worst]:.1%} of the demand of"
            f" {market.month_T[first]} cannot be served, and it has no usd_per_million_tokens,"
            f" so that all of it must be: {by}",
            month=market.month_T[first],
            share=float(short[worst]),
            advice=("raise one of them, add a machine, or give the workload a price.",),
        )
