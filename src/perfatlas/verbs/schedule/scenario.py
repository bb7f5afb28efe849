"""The scenario of a schedule: what was given, and what the cluster and the launcher decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.declarations import verb_fields
from perfatlas.scenario.fields import complete_scenario
from perfatlas.verbs.schedule.jobs import largest_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.jobs.model import Cluster, Response
    from perfatlas.verbs.schedule.question import Schedule


def schedule_scenario(
    asked: Schedule,
    decided: Sequence[dict[str, Any]],
    compare: Sequence[str],
    *,
    seeded: bool,
) -> dict[str, Any]:
    """Return the scenario, which gives the same answer again.

    Args:
        asked: The fields as given.
        decided: What `decided_fields` returns for this schedule, then for each compared one. A
            value that differs among them is left out: it follows from what is compared.
        compare: Compared fields and values, as given.
        seeded: Whether anything is drawn at random.
    """
    fields = verb_fields("fleet schedule")
    first, *others = decided
    known = {name: v for name, v in first.items() if all(one.get(name) == v for one in others)}
    if seeded:
        known["seed"] = asked.seed
    values = dict(asked) | known
    effective = {
        name: value
        for name, value in known.items()
        if (needs := fields[name].row.needs) is None or needs.missing(values, {}) is None
    }
    told = complete_scenario(fields, asked, **effective)
    return told | ({"compare": list(compare)} if compare else {})


def decided_fields(asked: Schedule, cluster: Cluster, response: Response) -> dict[str, Any]:
    """Return the values that fields have by default, from the fleet and the launcher.

    Args:
        asked: The fields; `until_s` as it is applied.
        cluster: The nodes.
        response: Response of the launcher.

    Limits: a launcher that tries once, without waiting, has no patience_s: with one set, kueue
        waits instead.
    """
    found = {
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "until_s": asked.until_s,
        "max_job_gpus": largest_job(asked, cluster) if asked.jobs is None else None,
        "detection_s": response.detection_s,
        "max_restarts": response.most_restarts,
        "patience_s": asked.patience_s if asked.response == "kueue" else response.patience_s,
    }
    return {name: value for name, value in found.items() if value is not None}
