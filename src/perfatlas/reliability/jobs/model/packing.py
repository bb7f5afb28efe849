"""Jobs and policy, checked and packed for compiled code.

Shape legend: as in `state`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.compiled import (
    check_bounds,
    pack_row,
    packed_fields,
    packed_values,
    record_type,
)
from perfatlas.quantities import InfeasibleError, InvalidSpecError, counted, did_you_mean
from perfatlas.reliability.jobs.model import records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from perfatlas.reliability.jobs.model.model import Cluster, Failures, Jobs, Policy

MAX_SPANS: Final = 70_000_000  # bytes of free-time spans for reservations
BYTES_PER_SPAN: Final = 10


def pack(
    jobs: Jobs, cluster: Cluster, policy: Policy, failures: Failures | None, until: int | None
) -> records.ScheduleState:
    """Return the records of compiled code.

    Args:
        until: End of the simulation [ticks]; None runs until all jobs have ended.

    Raises:
        InfeasibleError: A job can never run on the cluster; names its row.
        InvalidSpecError: A number outside its range, an unknown name, rows out of order.
    """
    domain, leaf = check_cluster(cluster)
    plan_1 = _plan(cluster, policy, (domain, leaf), until)
    job_J = _jobs(jobs, cluster)
    for bad_J, what in zip(*_misfits(job_J, plan_1[0]), strict=True):
        if bad_J.any():
            at = int(np.argmax(bad_J))
            job = job_J[at]
            raise InfeasibleError(
                f"row {jobs.row(at)}: a job of {counted(int(np.asarray(jobs.gpus_J)[at]), 'GPU')}"
                f" takes {counted(int(job['nodes']), 'node')} with {int(job['gpus'])} each, and"
                f" {what}.",
                advice=("Remove the row or enlarge the cluster.",),
            )
    if plan_1[0]["backfill"] and jobs.limit_J is None:
        raise InvalidSpecError(
            f"backfill = {policy.backfill!r} needs time limits, which are missing: set limit_J"
            " or use jobs.with_limits(factor)"
        )
    return _state(plan_1, job_J, _failures(failures, cluster), _shares(jobs, policy))


def check_cluster(cluster: Cluster) -> tuple[int, int]:
    """Return the nodes per domain and per leaf."""
    packed_values(records.PlanRecord, cluster=cluster)
    leaf = cluster.nodes if cluster.nodes_per_leaf is None else cluster.nodes_per_leaf
    domain = leaf if cluster.nodes_per_domain is None else cluster.nodes_per_domain
    check_bounds("nodes_per_domain", domain, 1, cluster.nodes)
    check_bounds("nodes_per_leaf", leaf, 1, cluster.nodes)
    if leaf % domain and leaf != cluster.nodes:
        raise InvalidSpecError(
            f"nodes_per_leaf = {leaf} splits domains of {domain} nodes: use a multiple of {domain}"
        )
    return domain, leaf


def _plan(
    cluster: Cluster, policy: Policy, sizes: tuple[int, int], until: int | None
) -> NDArray[Any]:
    plan_1 = np.zeros(1, records.PLAN)
    plan, response = plan_1[0], policy.response
    pack_row(plan, records.PlanRecord, cluster=cluster, policy=policy, response=response)
    plan_1["domain"], plan_1["leaf"] = sizes
    plan_1["until"] = records.NEVER if until is None else until
    check_bounds("until", until or 0, 0, records.MAX_INPUT_TICKS)
    if policy.preemption != "none" and policy.order != "priority":
        raise InvalidSpecError(f"preemption requires order = 'priority', not {policy.order!r}")
    return plan_1


def _jobs(jobs: Jobs, cluster: Cluster) -> NDArray[Any]:
    size, gpus = jobs.size, cluster.gpus_per_node
    rows = range(1, size + 1) if jobs.row_J is None else jobs.row_J.tolist()
    job_J = _packed_columns(records.JobRecord, jobs, size, rows)
    requested_J = _checked("gpus_J", jobs.gpus_J, (size, 1, 2**40), rows)
    nodes_J = -(-requested_J // gpus)
    if jobs.nodes_J is not None:
        nodes_J = _checked("nodes_J", jobs.nodes_J, (size, 1, 2**40), rows)
    for name, names in (("user_J", jobs.users), ("kind_J", jobs.kinds)):
        index_J = getattr(jobs, name)
        none_J = np.zeros(size, np.int64)
        _checked(name, none_J if index_J is None else index_J, (size, 0, len(names) - 1), rows)
    later_J = np.diff(job_J["submit"]) < 0
    if later_J.any():
        at = int(np.argmax(later_J)) + 1
        raise InvalidSpecError(
            f"row {jobs.row(at)}: submitted before the previous row; sort the rows by submission"
        )
    job_J["nodes"] = nodes_J
    job_J["gpus"] = -(-requested_J // nodes_J)
    job_J["key"] = job_J["submit"]
    job_J["work"] = job_J["run"] * np.minimum(nodes_J, cluster.nodes)
    for name in ("first", "started", "ended", "lost_node"):
        job_J[name] = -1
    job_J["promised"] = records.NEVER
    return job_J


def never_fit(jobs: Jobs, cluster: Cluster, policy: Policy) -> NDArray[np.bool_]:
    """Return which jobs do not fit an empty cluster (J,).

    Args:
        policy: The policy, for required locality.
    """
    plan_1 = _plan(cluster, policy, check_cluster(cluster), None)
    bad_J, _ = _misfits(_jobs(jobs, cluster), plan_1[0])
    return bad_J[0] | bad_J[1] | bad_J[2]


def _misfits(
    job_J: NDArray[Any],
    plan: np.void,
) -> tuple[list[NDArray[np.bool_]], list[str]]:
    """Return which jobs do not fit an empty cluster, by reason, and the reasons."""
    nodes = int(plan["nodes"])
    most = (nodes, int(plan["domain"]), int(plan["leaf"]))[int(plan["level"])]
    limit = most if plan["required"] else nodes
    where = records.LEVELS[int(plan["level"])] if limit < nodes else "cluster"
    bad_J = [
        job_J["nodes"] > limit,
        job_J["gpus"] > plan["gpus"],
        job_J["fewest"] > job_J["nodes"],
    ]
    node = f"a node has {counted(int(plan['gpus']), 'GPU')}"
    return bad_J, [f"a {where} has {counted(limit, 'node')}", node, "fewest_J is larger"]


def _failures(failures: Failures | None, cluster: Cluster) -> NDArray[Any]:
    if failures is None:
        return np.zeros(0, records.FAILURE)
    size = np.asarray(failures.time_X).shape[0]
    failure_X = _packed_columns(records.FailureRecord, failures, size, range(1, size + 1))
    beyond_X = failure_X["node"] + failure_X["width"] > cluster.nodes
    if beyond_X.any():
        at = int(np.argmax(beyond_X))
        raise InvalidSpecError(
            f"row {at + 1}: width_X = {failure_X['width'][at]} from node {failure_X['node'][at]}"
            f" exceeds the {cluster.nodes} nodes"
        )
    if (np.diff(failure_X["time"]) < 0).any():
        at = int(np.argmax(np.diff(failure_X["time"]) < 0)) + 1
        raise InvalidSpecError(
            f"row {at + 1}: fails before the previous row; sort the rows by time"
        )
    return failure_X


def _shares(jobs: Jobs, policy: Policy) -> NDArray[np.float64]:
    for user, share in policy.shares.items():
        if user not in jobs.users:
            raise InvalidSpecError(
                f"shares: no job belongs to {user!r}{did_you_mean(user, jobs.users)}"
            )
        if not (math.isfinite(share) and share > 0.0):
            raise InvalidSpecError(f"shares: {user} has {share:g}: expected a share above zero")
    return np.array([policy.shares.get(user, 1.0) for user in jobs.users], np.float64)


def _state(
    plan_1: NDArray[Any],
    job_J: NDArray[Any],
    failure_X: NDArray[Any],
    share_U: NDArray[np.float64],
) -> records.ScheduleState:
    nodes, gpus = int(plan_1["nodes"][0]), int(plan_1["gpus"][0])
    size, users = job_J.shape[0], share_U.shape[0]
    spans, depth = 2, int(plan_1["depth"][0])
    if plan_1["backfill"][0] == records.CONSERVATIVE:
        spans += gpus + 2 * min(depth, size)  # ends of running jobs, both ends of reservations
        if spans * nodes > MAX_SPANS:
            raise InvalidSpecError(
                f"conservative backfill of depth {depth} on {nodes} nodes exceeds the limit of"
                f" {MAX_SPANS * BYTES_PER_SPAN:.1g} bytes of memory: use a smaller depth or"
                " backfill = 'easy'"
            )
    node_N = np.zeros(nodes, records.NODE)
    node_N["free"] = gpus
    state_1 = np.zeros(1, records.STATE)
    state_1["left"], state_1["free"] = size, nodes * gpus
    state_1["last_head"], state_1["fresh"] = -1, records.NEVER
    state_1["stale"] = 1
    ask_J3 = np.stack([job_J["nodes"], job_J["gpus"], job_J["limit"]], axis=1)
    free_F, user_U = np.zeros(gpus + 1, records.FREE), np.zeros(users, records.USER)
    free_F["count"][gpus] = nodes
    user_U["share"] = share_U
    place_E = np.zeros(nodes * gpus, records.PLACE)
    place_E["job"] = -1

    def ints(*shape: int) -> NDArray[np.int64]:
        return np.zeros(shape, np.int64)

    return records.ScheduleState(
        plan_1=plan_1, state_1=state_1, job_J=job_J, ask_J3=ask_J3, node_N=node_N,
        failure_X=failure_X, user_U=user_U, place_E=place_E,
        lost_E2=np.full((nodes * gpus, 2), -1, np.int64), free_F=free_F,
        open_N=np.full(nodes, gpus, np.int64), queue_Q=ints(2 * size + 1), run_R=ints(size + 1),
        heap_H=ints(size + 2), spot_J=ints(size), event_J=ints(size), back_H=ints(nodes + 2),
        back_N=ints(nodes), until_N=ints(nodes), trial_N=ints(nodes), future_N=ints(nodes),
        soonest_N=ints(nodes), least_N=ints(nodes), begins_SN=ints(spans, nodes),
        free_SN=np.zeros((spans, nodes), np.int16),
    )  # fmt: skip


def _packed_columns(
    record: type, described: Jobs | Failures, size: int, rows: Sequence[int]
) -> NDArray[Any]:
    """Return rows of a record whose packed fields hold columns; errors name the first bad row."""
    table = np.zeros(size, record_type(record))
    for field, declared in packed_fields(record):
        name = declared.attribute.partition(".")[2]
        column = getattr(described, name)
        if column is not None:
            column = _checked(name, column, (size, declared.least, declared.most), rows)
        table[field] = declared.none if column is None else column
    return table


def _checked(
    name: str, values: ArrayLike, bounds: tuple[int, float, float], rows: Sequence[int]
) -> NDArray[np.int64]:
    """Return a column of whole numbers within bounds; errors name the first bad row."""
    size, least, most = bounds
    array = np.asarray(values)
    if array.shape != (size,):
        raise InvalidSpecError(f"{name} has shape {array.shape}: expected ({size},)")
    if array.dtype.kind not in "iub":
        raise InvalidSpecError(
            f"{name} holds {array.dtype}: expected whole numbers; ticks() converts seconds"
        )
    whole = array.astype(np.int64)
    bad = (whole < least) | (whole > most)
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidSpecError(f"row {rows[at]}: {name} = {whole[at]}: expected {least} to {most}")
    return whole
