"""Jobs, the cluster they share, its node failures, and the scheduling policy.

Shape legend: J jobs, X failures.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.jobs.model.records import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def ticks(seconds: ArrayLike) -> Ints:
    """Return times in whole ticks of a millisecond.

    Example:
        >>> from perfatlas.reliability.jobs.model import ticks
        >>> ticks([0.5, 2]).tolist()
        [500, 2000]
    """
    return np.rint(np.asarray(seconds, np.float64) * TICKS_PER_SECOND).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Identical nodes in domains below leaf switches."""

    nodes: int  # Number of nodes
    gpus_per_node: int = 8
    # Nodes per rack or NVLink domain: 18 in an NVL72 of 4-GPU trays; by default those of a leaf
    nodes_per_domain: int | None = None
    # Nodes below a leaf switch, a multiple of a domain; by default one leaf
    nodes_per_leaf: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs in total."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Jobs in the order of their submission, as columns in ticks of a millisecond.

    Limits: jobs are gang-scheduled with equal GPUs per node: 12 GPUs on nodes of 8 take 6 on each
        of two nodes. The time to write checkpoints is part of `run_J`.
    """

    submit_J: Ints  # Submission time [ticks] (J,)
    run_J: Ints  # Work: run time without interruptions on all its nodes [ticks] (J,)
    gpus_J: Ints  # Requested GPUs (J,)
    # Number of nodes, with equal GPUs on each; by default the fewest possible (J,)
    nodes_J: Ints | None = None
    limit_J: Ints | None = None  # Time limit of an attempt [ticks] (J,); None for no limits
    user_J: Ints | None = None  # Index into `users` (J,); by default the first
    users: tuple[str, ...] = ("all",)  # Names of users or accounts
    priority_J: Ints | None = None  # Higher starts first (J,); equal by default
    # Whether it is requeued after a failure or preemption; by default all (J,)
    requeue_J: NDArray[np.bool_] | None = None
    # Time between checkpoints [ticks], 0 for none, the default (J,)
    checkpoint_J: Ints | None = None
    restart_J: Ints | None = None  # Restart time before work resumes [ticks]; 0 by default (J,)
    fewest_J: Ints | None = None  # Minimum nodes where it may shrink; 1 by default (J,)
    kind_J: Ints | None = None  # Index into `kinds` (J,)
    kinds: tuple[str, ...] = ("all",)  # Names of the classes by which results are reported
    row_J: Ints | None = None  # Row of the input file, for messages (J,); by default counted from 1
    # Number of first jobs that run, or wait for GPUs, when the schedule begins, with the run time
    # that they have left
    running: int = 0

    @property
    def size(self) -> int:
        """Number of jobs."""
        return int(np.asarray(self.submit_J).shape[0])

    def gpu_work(self) -> Floats:
        """Return the run time on all GPUs without interruptions [GPU-ticks] (J,)."""
        return np.asarray(self.run_J, np.float64) * np.asarray(self.gpus_J, np.float64)

    def run_percentile(self, percent: float) -> float:
        """Return a percentile of the run times [ticks]."""
        return float(np.percentile(np.asarray(self.run_J, np.float64), percent))

    @property
    def limits_end_jobs(self) -> bool:
        """Whether a time limit ends a job."""
        return self.limit_J is not None and bool((self.limit_J < np.asarray(self.run_J)).any())

    def values_of(self, name: str) -> int:
        """Return the number of different values of a column, 1 without it.

        Args:
            name: Column, such as priority_J.
        """
        value_J = getattr(self, name)
        return 1 if value_J is None else int(np.unique(value_J).size)

    def offered_load(self, cluster: Cluster, *, stream: bool) -> float | None:
        """Return the requested GPU-time over the capacity until the last submission.

        Args:
            stream: Whether jobs arrive as a stream, as generated ones do. For other jobs the
                result is None where the last submission precedes the longest run time.

        Raises:
            InvalidSpecError: It exceeds the counters.
        """
        gpu_seconds = float(self.gpu_work()[self.running :].sum())
        span = float(self.submit_J[-1])
        if not np.isfinite(gpu_seconds):
            raise InvalidSpecError("the requested GPU-time exceeds the range of the counters")
        defined = span > 0.0 and (stream or span >= np.asarray(self.run_J)[self.running :].max())
        return gpu_seconds / (cluster.gpus * span) if defined else None

    def row(self, j: int) -> int:
        """Return the input row of a job."""
        return j + 1 if self.row_J is None else int(self.row_J[j])

    def take(self, selected_J: NDArray[np.bool_]) -> Jobs:
        """Return a selection of the jobs."""
        columns: dict[str, Any] = {
            item.name: np.asarray(getattr(self, item.name))[selected_J]
            for item in dataclasses.fields(self)
            if item.name.endswith("_J") and getattr(self, item.name) is not None
        }
        running = int(np.count_nonzero(selected_J[: self.running]))
        return dataclasses.replace(self, running=running, **columns)

    def arriving_at_once(self) -> Jobs:
        """Return the jobs that do not run at the start, all submitted at time 0."""
        arriving = self.take(np.arange(self.size) >= self.running)
        return dataclasses.replace(arriving, submit_J=np.zeros_like(arriving.submit_J))

    def with_seconds(self, **seconds: float | None) -> Jobs:
        """Return the same jobs with the same time in columns that they do not have.

        Args:
            **seconds: Times by column, such as restart_J [s]; None leaves a column out.
        """
        columns: dict[str, Any] = {
            name: np.full(self.size, int(ticks(value)))
            for name, value in seconds.items()
            if value is not None and getattr(self, name) is None
        }
        return dataclasses.replace(self, **columns)

    def shrinking_to(self, share: float, cluster: Cluster) -> Jobs:
        """Return the jobs with a minimum share of their nodes, unless they have minima.

        Args:
            share: Least share of the nodes of each job, rounded up.
        """
        if self.fewest_J is not None:
            return self
        nodes_J = self.nodes_J
        if nodes_J is None:
            nodes_J = -(-np.asarray(self.gpus_J) // cluster.gpus_per_node)
        fewest_J = np.ceil(np.asarray(nodes_J) * share).astype(np.int64)
        return dataclasses.replace(self, fewest_J=np.maximum(fewest_J, 1))

    def with_limits(self, factor: float, *, least_s: float = 60.0) -> Jobs:
        """Return the same jobs with limits above their run times, for traces without limits.

        Args:
            factor: Limit over run time; 1 is a perfect estimate.
            least_s: Shortest limit [s].

        Raises:
            InvalidSpecError: A factor below 1 would kill every job.
        """
        if not factor >= 1.0:
            raise InvalidSpecError(
                f"factor = {factor:g}: expected at least 1, as every job would reach its limit"
            )
        limit_J = np.ceil(np.asarray(self.run_J) * factor).astype(np.int64)
        if self.restart_J is not None:
            limit_J = limit_J + self.restart_J
        least = max(int(ticks(least_s)), 1)
        return dataclasses.replace(self, limit_J=np.maximum(limit_J, least))


@dataclass(frozen=True, kw_only=True)
class Failures:
    """Node failures and drains, in time order."""

    time_X: Ints  # Time [ticks] (X,)
    node_X: Ints  # First node (X,)
    repair_X: Ints  # Time until it is back [ticks], -1 for never (X,)
    # Number of consecutive nodes that fail together, such as a rack; 1 by default (X,)
    width_X: Ints | None = None
    # Whether the node is drained: running jobs end before the repair starts (X,)
    drain_X: NDArray[np.bool_] | None = None
    # Whether the nodes do not fail, but a cap holds them out of service; drains apart (X,)
    held_X: NDArray[np.bool_] | None = None

    def as_drains(self) -> Failures:
        """Return them as drains: running jobs end before a repair starts."""
        all_X = np.ones(np.asarray(self.time_X).shape, np.bool_)
        return dataclasses.replace(self, drain_X=all_X)


@dataclass(frozen=True, kw_only=True)
class Response:
    """Response of a job to the loss of a node; `responses` has those of known launchers."""

    # "restart" releases all nodes and requeues; "shrink" continues on the remaining nodes;
    # "elastic" also adds a repaired node again; "replace" keeps the others until a free node
    # replaces the lost one, and restarts if two are lost
    kind: Literal["restart", "shrink", "elastic", "replace"] = "restart"
    detection_s: float = 0.0  # Time from the failure to the response [s]
    # How long a job waits for a node before it is stopped [s]; None for no limit
    patience_s: float | None = None
    # Maximum restarts, after which a job fails permanently; None for no limit. A restart to add a
    # repaired node does not count.
    most_restarts: int | None = None
    backoff_s: float = 0.0  # Wait before the first requeue, doubled each time [s]
    most_backoff_s: float = 0.0  # Maximum wait [s]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Scheduling policy."""

    # Queue order: by submission, by priority, or by decayed usage over share (fair share)
    order: Literal["fifo", "priority", "fair_share"] = "fifo"
    # None, EASY (a reservation for the head of the queue) or conservative (for the first `depth`
    # jobs)
    backfill: Literal["none", "easy", "conservative"] = "none"
    depth: int = 500  # Waiting jobs tested per pass behind the head; 500 as Slurm's bf_max_job_test
    # What happens to running jobs of lower priority when the head needs their nodes
    preemption: Literal["none", "requeue", "cancel"] = "none"
    # First nodes that fit, or the nodes (and domain) with the least free capacity that do
    placement: Literal["pack", "best_fit"] = "pack"
    # Locality: all nodes of a job within a domain or a leaf
    together: Literal["anywhere", "domain", "leaf"] = "anywhere"
    required: bool = False  # A job waits for that locality; otherwise it is only preferred
    # Half-life of usage for fair share [s]; 7 days as Slurm's PriorityDecayHalfLife
    half_life_s: float = 7 * 86400.0
    # Relative shares of users; 1 by default
    shares: Mapping[str, float] = field(default_factory=dict)
    # A requeued job keeps its submission time; otherwise it goes to the end of the queue, as in
    # Slurm
    keeps_place: bool = False
    response: Response = field(default_factory=Response)  # Response of a job to the loss of a node
