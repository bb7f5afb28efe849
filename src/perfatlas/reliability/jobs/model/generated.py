"""Synthetic jobs, to evaluate a scheduler without a trace.

Shape legend: J jobs, S sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.jobs.model.model import Jobs, ticks
from perfatlas.reliability.jobs.model.records import MAX_INPUT_TICKS, TICKS_PER_SECOND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.jobs.model.model import Cluster

KINDS: Final = ("part of a node", "one node", "several nodes")
MIN_S: Final = 1.0
MAX_S: Final = 7.0 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Mix:
    """Parameters of the synthetic jobs."""

    jobs: int  # Number of jobs
    job_rate: float | None  # Submissions per second; None where `load` sets it
    # Requested GPU-time over the capacity of the cluster until the last submission
    load: float | None
    run_median_s: float  # Median of the run time [s]
    run_sigma: float  # Sigma of its logarithm
    max_job_gpus: int  # Largest size, in GPUs
    seed: int = 0  # Random seed


def generate_jobs(mix: Mix, cluster: Cluster) -> Jobs:
    """Return jobs that arrive as a Poisson process.

    Sizes are powers of two up to the largest, each half as frequent as the one before, so that
    every size requests the same GPU-time. Run times are lognormal, clipped to one second to one
    week, and independent of size.

    Args:
        cluster: The cluster, for `load` and the kinds.

    Raises:
        InvalidSpecError: The submissions span more time than the clock can represent.

    Source: assumption. Publications of GPU traces (Philly, Helios, Acme) agree that most jobs are
        small, that large jobs use much of the GPU-time and that run times span decades; no
        parameter is fitted.
    """
    rng = np.random.default_rng(mix.seed)
    size_S = 2 ** np.arange(int(mix.max_job_gpus).bit_length())
    gpus_J = rng.choice(size_S, size=mix.jobs, p=(1.0 / size_S) / (1.0 / size_S).sum())
    drawn_J = rng.lognormal(np.log(mix.run_median_s), mix.run_sigma, mix.jobs)
    run_s_J = np.clip(drawn_J, MIN_S, MAX_S)
    if mix.job_rate is None:
        gpu_seconds = float((gpus_J * run_s_J).sum())
        span_s = gpu_seconds / cluster.gpus / float(mix.load or 1.0)
        _check_span(mix, span_s)
        submit_s_J = np.sort(rng.uniform(0.0, span_s, mix.jobs))
    else:
        _check_span(mix, mix.jobs / mix.job_rate)
        submit_s_J = np.cumsum(rng.exponential(1.0 / mix.job_rate, mix.jobs))
        _check_span(mix, float(submit_s_J[-1]))
    submit_s_J = submit_s_J - submit_s_J[0]
    node = cluster.gpus_per_node
    return Jobs(
        submit_J=ticks(submit_s_J),
        run_J=ticks(run_s_J),
        gpus_J=gpus_J.astype(np.int64),
        kind_J=np.where(gpus_J < node, 0, np.where(gpus_J == node, 1, 2)),
        kinds=KINDS,
    )


def with_running_jobs(jobs: Jobs, cluster: Cluster, seed: int) -> Jobs:
    """Return a stream of jobs that begins with those that run in its steady state.

    Without a queue, the running jobs are a Poisson number of mean rate x mean run time. A job is
    among them in proportion to its run time, and is at a uniform point of it. Those that the
    cluster does not hold wait at the start, behind the others.

    Source: the M/G/infinity queue in equilibrium (Ross, Introduction to Probability Models, 5.3).

    Limits: The queue of the steady state is only that of these jobs, so that a warm-up remains.
    """
    rng = np.random.default_rng((seed, 1))
    run_J, gpus_J = np.asarray(jobs.run_J, np.float64), np.asarray(jobs.gpus_J)
    number = rng.poisson(run_J.sum() / max(float(jobs.submit_J[-1]), 1.0))
    drawn_N = rng.choice(jobs.size, number, p=run_J / run_J.sum())
    drawn_N = drawn_N[np.argsort(~_fitting(gpus_J[drawn_N], cluster.gpus), kind="stable")]
    left_N = np.ceil(run_J[drawn_N] * rng.uniform(size=drawn_N.size)).astype(np.int64)
    rows = np.concatenate((drawn_N, np.arange(jobs.size)))
    return replace(
        jobs,
        submit_J=np.concatenate((np.zeros(drawn_N.size, np.int64), jobs.submit_J)),
        run_J=np.concatenate((np.maximum(left_N, 1), jobs.run_J)),
        gpus_J=gpus_J[rows],
        kind_J=None if jobs.kind_J is None else np.asarray(jobs.kind_J)[rows],
        running=drawn_N.size,
    )


def _fitting(gpus_N: NDArray[np.int64], capacity: int) -> NDArray[np.bool_]:
    """Return which jobs a number of GPUs holds, in order, without those that do not fit (N,)."""
    fitting_N, free = np.zeros(gpus_N.size, np.bool_), capacity
    for n, gpus in enumerate(gpus_N.tolist()):
        if gpus <= free:
            fitting_N[n], free = True, free - gpus
    return fitting_N


def _check_span(mix: Mix, span_s: float) -> None:
    if not span_s <= MAX_INPUT_TICKS / TICKS_PER_SECOND:
        raise InvalidSpecError(
            f"{counted(mix.jobs, 'job')} would be submitted over {span_s:.3g} s: expected at most"
            f" {MAX_INPUT_TICKS / TICKS_PER_SECOND:.3g} s; use a larger rate or load, or fewer jobs"
        )
