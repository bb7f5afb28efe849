"""Power of the site of a schedule: nodes, overhead by load, caps by hour, carbon and electricity.

Shape legend: T samples, H hours, N numbers of nodes in service from 0 to all of them, X failures.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import PowerCourse, largest_ramp_w_per_s, node_power
from perfatlas.files import Number, number_column, read_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import HOUR_S, InvalidSpecError, UnsupportedError
from perfatlas.reliability.jobs.model import TICKS_PER_SECOND, Failures, ticks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.reliability.jobs.model import Cluster
    from perfatlas.reliability.jobs.run import ScheduleOutcome
    from perfatlas.scenario.cluster_schedules.schedule_fields import ScheduleFields

    Floats = NDArray[np.float64]

HOURS_OF_DAY: Final = 24  # rows of a profile that repeats every day
KWH_J: Final = 1e3 * HOUR_S
MAX_SAMPLES: Final = 2_000_000
PROFILE: Final[Mapping[str, Number]] = {
    "cap_w": Number(unit="W", least=1.0, most=1e12),
    "gco2_per_kwh": Number(least=0.0, most=1e5),
    "usd_per_kwh": Number(least=-1e6, most=1e6),
}


@dataclass(frozen=True)
class Site:
    """Nodes of a cluster and the facility around them."""

    inputs: ScheduleFields
    cluster: Cluster
    host_w_per_gpu: float  # Rest of a node for each of its GPUs [W]
    factor: float  # AC power of a node over that of its components

    @classmethod
    def of(cls, inputs: ScheduleFields, cluster: Cluster) -> Site:
        """Return the site of a schedule.

        Raises:
            UnsupportedError: The power of the nodes of its system is not known.
        """
        if inputs.system is None:
            return cls(inputs, cluster, 0.0, 1.0)
        node = node_power(resolve_system(inputs.system).node)
        if math.isnan(node.factor):
            raise UnsupportedError(
                f"system = {inputs.system}: the power of its nodes beside the GPUs is not known;"
                " leave out system to count GPU boards alone"
            )
        return cls(inputs, cluster, node.host_w / node.devices, node.factor)

    def it_w(self, working: Floats, down: Floats, held: Floats) -> Floats:
        """Return the power of the nodes [W].

        Args:
            working: GPUs of jobs that work.
            down: GPUs of nodes under repair.
            held: GPUs of nodes that a cap holds out of service, which are off.
        """
        inputs, gpus = self.inputs, self.cluster.gpus
        power_w, idle_w = inputs.power_w or 0.0, inputs.idle_power_w or 0.0
        boards_w = idle_w * (gpus - down - held) + (power_w - idle_w) * working
        hosts_w = self.host_w_per_gpu * (gpus - down - held)
        return self.factor * (boards_w + hosts_w + inputs.repair_power_w * down)

    def facility_w(self, it_w: Floats) -> Floats:
        """Return the power of the facility from that of its nodes [W].

        Of the overhead at full load, a part is fixed, a part grows with the load and a part with
        its square.

        Source: N. Rasmussen, Electrical Efficiency Modeling for Data Centers, Schneider Electric
            White Paper 113: no-load, proportional and square-law losses.
        """
        inputs = self.inputs
        none = np.zeros(())
        full_w = float(self.it_w(np.array(float(self.cluster.gpus)), none, none))
        load, fixed, square = it_w / full_w, inputs.pue_fixed_share, inputs.pue_square_share
        overhead = fixed + (1.0 - fixed - square) * load + square * load**2
        return it_w + ((inputs.pue or 1.0) - 1.0) * full_w * overhead

    @cached_property
    def profile(self) -> dict[str, Floats]:
        """Columns of its profile by hour (R,), empty without one."""
        return {} if self.inputs.site_profile is None else _profile(self.inputs.site_profile)

    def hourly(self, name: str, hours: int) -> Floats | None:
        """Return a column of the profile by hour of the schedule (H,), None where it has none.

        Raises:
            InvalidSpecError: The profile is wrong, or lacks hours.
        """
        value_R = self.profile.get(name)
        if value_R is None:
            return None
        if value_R.size == HOURS_OF_DAY:
            value_R = np.tile(value_R, math.ceil(hours / HOURS_OF_DAY) or 1)
        elif value_R.size < hours:
            raise InvalidSpecError(
                f"site_profile = {self.inputs.site_profile} lacks hour {value_R.size}: the schedule"
                f" has {hours} hours; add rows, or give the {HOURS_OF_DAY} hours of a day, which"
                " repeat"
            )
        return value_R[: max(hours, 1)]

    def caps_w(self, hours: int) -> Floats | None:
        """Return the cap of each hour (H,) [W], None without caps."""
        cap_H = self.hourly("cap_w", hours)
        if self.inputs.site_cap_w is not None:
            cap_H = np.minimum(np.inf if cap_H is None else cap_H, self.inputs.site_cap_w)
            cap_H = np.broadcast_to(cap_H, (hours,))
        return cap_H

    def outages(self) -> Failures | None:
        """Return the nodes that caps hold out of service, None without caps.

        The nodes in service are the most whose GPUs may all compute below the cap of the hour; jobs
        fill nodes from the first, so that the last ones are out.

        Raises:
            InvalidSpecError: A cap allows less than all nodes out of service, the schedule of a
                profile has no end, or the profile has no effect.
        """
        inputs, cluster = self.inputs, self.cluster
        profiled = "cap_w" in self.profile
        if inputs.site_profile is not None and not profiled and inputs.trace_resolution_s is None:
            raise InvalidSpecError(
                f"site_profile = {inputs.site_profile} has no effect here: it has no column cap_w,"
                " and no power over time is asked for; set trace_resolution_s, such as 1h"
            )
        if profiled and inputs.until_s is None:
            raise InvalidSpecError(
                f"site_profile = {inputs.site_profile}: its caps need the end of the schedule; set"
                " until_s"
            )
        hours = max(math.ceil(inputs.until_s / HOUR_S), 1) if profiled and inputs.until_s else 1
        cap_H = self.caps_w(hours)
        if cap_H is None:
            return None
        on_N = np.arange(cluster.nodes + 1.0) * cluster.gpus_per_node
        most_w_N = self.facility_w(self.it_w(on_N, 0.0 * on_N, cluster.gpus - on_N))
        nodes_H = np.searchsorted(most_w_N, cap_H * (1.0 + 1e-12), side="right") - 1
        least = 0 if profiled else 1
        if np.any(nodes_H < least):
            hour = int(np.argmax(nodes_H < least))
            raise InvalidSpecError(
                f"a cap of {cap_H[hour]:g} W"
                + (f" in hour {hour}" if profiled else "")
                + f" is below the {most_w_N[least]:.0f} W of the facility with"
                f" {least} node{'' if least == 1 else 's'} in service; raise "
                + ("cap_w of site_profile" if profiled else "site_cap_w")
            )
        rows: list[tuple[float, int, int, float]] = []
        levels = [*np.unique(nodes_H).tolist(), cluster.nodes]
        for first, after in itertools.pairwise(levels):
            if first == after:
                continue
            out_H = np.concatenate([[False], nodes_H <= first, [False]])
            starts, ends = np.flatnonzero(np.diff(out_H.astype(int))).reshape(-1, 2).T.tolist()
            for start, end in zip(starts, ends, strict=True):
                lasts_s = (end - start) * HOUR_S if profiled else math.nan
                rows.append((start * HOUR_S, first, after - first, lasts_s))
        if not rows:
            return None
        time_X, node_X, width_X, lasts_X = np.array(sorted(rows)).T
        return Failures(
            time_X=ticks(time_X),
            node_X=node_X.astype(np.int64),
            repair_X=np.where(np.isnan(lasts_X), -1, ticks(np.nan_to_num(lasts_X))),
            width_X=width_X.astype(np.int64),
            held_X=np.ones(time_X.shape, np.bool_),
        )


def with_outages(failures: Failures | None, outages: Failures | None) -> Failures | None:
    """Return failures and outages in time order, outages first."""
    if failures is None or outages is None:
        return outages if failures is None else failures
    none_X = np.zeros(np.asarray(failures.time_X).shape, np.bool_)
    columns: dict[str, Any] = {}
    for name, missing in (
        *(("time_X", None), ("node_X", None), ("repair_X", None)),
        *(("width_X", none_X + 1), ("drain_X", none_X), ("held_X", none_X)),
    ):
        second = getattr(failures, name)
        first = getattr(outages, name)
        first = np.zeros(outages.time_X.shape, np.bool_) if first is None else first
        columns[name] = np.concatenate([first, missing if second is None else second])
    order = np.argsort(columns["time_X"], kind="stable")
    return Failures(**{name: column[order] for name, column in columns.items()})


@dataclass(frozen=True)
class SitePower:
    """Power of a site over time."""

    columns: Mapping[str, Floats]  # Samples: time_s, it_power_w, facility_power_w, ... (T,)
    results: Mapping[str, float]

    def rounded(self) -> dict[str, list[float]]:
        """Return the samples as cells of a table."""
        return {name: column_T.round(3).tolist() for name, column_T in self.columns.items()}


def site_power(site: Site, outcome: ScheduleOutcome) -> SitePower | None:
    """Return the power of a site over a schedule, None where it was not watched.

    Raises:
        InvalidSpecError: There are too many samples, or a profile lacks hours.
    """
    course, each_s = outcome.course, site.inputs.trace_resolution_s
    if course is None or each_s is None or course.edge_s[-1] <= 0.0:
        return None
    count = math.ceil(course.edge_s[-1] / each_s)
    if count > MAX_SAMPLES:
        raise InvalidSpecError(
            f"trace_resolution_s = {each_s:g} makes {count:,} samples of {course.edge_s[-1]:.0f} s,"
            f" and at most {MAX_SAMPLES:,} are answered; raise it"
        )
    edge_s = np.minimum(each_s * np.arange(count + 1), course.edge_s[-1])
    lasts_T, lasts_E = np.diff(edge_s), np.maximum(np.diff(course.edge_s), 1e-9)
    working_T, down_T = (
        np.diff(PowerCourse(course.edge_s, gpu_s_E / lasts_E).energy_j(edge_s)) / lasts_T
        for gpu_s_E in (course.working_E, course.down_E)
    )
    start_X, end_X, gpus_X = outcome.held
    time_s = np.concatenate([start_X, end_X]) / TICKS_PER_SECOND
    held = PowerCourse.of_changes(time_s, np.concatenate([gpus_X, -gpus_X]), course.edge_s[-1])
    held_T = np.diff(held.energy_j(edge_s)) / lasts_T
    it_w_T = site.it_w(working_T, np.maximum(down_T - held_T, 0.0), held_T)
    watts_T = site.facility_w(it_w_T)
    hour_T = (edge_s[:-1] // HOUR_S).astype(np.int64)
    hours = int(hour_T[-1]) + 1
    columns = {"time_s": edge_s[:-1], "it_power_w": it_w_T, "facility_power_w": watts_T}
    energy_T = watts_T * lasts_T
    results = {
        "site_mean_power_w": float(energy_T.sum() / edge_s[-1]),
        "site_peak_power_w": float(watts_T.max()),
        "site_least_power_w": float(watts_T.min()),
        "site_ramp_w_per_s": largest_ramp_w_per_s(watts_T, each_s, each_s),
        "site_energy_j": float(energy_T.sum()),
        "site_pue": float(energy_T.sum() / (it_w_T * lasts_T).sum()),
    }
    limits = {"site_above_limit_share": site.inputs.trace_limit_w}
    if (cap_H := site.caps_w(hours)) is not None:
        columns["cap_w"] = limits["site_above_cap_share"] = cap_H[hour_T]
    for name, limit_w in limits.items():
        if limit_w is not None:
            above_T = watts_T > limit_w * (1.0 + 1e-9)
            results[name] = float(lasts_T[above_T].sum() / edge_s[-1])
    for name, total in (("gco2_per_kwh", "site_gco2"), ("usd_per_kwh", "site_electricity_usd")):
        rate_H = site.hourly(name, hours)
        if rate_H is None and (constant := getattr(site.inputs, name)) is not None:
            rate_H = np.full(hours, constant)
        if rate_H is not None:
            columns[name] = rate_H[hour_T]
            results[total] = float((rate_H[hour_T] * energy_T).sum() / KWH_J)
    return SitePower(columns, results)


def _profile(path: str) -> dict[str, Floats]:
    """Return the columns of a profile by hour (R,).

    Raises:
        InvalidSpecError: The file lacks hours or columns, or has a wrong cell.
    """
    table = read_table(path)
    if "hour" not in table.columns or not set(PROFILE) & set(table.columns):
        raise InvalidSpecError(
            f"site_profile = {path} needs a column hour and one of {', '.join(PROFILE)}; it has"
            f" {', '.join(list(table.columns)[:30])}"
        )

    def wrong(of: str) -> Any:  # noqa: ANN401 - what number_column raises
        return lambda at, problem: InvalidSpecError(
            f"site_profile = {path}, row {at + 2}: {of}{problem}"
        )

    hour_R = number_column(table.cells("hour"), Number(least=0.0, whole=True), wrong("hour"))
    gaps_R = np.flatnonzero(~(hour_R == np.arange(table.rows)))
    if gaps_R.size or not table.rows:
        at = int(gaps_R[0]) if gaps_R.size else 0
        raise InvalidSpecError(
            f"site_profile = {path} lacks hour {at}: it needs every hour from 0 on, in order, up to"
            f" the end of the schedule, or the {HOURS_OF_DAY} hours of a day, which repeat"
        )
    columns = {}
    for name in (each for each in PROFILE if each in table.columns):
        columns[name] = number_column(table.cells(name), PROFILE[name], wrong(name))
        if np.isnan(columns[name]).any():
            raise wrong(name)(int(np.argmax(np.isnan(columns[name]))), " is empty")
    return columns
