"""Training steps on TPUs against published ones, each model left out of the fit.

Fitted are the speed of kernels over their tiles, shared by all generations but for a random effect
of each, and how much the times of slices that wait for each other spread.

Shape legend: R runs, G values of the speed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import content_hash
from perfatlas.measurements.calibrations import (
    EFFICIENCY_KERNELS,
    OVERHEAD_EXPERTS,
    Calibration,
    without_devices,
)
from perfatlas.networks import resolve_model
from perfatlas.sampling import expected_slowdown
from perfatlas.scenario.training_steps import question_of, read_training
from perfatlas.training.step import training_steps
from validation.machines.schedule_cells import rounded, schedule_cell, write_cells
from validation.machines.tpu_runs import NAMES, RECIPES, published_runs
from validation.machines.tpu_services import fitted_overhead_s, services, validate_tpu_services
from validation.runs.model_spread import unfitted_model_interval
from validation.scoring import read_data, rescaled_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.training.step import TrainingSteps
    from validation.machines.tpu_runs import Run

SPEEDS: Final = np.linspace(0.6, 1.0, 41)
SPREADS: Final = np.linspace(0.0, 0.08, 81)
COVERED: Final = 0.9
COMMAND: Final = "python -c 'from validation.machines import write_tpu; write_tpu()'"
PROTOCOL: Final = (
    "published steps of MaxText on TPU v4 to v7 with the recipes of validation/data/tpu_runs.toml;"
    " a speed of all generations and a random effect of each; errors are those of models left out"
)
SERVES_EXPERTS: Final = "tpu_v7"  # the generation with published services of experts
OVERHEAD_PROTOCOL: Final = "; overhead of experts: services of validation/data/tpu_services.toml"


class Fit(NamedTuple):
    """Numbers fitted to runs."""

    speed: float  # Of kernels over their tiles, shared by all generations
    spread: float  # Standard deviation of the step of a slice over its mean
    effects: dict[str, float]  # Mean ln(measured / predicted) of a generation, shrunk


def measured_s(run: Run) -> float:
    """Return the published step time of a run [s]."""
    tokens = run.fields["global_batch"] * run.fields["sequence_length"]
    return float(tokens / run.chips / run.tokens_per_s)


@cache
def _steady() -> FloatArray:
    """Return the steps of all runs at each speed, without waiting of slices (G, R) [s]."""
    found = np.empty((SPEEDS.size, len(published_runs())))
    with without_devices(NAMES.values()):
        for at, run in enumerate(published_runs()):
            asked = question_of([read_training(run.fields)])
            for index, speed in enumerate(SPEEDS.tolist()):
                engine = replace(asked.engine, efficiency_compute=speed, jitter=0.0)
                found[index, at] = training_steps(replace(asked, engine=engine)).step_s_C[0]
    return found


@cache
def _shipped() -> tuple[TrainingSteps, ...]:
    """Return the steps of all runs as shipped (R)."""
    return tuple(
        training_steps(question_of([read_training(run.fields)])) for run in published_runs()
    )


@cache
def _least_s() -> FloatArray:
    """Return the model FLOP of a step of each run over the dense peak of its chips (R,) [s]."""
    return np.array(
        [
            steps.model_flop_C[0] / steps.peak_flop_per_s_C[0] / run.chips
            for steps, run in zip(_shipped(), published_runs(), strict=True)
        ]
    )


def predicted_s(runs: Sequence[int], fit: Fit) -> FloatArray:
    """Return the steps of some runs with numbers of a fit (R,) [s].

    Args:
        runs: Positions in `published_runs` (R,).
        fit: The numbers.
    """
    every = published_runs()
    steady_R = [
        np.interp(speed_of(fit, every[at].machine), SPEEDS, _steady()[:, at]) for at in runs
    ]
    longer_R: FloatArray = np.array(steady_R) * (1.0 + fit.spread * _waits()[list(runs)])
    return longer_R


def speed_of(fit: Fit, machine: str) -> float:
    """Return the speed of kernels of a generation, at which its runs take as long as its effect."""
    own = [at for at, run in enumerate(published_runs()) if run.machine == machine]
    log_G = np.log(_steady()[:, own]).mean(axis=1)
    wanted = np.interp(fit.speed, SPEEDS, log_G) + fit.effects.get(machine, 0.0)
    return float(np.interp(-wanted, -log_G, SPEEDS))


@cache
def _waits() -> FloatArray:
    """Return how long the slices of each run wait for the slowest, at a spread of 1 (R,)."""
    slices_R = np.array([run.slices for run in published_runs()], np.int64)
    return expected_slowdown("exponential", np.ones(slices_R.size), slices_R)


def fitted(runs: Sequence[int]) -> Fit:
    """Return the speed of kernels and the spread of slices, fitted to some runs.

    The spread has the least mean |ln(measured/predicted)| of runs that differ in slices alone, each
    relative to the mean of its group; then the speed that of all runs, networks counting alike. The
    effect of a generation is the mean of its dense networks, shrunk by the variance between
    generations over that of the mean (BLUP; variances by moments).

    Args:
        runs: Positions in `published_runs`.
    """
    places, every = list(runs), published_runs()
    named = [(every[at].machine, every[at].network) for at in places]
    weight_R = np.array([1.0 / named.count(pair) for pair in named])
    measured_R = np.array([measured_s(every[at]) for at in places])
    longer_FR = 1.0 + SPREADS[:, None] * _waits()[places]
    missed_GFR = np.log(measured_R / (_steady()[:, None, places] * longer_FR))
    speed = int((np.abs(missed_GFR[:, 0]) @ weight_R).argmin())
    apart = [_from_mean(missed_GFR[speed], one) for one in _scaled(places)]
    spread = int(np.sum(apart, axis=0).argmin())
    speed = int((np.abs(missed_GFR[:, spread]) @ weight_R).argmin())
    logs: dict[str, dict[str, list[float]]] = {}
    for (machine, network), at, log in zip(named, places, missed_GFR[speed, spread], strict=True):
        if not resolve_model(every[at].fields["model"]).network.has_experts:
            logs.setdefault(machine, {}).setdefault(network, []).append(float(log))
    means = {machine: [np.mean(own) for own in of.values()] for machine, of in logs.items()}
    degrees = sum(len(of) - 1 for of in means.values())
    within = sum(float(np.var(of)) * len(of) for of in means.values()) / max(degrees, 1)
    between = [float(np.mean(of)) ** 2 - within / len(of) for of in means.values()]
    variance = max(float(np.mean(between)), 0.0)
    effects = {
        machine: float(np.mean(of)) * variance / (variance + within / len(of))
        for machine, of in means.items()
    }
    return Fit(float(SPEEDS[speed]), float(SPREADS[spread]), effects)


def _from_mean(missed_FR: FloatArray, group: list[int]) -> FloatArray:
    """Return the sum over a group of the distances from its mean, for each spread (F,)."""
    own_FR = missed_FR[:, group]
    apart_F: FloatArray = np.abs(own_FR - own_FR.mean(axis=1, keepdims=True)).sum(axis=1)
    return apart_F


def _scaled(places: Sequence[int]) -> list[list[int]]:
    """Return groups of runs that differ in slices alone, as positions in `places`."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, index in enumerate(places):
        groups.setdefault(_same_slice(published_runs()[index]), []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def _same_slice(run: Run) -> tuple[Any, ...]:
    """Return what runs share that differ in slices alone."""
    return run.machine, run.model, run.format, run.chips // run.slices


@cache
def left_out() -> tuple[dict[str, Any], ...]:
    """Return every run, predicted with numbers fitted to all other networks."""
    every, rows = published_runs(), {}
    for network in dict.fromkeys(run.network for run in every):
        own = [at for at, run in enumerate(every) if run.network == network]
        others = [at for at in range(len(every)) if at not in own]
        fit = fitted(others)
        for at, step_s in zip(own, predicted_s(own, fit).tolist(), strict=True):
            run, real_s = every[at], measured_s(every[at])
            rows[at] = {
                "machine": run.machine,
                "model": run.model,
                "network": run.network,
                "format": run.format,
                "chips": run.chips,
                "slices": run.slices,
                "measured_s": real_s,
                "predicted_s": step_s,
                "error": step_s / real_s - 1.0,
                "baseline_error": _share(run) / _constant_share(at) - 1.0,
                "speed": fit.speed,
                "spread": fit.spread,
                "memory_bytes": float(_shipped()[at].memory.total_bytes[0]),
                "capacity_bytes": float(_shipped()[at].memory.capacity_bytes[0]),
            }
    found = [rows[at] for at in range(len(every))]
    residual_R = np.log([row["measured_s"] / row["predicted_s"] for row in found])
    for row in found:
        others = [at for at, record in enumerate(found) if record["network"] != row["network"]]
        low, high = unfitted_model_interval(
            residual_R[others], [found[at]["network"] for at in others], COVERED
        )
        row["low_s"], row["high_s"] = (row["predicted_s"] * np.exp(end) for end in (low, high))
        row["inside_90"] = bool(row["low_s"] <= row["measured_s"] <= row["high_s"])
    return tuple(found)


def _share(run: Run) -> float:
    """Return the measured model FLOP utilization of a run."""
    return float(_least_s()[published_runs().index(run)]) / measured_s(run)


def _constant_share(at: int) -> float:
    """Return the mean utilization of the other models of a generation and format."""
    every = published_runs()
    own = every[at]
    others = [
        run
        for run in every
        if run.machine == own.machine and run.network != own.network and run.format == own.format
    ] or [run for run in every if run.machine == own.machine and run.network != own.network]
    return float(np.mean([_share(run) for run in others]))


def falls() -> list[dict[str, Any]]:
    """Return how utilization falls with more slices, measured and predicted [points].

    Each run is compared with that of the same model on the fewest slices of as many chips.
    """
    found, every, rows = [], published_runs(), left_out()
    for group in _scaled(range(len(every))):
        first = min(group, key=lambda at: every[at].slices)
        for at in group:
            if every[at].slices == every[first].slices:
                continue
            fall = {
                name: 100.0
                * (
                    _least_s()[first] / rows[first][f"{name}_s"]
                    - _least_s()[at] / rows[at][f"{name}_s"]
                )
                for name in ("measured", "predicted")
            }
            found.append(
                {
                    "machine": every[at].machine,
                    "model": every[at].model,
                    "from_slices": every[first].slices,
                    "slices": every[at].slices,
                    "measured_fall": fall["measured"],
                    "predicted_fall": fall["predicted"],
                    "difference": fall["predicted"] - fall["measured"],
                }
            )
    return found


def validate_tpu() -> dict[str, list[dict[str, Any]]]:
    """Return what is fitted, errors of steps by generation, falls over slices, and inference."""
    steps = list(left_out())
    fit = fitted(range(len(steps)))
    fits = [
        {"left_out": "nothing", "runs": len(steps), "speed": fit.speed, "spread": fit.spread},
        *(
            {
                "left_out": row["network"],
                "runs": sum(step["network"] != row["network"] for step in steps),
                "speed": row["speed"],
                "spread": row["spread"],
            }
            for row in {step["network"]: step for step in steps}.values()
        ),
    ]
    return {
        "fits": fits,
        "generations": [
            _of_generation(machine) | {"speed": speed_of(fit, machine)} for machine in NAMES
        ],
        "steps": steps,
        "slices": falls(),
        "services": validate_tpu_services(),
        "declined": [
            {"model": name, "reason": why} for name, why in read_data(RECIPES)["declined"].items()
        ],
    }


def _of_generation(machine: str) -> dict[str, Any]:
    """Return the errors of the runs of a generation, beside a constant utilization."""
    own = [row for row in left_out() if row["machine"] == machine]
    return {
        "machine": machine,
        "runs": len(own),
        "models": len({row["model"] for row in own}),
        "median_error": float(np.median([abs(row["error"]) for row in own])),
        "rescaled_error": rescaled_error(own, "network"),
        "baseline_error": float(np.median([abs(row["baseline_error"]) for row in own])),
        "inside_90": float(np.mean([row["inside_90"] for row in own])),
        "fits": sum(row["memory_bytes"] <= row["capacity_bytes"] for row in own),
    }


def cells() -> list[Calibration]:
    """Return the calibration of each generation: its speed, and the errors of models left out."""
    rows = list(left_out())
    fit = fitted(range(len(rows)))
    residual_R = np.log([row["measured_s"] / row["predicted_s"] for row in rows])
    low, high = unfitted_model_interval(residual_R, [row["network"] for row in rows], COVERED)
    found = []
    for machine, device in NAMES.items():
        own = np.array([row["machine"] == machine for row in rows])
        serves = device == SERVES_EXPERTS
        overhead = {OVERHEAD_EXPERTS: fitted_overhead_s(services())} if serves else {}
        found.append(
            schedule_cell(
                device,
                "systolic",
                {EFFICIENCY_KERNELS: round(speed_of(fit, machine), 3), **overhead},
                np.array([row["error"] for row in rows])[own].tolist(),
                (low, high),
                {
                    "bias": rounded(-float(residual_R[own].mean())),
                    "baselines": {"constant_median": _of_generation(machine)["baseline_error"]},
                    "protocol": PROTOCOL + (OVERHEAD_PROTOCOL if serves else ""),
                    "data_hash": content_hash(repr([row["measured_s"] for row in rows]))[:23],
                    "data_version": "published 2023 to 2026-08",
                    "command": COMMAND,
                },
            )
        )
    return found


def write_tpu() -> None:
    """Write the calibration of each generation."""
    write_cells(cells(), "training steps")
