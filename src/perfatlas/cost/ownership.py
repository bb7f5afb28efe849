"""What a GPU-hour costs who owns the GPU, by part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.cost.metered import Numbers

YEAR_HOURS: Final = 365.25 * 24.0
MONTHS: Final = 12.0
WATTS_PER_KW: Final = 1000.0
PARTS: Final = ("gpu", "network", "power", "idle", "failures")


def recovery_factor(rate: float, life_years: float, residual_share: float) -> float:
    """Return the yearly payment for one unit of capital [1/year].

    The payments, discounted, sum to the capital less what is left of it at the end.

    Args:
        rate: Cost of capital per year.
        life_years: Years over which the capital is recovered.
        residual_share: Share of the capital that its sale returns at the end.

    Source: capital recovery factor of engineering economics, r / (1 - (1 + r)^-n).

    Example:
        >>> from perfatlas.cost import recovery_factor
        >>> recovery_factor(0.0, 4.0, 0.2), round(recovery_factor(0.1, 1.0, 0.0), 12)
        (0.2, 1.1)
    """
    if rate == 0.0:
        return (1.0 - residual_share) / life_years
    residual = residual_share * math.pow(1.0 + rate, -life_years)
    return (1.0 - residual) * rate / -math.expm1(-life_years * math.log1p(rate))


@dataclass(frozen=True, kw_only=True)
class HourlyCost:
    """Cost of one GPU by the hour, at the value or at an end of its interval."""

    gpu: float  # The GPU, its space and its repair, or its rent [USD per hour]
    network: float = 0.0  # Network, CPUs and storage [USD per hour]; 0 where the rent includes them
    # Tariff of the electricity that is paid beside it, 0 if it is included
    usd_per_kwh: float = 0.0
    pue: float = 1.0  # Factor on the power of nodes; not on `all_in_w`
    # Power of a GPU with its share of everything, where no power is predicted [W]
    all_in_w: float = math.nan
    utilization: float = 1.0  # Share of hours in which the GPU serves
    goodput: float = 1.0  # Share of these that failures leave

    def parts(self, busy_w: Numbers = math.nan, idle_w: Numbers = math.nan) -> dict[str, Numbers]:
        """Return the cost of a useful hour of a GPU by part; the parts sum to it [USD per hour].

            (fixed + u x busy + (1 - u) x idle) / (u x goodput)

        Args:
            busy_w: AC power of a GPU with its share of the node while it serves [W], NaN if
                unknown.
            idle_w: That of an idle one [W].

        Limits: A GPU draws its busy power in hours that failures take. Without a predicted power,
            idle hours draw all-in power too.
        """
        fixed = self.gpu + self.network
        busy, idle = (self._energy_usd(watts) for watts in (busy_w, idle_w))
        idle_hours = 1.0 / self.utilization - 1.0  # per hour of serving
        unused = idle_hours * (fixed + idle)
        return {
            "gpu": self.gpu + 0.0 * busy,
            "network": self.network + 0.0 * busy,
            "power": busy,
            "idle": unused,
            "failures": (fixed + busy + unused) * (1.0 / self.goodput - 1.0),
        }

    def _energy_usd(self, watts: Numbers) -> Numbers:
        """Return the cost of an hour at a power, all-in power where it is unknown [USD]."""
        if self.usd_per_kwh == 0.0:
            return 0.0 * np.nan_to_num(watts)
        facility_w = np.where(np.isnan(watts), self.all_in_w, self.pue * watts)
        return facility_w / WATTS_PER_KW * self.usd_per_kwh


def owned_cost(capital_usd: float, all_in_w: float, terms: dict[str, float]) -> HourlyCost:
    """Return the cost of owning a GPU [USD/h].

    (capital x recovery factor + upkeep + colocation) per hour; network, CPUs and storage are shares
    of the capital of the GPU and bear the same factor and upkeep.
    """
    factor = recovery_factor(terms["rate"], terms["life_years"], terms["residual_share"])
    yearly = factor + terms["upkeep_share_per_year"]
    space = terms["colocation_usd_per_kw_month"] * MONTHS * all_in_w / WATTS_PER_KW
    shares = terms["network_share"] + terms["host_share"]
    included = terms["colocation_includes_power"] != 0.0
    return HourlyCost(
        gpu=(capital_usd * yearly + space) / YEAR_HOURS,
        network=capital_usd * shares * yearly / YEAR_HOURS,
        usd_per_kwh=0.0 if included else terms["usd_per_kwh"],
        pue=terms["pue"],
        all_in_w=all_in_w,
        utilization=terms["utilization"],
        goodput=terms["goodput"],
    )
