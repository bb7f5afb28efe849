"""`goodput domains`: what dead GPUs leave of domains that need all of their GPUs, or some.

Shape legend: K numbers of GPUs that a domain needs, from all of them down.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from perfatlas.answer import Answer, Evidence
from perfatlas.fleet.closed_form import at_least, blast_usable, usable_share
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.scenario.fields import refuse_unused
from perfatlas.verbs.goodput.question import Domains
from perfatlas.vocabulary.fields import signature_of, verb_fields

NEAREST: Final = 5  # GPUs fewer than all that are shown beside the best
OFTEN: Final = 0.9  # of the time; a job with all its domains less often mostly waits


@signature_of("goodput domains")
def goodput_domains(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the share of GPUs that can work in domains of which some GPUs are out.

    Args:
        **fields: domain_size (GPUs of a domain), needed (of them for the domain to be of use,
            default: all) and how often a GPU is out: unavailability, or gpu_mtbf_s and repair_s.
            With gpus, those of a job that do work, and spares, domains beside them, how often the
            job has all its domains.

    Raises:
        InvalidSpecError: A name or value breaks a rule.

    Source: k of n (`at_least`), (k / n) P(at least k) (`usable_share`), (1 - u)^d
        (`blast_usable`); GPUs fail and are repaired one by one, whether they are in use or not.

    Example:
        >>> from perfatlas.verbs.goodput import goodput_domains
        >>> found = goodput_domains(domain_size=72, needed=71, unavailability=1e-3).results
        >>> print(f"{found['domain_availability']:.5f} {found['blast_usable_share']:.4f}")
        0.99756 0.9305
    """
    asked = Domains.read(fields)
    refuse_unused(dict(asked), verb_fields("goodput domains"))
    size, needed = asked.domain_size, asked.needed or asked.domain_size
    if needed > size:
        raise InvalidSpecError(
            f"needed = {needed:,} of a domain of {counted(size, 'GPU')}: expected all at most"
        )
    down = _unavailability(asked)
    needed_K = np.arange(size, 0, -1)
    available_K = at_least(needed_K, size, down)
    usable_K = usable_share(needed_K, size, down)
    here, best = size - needed, int(usable_K.argmax())
    results = {
        "unavailability": down,
        "usable_share": float(usable_K[here]),
        "domain_availability": float(available_K[here]),
        "blast_usable_share": float(blast_usable(size, down)),
        "best_needed": size - best,
        "best_usable_share": float(usable_K[best]),
        "choices": [
            {
                "needed": size - at,
                "domain_availability": float(available_K[at]),
                "usable_share": float(usable_K[at]),
            }
            for at in sorted({here, best, *range(min(NEAREST + 1, size))})
        ],
        **_job(asked, needed, float(available_K[here])),
    }
    return Answer(
        command="goodput domains",
        scenario={name: value for name, value in fields.items() if value not in (None, "")},
        results=results,
        breakdown=[],
        evidence=Evidence(tier="binomial", assumptions=_said(asked, needed)),
        warnings=_warnings(results),
    )


def _unavailability(asked: Domains) -> float:
    """Return how likely one GPU is out: its repair over the time from repair to repair."""
    given = (asked.gpu_mtbf_s, asked.repair_s)
    if (asked.unavailability is None) == (given == (None, None)):
        raise InvalidSpecError(
            "how often is a GPU out? give either unavailability, a share of time such as 0.001, or"
            " gpu_mtbf_s and repair_s, from which it follows"
        )
    if asked.unavailability is not None:
        return asked.unavailability
    if asked.gpu_mtbf_s is None or asked.repair_s is None:
        raise InvalidSpecError("gpu_mtbf_s and repair_s belong together: give both")
    return asked.repair_s / (asked.gpu_mtbf_s + asked.repair_s)


def _job(asked: Domains, needed: int, available: float) -> dict[str, Any]:
    """Return how often a job has all its domains: k of n again, a domain being a part."""
    if asked.gpus is None:
        return {}
    domains, rest = divmod(asked.gpus, needed)
    if rest:
        raise InvalidSpecError(
            f"gpus = {asked.gpus} do not fill domains of which {counted(needed, 'GPU')} do work:"
            f" use {max(domains, 1) * needed}"
        )
    held = domains + (asked.spares or 0)
    return {
        "domains": domains,
        "spares": asked.spares or 0,
        "gpus_held": held * asked.domain_size,
        "domains_out": held * (1.0 - available),
        "job_availability": float(at_least(domains, held, 1.0 - available)),
    }


def _said(asked: Domains, needed: int) -> tuple[str, ...]:
    derived = "unavailability: repair_s / (gpu_mtbf_s + repair_s)"
    alone = (
        "binomial: GPUs fail and are repaired one by one and independently, in use or not; exact"
        " for any laws of lives and repairs with these means, in the long run"
    )
    ends = (
        "not valid where one failure takes several GPUs (a switch tray, power, a common fault) or"
        " repairs wait for a crew"
    )
    beyond = (
        "the time to stop, restart and redo work is not in it: goodput with a fleet whose units"
        f" are domains of parts_per_unit = {asked.domain_size} and parts_needed = {needed}"
        " simulates that too, with --gpus counting all of them"
    )
    return (*([derived] if asked.unavailability is None else []), alone, ends, beyond)


def _warnings(results: dict[str, Any]) -> tuple[str, ...]:
    often = results.get("job_availability", 1.0)
    if often >= OFTEN:
        return ()
    lacking = (
        f"the job lacks a domain {100.0 * (1.0 - often):.3g} % of the time, and this form knows"
        " nothing of how it waits: more spares, a smaller needed, or going on with fewer domains,"
        " which goodput with fleet and fewest_gpus simulates"
    )
    return (lacking,)
