"""What to buy, keep, rent and sell each month at least cost: a linear program.

Shape legend: K machines, W workloads, T months, V cohorts (GPUs of a machine that were delivered
in one month). Money is discounted to the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InfeasibleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

ROUNDING: Final = 1e-6  # of orders, and of shares of a demand
HELD_MONTHS: Final = 12  # for which an installed order is kept
LARGE_GAP: Final = 0.01  # objective of whole orders over that of fractions


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
    colocation_K: FloatArray  # Space of a GPU for a month [USD]
    rent_K: FloatArray  # Rent of a GPU for a month [USD]; NaN where there is none
    max_rented_K: FloatArray
    gpus_per_order_K: IntArray
    max_delivered_K: FloatArray  # GPUs in a delivery
    rentable_KT: NDArray[np.bool_]
    discount_T: FloatArray  # Value of a dollar of a month at the start; one more than months
    month_s: float
    machine_V: IntArray
    start_V: IntArray  # Month of delivery; 0 for GPUs in place
    owned_V: FloatArray  # GPUs in place at the start; NaN for cohorts that may be bought
    working_VT: FloatArray  # Share of the time in which a GPU works, by age
    kept_VT: FloatArray  # Share of a cohort that is not lost at the start of a month (V, T + 1)
    resale_VT: FloatArray  # Market value of a GPU at the start of a month (V, T + 1) [USD]
    upkeep_V: FloatArray  # Spares and repair of a GPU for a month [USD]

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
    objective_usd: (
        float  # Payments less proceeds and value at the end, and lost revenue, discounted
    )
    bound_usd: float  # The least that is possible with fractions of orders
    power_value_T: FloatArray  # What one more watt of a month is worth [USD/W], discounted


def best_schedule(market: Market) -> Schedule:
    """Return the plan of least cost.

    Orders are multiples of `gpus_per_order_K`: the linear program is solved with fractions, its
    orders are rounded up month by month, and what runs where is decided again.

    Raises:
        InfeasibleError: Demand without a price cannot be met.

    Source: linear program over cohorts, solved by HiGHS (scipy.optimize.linprog).
    Limits: A GPU serves each workload at its rate at full load, in proportion to its time: no
        batches that become small, no fragments of a deployment. Orders are rounded, and machines
        left out one by one where that costs less: `bound_usd` says how much better an exact
        optimum may be.
    """
    relaxed = relaxed_schedule(market)
    best = _whole(market, relaxed)
    left = list(range(market.rate_KW.shape[0]))
    while best.objective_usd - relaxed.objective_usd > LARGE_GAP * abs(relaxed.objective_usd):
        # a few GPUs of one machine become a whole order: is there a plan without it?
        ordered = [k for k in left if best.bought_V[_orders_of(market, k)].sum() > 0.0]
        others = [(k, other) for k in ordered if (other := _without(market, k, left)) is not None]
        machine, other = min(others, key=lambda pair: pair[1].objective_usd, default=(-1, best))
        if machine < 0 or other.objective_usd >= best.objective_usd:
            break
        best = other
        left.remove(machine)
    return best._replace(bound_usd=relaxed.objective_usd, power_value_T=relaxed.power_value_T)


def _orders_of(market: Market, machine: int) -> IntArray:
    """Return the cohorts of a machine that may be ordered."""
    return np.flatnonzero((market.machine_V == machine) & np.isnan(market.owned_V))


def _without(market: Market, machine: int, left: Sequence[int]) -> Schedule | None:
    """Return the plan that orders neither a machine nor those not left, None if there is none."""
    kept = np.isin(np.arange(market.rate_KW.shape[0]), [k for k in left if k != machine])
    fewer = replace(market, max_delivered_K=np.where(kept, market.max_delivered_K, 0.0))
    try:
        return _whole(fewer, relaxed_schedule(fewer))
    except ShortError:
        return None


def _whole(market: Market, relaxed: Schedule) -> Schedule:
    """Return the plan whose orders are those of a relaxed plan, rounded up to whole ones."""
    quantum_V = market.gpus_per_order_K[market.machine_V].astype(float)
    bought_V = relaxed.bought_V.copy()
    for machine in range(market.rate_KW.shape[0]):
        cohorts = _orders_of(market, machine)
        total_V = np.cumsum(bought_V[cohorts]) / quantum_V[cohorts]
        whole_V = np.ceil(total_V - ROUNDING) * quantum_V[cohorts]
        bought_V[cohorts] = np.diff(whole_V, prepend=0.0)
    return _Program(market).solve(bought_V)


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

    def matrix(self, size: int, column_scale: FloatArray, row_scale: FloatArray) -> Any:  # noqa: ANN401 - of scipy
        """Return the matrix with rows and columns multiplied."""
        from scipy.sparse import coo_array

        row, column, value = (np.concatenate([part[i] for part in self.cells]) for i in range(3))
        value = value * row_scale[row] * column_scale[column]
        return coo_array((value, (row, column)), shape=(self.count, size)).tocsr()


class _Program:
    """The linear program of a market; columns are GPUs, and shares of demands."""

    def __init__(self, market: Market) -> None:
        self.market = market
        months, cohorts = market.months, market.machine_V.size
        can_run = market.rate_KW > 0.0
        used_WT = market.demand_WT > 0.0
        exists_VT = np.arange(months) >= market.start_V[:, None]
        runs_KWT = can_run[:, :, None] & used_WT
        first = 0
        self.at: dict[str, IntArray] = {}
        for name, mask in (
            ("bought", np.ones(cohorts, bool)),
            ("installed", exists_VT),
            ("rented", market.rentable_KT),
            ("served", runs_KWT),
            ("served_rented", runs_KWT & market.rentable_KT[:, None, :]),
            ("unserved", used_WT),
        ):
            numbers = np.full(mask.shape, -1)
            numbers[mask] = np.arange(first, first + mask.sum())
            self.at[name], first = numbers, first + int(mask.sum())
        self.size = first
        # GPUs at full load that the whole mean load of a workload takes
        rate_KW = np.where(can_run, market.rate_KW, np.inf)
        self.gpus_KWT = market.demand_WT / rate_KW[:, :, None]
        most_W = np.where(
            can_run.any(axis=0), rate_KW.min(axis=0, where=can_run, initial=np.inf), 1
        )
        peak_T = market.peak_W / most_W @ market.demand_WT
        self.gpus = max(float(peak_T.max()), float(market.gpus_per_order_K.max()))
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
        first, before = self.at["bought"][cohort], self.at["installed"][cohort, month - 1]
        before, left = np.where(begins, first, before), self._left(cohort, month - 1, begins)
        new = np.isnan(market.owned_V[cohort]) & ~begins
        held = new & (month - market.start_V[cohort] < HELD_MONTHS)
        for table, those in ((self.equal, held), (rows, ~held)):  # installed <= what was kept of it
            numbers = table.add(np.zeros(int(those.sum())))
            table.put(numbers, column[those], 1.0)
            table.put(numbers, before[those], -left[those])
        machines, months = market.rate_KW.shape[0], market.months
        for busy, source in (("served", "installed"), ("served_rented", "rented")):
            capacity = rows.add(np.zeros(machines * months)).reshape(machines, months)
            kind, workload, month, column = self._cells(busy)
            needed = self.gpus_KWT[kind, workload, month] * market.peak_W[workload]
            rows.put(capacity[kind, month], column, needed)
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
        kind, workload, month, column = self._cells("served")
        keep = self.power[month] >= 0
        more = (market.busy_w_KW[kind, workload] - market.idle_w_K[kind]) * market.peak_W[workload]
        more = more * self.gpus_KWT[kind, workload, month]
        rows.put(self.power[month][keep], column[keep], more[keep])

    def _demand(self) -> None:
        """Add that each workload is served, or counted as unserved: shares of its demand."""
        market, rows = self.market, self.equal
        workload, month, column = self._cells("unserved")
        numbers = np.full(market.demand_WT.shape, -1)
        numbers[workload, month] = rows.add(np.ones(column.size))
        rows.put(numbers[workload, month], column, 1.0)
        for name in ("served", "served_rented"):
            _, workload, month, column = self._cells(name)
            rows.put(numbers[workload, month], column, 1.0)

    def _costs(self) -> FloatArray:
        """Return the discounted cost of each column [USD]."""
        market, cost = self.market, np.zeros(self.size)
        discount_T = market.discount_T
        start_V, machine_V = market.start_V, market.machine_V
        new_V = np.isnan(market.owned_V)
        capital_V = market.capital_KT[machine_V, start_V] * discount_T[start_V]
        cost[self.at["bought"]] = np.where(new_V, capital_V, 0.0)
        cohort, month, column = self._cells("installed")
        own = market.upkeep_V[cohort] + market.colocation_K[machine_V[cohort]]
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
        kind, workload, month, column = self._cells("served")
        more = market.busy_w_KW[kind, workload] - market.idle_w_K[kind]
        more = more * self.gpus_KWT[kind, workload, month]
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
        served, rented = (values[name] * market.demand_WT for name in ("served", "served_rented"))
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

        # variables and rows of order 1: GPUs over those of the plan, watts over the site's limit
        column_scale = np.ones(self.size)
        for name in ("bought", "installed", "rented"):
            at = self.at[name]
            column_scale[at[at >= 0]] = self.gpus
        right = np.concatenate(self.upper.right)
        row_scale = np.where(right > 0.0, right, self.gpus)
        cost_scale = float(np.abs(cost * column_scale).max()) or 1.0
        found = linprog(
            cost * column_scale / cost_scale,
            A_ub=self.upper.matrix(self.size, column_scale, 1.0 / row_scale),
            b_ub=right / row_scale,
            A_eq=self.equal.matrix(self.size, column_scale, np.ones(self.equal.count)),
            b_eq=np.concatenate(self.equal.right),
            bounds=bounds / column_scale[:, None],
            method="highs",
        )
        if found.status not in (0, 2):
            raise InfeasibleError(f"the plan has no optimum: {found.message}")
        if found.status == 0:
            found.x = found.x * column_scale
            found.fun = float(cost @ found.x)
            found.ineqlin.marginals = found.ineqlin.marginals * cost_scale / row_scale
        return found

    def _short(self, bounds: FloatArray) -> ShortError:
        """Return which demand cannot be met, from when, and by how much."""
        market, bounds = self.market, bounds.copy()
        workload, month, column = self._cells("unserved")
        bounds[column, 1] = 1.0
        unpriced = np.isnan(market.price_WT[workload, month])
        missing = np.zeros(self.size)
        missing[column] = np.where(unpriced, 1.0, 0.0)
        short = np.where(unpriced, self._minimum(missing, bounds).x[column], 0.0)
        first = int(month[short >= min(ROUNDING, short.max())].min())
        worst = int(np.argmax(np.where(month == first, short, 0.0)))
        limits = {
            "site_power": np.isfinite(market.site_w_T).any(),
            "max_gpus_per_month": np.isfinite(market.max_delivered_K).any(),
            "max_rented_gpus": np.isfinite(market.max_rented_K).any(),
        }
        named = ", ".join(name for name, is_set in limits.items() if is_set)
        by = f"; {named} limit what can be installed" if named else ""
        return ShortError(
            f"{market.workload_W[workload[worst]]}: {100.0 * short[worst]:.3g}% of the demand of"
            f" {market.month_T[first]} cannot be served, and without usd_per_million_tokens all of"
            f" it must be{by}.",
            month=market.month_T[first],
            share=float(short[worst]),
            advice=("raise a limit, add a machine, or give the workload a price.",),
        )
