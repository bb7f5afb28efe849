"""Node failures of `fleet schedule`: drawn from a fleet or an MTBF, or from a list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import UnsupportedError, counted
from perfatlas.reliability.fleet.laws import Constant, Exponential, mean_s
from perfatlas.reliability.fleet.model import (
    Cause,
    Fleet,
    Repair,
    RepairStage,
    cause_rate_per_s,
    resolve_fleet,
)
from perfatlas.reliability.jobs.failures import draw_failures, no_place
from perfatlas.reliability.jobs.traces import read_failures

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.model import Cluster, Failures
    from perfatlas.verbs.schedule.question import Schedule


@dataclass(frozen=True, kw_only=True)
class NodeFailures:
    """Node failures.

    Args:
        fleet: Fleet from which failures are drawn; None for none.
        listed: Listed failures; None for none.
        notes: Assumptions.
        warnings: Excluded failures.
    """

    fleet: Fleet | None = None
    listed: Failures | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def node_failures(inputs: Schedule, cluster: Cluster, start_s: float) -> NodeFailures:
    """Return the node failures.

    Args:
        inputs: The fields.
        cluster: The nodes.
        start_s: Time of the first submission in the clock of the jobs' source [s].

    Raises:
        InvalidSpecError: A file cannot be read or is invalid.
        UnsupportedError: No cause of the fleet is supported.
    """
    if inputs.failures is not None:
        found = read_failures(inputs.failures, nodes=cluster.nodes, start_s=start_s)
        listed = _drained(inputs, found.failures)
        notes = [f"{counted(listed.time_X.shape[0], 'failure')} of {inputs.failures}"]
        drains_X = found.failures.drain_X
        if inputs.response != "drain" and drains_X is not None and drains_X.size and drains_X.all():
            notes.append("all of them are drains: no job loses a node with any response")
        if found.out:
            notes.append(
                f"{found.out:,} of them before the first submission, with nodes still down: these"
                " nodes start under repair for the remaining time"
            )
        early = f"excluded: {counted(found.before, 'failure')} repaired before the first submission"
        return NodeFailures(
            listed=listed, notes=tuple(notes), warnings=(early,) if found.before else ()
        )
    if inputs.node_mtbf_s is not None and inputs.repair_s is not None:
        return NodeFailures(fleet=_memoryless(inputs.node_mtbf_s, inputs.repair_s, cluster))
    if inputs.fleet is None:
        return NodeFailures(
            notes=("no node failures; set node_mtbf_s, fleet or failures to include them",)
        )
    return _of_fleet(inputs, cluster)


def _memoryless(mtbf_s: float, repair_s: float, cluster: Cluster) -> Fleet:
    cause = Cause(name="node", lifetime=Exponential(mean_s=mtbf_s), per_unit=1.0)
    stage = RepairStage(name="repair", lasts=Constant(value_s=repair_s))
    return Fleet(
        units=cluster.nodes,
        causes=(cause,),
        repairs=(Repair(name="repair", stages=(stage,)),),
        gpus_per_unit=cluster.gpus_per_node,
    )


def _of_fleet(inputs: Schedule, cluster: Cluster) -> NodeFailures:
    fleet = replace(resolve_fleet(str(inputs.fleet)), units=cluster.nodes)
    left_out = {cause.name: no_place(cause) for cause in fleet.causes if no_place(cause)}
    kept = tuple(cause for cause in fleet.causes if cause.name not in left_out)
    if not kept:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise UnsupportedError(
            f"fleet = {inputs.fleet!r}: none of its causes is supported by fleet schedule"
            f" ({reasons}); set node_mtbf_s and repair_s"
        )
    per_s = {cause.name: cause_rate_per_s(cause, fleet.units) for cause in fleet.causes}
    total = sum(per_s.values())
    warnings = [
        f"cause {name} of the fleet is not simulated, {100.0 * per_s[name] / total:.3g}% of its"
        f" failures: {why}"
        for name, why in left_out.items()
    ]
    if all(mean_s(stage.lasts) == 0.0 for repair in fleet.repairs for stage in repair.stages):
        warnings.append("the fleet has no repair times: nodes return at once")
    notes = [f"causes of failure in {inputs.fleet}: {', '.join(cause.name for cause in kept)}"]
    if any(cause.lemons for cause in kept):
        notes.append(
            "lemons are whole nodes, drawn separately for each cause: all parts of a lemon share"
            " its rate until it is retired"
        )
    if any(mean_s(cause.detection) for cause in kept):
        notes.append(
            "node failures are detected by the launcher, not with the detection time of the fleet"
        )
    return NodeFailures(
        fleet=replace(fleet, causes=kept), notes=tuple(notes), warnings=tuple(warnings)
    )


def drawn(
    inputs: Schedule, what: NodeFailures, cluster: Cluster, horizon_s: float
) -> Failures | None:
    """Return the failures up to a horizon, None for none.

    Args:
        inputs: The fields.
        what: Node failures.
        cluster: The nodes.
        horizon_s: How long [s].

    Raises:
        InvalidSpecError: Too many failures.
    """
    if what.fleet is None:
        return what.listed
    failures = draw_failures(what.fleet, cluster, horizon_s=horizon_s, seed=inputs.seed)
    return _drained(inputs, failures)


def _drained(inputs: Schedule, failures: Failures) -> Failures:
    """Return failures as drains, where response = "drain"."""
    if inputs.response != "drain":
        return failures
    return replace(failures, drain_X=np.ones(np.asarray(failures.time_X).shape, bool))
