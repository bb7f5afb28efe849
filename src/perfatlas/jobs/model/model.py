"""Jobs, the cluster they share, what befalls its nodes, and the rules they are served by.

Shape legend: J jobs, X failures.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from perfatlas.jobs.model.records import TICKS_PER_SECOND
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    Ints = NDArray[np.int64]


def ticks(seconds: ArrayLike) -> Ints:
    """Return times in whole ticks of a millisecond.

    Args:
        seconds: Times [s].

    Example:
        >>> from perfatlas.jobs.model import ticks
        >>> ticks([0.5, 2]).tolist()
        [500, 2000]
    """
    return np.rint(np.asarray(seconds, np.float64) * TICKS_PER_SECOND).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Equal nodes in domains below leaf switches.

    Args:
        nodes: Nodes there are.
        gpus_per_node: GPUs of each.
        nodes_per_domain: Nodes of a rack or NVLink domain: 18 in an NVL72 of 4-GPU trays; those of
            a leaf if None.
        nodes_per_leaf: Nodes below a leaf switch, whole domains; one leaf if None.
    """

    nodes: int
    gpus_per_node: int = 8
    nodes_per_domain: int | None = None
    nodes_per_leaf: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs in total."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Jobs in the order of their submission, as columns in ticks of a millisecond.

    Args:
        submit_J: When submitted [ticks] (J,).
        run_J: Work: time it would run undisturbed on all its nodes [ticks] (J,).
        gpus_J: GPUs asked for (J,).
        nodes_J: Nodes they are spread over, equally; as few as hold them if None (J,).
        limit_J: Time after which an attempt is killed [ticks] (J,); None without limits.
        user_J: Index into `users` (J,); all the first if None.
        users: Names of users or accounts.
        priority_J: Higher is served first (J,); equal if None.
        requeue_J: Whether it is queued again after a failure or a preemption; all if None (J,).
        checkpoint_J: Time between checkpoints [ticks], 0 for none; none if None (J,).
        restart_J: What a restart takes before work goes on [ticks]; nothing if None (J,).
        fewest_J: Nodes it goes on with where it may shrink; one if None (J,).
        kind_J: Index into `kinds` (J,).
        kinds: Names of classes by which outcomes are told.
        row_J: Row it was read from, for messages (J,); counted from 1 if None.

    Limits: nodes are held whole-gang and equally: 12 GPUs on nodes of 8 take 6 of two nodes. The
        time to write checkpoints is part of `run_J`.
    """

    submit_J: Ints
    run_J: Ints
    gpus_J: Ints
    nodes_J: Ints | None = None
    limit_J: Ints | None = None
    user_J: Ints | None = None
    users: tuple[str, ...] = ("all",)
    priority_J: Ints | None = None
    requeue_J: NDArray[np.bool_] | None = None
    checkpoint_J: Ints | None = None
    restart_J: Ints | None = None
    fewest_J: Ints | None = None
    kind_J: Ints | None = None
    kinds: tuple[str, ...] = ("all",)
    row_J: Ints | None = None

    @property
    def size(self) -> int:
        """How many jobs there are."""
        return int(np.asarray(self.submit_J).shape[0])

    def row(self, j: int) -> int:
        """Return the row a job was read from.

        Args:
            j: Its index.
        """
        return j + 1 if self.row_J is None else int(self.row_J[j])

    def take(self, kept_J: NDArray[np.bool_]) -> Jobs:
        """Return some of the jobs.

        Args:
            kept_J: Which (J,).
        """
        columns = {
            item.name: np.asarray(getattr(self, item.name))[kept_J]
            for item in dataclasses.fields(self)
            if item.name.endswith("_J") and getattr(self, item.name) is not None
        }
        return dataclasses.replace(self, **columns)  # type: ignore[arg-type]

    def with_limits(self, factor: float, *, least_s: float = 60.0) -> Jobs:
        """Return the same jobs with limits above what they run, for traces that tell none.

        Args:
            factor: Limit over run time; 1 is a perfect estimate.
            least_s: Shortest limit [s].

        Raises:
            InvalidSpecError: A factor below 1 would kill every job.
        """
        if not factor >= 1.0:
            raise InvalidSpecError(f"factor = {factor:g}: below 1 every job would be killed")
        limit_J = np.ceil(np.asarray(self.run_J) * factor).astype(np.int64)
        if self.restart_J is not None:
            limit_J = limit_J + self.restart_J
        least = max(int(ticks(least_s)), 1)
        return dataclasses.replace(self, limit_J=np.maximum(limit_J, least))


@dataclass(frozen=True, kw_only=True)
class Failures:
    """What befalls nodes, in the order of time.

    Args:
        time_X: When [ticks] (X,).
        node_X: First node (X,).
        repair_X: Time until it is back [ticks], -1 for never (X,).
        width_X: Nodes from there that go together: a rack, a power unit; one if None (X,).
        drain_X: Whether running jobs may end first, and only then the repair begins (X,).
    """

    time_X: Ints
    node_X: Ints
    repair_X: Ints
    width_X: Ints | None = None
    drain_X: NDArray[np.bool_] | None = None


@dataclass(frozen=True, kw_only=True)
class Response:
    """What becomes of a job that loses a node; `responses` has those of known launchers.

    Args:
        kind: "restart" gives all nodes back and queues again; "shrink" goes on with those left;
            "elastic" does too, and takes a repaired node in again; "replace" keeps the others
            until a free node takes the place of the one lost, and restarts if two are.
        detection_s: From the failure until anything is done about it [s].
        patience_s: How long a job waits for a node before it is stopped [s]; None for ever.
        most_restarts: After which a job that fails again has failed for good; None for never. A
            restart to take a repaired node in does not count.
        backoff_s: Wait before the first return to the queue, doubled each time [s].
        most_backoff_s: Longest of those waits [s].
    """

    kind: Literal["restart", "shrink", "elastic", "replace"] = "restart"
    detection_s: float = 0.0
    patience_s: float | None = None
    most_restarts: int | None = None
    backoff_s: float = 0.0
    most_backoff_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Rules of a scheduler.

    Args:
        order: By submission, by priority, or by decayed usage over share.
        backfill: None, EASY (the head of the queue is promised nodes) or conservative (the first
            `depth` jobs are).
        depth: Waiting jobs looked at in a pass behind the head; 500 as Slurm's bf_max_job_test.
        preemption: What becomes of running jobs of lower priority when the head needs their nodes.
        placement: First nodes that fit, or those (and the domain) with the least room that do.
        together: A job wants all its nodes within a domain or a leaf.
        required: It waits until it gets that; otherwise it takes what there is.
        half_life_s: Of usage for fair share [s]; 7 days as Slurm's PriorityDecayHalfLife.
        shares: What users are entitled to, relative to each other; 1 where not told.
        keeps_place: A job queued again keeps its place by submission; otherwise it starts at the
            end, as in Slurm, where a requeue resets the submission.
        response: What becomes of a job that loses a node.
    """

    order: Literal["fifo", "priority", "fair_share"] = "fifo"
    backfill: Literal["none", "easy", "conservative"] = "none"
    depth: int = 500
    preemption: Literal["none", "requeue", "cancel"] = "none"
    placement: Literal["pack", "best_fit"] = "pack"
    together: Literal["anywhere", "domain", "leaf"] = "anywhere"
    required: bool = False
    half_life_s: float = 7 * 86400.0
    shares: Mapping[str, float] = field(default_factory=dict)
    keeps_place: bool = False
    response: Response = field(default_factory=Response)
