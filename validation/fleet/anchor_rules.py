"""Rules that predict published figures, and the settings consistent with one.

Shape legend: T times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, significant
from perfatlas.reliability.fleet.closed_form import (
    CHECKPOINT_BYTES_PER_PARAMETER,
    meta_ettr,
    optimal_interval_s,
    renewal_efficiency,
    replicas_up,
)
from perfatlas.reliability.fleet.model import find_duration, find_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DAY_S: Final = 86400.0
HOUR_S: Final = 3600.0
NODE_GPUS: Final = 8
MEASURED_GPUS: Final = 1024  # GPUs of the jobs whose MTTF gave the rate of interrupted jobs
NTP_GPUS: Final = 32_768  # GPUs of the cluster of arXiv 2504.06095
SNAPSHOT_PARAMETERS: Final = 530e9  # of the model that Gemini (SOSP'23) writes
SNAPSHOT_BITS_PER_S: Final = 20e9  # to its remote storage


@dataclass(frozen=True, kw_only=True)
class Found:
    """The prediction of a published figure."""

    ours: float  # Predicted value, in the unit of the figure; the lower end of a range
    why: str  # How it was computed, or why it deviates
    ours_max: float | None = None  # Upper end of a range from unpublished assumptions
    arithmetic: bool = False  # Whether it only adds or divides figures of the same table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A row of the table of published figures."""

    source: str  # Publication
    metric: str  # Quantity
    value: float  # The figure, in `unit`
    value_max: float | None  # Upper end of a range
    qualifier: str  # =, ~, <, >, <=, >= or range
    unit: str  # Unit as printed
    gpus: float  # Number of GPUs it applies to; 0 where not stated
    sums: dict[str, float]  # Sums over other rows of the table


def job_mttf_s(rate_name: str, gpus: float) -> float:
    """Return the mean time between interruptions of a job by a published rate per node [s].

    Args:
        rate_name: Rate of the catalog; the result depends on the events it counts.

    Raises:
        InvalidSpecError: The rate is unknown or not one per node.

    Example:
        >>> from validation.fleet.anchor_rules import job_mttf_s
        >>> [f"{job_mttf_s(name, 1024) / 3600:.1f} h" for name in
        ...     ("rsc1_node", "rsc1_job_1024_measured")]
        ['28.8 h', '7.9 h']
    """
    rate = find_rate(rate_name)
    if rate.of != "node":
        raise InvalidSpecError(f"{rate_name} is a rate per {rate.of}, not per node")
    return rate.mean_s / rate.ones_in(gpus)


def cause_share(figure: Figure, causes: str) -> float:
    """Return the share of causes in all unexpected interruptions of the table [%].

    Args:
        figure: The figure, with sums over the other rows.
        causes: Name of one of its sums.

    Raises:
        InvalidSpecError: The table has no causes.
    """
    if not figure.sums["causes"]:
        raise InvalidSpecError(
            f"{figure.metric} needs the causes of interruptions, and the table has none: add rows"
            " unexpected_interruptions[...]"
        )
    return 100.0 * figure.sums[causes] / figure.sums["causes"]


RSC_MTTF_S: Final = {
    8: 47.7 * DAY_S,
    1024: 7.9 * HOUR_S,
    16_384: 1.8 * HOUR_S,
    131_072: 0.23 * HOUR_S,
}  # arXiv 2410.21680; the first two measured, the others projected


def rsc_mttf() -> list[dict[str, Any]]:
    """Return RSC-1's MTTF by job size [s]: published, and predicted by both of its rates.

    The rate of failures attributed to hardware reproduces the projections, the rate of interrupted
    jobs the measurements; neither reproduces both.

    Example:
        >>> from validation.fleet.anchor_rules import rsc_mttf
        >>> row = rsc_mttf()[1]
        >>> print({key: round(value / 3600, 1) for key, value in row.items() if key.endswith("_s")})
        {'published_s': 7.9, 'by_hardware_rate_s': 28.8, 'by_interruption_rate_s': 7.9}
    """
    return [
        {
            "gpus": float(gpus),
            "kind": "measured" if gpus <= 1024 else "projected",
            "published_s": published_s,
            "by_hardware_rate_s": job_mttf_s("rsc1_node", gpus),
            "by_interruption_rate_s": job_mttf_s("rsc1_job_1024_measured", gpus),
        }
        for gpus, published_s in RSC_MTTF_S.items()
    ]


@dataclass(frozen=True, kw_only=True)
class ConsistentIntervals:
    """Intervals between checkpoints with which a job reaches a published efficiency."""

    write_s: float  # Blocking write [s]
    restart_s: float  # Recovery [s]
    best: float  # Efficiency at the optimum interval
    # Shortest work between checkpoints that reaches it [s]; None if none does
    shortest_s: float | None
    longest_s: float | None  # Longest [s]


