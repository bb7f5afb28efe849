"""The scenario of a schedule: what was given, and what the cluster and the launcher decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.declarations import verb_fields
from perfatlas.scenario.fields import complete_scenario
from perfatlas.verbs.schedule.jobs import largest_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.reliability.jobs.model import Cluster, Response
    from perfatlas.verbs.schedule.question import Schedule


def schedule_scenario(
    inputs: Schedule,
    decided: Sequence[dict[str, Any]],
    compare: Sequence[str],
    *,
    seeded: bool,
) -> dict[str, Any]:
    """Return the scenario, which gives the same answer again.

    Args:
        inputs: The fields as given.
        decided: What `decided_fields` returns for this schedule, then for each compared one. A
            value that differs among them is left out: it follows from what is compared.
        compare: Compared fields and values, as given.
        seeded: Whether anything is drawn at random.
    """
    fields = verb_fields("fleet schedule")
    first, *others = decided
    known = {name: v for name, v in first.items() if all(one.get(name) == v for one in others)}
    if seeded:
        known["seed"] = inputs.seed
    values = {**inputs.values, **known}
    effective = {
        name: value
        for name, value in known.items()
        if (needs := fields[name].row.needs) is None or needs.missing(values, {}) is None
    }
    told = complete_scenario(fields, inputs, **effective)
    return told | ({"compare": list(compare)} if compare else {})


def decided_fields(
    inputs: Schedule, cluster: Cluster, response: Response, *, stream: bool = False
) -> dict[str, Any]:
    """Return the values that fields have by default, from the fleet and the launcher.

    Args:
        inputs: The fields; `until_s` as it is applied.
        cluster: The nodes.
        response: Response of the launcher.
        stream: Whether the precision of the mean wait decides when a stream of jobs stops.

    Limits: a launcher that tries once, without waiting, has no patience_s: with one set, kueue
        waits instead.
    """
    found = {
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "nodes_per_domain": cluster.nodes_per_domain,
        "nodes_per_leaf": cluster.nodes_per_leaf,
        "until_s": None if stream else inputs.until_s,
        "max_job_gpus": largest_job(inputs, cluster) if inputs.jobs is None else None,
        "detection_s": response.detection_s,
        "max_restarts": response.most_restarts,
        "patience_s": inputs.patience_s if inputs.response == "kueue" else response.patience_s,
    }
    return {name: value for name, value in found.items() if value is not None}
