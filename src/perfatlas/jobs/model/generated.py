"""Jobs from a simple distribution, to try a scheduler without a trace.

Shape legend: J jobs, S sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.jobs.model.model import Jobs, ticks
from perfatlas.jobs.model.records import LONGEST, TICKS_PER_SECOND
from perfatlas.quantities import InvalidSpecError, counted

if TYPE_CHECKING:
    from perfatlas.jobs.model.model import Cluster

KINDS: Final = ("part of a node", "one node", "several nodes")
SHORTEST_S: Final = 1.0
LONGEST_S: Final = 7.0 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Mix:
    """What jobs are drawn from.

    Args:
        jobs: How many.
        job_rate: Submissions per second; None where `load` says it.
        load: GPU-time they ask for over what the cluster has until the last is submitted.
        run_median_s: Median of the run time [s].
        run_sigma: Sigma of its logarithm.
        max_job_gpus: Largest size, in GPUs.
        seed: Of the draws.
    """

    jobs: int
    job_rate: float | None
    load: float | None
    run_median_s: float
    run_sigma: float
    max_job_gpus: int
    seed: int = 0


def generate_jobs(mix: Mix, cluster: Cluster) -> Jobs:
    """Return jobs that arrive as a Poisson process.

    Sizes are powers of two up to the largest, each half as frequent as the one before: every size
    asks for the same GPU-time. Run times are lognormal, cut to between a second and a week, and
    independent of size.

    Args:
        mix: What they are drawn from.
        cluster: Where they will run, for `load` and for their kinds.

    Raises:
        InvalidSpecError: They would be submitted over more time than can be counted.

    Source: assumption. That small jobs are most of the jobs and large ones much of the GPU-time,
        and that run times spread over decades, is what publications of GPU traces (Philly, Helios,
        Acme) agree on; no parameter is fitted to any of them.
    """
    rng = np.random.default_rng(mix.seed)
    size_S = 2 ** np.arange(int(mix.max_job_gpus).bit_length())
    gpus_J = rng.choice(size_S, size=mix.jobs, p=(1.0 / size_S) / (1.0 / size_S).sum())
    drawn_J = rng.lognormal(np.log(mix.run_median_s), mix.run_sigma, mix.jobs)
    run_s_J = np.clip(drawn_J, SHORTEST_S, LONGEST_S)
    if mix.job_rate is None:
        asked = float((gpus_J * run_s_J).sum())
        span_s = asked / cluster.gpus / float(mix.load or 1.0)
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


def _check_span(mix: Mix, span_s: float) -> None:
    if not span_s <= LONGEST / TICKS_PER_SECOND:
        raise InvalidSpecError(
            f"{counted(mix.jobs, 'job')} would be submitted over {span_s:.3g} s: at most"
            f" {LONGEST / TICKS_PER_SECOND:.3g} s; use a larger rate or load, or fewer jobs"
        )