def consistent_intervals(
    mtti_s: float, at_least: float, *, writes_s: Sequence[float], restarts_s: Sequence[float]
) -> list[ConsistentIntervals]:
    """Return all settings consistent with an efficiency, as ranges of intervals.

    Args:
        mtti_s: Mean time between interruptions [s].
        at_least: Published efficiency.
        writes_s: Blocking writes tried [s].
        restarts_s: Recoveries tried [s].

    Raises:
        InvalidSpecError: A time that is not positive.

    Source: `renewal_efficiency` is unimodal, so the intervals that reach a level form one range;
        its ends by bisection.
    """
    found = []
    for write_s in writes_s:
        for restart_s in restarts_s:
            best_s = float(optimal_interval_s(write_s, mtti_s))

            def efficiency(
                interval_s: float, write_s: float = write_s, restart_s: float = restart_s
            ) -> float:
                return float(renewal_efficiency(interval_s, write_s, restart_s, mtti_s).value_C)

            best = efficiency(best_s)
            ends: tuple[float | None, float | None] = (None, None)
            if best >= at_least:
                ends = (
                    _crossing(efficiency, best_s, best_s * 1e-6, at_least),
                    _crossing(efficiency, best_s, mtti_s * 50.0, at_least),
                )
            found.append(
                ConsistentIntervals(
                    write_s=write_s,
                    restart_s=restart_s,
                    best=best,
                    shortest_s=ends[0],
                    longest_s=ends[1],
                )
            )
    return found


def _crossing(
    efficiency: Callable[[float], float], inside: float, outside: float, level: float
) -> float:
    for _ in range(80):
        middle = (inside * outside) ** 0.5
        if efficiency(middle) >= level:
            inside = middle
        else:
            outside = middle
    return inside


LLAMA3_MTTI_S: Final = 1296.0 * HOUR_S / 419.0
LLAMA3_WRITES_S: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0)
LLAMA3_RESTARTS_S: Final = (60.0, 180.0, 300.0, 600.0, 900.0, 1200.0, 1800.0)


def llama3_settings() -> list[ConsistentIntervals]:
    """Return the settings consistent with over 90% effective time of 16,384 GPUs over 54 days.

    Source: arXiv 2407.21783, 419 unexpected interruptions in 1,296 h; planned ones are excluded, as
        they lose no work.
    """
    return consistent_intervals(
        LLAMA3_MTTI_S, 0.9, writes_s=LLAMA3_WRITES_S, restarts_s=LLAMA3_RESTARTS_S
    )


def _effective(_: Figure) -> Found:
    settings = llama3_settings()
    good = [s for s in settings if s.longest_s is not None and s.shortest_s is not None]
    why = f"{len(good)} of {len(settings)} pairs of write and restart times reach it"
    if good:
        writes_s, restarts_s = [s.write_s for s in good], [s.restart_s for s in good]
        shortest_s = min(s.shortest_s or 0.0 for s in good)
        longest_s = max(s.longest_s or 0.0 for s in good)
        why += (
            f": writes of {min(writes_s):g} to {max(writes_s):g} s, restarts of"
            f" {min(restarts_s) / 60:g} to {max(restarts_s) / 60:g} min, intervals of"
            f" {significant(shortest_s)} s to {significant(longest_s / 60)} min; ours is the"
            " efficiency at the"
            " optimal interval over all pairs tried"
        )
    best = [100.0 * s.best for s in settings]
    return Found(ours=min(best), ours_max=max(best), why=why)


def _projected(figure: Figure) -> Found:
    hours = job_mttf_s("rsc1_node", figure.gpus) / HOUR_S
    other = job_mttf_s("rsc1_job_1024_measured", figure.gpus) / HOUR_S
    return Found(
        ours=hours,
        why="its hardware failure rate per node x nodes, as projected in the paper; the rate of"
        f" interrupted jobs gives {other:.2f} h",
        arithmetic=True,
    )


def _measured(figure: Figure) -> Found:
    unit_s = {"h": HOUR_S, "d": DAY_S}[figure.unit]
    ours = job_mttf_s("rsc1_job_1024_measured", figure.gpus) / unit_s
    hardware = job_mttf_s("rsc1_node", figure.gpus) / unit_s
    return Found(
        ours=ours,
        why="the rate at which running jobs of 1,024 GPUs were interrupted, for any cause, as in"
        f" the figure; failures attributed to hardware give {significant(hardware, 4)}"
        f" {figure.unit}",
        arithmetic=figure.gpus == MEASURED_GPUS,
    )


def _needed_rate(_figure: Figure) -> Found:
    """Return the node failure rate with which 12,000 GPUs reach 0.9 at the optimum interval."""
    low, high = 1e-5, 1.0
    for _ in range(60):
        middle = (low * high) ** 0.5
        mtti_s = DAY_S / (12_000 / NODE_GPUS * middle)
        best = renewal_efficiency(float(optimal_interval_s(10.0, mtti_s)), 10.0, 300.0, mtti_s)
        low, high = (middle, high) if float(best.value_C) > 0.9 else (low, middle)
    return Found(
        ours=1000.0 * low,
        why="10 s writes, 5 min restarts, the optimal interval, no queue time: the published"
        " formula includes a queue time that is not published",
    )


