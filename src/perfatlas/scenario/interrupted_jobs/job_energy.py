"""Energy of a job by category of its time, of lost work among it, and its electricity."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import energy_usd
from perfatlas.quantities import HOUR_S

if TYPE_CHECKING:
    from perfatlas.answer import Answer
    from perfatlas.scenario.interrupted_jobs.job_fields import Goodput

COMPUTING: Final = frozenset(("productive", "lost_work", "degraded"))  # categories


def with_energy(answer: Answer, inputs: Goodput) -> Answer:
    """Return an answer with the energy of the job, in results and by category of time.

    GPUs draw `power_w` while the job computes, also work that is lost later, and `idle_power_w` in
    checkpoint stalls, detection, restarts and waiting.

    Args:
        answer: The answer, with GPU-hours by category.

    Limits: GPU boards of the job, without its spares; electricity counts them times the PUE,
        without the rest of their nodes.
    """
    if inputs.power_w is None:
        return answer
    idle_w = inputs.power_w if inputs.idle_power_w is None else inputs.idle_power_w
    rows = []
    for row in answer.breakdown:
        watts = inputs.power_w if row["name"] in COMPUTING else idle_w
        rows.append({**row, "energy_j": row["gpu_hours"] * HOUR_S * watts})
    total_j = sum(row["energy_j"] for row in rows)
    lost_j = sum(row["energy_j"] for row in rows if row["name"] != "productive")
    again_j = sum(row["energy_j"] for row in rows if row["name"] == "lost_work")
    results: dict[str, Any] = {**answer.results, "job_energy_j": total_j}
    results |= {"lost_energy_j": lost_j, "lost_work_energy_j": again_j}
    if inputs.usd_per_kwh is not None:
        spent = {"electricity_usd": total_j, "lost_electricity_usd": lost_j}
        for name, joules in spent.items():
            results[name] = energy_usd(joules, inputs.usd_per_kwh, inputs.pue)
    if inputs.gco2_per_kwh is not None:
        results["emitted_gco2"] = energy_usd(total_j, inputs.gco2_per_kwh, inputs.pue)
    evidence = replace(
        answer.evidence, assumptions=(*answer.evidence.assumptions, _power_note(inputs, idle_w))
    )
    return replace(answer, results=results, breakdown=rows, evidence=evidence)


def _power_note(inputs: Goodput, idle_w: float) -> str:
    """Return the assumption on the power of GPUs."""
    why = "" if inputs.idle_power_w is not None else ", as GPUs that wait in collectives spin"
    return (
        f"energy: GPU boards of the job, {inputs.power_w:g} W while it computes and {idle_w:g} W"
        f" while it waits{why}; spares and the rest of nodes are not included"
    )
