"""The cheapest machine that meets the limits of a search: `search --solve`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.cost import chip_data
from perfatlas.files import format_toml
from perfatlas.hardware import resolve_system
from perfatlas.scenario.deployments import estimate_of
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.scenario.resolution import planned_scenario, read_scenario
from perfatlas.studies.cheapest_machine import (
    AREA,
    MachineSearch,
    dies_rows,
    limit_costs,
    read_unknowns,
)
from perfatlas.studies.deployments.groups import LATENCIES
from perfatlas.studies.scaling import scaled_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer
    from perfatlas.studies.cheapest_machine import CheapestMachine
    from perfatlas.studies.deployments.question import SearchInputs

CAPS: Final = {"max_power_w": "power_w", "max_die_area_mm2": AREA}
SOLVE_FIELDS: Final = frozenset((*FIELD_NAMES, *LATENCIES, *CAPS, "solve", "mode", "gpus"))
ROUNDING: Final = 1e-9  # relative: of a limit
LIMIT_STEP: Final = 0.1  # share by which limits move, to tell what they cost
MACHINE_METRICS: Final = (
    *("ttft_s", "tpot_s", "request_latency_s", "output_tokens_per_s_per_gpu", "power_w"),
)
FIXED: Final = (
    "the plan, the engine and its limits are those of the base for all machines, and limits are"
    " compared with the predictions themselves"
)
STACKS: Final = (
    "memory is bought in stacks of the base, each with its share of bandwidth and capacity; links"
    " between devices, clocks and exponentials have no cost"
)
CHIPLETS: Final = (
    "units and memory are divided evenly over the dies, which are good when they are attached;"
    " their links have the bandwidth that memory needs unless device.die_to_die.bandwidth is set"
)


def solved_machine(inputs: SearchInputs) -> tuple[Answer, dict[str, Any]]:
    """Return the cheapest machine, and the fields with which `estimate` prices it.

    Raises:
        InvalidSpecError: A field has no effect, or there is no limit or load.
        InfeasibleError: No machine meets all limits.
        UnsupportedError: The cost of such chips, or the power of the base, is not predicted.
    """
    for name in sorted(inputs.fields_set - SOLVE_FIELDS):
        if getattr(inputs, name) != type(inputs).fields()[name].default:
            raise quantities.InvalidSpecError(f"{name} has no effect with solve; leave it out")
    if inputs.mode != "aggregated" or inputs.concurrency is None or inputs.gpus is None:
        raise quantities.InvalidSpecError(
            "solve needs a load in mode aggregated: set concurrency, and gpus instead of max_gpus"
        )
    limits = _limits(inputs)
    given = inputs.given
    fields = {name: value for name, value in given.items() if name in FIELD_NAMES}
    fields |= {"mode": inputs.mode, "method": "formula"}
    scenario = planned_scenario(read_scenario(fields))
    scaled = scaled_scenario(scenario)
    base = scaled.systems[0]
    search = MachineSearch(
        scaled=scaled, unknowns=read_unknowns(inputs.solve or (), base), limits=limits
    )
    now = scaled.results([{}])
    if "power_w" in limits and not now["power_w"][0] > 0.0:
        raise quantities.UnsupportedError(f"max_power_w: the power of {base.name} is not predicted")
    found = search.solve()
    plan = {n: getattr(scenario, n) for n in ("tp", "pp", "cp", "attention_dp", "ep", "dp")}
    asked = {**fields, **{n: size for n, size in plan.items() if size is not None}}
    asked |= {**scaled.engine_limits, "system": found.system.name}
    answer = estimate_of(asked)
    found = _as_answered(found, answer, limits)
    results = {
        "machine": _machine(found, answer),
        "unknowns": [
            {
                "field": unknown.name,
                "value": found.solved[unknown.name],
                "base_value": unknown.base,
                "least": unknown.least,
                "most": unknown.most,
                "held_by": list(found.held_by[unknown.name]),
            }
            for unknown in search.unknowns
        ],
        "limit_costs": limit_costs(search, found, LIMIT_STEP),
    }
    chiplets = dies_rows(search)
    if chiplets:
        results["dies"] = chiplets
    if "image_tokens" in answer.results:
        results["image_tokens"] = answer.results["image_tokens"]
    notes = (*answer.evidence.assumptions, FIXED, STACKS, *([CHIPLETS] if chiplets else []))
    return replace(
        answer,
        command="search",
        results=results,
        evidence=replace(answer.evidence, assumptions=notes),
    ), asked


def _limits(inputs: SearchInputs) -> dict[str, float]:
    """Return the most of each metric; without one, a die is at most the field of a scanner."""
    limits: dict[str, float] = {}
    for name, metric in (*LATENCIES.items(), *CAPS.items()):
        limit = getattr(inputs, name)
        if limit is not None:
            limits[metric] = min(limit, limits.get(metric, limit))
    if not set(limits) - set(CAPS.values()):
        raise quantities.InvalidSpecError(f"solve needs an SLO to meet: set {', '.join(LATENCIES)}")
    return {AREA: float(chip_data()["costs"]["reticle_mm2"]["value"])} | limits


def _as_answered(
    found: CheapestMachine, answer: Answer, limits: Mapping[str, float]
) -> CheapestMachine:
    """Return the machine with the limited values of its answer."""
    values = {name: float(answer.results.get(name, found.values[name])) for name in limits}
    missed = [
        f"{name} is {values[name]:.6g}, above its limit {most:g}"
        for name, most in limits.items()
        if not values[name] <= most * (1.0 + ROUNDING)
    ]
    if missed:
        raise quantities.InfeasibleError(
            f"the estimate of the solved machine misses limits: {'; '.join(missed)}; solve other"
            " fields, or widen the limits"
        )
    return replace(found, values={**found.values, **values})


def _machine(found: CheapestMachine, answer: Answer) -> dict[str, Any]:
    """Return the machine with its cost, its die and its predictions."""
    machine: dict[str, Any] = {"system": found.system.name}
    for name, each in (("chip_usd", found.chip.total_usd), (AREA, found.chip.area_mm2)):
        known = (value if math.isfinite(value) else None for value in each)
        machine |= zip((name, f"{name}_low", f"{name}_high"), known, strict=True)
    ends = ("", "_low", "_high")
    return machine | {
        f"{n}{end}": answer.results.get(f"{n}{end}") for n in MACHINE_METRICS for end in ends
    }


def machine_toml(answer: Mapping[str, Any]) -> str:
    """Return the solved machine as a hardware file.

    Args:
        answer: The answer to `search --solve`.
    """
    base = resolve_system(str(answer["results"]["machine"]["system"]).partition("{")[0])
    source = {"kind": "assumed", "ref": "perfatlas search --solve"}
    rows = answer["results"]["unknowns"]
    values = {row["field"].rpartition(".")[::2]: row["value"] for row in rows}
    device: dict[str, Any] = {}
    for (section, name), value in values.items():
        inside = device
        for part in section.split(".")[1:]:
            inside = inside.setdefault(part, {})
        inside[name] = round(value) if name in ("sm_count", "dies") else value
    return format_toml({"base": base.name, "source": source, "device": device})