def _formula_error(_: Figure) -> Found:
    mtti_s = np.geomspace(0.5, 100.0, 60)[:, None] * HOUR_S
    interval_s = np.array([600.0, 1800.0, 3600.0])[None, :]
    meta = meta_ettr(interval_s, 300.0, 300.0, mtti_s)
    exact = renewal_efficiency(interval_s, 300.0, 300.0, mtti_s).value_C
    error = float(np.abs(meta.value_C / exact - 1.0)[meta.valid_C].max())
    return Found(
        ours=100.0 * error,
        why="largest error relative to the exact efficiency within the range of validity",
    )


def _above(_: Figure) -> Found:
    """Return the share of 15 days with more than 0.1% of 32,768 GPUs failed."""
    from scipy.special import pdtrc

    rate = find_rate("llama3_node_unexpected")
    per_day = rate.per_day * rate.ones_in(NTP_GPUS)
    day_T = np.linspace(0.0, 15.0, 3001)
    software_T = 0.22 * np.minimum(day_T, find_duration("ntp_software").low_s / DAY_S)

    def share(repair_d: float) -> float:
        under_repair_T = per_day * (0.78 * np.minimum(day_T, repair_d) + software_T)
        return 100.0 * float(np.mean(pdtrc(np.floor(1e-3 * NTP_GPUS), under_repair_T)))

    hardware = find_duration("ntp_hardware")
    return Found(
        ours=share(hardware.low_s / DAY_S),
        ours_max=share(hardware.high_s / DAY_S),
        why="Llama-3 failures per GPU, Poisson number under repair from a healthy start; the"
        " range is for hardware repairs of 3 to 5 days",
    )


def _snapshot(_: Figure) -> Found:
    bits = SNAPSHOT_PARAMETERS * CHECKPOINT_BYTES_PER_PARAMETER * 8.0
    return Found(
        ours=bits / SNAPSHOT_BITS_PER_S / 60.0,
        why=f"{CHECKPOINT_BYTES_PER_PARAMETER:g} bytes per parameter of"
        f" {SNAPSHOT_PARAMETERS / 1e9:g} billion, as for all checkpoints here, over"
        f" {SNAPSHOT_BITS_PER_S / 1e9:g} Gbit/s; 12 bytes, without 16-bit weights, reproduce the"
        " figure",
    )


def _sum_rule(name: str, why: str, factor: float = 1.0) -> Callable[[Figure], Found]:
    return lambda figure: Found(ours=factor * figure.sums[name], why=why, arithmetic=True)


def _per_interruption(planned: float) -> Callable[[Figure], Found]:
    return lambda figure: Found(
        ours=1296.0 / (figure.sums["causes"] + planned * figure.sums["planned"]),
        why="54 d over the sum of the published causes",
        arithmetic=True,
    )


def _whole_domains(_: Figure) -> Found:
    """Return the usable share of domains of 64 GPUs that need all of them."""
    column = np.ones(1)
    return Found(
        ours=100.0 * float(replicas_up(column, column, 64.0 * column, 1e-3)[0]), why="(1 - u)^d"
    )


RULES: Final[dict[tuple[str, str], Callable[[Figure], Found]]] = {
    ("Meta Llama 3*", "interruptions_unexpected"): _sum_rule("causes", "the sum of its 18 causes"),
    ("Meta Llama 3*", "interruptions_total"): lambda figure: Found(
        ours=figure.sums["causes"] + figure.sums["planned"],
        why="18 causes plus planned interruptions",
        arithmetic=True,
    ),
    ("Meta Llama 3*", "mtbi_unexpected"): _per_interruption(0.0),
    ("Meta Llama 3*", "mtbi_all"): _per_interruption(1.0),
    ("Meta Llama 3*", "unexpected_per_1000_node_days"): lambda _: Found(
        ours=1000.0 * find_rate("llama3_node_unexpected").per_day,
        why="419 interruptions over 2,048 nodes and 54 d",
        arithmetic=True,
    ),
    ("Meta Llama 3*", "gpu_category_share"): lambda figure: Found(
        ours=cause_share(figure, "gpu_causes"),
        why="six GPU causes over all causes; the 58.7% in the text is due to an erratum",
        arithmetic=True,
    ),
    ("Meta Llama 3*", "effective_training_time"): _effective,
    ("Meta Revisiting*", "job_mttf_projected"): _projected,
    ("Meta Revisiting*", "job_mttf_measured"): _measured,
    ("Meta Revisiting*", "node_failure_rate_needed_for_ettr_0.9_at_12000_gpus"): _needed_rate,
    ("Meta Revisiting*", "ettr_formula_error_vs_monte_carlo"): _formula_error,
    ("NVIDIA NTP*", "usable_fraction_with_0.1pct_gpus_failed"): _whole_domains,
    ("NVIDIA NTP*", "share_of_time_above_0.1pct_gpus_failed"): _above,
    ("Gemini (Rice*", "ckpt_time_at_20_Gbps_remote_storage"): _snapshot,
}
