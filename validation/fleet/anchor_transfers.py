"""Predictions of figures of one cluster from rates and times published for others.

Nothing is fitted: a prediction uses the size and times stated by the figure's source and the rates
of the catalog. Unpublished inputs give a range, and the reason names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.reliability.fleet.closed_form import optimal_interval_s, renewal_efficiency
from perfatlas.reliability.fleet.model import collective_init_s, find_rate
from validation.fleet.anchor_rules import HOUR_S, NODE_GPUS, Figure, Found, cause_share, job_mttf_s

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_S: Final = 86400.0
MINUTE_S: Final = 60.0
RSC_OVERHEAD_S: Final = 300.0  # restart and write, each; arXiv 2410.21680
RSC_MEASURED_GPUS: Final = 1024.0  # the largest job size with a measured MTTF there
RSC_JOBS: Final = 4e6  # of arXiv 2410.21680, in 11 months on both clusters
RSC_DAYS: Final = 335.0
RSC_NODES: Final = (2000.0, 1000.0)
RSC_BUSY: Final = (0.83, 0.85)
NEEDED_GPUS: Final = 12_000.0
NEEDED_PER_DAY: Final = 1e-3  # and node
MEGASCALE_WEEKS: Final = (2.0, 8.0)  # its source says "weeks"
MEGASCALE_RECOVERY_S: Final = 25.0 * MINUTE_S  # diagnosis under 10 min, catching up under 15
INIT_S: Final = 5.0  # MegaScale, after its fixes, at this number of ranks
INIT_RANKS: Final = 2048
HPN_GPUS: Final = (1024.0, 15_360.0)  # a segment and a pod of SIGCOMM'24
HPN_GPUS_PER_TOR: Final = 64.0  # 16 switches of a segment
OPT_DAYS: Final = 33.0  # days of its logbook
TORCHFT_S: Final = (60.0, 15.0)  # MTBF of both runs
TORCHFT_COMMITTED: Final = 0.823  # at the first
# clockwork.io/blog/keeping-distributed-training-running-through-failures
INJECTED_S: Final = 3600.0  # the middle of 2700 to 4500 s between injected faults
FAULTLESS_S: Final = 405.0 * MINUTE_S  # of the run that loses almost no time to faults
LOST_STEPS: Final = 50.0 / 3000.0  # half of 100 steps between checkpoints
RESTARTS_S: Final = (15.0 * MINUTE_S, 30.0 * MINUTE_S)  # AWS, before checkpointless recovery
LESS_S: Final = 2.0 * MINUTE_S  # with checkpointless recovery


def _per_day(rate_name: str, gpus: float) -> float:
    return DAY_S / job_mttf_s(rate_name, gpus)


def _best(write_s: float, restart_s: float, mtti_s: float) -> float:
    interval_s = float(optimal_interval_s(write_s, mtti_s))
    return float(renewal_efficiency(interval_s, write_s, restart_s, mtti_s).value_C)


def _largest(efficient: Callable[[float], float], level: float) -> float:
    """Return the time at which a decreasing function falls below a level [s]."""
    low, high = 1e-3, 1e6
    for _ in range(80):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if efficient(middle) > level else (low, middle)
    return low


def _largest_jobs(_: Figure) -> Found:
    def ettr(name: str, gpus: float) -> float:
        return _best(RSC_OVERHEAD_S, RSC_OVERHEAD_S, job_mttf_s(name, gpus))

    names = ("rsc1_job_1024_measured", "rsc1_node")
    low, high = (ettr(name, RSC_MEASURED_GPUS) for name in names)
    more = [f"{ettr(name, 4096.0):.2f}" for name in names]
    return Found(
        ours=low,
        ours_max=high,
        why="1,024 GPUs, the largest size with a measured MTTF; writes and restarts of 5 min each"
        " as the paper assumes, the optimal interval, no queue time; the range is that of both"
        f" rates. 4,096 GPUs give {' to '.join(more)}",
    )


def _needed_write(_: Figure) -> Found:
    mtti_s = DAY_S / (NEEDED_GPUS / NODE_GPUS * NEEDED_PER_DAY)
    ours = _largest(lambda write_s: _best(write_s, RSC_OVERHEAD_S, mtti_s), 0.9)
    queue_s = _largest(lambda q: _best(10.0, RSC_OVERHEAD_S + q, mtti_s), 0.9)
    return Found(
        ours=ours,
        why="1 failure per 1,000 node-days, 5 min restarts, the optimal interval, no queue time."
        f" 10 s writes give {_best(10.0, RSC_OVERHEAD_S, mtti_s):.3f}; a queue of"
        f" {queue_s / HOUR_S:.1f} h before every restart, which is not published, would give 0.9",
    )


def _affected(_: Figure) -> Found:
    nodes, busy = RSC_NODES, RSC_BUSY
    first, second = find_rate("rsc1_node").per_day, find_rate("rsc2_node").per_day
    counted = RSC_DAYS * (nodes[0] * busy[0] * first + nodes[1] * busy[1] * second)
    more = find_rate("rsc1_job_1024_measured").per_day / first
    low = 100.0 * counted / RSC_JOBS
    return Found(
        ours=low,
        ours_max=low * more,
        why=f"{counted:,.0f} hardware failures of busy nodes in 11 months over 4 million jobs, one"
        " job each; the upper end by the rate of interrupted jobs. Nodes shared by several small"
        " jobs would raise it",
    )


def _repairs(figure: Figure) -> Found:
    per_day = _per_day("llama3_node_unexpected", figure.gpus)
    low, high = (7.0 * weeks * per_day for weeks in MEGASCALE_WEEKS)
    return Found(
        ours=low,
        ours_max=high,
        why=f"Llama-3's rate for 12,288 GPUs, {per_day:.1f} per day; the range is for 2 to 8"
        " weeks, as only 'weeks' is stated",
    )


def _caught_up(figure: Figure) -> Found:
    names = ("rsc1_node", "llama3_node_unexpected")
    mttis_s = [job_mttf_s(name, figure.gpus) for name in names]
    low, high = (100.0 * m / (m + MEGASCALE_RECOVERY_S) for m in mttis_s)
    return Found(
        ours=low,
        ours_max=high,
        why="25 min per failure, its bounds of 10 min to diagnose and 15 min to catch up"
        " including lost work; the range is that of the rates of RSC-1 and Llama-3, as its own is"
        " not published; checkpoint writes are excluded",
    )


def _ranks(figure: Figure) -> Found | None:
    ranks = int(figure.gpus)
    if ranks == INIT_RANKS:
        return None
    return Found(
        ours=collective_init_s(ranks, fixed_s=0.0, per_rank_s=INIT_S / INIT_RANKS),
        why="its bound of 5 s at 2,048 ranks, linear in ranks as in our restart model",
    )


def _share_of(causes: str, why: str) -> Callable[[Figure], Found]:
    return lambda figure: Found(ours=cause_share(figure, causes), why=why)


def _crashes(figure: Figure) -> Found:
    link, switch = (find_rate(name).per_day * 30.0 for name in ("hpn_nic_link", "hpn_tor"))
    per_gpu = link + switch / HPN_GPUS_PER_TOR
    low, high = (gpus * per_gpu for gpus in HPN_GPUS)
    sizes = [f"{crashes / per_gpu:,.0f}" for crashes in (figure.value, figure.value_max or 0.0)]
    return Found(
        ours=low,
        ours_max=high,
        why="its own rates, one link per GPU, 64 GPUs per switch and no second path; the size of"
        f" the job is not stated: a segment of 1,024 GPUs to a pod of 15,360. {' to '.join(sizes)}"
        " GPUs reproduce it",
    )


def _restarts(figure: Figure) -> Found:
    expected = OPT_DAYS * _per_day("rsc1_job_1024_measured", figure.gpus)
    return Found(
        ours=expected - 1.96 * expected**0.5,
        ours_max=expected + 1.96 * expected**0.5,
        why=f"{expected:.0f} expected in 33 d by the rate of interrupted 1,024-GPU jobs of RSC-1,"
        " also A100s; the range is the 95% interval of a Poisson count. RSC-1's hardware rate"
        f" gives {OPT_DAYS * _per_day('rsc1_node', figure.gpus):.0f}",
    )


def _attrition(figure: Figure) -> Found:
    return Found(
        ours=_per_day("rsc1_node", figure.gpus),
        ours_max=_per_day("rsc1_job_1024_measured", figure.gpus),
        why="RSC-1's rates for its size, from failures attributed to hardware to all"
        " interruptions, as the criterion for removing a machine is not stated",
    )


def _committed(_: Figure) -> Found:
    first_s, second_s = TORCHFT_S
    once = first_s * (1.0 / TORCHFT_COMMITTED - 1.0)
    return Found(
        ours=100.0 * TORCHFT_COMMITTED ** (first_s / second_s),
        ours_max=100.0 * second_s / (second_s + once),
        why="from 82.3% at 60 s, with the same loss per failure: lower end if failures also occur"
        " during recovery, upper end if they do not. By these figures a failure costs more at 15"
        " s than at 60 s; our formulas assume a constant loss",
    )


def _injected(_: Figure) -> Found:
    rework_s = LOST_STEPS * FAULTLESS_S
    low, high = (FAULTLESS_S / (1.0 - (rework_s + r) / INJECTED_S) for r in RESTARTS_S)
    return Found(
        ours=low / MINUTE_S,
        ours_max=high / MINUTE_S,
        why="405 min without faults, a fault every 60 min (2700 to 4500 s are stated), half of"
        " 100 steps lost, and a restart of 15 to 30 min, AWS's figure, as its own is not stated",
    )


def _shorter(_: Figure) -> Found:
    low, high = (100.0 * (1.0 - LESS_S / r) for r in RESTARTS_S)
    return Found(
        ours=low, ours_max=high, why="under 2 min instead of its own 15 to 30 min", arithmetic=True
    )


TRANSFERS: Final[dict[tuple[str, str], Callable[[Figure], Found | None]]] = {
    ("Meta Revisiting*", "ETTR_largest_jobs"): _largest_jobs,
    ("Meta Revisiting*", "checkpoint_write_time_needed*"): _needed_write,
    ("Meta Revisiting*", "jobs_affected_by_infra_failures"): _affected,
    ("ByteDance MegaScale", "repairs_and_recoveries"): _repairs,
    ("ByteDance MegaScale", "effective_training_time"): _caught_up,
    ("ByteDance MegaScale", "nccl_init_time_after"): _ranks,
    ("Alibaba Aegis*", "GPU-related_share"): _share_of(
        "gpu_causes",
        "the share of Llama-3, the default of the shipped fleet: here more failures have other"
        " causes",
    ),
    ("Alibaba HPN*", "crashes_tor_or_nic"): _crashes,
    ("ByteDance Minder*", "fault_share[[]ecc]"): _share_of(
        "memory_causes", "the share of HBM3 and SRAM of Llama-3"
    ),
    ("OPT-175B logbook", "restarts"): _restarts,
    ("OPT-175B logbook", "machine_attrition"): _attrition,
    ("torchft/Crusoe", "step-commit_@15_s_MTBF"): _committed,
    ("Clockwork*", "time_for_3000_steps*checkpoint restart]"): _injected,
    ("AWS HyperPod*", "recovery_time_reduction"): _shorter,
}
