"""What a schedule would not read: options without what they belong to, refused or remarked on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, shown
from perfatlas.verbs.schedule.fields import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfatlas.jobs.model import Jobs

SHRINKING: Final = ("slurm_no_kill", "torchrun")
PATIENT: Final = ("kueue", "torchrun")


class Rule(NamedTuple):
    """What an option belongs to.

    Args:
        name: The option.
        read: Whether a schedule reads it.
        why: What it is, and what there is instead.
        instead: What makes it count.
    """

    name: str
    read: Callable[[Schedule], bool]
    why: str
    instead: str


def refuse_unread(ones: Sequence[Schedule]) -> None:
    """Refuse options that would change nothing, because what they belong to is not asked for.

    A value that is the default, or zero where that is as good as none, is no request.

    Args:
        ones: The schedule and those it is compared with: an option is of use if one reads it.

    Raises:
        InvalidSpecError: None would read an option; the message says what it belongs to.

    Example:
        >>> from perfatlas.verbs.schedule.fields import parse_schedule
        >>> from perfatlas.verbs.schedule.unused_options import refuse_unread
        >>> asked = {"num_jobs": 9, "load": 0.8, "nodes": 4, "backfill": "none", "depth": 5}
        >>> refuse_unread([parse_schedule(asked)])
        Traceback (most recent call last):
        perfatlas.quantities.errors.InvalidSpecError: depth = 5 is of backfill, and there is none...
    """
    for rule in RULES:
        given = [value for one in ones if _asks(value := getattr(one, rule.name), rule.name)]
        if given and not any(rule.read(one) for one in ones):
            raise InvalidSpecError(
                f"{rule.name} = {_text(given[0])} {rule.why}; {rule.instead}, or leave {rule.name}"
                " out"
            )


def _asks(value: object, name: str) -> bool:
    """Return whether a value asks for anything."""
    default = Schedule.model_fields[name].get_default(call_default_factory=True)
    no_pause = name in ("restart_s", "checkpoint_interval_s") and value == 0.0
    return value != default and not no_pause


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return shown(",".join(f"{user}={share:g}" for user, share in value.items()))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fails(one: Schedule) -> bool:
    return not (one.node_mtbf_s is None and one.fleet is None and one.failures is None)


def _loses(one: Schedule) -> bool:
    """Return whether a job can lose a node."""
    return _fails(one) and one.response != "drain"


def _preempts(one: Schedule, *how: str) -> bool:
    return one.order == "priority" and one.preemption in how


def _restarts(one: Schedule) -> bool:
    return _loses(one) or _preempts(one, "requeue")


def _queues_again(one: Schedule) -> bool:
    """Return whether a job can come back to the queue."""
    if _preempts(one, "requeue"):
        return True
    most = 0 if one.response == "jobset" and one.max_restarts is None else one.max_restarts
    return _loses(one) and one.response != "torchrun" and most != 0


def _leaves_work(one: Schedule) -> bool:
    """Return whether a job can stop before its end; a table may tell limits below run times."""
    own = one.jobs is not None and one.job_format == "perfatlas"
    return _loses(one) or _preempts(one, "requeue", "cancel") or own


def _leaf_counts(one: Schedule) -> bool:
    """Return whether leaves change anything: without domains they are the domains."""
    if one.nodes_per_domain is None or one.together == "leaf":
        return True
    return one.together == "domain" and not one.required


_FAILING: Final = "give node_mtbf_s with repair_s, fleet or failures"
_LOSING: Final = f"{_FAILING}, with a response other than drain"
_NO_LOSS: Final = "and here none does"


def draws(one: Schedule) -> bool:
    """Return whether anything of a schedule is drawn by chance, so that a seed matters.

    Args:
        one: The schedule.
    """
    return one.num_jobs is not None or (_fails(one) and one.failures is None)


RULES: Final = (
    Rule(
        "job_format",
        lambda one: one.jobs is not None,
        "is that of a file of jobs, and jobs are generated",
        "give jobs",
    ),
    Rule(
        "leave_out_larger",
        lambda one: one.jobs is not None or one.required or one.max_job_gpus is not None,
        "leaves out what can never run, and generated jobs all can",
        "give jobs (a file)",
    ),
    Rule(
        "limit_factor",
        lambda one: one.backfill != "none",
        "makes time limits for backfill, and there is none",
        "give backfill = easy or conservative",
    ),
    Rule(
        "depth",
        lambda one: one.backfill != "none",
        "is of backfill, and there is none",
        "give backfill = easy or conservative",
    ),
    *(
        Rule(
            name,
            lambda one: one.order == "fair_share",
            "is of order = fair_share, and the order is another",
            "give order = fair_share",
        )
        for name in ("half_life_s", "shares")
    ),
    Rule(
        "preemption",
        lambda one: one.order == "priority",
        "is of order = priority, and the order is another",
        "give order = priority",
    ),
    Rule(
        "required",
        lambda one: one.together != "anywhere",
        "says that a job waits for a place within, and within what?",
        "give together = domain or leaf",
    ),
    Rule(
        "nodes_per_leaf",
        _leaf_counts,
        "is of placement within a leaf, and no job asks for that",
        "give together = leaf",
    ),
    Rule("response", _fails, "is for jobs that lose a node, and nothing fails", _FAILING),
    *(
        Rule(name, _loses, f"is for jobs that lose a node, {_NO_LOSS}", _LOSING)
        for name in ("detection_s", "max_restarts")
    ),
    Rule(
        "patience_s",
        lambda one: _loses(one) and one.response in PATIENT,
        "is for jobs that wait for a node, and here no job waits for a node",
        f"{_FAILING}, with response = {' or '.join(PATIENT)}",
    ),
    Rule(
        "fewest_share",
        lambda one: _loses(one) and one.response in SHRINKING,
        "is for jobs that go on with fewer nodes, and here none does",
        f"{_FAILING}, with response = {' or '.join(SHRINKING)}",
    ),
    Rule(
        "keeps_place",
        _queues_again,
        "is for jobs that are queued again, and here none is",
        "give preemption = requeue, or what fails with a response that queues again",
    ),
    Rule(
        "restart_s",
        _restarts,
        "is what a restart takes, and here no job restarts",
        f"{_LOSING} (or preemption = requeue)",
    ),
    Rule(
        "checkpoint_interval_s",
        _leaves_work,
        "saves work of jobs that stop before their end, and here none does",
        f"{_LOSING} (or preemption)",
    ),
    Rule(
        "seed",
        draws,
        "is of what is drawn by chance, and nothing is",
        "give num_jobs, or node_mtbf_s or fleet",
    ),
)
TOLD: Final = (
    # option, column of `Jobs`, column of the table, which schedules read the option
    ("limit_factor", "limit_J", "limit_s", lambda one: one.backfill != "none"),
    ("restart_s", "restart_J", "restart_s", _restarts),
    ("checkpoint_interval_s", "checkpoint_J", "checkpoint_interval_s", _leaves_work),
    ("fewest_share", "fewest_J", "fewest_nodes", _loses),
)


def refuse_told(ones: Sequence[tuple[Schedule, Jobs]]) -> None:
    """Refuse options for what a source does not tell, where it tells.

    Args:
        ones: Each schedule, and its jobs as their source tells them.

    Raises:
        InvalidSpecError: All jobs tell what an option says, or no checkpoint is of use.
    """
    for name, column, told, reads in TOLD:
        given = [one for one, _ in ones if _asks(getattr(one, name), name)]
        reading = [jobs for one, jobs in ones if reads(one)]
        if given and reading and all(getattr(jobs, column) is not None for jobs in reading):
            raise InvalidSpecError(
                f"{name} = {_text(getattr(given[0], name))} is for jobs that do not tell it, and"
                f" {given[0].jobs} has a column {told}; leave {name} out"
            )
    name = "checkpoint_interval_s"
    given = [one for one, _ in ones if _asks(one.checkpoint_interval_s, name)]
    if given and not any(_stops(one, jobs) for one, jobs in ones):
        raise InvalidSpecError(
            f"{name} = {_text(given[0].checkpoint_interval_s)} saves work of jobs that stop before"
            f" their end, and here none does; {_LOSING} (or preemption), or leave {name} out"
        )


def _stops(one: Schedule, jobs: Jobs) -> bool:
    killed = jobs.limit_J is not None and bool((jobs.limit_J < np.asarray(jobs.run_J)).any())
    return _loses(one) or _preempts(one, "requeue", "cancel") or killed


def idle_remarks(ones: Sequence[tuple[Schedule, Jobs]]) -> list[str]:
    """Return what is asked for, is legitimate and changes nothing with these jobs, in sentences.

    Args:
        ones: Each schedule and its jobs.
    """
    said: dict[str, None] = {}
    for one, jobs in ones:
        if one.order == "priority" and _one_value(jobs.priority_J):
            also = "" if one.preemption == "none" else f", nor does preemption = {one.preemption}"
            said[
                f"order = priority changes nothing here{also}: no job has a higher priority than"
                " another (column priority of a table of one's own)"
            ] = None
        if one.order == "fair_share" and _one_value(jobs.user_J):
            said["order = fair_share changes nothing here: all jobs are of one user"] = None
    if all(one.together == "anywhere" for one, _ in ones):
        for name in ("nodes_per_domain", "nodes_per_leaf"):
            if any(getattr(one, name) is not None for one, _ in ones):
                said[
                    f"{name} places no job with together = anywhere: it only counts, job by job,"
                    " over how many domains each is spread (--per-job, domains)"
                ] = None
    return list(said)


def _one_value(value_J: NDArray[np.int64] | None) -> bool:
    return value_J is None or np.unique(value_J).size == 1
