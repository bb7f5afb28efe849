"""The synchronisation time of statically scheduled machines, fitted to published decode speeds.

Every network counts once, and is scored by a fit to the others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import perfatlas
from perfatlas.energy import board_energy
from perfatlas.files import content_hash
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import (
    SYNCHRONISATION,
    Calibration,
    without_devices,
)
from perfatlas.networks import resolve_model
from validation.machines.schedule_cells import (
    rounded,
    schedule_cell as machine_cell,
    write_cells,
)
from validation.scoring import data_rows, interval_score

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.hardware import Device

FILE: Final = "machine_steps.csv"
TOKENS: Final = 256  # of prompt and output: lengths are not published
LEADING: Final = "schedule and synchronisation"
COMMAND: Final = "python -c 'from validation.machines import write_schedules; write_schedules()'"
PROTOCOL: Final = (
    "published output tokens/s of one user, without chips, lengths or speculative decoding; on"
    " the fewest chips that hold the model at tp 32; errors are those of networks left out"
)
# Groq TSP v1 stored 8-bit weights: the chips of a published deployment hold no more.
FORMATS: Final = {"groq_tsp_v1": "int8_wo"}
DENSE_POINTS: Final = 2.0  # synchronisation points of a layer
EXPERT_POINTS: Final = 3.0
# 95% quantile of Student's t by degrees of freedom: errors are few, and their mean is 0.
STUDENT: Final = {4: 2.132, 5: 2.015}
TRIED_S: Final = np.geomspace(1e-7, 1e-3, 40001)


# Published power of a device, least and most [W], and the format of its peak.
# Source: machines/specs.csv: GroqChip at most 300 W and GroqCard 375 W; CS-3 15 to 23 kW; SambaRack
# SN40L-16 10 kW on average, with its hosts, of 16 sockets.
POWERS: Final = {
    "groq_tsp_v1": ("int8", 300.0, 375.0),
    "cerebras_wse_3": ("fp16", 15e3, 23e3),
    "sn40l": ("bf16", 625.0, 625.0),
}


class Step(NamedTuple):
    """A published decode step and its price without synchronisation."""

    model: str  # Published name
    network: str  # Network, which several names may share
    measured_s: float  # Reciprocal of the published speed [s]
    scheduled_s: float  # Predicted without synchronisation [s]
    points: float
    layers: float


class Form(NamedTuple):
    """A prediction with one constant."""

    schedule: float  # Weight of the time without synchronisation, 1 or 0
    number: Callable[[Step], float]  # How often the constant counts in a step

    def predicted_s(self, step: Step, constant_s: float) -> float:
        """Return the predicted time of a step [s].

        Args:
            constant_s: The constant [s].
        """
        return self.schedule * step.scheduled_s + constant_s * self.number(step)

    def error(self, step: Step, constant_s: float) -> float:
        """Return ln(measured / predicted) of a step.

        Args:
            constant_s: The constant [s].
        """
        return math.log(step.measured_s / self.predicted_s(step, constant_s))


SCHEDULED: Final = Form(1.0, lambda step: step.points)
PER_LAYER: Final = Form(0.0, lambda step: step.layers)
FORMS: Final = {"schedule and synchronisation": SCHEDULED, "constant per layer": PER_LAYER}


def published_rows(use: str) -> list[dict[str, str]]:
    """Return the published speeds of one use: fit, limit (compared alone) or refused."""
    return [row for row in data_rows(FILE) if row["use"] == use]


def predicted_tpot(row: dict[str, str]) -> dict[str, Any]:
    """Return the results of `estimate` at the plan of a row."""
    tp, pp = int(row["tp"]), int(row["pp"])
    return dict(
        perfatlas.estimate(
            model=row["network"],
            system=row["machine"],
            tp=tp,
            pp=pp,
            gpus=tp * pp,
            format=FORMATS.get(row["machine"]),
            engine="ideal",
            batch=1,
            isl=TOKENS,
            osl=TOKENS,
        ).results
    )


def priced_step(row: dict[str, str]) -> Step:
    """Return a published step with its price without synchronisation.

    Args:
        row: A row with a plan.
    """
    with without_devices([row["machine"]]):
        scheduled_s = float(predicted_tpot(row)["tpot_s"])
    network = resolve_model(row["network"]).network
    points = EXPERT_POINTS if network.has_experts else DENSE_POINTS
    return Step(
        model=row["model"],
        network=row["network"],
        measured_s=1.0 / float(row["published_tokens_per_s"]),
        scheduled_s=scheduled_s,
        points=points * network.num_layers,
        layers=float(network.num_layers),
    )


def fitted_constant(steps: Sequence[Step], form: Form) -> float:
    """Return the constant with the least squared error, every network counting once [s].

    Args:
        steps: Published steps.
        form: The prediction.
    """
    squares = np.zeros_like(TRIED_S)
    for step in steps:
        alike = sum(one.network == step.network for one in steps)
        times = form.schedule * step.scheduled_s + TRIED_S * form.number(step)
        squares += np.log(step.measured_s / times) ** 2 / alike
    return float(TRIED_S[np.argmin(squares)])


def errors_left_out(steps: Sequence[Step], form: Form) -> dict[str, float]:
    """Return the mean ln(measured / predicted) of each network by a fit to the others.

    Args:
        steps: Published steps.
        form: The prediction.
    """
    errors = {}
    for name in dict.fromkeys(step.network for step in steps):
        constant_s = fitted_constant([step for step in steps if step.network != name], form)
        own = [form.error(step, constant_s) for step in steps if step.network == name]
        errors[name] = float(np.mean(own))
    return errors


def half_width(steps: Sequence[Step], form: Form) -> float:
    """Return the half-width of the 90% interval of ln(measured / predicted).

    Student's t times the root mean square of the errors of networks left out.

    Args:
        steps: Published steps.
        form: The prediction.
    """
    errors = np.array(list(errors_left_out(steps, form).values()))
    return STUDENT[errors.size] * float(np.sqrt(np.mean(errors**2)))


def left_out(steps: Sequence[Step], form: Form) -> list[dict[str, Any]]:
    """Return each step with constant and interval of a fit to the other networks.

    Args:
        steps: Published steps.
        form: The prediction.
    """
    rows = []
    for step in steps:
        others = [one for one in steps if one.network != step.network]
        constant_s, width = fitted_constant(others, form), half_width(others, form)
        predicted_s = form.predicted_s(step, constant_s)
        low_s, high_s = predicted_s * math.exp(-width), predicted_s * math.exp(width)
        rows.append(
            {
                "model": step.model,
                "measured_s": step.measured_s,
                "scheduled_s": step.scheduled_s,
                "predicted_s": predicted_s,
                "error": predicted_s / step.measured_s - 1.0,
                "low_s": low_s,
                "high_s": high_s,
                "inside_90": low_s <= step.measured_s <= high_s,
                "score": interval_score(
                    math.log(step.measured_s), math.log(low_s), math.log(high_s)
                ),
            }
        )
    return rows


def full_load_w(device: Device, number_format: str) -> float:
    """Return the power of a device whose matrix units and streams never pause [W].

    Args:
        number_format: Key of its peaks.
    """
    board = board_energy(device)
    streams = device.number("stream_bytes_per_clock") * device.sustained_clock_hz
    moved = min(device.memory_bandwidth, streams)
    joules = board.sram_j_per_byte + board.memory_j_per_byte
    products_w = board.flop_j[number_format] * device.peak_flop_per_s[number_format]
    return board.on_w + products_w + moved * joules


def powers() -> list[dict[str, Any]]:
    """Return the power of full load beside published power."""
    return [
        {
            "machine": name,
            "full_load_w": full_load_w(resolve_system(name).device, number_format),
            "least_w": least_w,
            "most_w": most_w,
        }
        for name, (number_format, least_w, most_w) in POWERS.items()
    ]


def validate_machines() -> dict[str, Any]:
    """Return the scores of models left out, lower limits beside published speeds, refused rows."""
    steps = [priced_step(row) for row in published_rows("fit")]
    found = {name: left_out(steps, form) for name, form in FORMS.items()}
    forms = [
        {
            "form": name,
            "models": len(rows),
            "constant_us": fitted_constant(steps, FORMS[name]) * 1e6,
            "median_error": float(np.median([abs(row["error"]) for row in rows])),
            "inside_90": float(np.mean([row["inside_90"] for row in rows])),
            "interval_score": float(np.mean([row["score"] for row in rows])),
        }
        for name, rows in found.items()
    ]
    limits = [
        {
            "machine": row["machine"],
            "model": row["model"],
            "measured_s": 1.0 / float(row["published_tokens_per_s"]),
            "lower_limit_s": predicted_tpot(row)["tpot_s"],
        }
        for row in published_rows("limit")
    ]
    kept = ("machine", "model", "published_tokens_per_s", "reason")
    refused = [{name: row[name] for name in kept} for row in published_rows("refused")]
    return {
        "forms": forms,
        "models": found[LEADING],
        "limits": limits,
        "power": powers(),
        "refused": refused,
    }


def schedule_cell() -> Calibration:
    """Return the calibration with the synchronisation time fitted to all published speeds."""
    rows = published_rows("fit")
    steps = [priced_step(row) for row in rows]
    (device,) = {row["machine"] for row in rows}
    errors = np.array(list(errors_left_out(steps, SCHEDULED).values()))
    width = half_width(steps, SCHEDULED)
    scored, constant = (left_out(steps, form) for form in FORMS.values())
    return machine_cell(
        device,
        "dataflow",
        {SYNCHRONISATION: fitted_constant(steps, SCHEDULED)},
        [row["error"] for row in scored],
        (-width, width),
        {
            "bias": rounded(-float(np.mean(errors))),
            "baselines": {
                "constant_mape": rounded(float(np.mean([abs(row["error"]) for row in constant])))
            },
            "protocol": PROTOCOL,
            "data_hash": content_hash(repr(rows))[:23],
            "data_version": "published 2024-02 to 2026",
            "command": COMMAND,
        },
    )


def write_schedules() -> None:
    """Write the calibration of the machine whose speeds were published."""
    write_cells([schedule_cell()], "decode speeds")
