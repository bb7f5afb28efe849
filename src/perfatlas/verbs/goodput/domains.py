"""`goodput domains`: usable share of domains that need all or some of their GPUs.

Shape legend: K numbers of GPUs that a domain needs, in descending order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.fleet.closed_form import at_least, blast_usable, usable_share
from perfatlas.scenario.fields import complete_scenario, refuse_unused
from perfatlas.verbs.goodput.question import Domains
from perfatlas.verbs.goodput.topology import size_of_domain

NEAREST: Final = 5  # alternatives shown besides the best
OFTEN: Final = 0.9  # share of time; below it a job mostly waits


@signature_of("goodput domains")
def goodput_domains(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the usable share of GPUs in domains with failed GPUs.

    Args:
        **fields: domain_size (GPUs of a domain), or system for its scale-up domain; needed (GPUs
            needed for a usable domain, default: all) and the availability of a GPU: unavailability,
            or gpu_mtbf_s and repair_s. With gpus, the working GPUs of a job, and spares, its spare
            domains, also the share of time with all domains available.

    Raises:
        InvalidSpecError: A name or value is invalid.

    Source: k of n (`at_least`), (k / n) P(at least k) (`usable_share`), (1 - u)^d
        (`blast_usable`); GPUs fail and are repaired independently, whether in use or not.

    Example:
        >>> from perfatlas.verbs.goodput import goodput_domains
        >>> found = goodput_domains(domain_size=72, needed=71, unavailability=1e-3).results
        >>> print(f"{found['domain_availability']:.5f} {found['blast_usable_share']:.4f}")
        0.99756 0.9305
    """
    inputs = Domains.read(fields)
    refuse_unused(inputs.values, verb_fields("goodput domains"))
    size, origin = size_of_domain(inputs)
    needed = inputs.needed or size
    if needed > size:
        raise InvalidSpecError(
            f"needed = {needed:,}: expected at most domain_size, {counted(size, 'GPU')}"
        )
    down = _unavailability(inputs)
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
        **_job(inputs, size, needed, float(available_K[here])),
    }
    return Answer(
        command="goodput domains",
        scenario=complete_scenario(verb_fields("goodput domains"), inputs),
        results=results,
        breakdown=[],
        evidence=Evidence(
            tier="binomial",
            assumptions=(*filter(None, [origin]), *_assumptions(inputs, size, needed)),
        ),
        warnings=_warnings(results),
    )


def _unavailability(inputs: Domains) -> float:
    """Return the unavailability of a GPU: repair time over the mean time between repairs."""
    given = (inputs.gpu_mtbf_s, inputs.repair_s)
    if (inputs.unavailability is None) == (given == (None, None)):
        raise InvalidSpecError(
            "the unavailability of a GPU is missing: set unavailability, a share of time such as"
            " 0.001, or gpu_mtbf_s and repair_s"
        )
    if inputs.unavailability is not None:
        return inputs.unavailability
    if inputs.gpu_mtbf_s is None or inputs.repair_s is None:
        raise InvalidSpecError("gpu_mtbf_s and repair_s must be set together")
    return inputs.repair_s / (inputs.gpu_mtbf_s + inputs.repair_s)


def _job(inputs: Domains, size: int, needed: int, available: float) -> dict[str, Any]:
    """Return the share of time with all domains of a job: k of n domains."""
    if inputs.gpus is None:
        return {}
    domains, rest = divmod(inputs.gpus, needed)
    if rest:
        raise InvalidSpecError(
            f"gpus = {inputs.gpus} is not a multiple of the {counted(needed, 'GPU')} in use per"
            f" domain: use {max(domains, 1) * needed}"
        )
    held = domains + (inputs.spares or 0)
    return {
        "domains": domains,
        "spares": inputs.spares or 0,
        "gpus_held": held * size,
        "domains_out": held * (1.0 - available),
        "job_availability": float(at_least(domains, held, 1.0 - available)),
    }


def _assumptions(inputs: Domains, size: int, needed: int) -> tuple[str, ...]:
    derived = "unavailability: repair_s / (gpu_mtbf_s + repair_s)"
    alone = (
        "binomial: GPUs fail and are repaired independently, in use or not; exact in steady state"
        " for any lifetime and repair distributions with these means"
    )
    ends = (
        "not valid where a failure affects several GPUs (switch tray, power, common cause) or"
        " repairs wait for a crew"
    )
    beyond = (
        "restarts and lost work are not included: goodput with a fleet whose units are domains of"
        f" parts_per_unit = {size} and parts_needed = {needed} simulates them, with"
        " --gpus including all GPUs"
    )
    return (*([derived] if inputs.unavailability is None else []), alone, ends, beyond)


def _warnings(results: dict[str, Any]) -> tuple[str, ...]:
    often = results.get("job_availability", 1.0)
    if often >= OFTEN:
        return ()
    lacking = (
        f"a domain is missing {100.0 * (1.0 - often):.3g}% of the time, and this closed form does"
        " not model waiting: use more spares, a smaller needed, or goodput with fleet and"
        " fewest_gpus to simulate operation with fewer domains"
    )
    return (lacking,)
